//! `--dry-run`: everything that can be checked before hours are spent, and what the run will take.

use crate::train::{Setup, TrainError};
use crate::workload::workload;
use burn::module::Module;
use seed_model::Message;
use seed_model::plan::plan;
use seed_rollout::collect::Collector;
use seed_rollout::sampler::Purpose;
use std::fmt::Write;
use std::time::Instant;

impl Setup {
    /// Checks model, tokenizer, chat template, environment and sampling; returns a report with memory and time.
    ///
    /// # Errors
    /// The first thing that does not work.
    pub fn check(&self) -> Result<String, TrainError> {
        let config = &self.config;
        let mut report = String::new();
        let mut line =
            |text: std::fmt::Arguments<'_>| writeln!(report, "{text}").expect("writing to a string");
        let parameters = self.model.num_params();
        let shape = self.model.config();
        line(format_args!(
            "model        {} ({} parameters, {} layers)",
            config.model.path, parameters, shape.num_hidden_layers
        ));
        line(format_args!("device       {}, {} workers", self.devices(), self.mesh.workers()));

        let dialogue = &self.world.dialogue;
        let text = "put a clean mug in the sink. Ω";
        let back = dialogue.text(&dialogue.encode(&[Message::user(text)])?)?;
        let round_trip =
            if back.contains(text) { "round trip exact" } else { "WARNING: text changes on the way" };
        line(format_args!(
            "tokenizer    {} ids, end {:?}, {round_trip}",
            dialogue.tokenizer.vocab_size(),
            dialogue.tokenizer.end_ids()
        ));
        line(format_args!("environment  {}, {} training tasks", self.world.suite.name(), self.tasks.len()));
        for panel in &self.panels {
            line(format_args!("panel        {}: {} tasks", panel.split, panel.groups.len()));
        }

        // One real group, to measure.
        let options = self.world.collect_options(config);
        let group = crate::tasks::TaskOrder::new(&self.tasks, config.run.seed, "check").groups(0, 0, 1);
        let options = seed_rollout::collect::CollectOptions { purpose: Purpose::Evaluation, ..options };
        let collector = Collector {
            suite: self.world.suite.as_ref(),
            dialogue,
            projection: self.world.projection,
            options: &options,
        };
        let started = Instant::now();
        let collected = collector.collect(&mut self.engines(&self.snapshot()), &group, &|_| ())?;
        let seconds = started.elapsed().as_secs_f64();
        let stats = &collected.stats;
        let tokens = (stats.sampled_tokens + stats.context_tokens) * config.rollout.tasks;
        line(format_args!(
            "one group    {} episodes, {} won, {} sampled tokens in {seconds:.1} s",
            stats.episodes, stats.won, stats.sampled_tokens
        ));
        let (devices, passes) = match self.mesh.devices().len() {
            0 => (1, self.mesh.workers()),
            several => (several, 1),
        };
        let bytes = plan(shape, &workload(config, devices, passes)).bytes;
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        line(format_args!(
            "memory       {:.0} MiB in training, {:.0} MiB in generation, on each device (`seed plan` tells the parts)",
            mebibytes(bytes.training()),
            mebibytes(bytes.generation())
        ));
        line(format_args!(
            "an update    about {tokens} tokens; roll-out at most {:.0} s",
            seconds * config.rollout.tasks as f64
        ));
        Ok(report)
    }
}
