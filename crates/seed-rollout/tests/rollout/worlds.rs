//! Real environments with the templates and the tokenizer to play them.

use crate::shared::shared;
use seed_envs::projection::Projection;
use seed_envs::{Suite, Trajectory};
use seed_model::{ChatTemplate, RenderOptions, Tokenizer};
use seed_rollout::collect::{CollectOptions, Collector, GroupPlan};
use seed_rollout::dialogue::Dialogue;
use seed_rollout::history::History;
use seed_rollout::suites::{AlfWorldConfig, SuiteConfig};
use seed_rollout::template::{PromptTemplate, StepContext};

pub(crate) struct World {
    pub(crate) suite: Box<dyn Suite>,
    pub(crate) dialogue: Dialogue,
    pub(crate) plan: Vec<GroupPlan>,
    pub(crate) projection: Projection,
    /// What a player tries who sees no list of commands.
    pub(crate) guesses: &'static [&'static str],
}

impl World {
    fn new(config: SuiteConfig, split: &str, tasks: usize, guesses: &'static [&'static str]) -> Self {
        let suite = config.open().unwrap();
        let folder = shared("vectors/qwen2_tiny/float32");
        let dialogue = Dialogue {
            tokenizer: Tokenizer::load(&folder).unwrap(),
            chat: ChatTemplate::load(&folder).unwrap(),
            render: RenderOptions::default(),
            template: PromptTemplate::embedded(suite.name()).unwrap(),
            history_length: 2,
            eyes: None,
        };
        let all = suite.tasks(split).unwrap();
        let every = all.len() / tasks;
        let plan = (0..tasks)
            .map(|index| GroupPlan { task: all[index * every].clone(), seed: 100 + index as u64 })
            .collect();
        let projection = Projection::for_environment(suite.name(), false).unwrap();
        Self { suite, dialogue, plan, projection, guesses }
    }

    pub(crate) fn collector<'a>(&'a self, options: &'a CollectOptions) -> Collector<'a> {
        Collector { suite: &*self.suite, dialogue: &self.dialogue, projection: self.projection, options }
    }

    /// What the user says in turn `number` of a transcript.
    pub(crate) fn user_turn(&self, trajectory: &Trajectory, number: usize) -> String {
        let history = History::before_step(trajectory, number);
        let context = StepContext {
            task: &trajectory.task_description,
            history: &history,
            admissible: Some(&trajectory.steps[number].admissible),
            history_length: 0,
        };
        let template = &self.dialogue.template;
        if number == 0 { template.opening(&context).text } else { template.turn(&context).text }
    }
}

pub(crate) fn household() -> World {
    World::new(
        SuiteConfig::default(),
        "train",
        3,
        &["look", "inventory", "go to shelf 1", "go to drawer 1", "dance"],
    )
}

/// The real games of the shared data.
pub(crate) fn alfworld() -> World {
    let data = Some(shared("data/alfworld"));
    let config = SuiteConfig::AlfWorld(AlfWorldConfig { data, ..AlfWorldConfig::default() });
    World::new(config, "valid_seen", 3, &["look"])
}

pub(crate) fn all() -> [World; 2] {
    [household(), alfworld()]
}
