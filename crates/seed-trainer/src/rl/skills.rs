//! Skills of finished episodes: written by the policy itself, by frozen weights, by an outside annotator, or looked up.

use super::step::StepContext;
use crate::config::{AnalyzerWeights, Config, SkillSource, StepWords, Truncation};
use crate::mesh::Mesh;
use crate::metrics::Record;
use crate::observer::Event;
use crate::sft::records::AnyAnnotator;
use crate::world::World;
use seed_analyzer::Annotator;
use seed_analyzer::annotator::openai::OpenaiError;
use seed_analyzer::library::{LibraryError, LibraryQuery, LookupOptions, SkillLibrary};
use seed_analyzer::prompt::{AnalyzerPrompt, PromptOptions, SkillMode};
use seed_analyzer::quality::{Lexicon, SkillQuality};
use seed_analyzer::serialize::{Layout, OutcomeLabel, SerializeError};
use seed_analyzer::skill::{self, Backend, Skill};
use seed_envs::{Image, Trajectory};
use seed_model::Message;
use seed_rollout::batch::{BatchOptions, generate_batch};
use seed_rollout::collect::Episode;
use seed_rollout::dialogue::DialogueError;
use seed_rollout::engine::Engine;
use seed_rollout::eyes::SightError;
use seed_rollout::sampler::{Purpose, Sampling, StreamKey};
use seed_rollout::source::{Context, SourceError, TokenSource};
use serde_json::{Value, json};
use std::sync::Arc;

/// What is known about one episode's skill.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// The lesson; `None` without a usable one.
    pub skill: Option<String>,
    /// The lesson as it stands in a teacher's prompt.
    pub block: Option<String>,
    /// What happened, in the analyzer's words.
    pub summary: String,
    /// Why there is no skill; `None` when there is one or none was asked for.
    pub error: Option<String>,
    /// The completion as text.
    pub raw: String,
    /// Sampled tokens.
    pub tokens: usize,
}

impl Analysis {
    /// A line of `skills/step-N.jsonl`.
    pub fn to_json(&self, trajectory: &Trajectory) -> Value {
        json!({
            "task": trajectory.task_description,
            "task_id": trajectory.task.id,
            "kind": trajectory.task.kind,
            "won": trajectory.outcome.won,
            "skill": self.skill,
            "summary": self.summary,
            "error": self.error,
            "raw": self.raw,
        })
    }
}

/// Why skills cannot be written at all. A single analysis that cannot be used is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillSourceError {
    /// An episode cannot be serialised.
    #[error(transparent)]
    Serialize(#[from] SerializeError),
    /// The chat template or tokenizer refused a prompt.
    #[error(transparent)]
    Dialogue(#[from] DialogueError),
    /// Generation failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The outside annotator cannot be used.
    #[error(transparent)]
    Annotator(#[from] OpenaiError),
    /// The static library cannot be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

/// Writes prompts of analyses and reads their answers.
#[derive(Debug, Clone)]
pub struct Analyst {
    prompt: AnalyzerPrompt,
    options: PromptOptions,
    context_tokens: usize,
    max_tokens: usize,
    cut_left: bool,
}

impl Analyst {
    /// The analyst of an environment.
    pub fn new(world: &World, config: &Config) -> Self {
        let prompt = world.analyzer.clone();
        let options = PromptOptions {
            mode: SkillMode::EpisodeOnly,
            summary: config.analyzer.include_summary,
            layout: match config.analyzer.steps {
                StepWords::Auto => prompt.layout(),
                StepWords::Full => Layout::Full,
                StepWords::Brief => Layout::Brief,
            },
            // A policy that sees gets each step's picture, not its words.
            visual: world.dialogue.eyes.is_some() && world.dialogue.template.shows_images(),
            ..PromptOptions::default()
        };
        Self {
            prompt,
            options,
            context_tokens: config.analyzer.context_tokens,
            max_tokens: config.analyzer.max_tokens,
            cut_left: config.rollout.truncation == Truncation::Left,
        }
    }

    /// The prompt files.
    pub fn prompt(&self) -> &AnalyzerPrompt {
        &self.prompt
    }

    /// What the prompt asks for.
    pub fn options(&self) -> &PromptOptions {
        &self.options
    }

    /// What an episode's analysis is asked with.
    ///
    /// # Errors
    /// [`SerializeError`] when the episode cannot be written as text.
    pub fn text(&self, trajectory: &Trajectory) -> Result<String, SerializeError> {
        self.prompt.render(trajectory, OutcomeLabel::of(trajectory), None, &self.options)
    }

    /// The context of an analysis prompt: the text, and a picture for each step of an episode that shows them. `frames` are the frames of
    /// the episode.
    ///
    /// # Errors
    /// [`DialogueError`] when the chat template or the tokenizer refuses it.
    pub fn encode(
        &self,
        world: &World,
        text: &str,
        trajectory: &Trajectory,
        frames: &[Arc<Image>],
    ) -> Result<Context, DialogueError> {
        let mut pictures = vec![];
        if let Some(eyes) = world.dialogue.eyes.as_ref().filter(|_| self.options.visual) {
            for frame in trajectory.steps.iter().filter_map(|step| step.image) {
                let missing = SightError::Missing { frame, frames: frames.len() };
                pictures.push(eyes.look(frames.get(frame).ok_or(missing)?)?);
            }
        }
        world.dialogue.encode_with_pictures(&[Message::user(text)], &pictures)
    }

    /// The prompt of an episode's analysis, cut from the left to the budget; `None` when it is over the budget and must not be cut, or
    /// has pictures.
    ///
    /// # Errors
    /// [`SkillSourceError`] when the episode cannot be written or encoded.
    pub fn context(
        &self,
        world: &World,
        episode: &Episode,
        limit: usize,
    ) -> Result<Option<Context>, SkillSourceError> {
        let Episode { trajectory, frames, .. } = episode;
        let mut context = self.encode(world, &self.text(trajectory)?, trajectory, frames)?;
        let limit = self.context_tokens.min(limit);
        if context.len() > limit {
            if !self.cut_left || !context.pictures.is_empty() {
                return Ok(None);
            }
            let over = context.len() - limit;
            context.ids.drain(..over);
        }
        Ok(Some(context))
    }

    /// Analyses of episodes by whatever `sources` sample from; greedy, without retries.
    ///
    /// `wanted` says which episodes are analysed.
    ///
    /// # Errors
    /// [`SkillSourceError`] when generation fails as a whole.
    pub fn analyse<S: TokenSource>(
        &self,
        world: &World,
        sources: &mut [S],
        episodes: &[&Episode],
        wanted: impl Fn(&Trajectory) -> bool,
        stream: StreamKey,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Analysis>, SkillSourceError> {
        let room = sources.iter().map(TokenSource::max_context).min().unwrap_or(0);
        // A prompt that fills the context leaves no room for an answer.
        let limit = room.saturating_sub(self.max_tokens.min(room / 2));
        let mut all = vec![Analysis::default(); episodes.len()];
        let (mut prompts, mut places) = (vec![], vec![]);
        for (place, episode) in episodes.iter().enumerate().filter(|(_, e)| wanted(&e.trajectory)) {
            match self.context(world, episode, limit)? {
                Some(context) => {
                    prompts.push(context);
                    places.push(place);
                }
                None => {
                    all[place].error = Some("the episode is longer than `analyzer.context_tokens`".into())
                }
            }
        }
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let options = BatchOptions { sampling, max_new_tokens: self.max_tokens, stream };
        let completions = generate_batch(sources, &prompts, &options, progress)?;
        for (place, completion) in places.into_iter().zip(completions) {
            let raw = world.dialogue.decode(&completion.ids)?;
            all[place] = read(raw, completion.ids.len(), Backend::Policy, world);
        }
        Ok(all)
    }
}

/// An answer as an analysis.
pub fn read(raw: String, tokens: usize, backend: Backend, world: &World) -> Analysis {
    let parsed = skill::parse(&raw, SkillMode::EpisodeOnly).map_err(|error| error.to_string());
    let accepted = parsed.and_then(|skill| {
        skill::accept(&skill, SkillMode::EpisodeOnly, backend).map_err(|rejected| rejected.to_string())?;
        Ok(skill)
    });
    match accepted {
        Ok(Skill { episode_skill, episode_summary, .. }) => Analysis {
            block: Some(world.skill_block(&episode_skill)),
            skill: Some(episode_skill),
            summary: episode_summary,
            error: None,
            raw,
            tokens,
        },
        Err(error) => Analysis { error: Some(error), raw, tokens, ..Analysis::default() },
    }
}

/// The source of skills of a run.
pub struct Skills {
    analyst: Analyst,
    /// Engines over the weights that stage 2 started from, where those write the skills.
    frozen: Option<Vec<Engine>>,
    /// Where neither the policy nor frozen weights write the skills.
    external: Option<AnyAnnotator>,
    library: Option<SkillLibrary>,
}

impl Skills {
    /// The configured source; `frozen` makes engines over the weights that stage 2 started from.
    ///
    /// # Errors
    /// [`SkillSourceError`] when the annotator or the library cannot be used.
    pub fn new(
        world: &World,
        config: &Config,
        frozen: impl FnOnce() -> Vec<Engine>,
    ) -> Result<Self, SkillSourceError> {
        let analyst = Analyst::new(world, config);
        let hindsight = config.opd.skills == SkillSource::Hindsight;
        let external = match config.analyzer.weights {
            AnalyzerWeights::External if hindsight => Some(AnyAnnotator::new(&config.annotator, &analyst)?),
            _ => None,
        };
        let library = match config.opd.skills {
            SkillSource::Library => Some(SkillLibrary::load(&world.library_path(config))?),
            _ => None,
        };
        let uses_frozen = hindsight && config.analyzer.weights == AnalyzerWeights::FrozenSft;
        Ok(Self { analyst, frozen: uses_frozen.then(frozen), external, library })
    }

    /// One analysis an episode.
    ///
    /// # Errors
    /// [`SkillSourceError`] when the source fails as a whole.
    pub fn write<S: TokenSource>(
        &mut self,
        context: &StepContext<'_>,
        sources: &mut [S],
        episodes: &[Episode],
        completed: u64,
    ) -> Result<Vec<Analysis>, SkillSourceError> {
        let StepContext { world, config, observer, mesh, .. } = *context;
        let trajectories: Vec<&Trajectory> = episodes.iter().map(|episode| &episode.trajectory).collect();
        if let Some(library) = &self.library {
            return Ok(trajectories.iter().map(|trajectory| looked_up(library, world, trajectory)).collect());
        }
        let after = config.analyzer.failed_only_after as u64;
        let failures_only = config.analyzer.failed_only || (after > 0 && completed >= after);
        let wanted = |trajectory: &Trajectory| !(failures_only && trajectory.outcome.won);
        if let Some(annotator) = &self.external {
            return Ok(annotated(mesh, annotator, world, &trajectories, wanted));
        }
        let stream = StreamKey { update: completed, ..StreamKey::new(config.run.seed, Purpose::Analysis) };
        observer.event(Event::Started { what: "analysis", total: Some(episodes.len() as u64) });
        let progress = |_| observer.event(Event::Advanced(1));
        let all: Vec<&Episode> = episodes.iter().collect();
        let analyses = match &mut self.frozen {
            Some(frozen) => self.analyst.analyse(world, frozen, &all, wanted, stream, &progress),
            None => self.analyst.analyse(world, sources, &all, wanted, stream, &progress),
        };
        observer.event(Event::Finished);
        analyses
    }
}

/// A lesson of the static library for the kind of task.
fn looked_up(library: &SkillLibrary, world: &World, trajectory: &Trajectory) -> Analysis {
    // Ids and kinds carry the family in every environment; the task's words are for libraries with keywords.
    let game = format!("{} {}", trajectory.task.kind, trajectory.task.id);
    let query = LibraryQuery {
        game_file: Some(&game),
        data_source: Some(&trajectory.task.kind),
        prompt: &trajectory.task_description,
    };
    match library.lookup(&query, &LookupOptions::default()) {
        Ok(found) => Analysis {
            block: Some(world.skill_block(&found.text)),
            skill: Some(found.text),
            ..Analysis::default()
        },
        Err(error) => Analysis { error: Some(error.to_string()), ..Analysis::default() },
    }
}

fn annotated(
    mesh: &Mesh,
    annotator: &AnyAnnotator,
    world: &World,
    trajectories: &[&Trajectory],
    wanted: impl Fn(&Trajectory) -> bool + Sync,
) -> Vec<Analysis> {
    let one = |place: usize| {
        let trajectory = trajectories[place];
        if !wanted(trajectory) {
            return Ok::<_, std::convert::Infallible>(Analysis::default());
        }
        Ok(match annotator.annotate(trajectory) {
            Ok(annotation) => Analysis {
                block: Some(world.skill_block(&annotation.skill.episode_skill)),
                skill: Some(annotation.skill.episode_skill),
                summary: annotation.skill.episode_summary,
                raw: annotation.answer,
                ..Analysis::default()
            },
            Err(error) => Analysis { error: Some(error.to_string()), ..Analysis::default() },
        })
    };
    let Ok(all) = mesh.map(trajectories.len(), one);
    all
}

/// The numbers of an update's analyses.
pub fn skill_numbers(record: &mut Record, analyses: &[Analysis], episodes: &[Episode]) {
    let asked: Vec<_> = analyses
        .iter()
        .zip(episodes)
        .filter(|(analysis, _)| analysis.skill.is_some() || analysis.error.is_some())
        .map(|(analysis, episode)| {
            let skill =
                analysis.skill.as_ref().map(|text| Skill { episode_skill: text.clone(), ..Skill::default() });
            (&episode.trajectory, skill)
        })
        .collect();
    let lexicon = Lexicon::of(episodes.iter().map(|episode| &episode.trajectory));
    let batch: Vec<_> = asked.iter().map(|(trajectory, skill)| (*trajectory, skill.as_ref())).collect();
    let quality = SkillQuality::measure(&batch, &lexicon);
    let tokens: usize = analyses.iter().map(|analysis| analysis.tokens).sum();
    record.set("skill/requests", asked.len() as f64);
    record.set("skill/parse_rate", quality.parse_rate);
    record.set("skill/tokens", tokens as f64 / asked.len().max(1) as f64);
    record.set("skill/words", quality.words_mean);
    record.set("skill/distinct_ratio", quality.distinct_share);
    record.set("skill/repetition", quality.repetition);
    record.set("skill/grounding", quality.grounding);
}
