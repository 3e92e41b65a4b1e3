//! Where episodes are played: environment, projection, prompts, tokens.

use crate::config::{Config, EnvName, Layout, Overflow, SearchPreset, Truncation};
use seed_analyzer::insert::BlockError;
use seed_analyzer::prompt::{AnalyzerPrompt, PromptError};
use seed_analyzer::{SkillBlock, SkillKind};
use seed_envs::Suite;
use seed_envs::ezpoints::CardView;
use seed_envs::projection::{Projection, UnknownProjection};
use seed_envs::search_qa::SearchQaOptions;
use seed_envs::sokoban::View;
use seed_model::vision::ProcessorError;
use seed_model::{
    ChatTemplate, ImageProcessor, ModelConfig, RenderOptions, TemplateError as ChatTemplateError, Tokenizer,
    TokenizerError,
};
use seed_rollout::collect::{CollectOptions, Episode};
use seed_rollout::dialogue::{Dialogue, DialogueError, PromptOverflow};
use seed_rollout::eyes::Eyes;
use seed_rollout::row;
use seed_rollout::sampler::{Purpose, Sampling};
use seed_rollout::source::Context;
use seed_rollout::suites::{
    AlfWorldConfig, CardConfig, HouseholdConfig, SearchQaConfig, SokobanConfig, SuiteConfig, SuiteError,
    WebShopConfig,
};
use seed_rollout::template::{PromptTemplate, TemplateError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a world cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The environment or its data.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    /// The prompt templates.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The prompt of analyses.
    #[error(transparent)]
    Analyzer(#[from] PromptError),
    /// The wording of skill blocks.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// No rule takes actions from responses for this environment.
    #[error(transparent)]
    Projection(#[from] UnknownProjection),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template.
    #[error(transparent)]
    Chat(#[from] ChatTemplateError),
    /// The shape of the policy.
    #[error(transparent)]
    Model(#[from] seed_model::ConfigError),
    /// The image processor.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
}

/// Eyes of a policy that sees; `None` for one of text, and for a folder of a tokenizer alone.
fn eyes(model: &Path) -> Result<Option<Eyes>, WorldError> {
    if !model.join("config.json").is_file() {
        return Ok(None);
    }
    Ok(match ModelConfig::read(model)?.vision {
        Some(vision) => Some(Eyes::new(ImageProcessor::load(model)?, &vision)),
        None => None,
    })
}

/// Comma-separated addresses.
fn addresses(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect()
}

/// The rules of `search_qa`. `env.max_steps` counts every generation; the last of Search-R1's searches no more.
fn search_options(config: &Config) -> SearchQaOptions {
    let max_turns = config.env.max_steps;
    match config.env.search {
        SearchPreset::VerlAgent => SearchQaOptions { max_turns, ..SearchQaOptions::verl_agent() },
        SearchPreset::Corrected => SearchQaOptions { max_turns, ..SearchQaOptions::corrected() },
        SearchPreset::SearchR1 => {
            SearchQaOptions { max_turns: max_turns.saturating_sub(1), ..SearchQaOptions::search_r1() }
        }
    }
}

/// Everything between a policy and its tasks.
#[derive(Clone)]
pub struct World {
    /// Tasks and environments.
    pub suite: Arc<dyn Suite>,
    /// How a response becomes an action.
    pub projection: Projection,
    /// How text becomes tokens and back.
    pub dialogue: Dialogue,
    /// What an analysis is asked with.
    pub analyzer: AnalyzerPrompt,
    block: SkillBlock,
}

/// The files that are read in place of embedded ones: those in `env.prompts`, or in a folder of it.
fn replaced(config: &Config, part: &str) -> Option<PathBuf> {
    let folder = Path::new(&config.env.prompts);
    let place = if part.is_empty() { folder.to_owned() } else { folder.join(part) };
    // A folder that is not there at all is an error of whoever reads it; its parts may be left out.
    (!config.env.prompts.is_empty() && (part.is_empty() || place.is_dir())).then_some(place)
}

impl World {
    /// Opens the configured environment; tokenizer and chat template come from the model's folder.
    ///
    /// # Errors
    /// [`WorldError`] says which part is not there or cannot be used.
    pub fn open(config: &Config, model: &Path) -> Result<Self, WorldError> {
        let eyes = eyes(model)?;
        let suite = Self::suite(config, eyes.is_some())?;
        let name = suite.name();
        let dialogue = Dialogue {
            tokenizer: Tokenizer::load(model)?,
            chat: ChatTemplate::load(model)?,
            render: RenderOptions {
                enable_thinking: Some(config.rollout.enable_thinking),
                ..RenderOptions::default()
            },
            template: PromptTemplate::load(name, replaced(config, "").as_deref())?,
            history_length: config.env.history,
            eyes,
        };
        let projection = match config.env.name {
            EnvName::SearchQa => search_options(config).projection(),
            _ => Projection::for_environment(name, config.rollout.require_think)?,
        };
        let block = match replaced(config, "skill") {
            Some(folder) => SkillBlock::load(name, &folder)?,
            None => SkillBlock::embedded(name),
        };
        let analyzer = match replaced(config, "analyzer") {
            Some(folder) => AnalyzerPrompt::load(name, &folder)?,
            None => AnalyzerPrompt::embedded(name),
        };
        Ok(Self { suite, projection, dialogue, analyzer, block })
    }

    /// The configured tasks and environments. Sokoban and the card games are shown as pictures to a policy that sees, else as text.
    fn suite(config: &Config, sees: bool) -> Result<Arc<dyn Suite>, WorldError> {
        let data = || (!config.env.data.is_empty()).then(|| PathBuf::from(&config.env.data));
        let cards = || CardConfig {
            max_steps: Some(config.env.max_steps),
            view: if sees { CardView::Rgb } else { CardView::Text },
            ..CardConfig::default()
        };
        let suite = match config.env.name {
            EnvName::Household => SuiteConfig::Household(HouseholdConfig {
                difficulty: config.env.difficulty,
                ..HouseholdConfig::default()
            }),
            EnvName::Alfworld => SuiteConfig::AlfWorld(AlfWorldConfig {
                data: data(),
                max_steps: config.env.max_steps,
                ..AlfWorldConfig::default()
            }),
            EnvName::SearchQa => SuiteConfig::SearchQa(SearchQaConfig {
                data: data(),
                retriever: addresses(&config.env.retriever),
                options: search_options(config),
            }),
            EnvName::Webshop => SuiteConfig::WebShop(WebShopConfig {
                data: data(),
                max_steps: config.env.max_steps,
                ..WebShopConfig::default()
            }),
            EnvName::Sokoban => SuiteConfig::Sokoban(SokobanConfig {
                rows: config.env.rows,
                columns: config.env.columns,
                boxes: config.env.boxes,
                max_steps: config.env.max_steps,
                levels: data(),
                view: if sees { View::Rgb } else { View::Text },
                ..SokobanConfig::default()
            }),
            EnvName::Ezpoints => SuiteConfig::EzPoints(cards()),
            EnvName::NumberLine => SuiteConfig::NumberLine(cards()),
            EnvName::Blackjack => SuiteConfig::Blackjack(cards()),
            EnvName::Points24 => SuiteConfig::Points24(cards()),
        };
        Ok(suite.open()?.into())
    }

    /// A skill as it stands in a prompt.
    pub fn skill_block(&self, skill: &str) -> String {
        self.block.render(skill, SkillKind::Episode)
    }

    /// The static skill library: `analyzer.library`, or the file of the environment under `configs/skills`.
    pub fn library_path(&self, config: &Config) -> PathBuf {
        match config.analyzer.library.as_str() {
            "" => Path::new("configs/skills").join(format!("{}.json", self.suite.name())),
            path => PathBuf::from(path),
        }
    }

    /// The options of training roll-outs, which other roll-outs change where they differ.
    pub fn collect_options(&self, config: &Config) -> CollectOptions {
        let rollout = &config.rollout;
        CollectOptions {
            layout: match rollout.layout {
                Layout::Step => row::Layout::Step,
                Layout::Transcript => row::Layout::Transcript,
            },
            group_size: rollout.group,
            sampling: Sampling { temperature: rollout.temperature, ..Sampling::default() },
            training: true,
            max_steps: config.env.max_steps,
            max_prompt_tokens: rollout.max_prompt_tokens,
            max_response_tokens: rollout.max_response_tokens,
            max_row_tokens: rollout.max_transcript_tokens,
            prompt_overflow: match rollout.truncation {
                Truncation::Left => PromptOverflow::Left,
                // With `error`, whoever collects refuses what had to be dropped.
                Truncation::DropHistory | Truncation::Error => PromptOverflow::DropHistory,
            },
            environment_threads: 1,
            run_seed: config.run.seed,
            purpose: Purpose::Rollout,
            update: 0,
        }
    }

    /// The prompt of a row with a skill in it, within the prompt budget plus `opd.skill_tokens`.
    ///
    /// `None` where it does not fit and `opd.overflow` does not allow to cut it.
    ///
    /// # Errors
    /// [`DialogueError`] when the chat template or the tokenizer refuses the text.
    pub fn teacher_prompt(
        &self,
        config: &Config,
        episode: &Episode,
        step: usize,
        block: &str,
    ) -> Result<Option<Context>, DialogueError> {
        let layout = self.collect_options(config).layout;
        let budget = config.rollout.max_prompt_tokens + config.opd.skill_tokens;
        let (limit, overflow) = match config.opd.overflow {
            Overflow::DropHistory => (budget, PromptOverflow::DropHistory),
            // Nothing is dropped or cut at a limit that no prompt reaches; what is too long is refused below.
            Overflow::MaskRow => (usize::MAX, PromptOverflow::DropHistory),
            Overflow::Left => (config.rollout.max_prompt_tokens, PromptOverflow::Left),
        };
        let prompt = self.dialogue.prompt_of(episode.played(), step, Some(block), layout, limit, overflow)?;
        Ok((prompt.context.len() <= budget).then_some(prompt.context))
    }

    /// Which tokens of a response stand inside its action tags, tags included; none where there are no tags.
    ///
    /// # Errors
    /// [`DialogueError`] when an id is unknown.
    pub fn action_tokens(&self, response: &[u32]) -> Result<Vec<bool>, DialogueError> {
        let mut text = String::new();
        let mut spans = Vec::with_capacity(response.len());
        for id in response {
            let start = text.len();
            text.push_str(&self.dialogue.text(&[*id])?);
            spans.push(start..text.len());
        }
        let action = match (text.find("<action>"), text.find("</action>")) {
            (Some(open), Some(close)) if open < close => open..close + "</action>".len(),
            _ => 0..0,
        };
        Ok(spans.into_iter().map(|span| span.start < action.end && action.start < span.end).collect())
    }
}
