//! Rules between keys, checked before anything starts.

use super::error::{ConfigError, Problem};
use super::resolved::Resolved;
use super::schema::*;

/// Checks every rule; reports all that are broken.
pub(super) fn check(resolved: &Resolved) -> Result<(), ConfigError> {
    let problems = problems(resolved.config());
    if problems.is_empty() {
        return Ok(());
    }
    let origin = |key| resolved.get(key).expect("a rule names an existing key").1.clone();
    Err(ConfigError::Invalid(
        problems
            .into_iter()
            .map(|p| {
                let o = origin(p.key);
                (p, o)
            })
            .collect(),
    ))
}

struct Rules(Vec<Problem>);

impl Rules {
    fn need(&mut self, holds: bool, key: &'static str, message: impl FnOnce() -> String, hint: &str) {
        if !holds {
            self.0.push(Problem { key, message: message(), hint: hint.into() });
        }
    }

    fn positive(&mut self, key: &'static str, value: usize) {
        self.need(value > 0, key, || "is 0".into(), "set at least 1");
    }

    fn range(&mut self, key: &'static str, value: f64, low: f64, high: f64) {
        let inside = value.is_finite() && (low..=high).contains(&value);
        self.need(inside, key, || format!("is {value}"), &format!("set a number from {low} to {high}"));
    }

    fn at_least(&mut self, key: &'static str, value: f64, low: f64) {
        self.need(
            value.is_finite() && value >= low,
            key,
            || format!("is {value}"),
            &format!("set at least {low}"),
        );
    }
}

fn problems(c: &Config) -> Vec<Problem> {
    let mut r = Rules(vec![]);
    let max_seed = i64::MAX.unsigned_abs();
    r.need(c.run.seed <= max_seed, "seed", || format!("is {}", c.run.seed), "set a smaller number");
    let slashes = c.run.name.contains(['/', '\\']) || c.run.name == "..";
    r.need(
        !slashes,
        "name",
        || format!("is `{}`, a path", c.run.name),
        "set a plain name; `runs_dir` holds the folder",
    );

    for (key, value) in [
        ("env.max_steps", c.env.max_steps),
        ("rollout.tasks", c.rollout.tasks),
        ("rollout.group", c.rollout.group),
        ("rollout.concurrency", c.rollout.concurrency),
        ("rollout.max_prompt_tokens", c.rollout.max_prompt_tokens),
        ("rollout.max_response_tokens", c.rollout.max_response_tokens),
        ("rollout.max_transcript_tokens", c.rollout.max_transcript_tokens),
        ("analyzer.max_tokens", c.analyzer.max_tokens),
        ("batch.micro_tokens", c.batch.micro_tokens),
        ("batch.epochs", c.batch.epochs),
        ("eval.rollouts", c.eval.rollouts),
        ("annotator.concurrency", c.annotator.concurrency),
        ("annotator.timeout_secs", c.annotator.timeout_secs),
        ("sft.batch", c.sft.batch),
        ("sft.tasks", c.sft.tasks),
        ("sft.rollouts", c.sft.rollouts),
    ] {
        r.positive(key, value);
    }
    r.need(
        c.rollout.temperature.is_finite() && c.rollout.temperature > 0.0,
        "rollout.temperature",
        || format!("is {}", c.rollout.temperature),
        "training episodes are sampled: set a number above 0, usually 1",
    );
    for (key, value) in [
        ("eval.temperature", c.eval.temperature),
        ("sft.temperature", c.sft.temperature),
        ("annotator.temperature", c.annotator.temperature),
        ("rollout.invalid_penalty", c.rollout.invalid_penalty),
        ("loss.pg_coef", c.loss.pg_coef),
        ("loss.entropy_coef", c.loss.entropy_coef),
        ("loss.kl_coef", c.loss.kl_coef),
        ("loss.clip_low", c.loss.clip_low),
        ("loss.clip_high", c.loss.clip_high),
        ("opd.coef", c.opd.coef),
        ("opd.beta", c.opd.beta),
        ("opd.delta_clip", c.opd.delta_clip),
        ("adv.std_floor", c.adv.std_floor),
        ("optim.lr", c.optim.lr),
        ("optim.weight_decay", c.optim.weight_decay),
        ("optim.max_grad_norm", c.optim.max_grad_norm),
        ("sft.lr", c.sft.lr),
        ("sft.rehearsal", c.sft.rehearsal),
        ("sft.weight_decay", c.sft.weight_decay),
        ("sft.max_grad_norm", c.sft.max_grad_norm),
    ] {
        r.at_least(key, value, 0.0);
    }
    for (key, value) in [
        ("sft.warmup_share", c.sft.warmup_share),
        ("sft.min_parse_rate", c.sft.min_parse_rate),
        ("optim.warmup_share", c.optim.warmup_share),
        ("opd.ema_decay", c.opd.ema_decay),
        ("opd.gate_constant", c.opd.gate_constant),
        ("adv.gamma", c.adv.gamma),
        ("adv.rlsd_lambda", c.adv.rlsd_lambda),
    ] {
        r.range(key, value, 0.0, 1.0);
    }
    r.range("env.difficulty", c.env.difficulty, 0.0, 1.0);
    r.range("sft.validation_share", c.sft.validation_share, 0.0, 0.9);
    for (key, value) in [
        ("optim.beta1", c.optim.beta1),
        ("optim.beta2", c.optim.beta2),
        ("sft.beta1", c.sft.beta1),
        ("sft.beta2", c.sft.beta2),
    ] {
        r.need(
            (0.0..1.0).contains(&value),
            key,
            || format!("is {value}"),
            "set a number from 0 up to, not including, 1",
        );
    }
    let dual = c.loss.dual_clip;
    r.need(
        dual == 0.0 || dual > 1.0,
        "loss.dual_clip",
        || format!("is {dual}"),
        "set more than 1, or 0 for off",
    );
    r.need(
        c.rollout.group > 1 || c.loss.pg_coef == 0.0,
        "rollout.group",
        || "is 1: a group of one has no baseline".into(),
        "set at least 2",
    );
    r.need(!c.eval.splits.is_empty(), "eval.splits", || "is empty".into(), "name at least one split");

    cross(c, &mut r);
    r.0
}

/// Rules between sections: what one switch needs from another.
fn cross(c: &Config, r: &mut Rules) {
    r.need(
        c.model.lora_rank == 0 || !c.model.train_vision,
        "model.train_vision",
        || "is true beside an adapter, which stands on the decoder alone".into(),
        "set `model.lora_rank = 0`, or leave the vision tower as it is",
    );
    let teacher = c.opd.coef > 0.0 || matches!(c.adv.estimator, Estimator::Rlsd | Estimator::Opid);
    r.need(
        !(teacher && c.opd.skills == SkillSource::None),
        "opd.skills",
        || "is `none`, but the loss or the advantage needs a teacher".into(),
        "set `hindsight` or `library`, or `opd.coef = 0`",
    );
    r.need(
        !(c.adv.estimator == Estimator::Opid && c.opd.coef > 0.0),
        "opd.coef",
        || format!("is {} beside `adv.estimator = \"opid\"`: the gap would count twice", c.opd.coef),
        "set `opd.coef = 0`",
    );
    r.need(
        c.opd.importance == OpdImportance::None
            || matches!(c.opd.form, OpdForm::GatedGap | OpdForm::GatedNll),
        "opd.importance",
        || format!("is `{}`, but the form `{}` has a ratio of its own or none", c.opd.importance, c.opd.form),
        "set `none`",
    );
    r.need(
        !(c.adv.estimator == Estimator::Gigpo && c.rollout.layout == Layout::Transcript),
        "adv.estimator",
        || "is `gigpo`, whose anchor groups need one row per step".into(),
        "set `rollout.layout = \"step\"`",
    );
    r.need(
        !(c.opd.teacher_refresh == TeacherRefresh::PerMinibatch
            && c.opd.teacher_weights != TeacherWeights::CurrentSnapshot),
        "opd.teacher_refresh",
        || {
            format!(
                "is `per_minibatch`, but `{}` weights do not change inside an update",
                c.opd.teacher_weights
            )
        },
        "set `per_step`",
    );
    r.need(
        !(c.loss.policy == PolicyLoss::Gspo && c.loss.aggregation != Aggregation::SeqMeanTokenMean),
        "loss.aggregation",
        || format!("is `{}`, but GSPO is defined with row means", c.loss.aggregation),
        "set `seq_mean_token_mean`",
    );
    r.need(
        !(c.analyzer.weights == AnalyzerWeights::FrozenSft && c.opd.skills != SkillSource::Hindsight),
        "analyzer.weights",
        || format!("is `frozen_sft`, but `opd.skills` is `{}`: nothing is analysed", c.opd.skills),
        "leave it at `current_snapshot`",
    );
    let needs_annotator = c.sft.enabled || c.analyzer.weights == AnalyzerWeights::External;
    if needs_annotator && c.annotator.kind == AnnotatorKind::Openai {
        r.need(
            !c.annotator.url.is_empty(),
            "annotator.url",
            || "is empty".into(),
            "set the server's address, e.g. `http://127.0.0.1:8000/v1`",
        );
        r.need(
            !c.annotator.model.is_empty(),
            "annotator.model",
            || "is empty".into(),
            "set the model's name",
        );
    }
    r.need(
        c.opd.stop_after == 0 || c.opd.stop_after > c.opd.start_after,
        "opd.stop_after",
        || format!("is {}, not after `opd.start_after` = {}", c.opd.stop_after, c.opd.start_after),
        "set a later update, or 0 for never",
    );
    r.need(
        c.run.workers == 0 || !(c.run.device.contains(',') || c.run.device == "cuda:all"),
        "workers",
        || format!("is {}, but each of several devices has one worker", c.run.workers),
        "set 0, or name a device twice for two workers on it",
    );
    let on_cpu = c.run.device.split(',').any(|device| device.trim().split(':').next() == Some("cpu"));
    r.need(
        c.model.dtype == Dtype::F32 || !on_cpu,
        "model.dtype",
        || "is `bf16` on the CPU, where it is not faster".into(),
        "set `f32`",
    );
}
