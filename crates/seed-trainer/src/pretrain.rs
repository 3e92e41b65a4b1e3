//! The recipes of the base checkpoints: `cargo xtask pretrain`. Here that of the quick start, in [`visual`] that of the
//! example that sees, in [`alfworld`] that of the one on ALFWorld's games.
//!
//! Demonstrations of the household world by a player with bad habits, half of them with a lesson of an earlier episode
//! in the prompt that takes habits away. So the checkpoint plays badly, and better when a true lesson stands in its
//! prompt. Nothing here teaches it to write lessons: that is stage 1.
//!
//! It learns in two passes. In the first every token counts, so that it learns to read: what the world says about an
//! action depends on what it said before. In the second only the player's tokens count: what lies where is chance, and
//! the noise of that drowns the rare tokens that decide, such as taking a thing that has just come into sight.

pub mod alfworld;
pub mod visual;

use crate::checkpoint::{Companions, SaveError, save_model};
use crate::config::{ConfigError, Layers, ScheduleKind};
use crate::learner::Learner;
use crate::mesh::Mesh;
use crate::observer::{Event, Observer};
use crate::run_folder::StorageError;
use crate::schedule::Schedule;
use crate::sft::fit::{FitError, FitOptions, Lesson, fit, loss_of};
use crate::sft::transcript::transcript;
use crate::world::{World, WorldError};
use burn::module::Module;
use seed_analyzer::OutcomeLabel;
use seed_analyzer::annotator::scripted::ScriptedAnnotator;
use seed_envs::EnvError;
use seed_envs::household::demonstration::{Demonstrator, Habits};
use seed_envs::household::{Household, HouseholdOptions};
use seed_model::device::DeviceError;
use seed_model::{CausalLm, ModelConfig, TemplateError as ChatTemplateError, TokenizerError};
use seed_rollout::dialogue::{DialogueError, Played};
use std::path::Path;
use std::time::Instant;

/// Seed of weights, demonstrations and order.
const SEED: u64 = 2026;
/// Demonstrations, every second one with a lesson.
const DEMONSTRATIONS: u64 = 32_000;
/// Of so many of them one is learnt from again in the second pass.
const AGAIN: usize = 4;
/// Demonstrations that only measure.
const HELD_OUT: u64 = 100;
/// Demonstrations of one step.
const BATCH: usize = 8;
/// Peak learning rates of the two passes.
const LR: [f64; 2] = [2e-3, 1.5e-3];

/// Why the checkpoint cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PretrainError {
    /// The built-in configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Tokenizer or templates.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A demonstration.
    #[error(transparent)]
    Environment(#[from] EnvError),
    /// A demonstration as tokens.
    #[error(transparent)]
    Dialogue(#[from] DialogueError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The policy's shape.
    #[error(transparent)]
    Model(#[from] seed_model::ConfigError),
    /// Training.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// Scoring of held-out demonstrations.
    #[error(transparent)]
    Score(#[from] seed_model::ScoreError),
    /// Writing.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// Writing the tokenizer's files.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Reading them again.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template.
    #[error(transparent)]
    Chat(#[from] ChatTemplateError),
}

/// A checkpoint in the making: what is trained, and how.
struct Recipe<'a> {
    /// Weights to start from, with gradients.
    model: CausalLm,
    /// Seed of the order of lessons.
    seed: u64,
    /// Lessons of one step.
    batch: usize,
    /// Tokens of one pass of the model on one worker.
    micro_tokens: usize,
    /// What the folder holds beside the weights.
    companions: Companions<'a>,
}

impl Recipe<'_> {
    /// One pass after the other, each over its lessons, up to its peak learning rate and down again; writes the folder `to`.
    fn make(
        self,
        passes: &[(&[Lesson], f64)],
        held_out: &[Lesson],
        to: &Path,
        observer: &dyn Observer,
    ) -> Result<(), PretrainError> {
        let note = |text: String| observer.event(Event::Note(&text));
        let (mesh, started) = (Mesh::new(0), Instant::now());
        let mut model = self.model;
        for &(lessons, lr) in passes {
            let mut learner = Learner::new(model, Default::default());
            let steps = FitOptions::steps(lessons.len(), self.batch, 1);
            let options = FitOptions {
                epochs: 1,
                batch: self.batch,
                micro_tokens: self.micro_tokens,
                schedule: Schedule::new(ScheduleKind::Cosine, lr, 0.05, steps),
                max_grad_norm: 1.0,
                seed: self.seed,
            };
            fit(&mut learner, &mesh, lessons, &options, |step, _, record| {
                if step.is_multiple_of(50) || step == steps {
                    let (loss, seconds) =
                        (record.get("sft/loss").unwrap_or(f64::NAN), started.elapsed().as_secs_f64());
                    note(format!("step {step}/{steps}  loss {loss:.3}  {seconds:.0} s"));
                }
            })?;
            note(format!("held-out loss {:.3}", loss_of(&learner, &mesh, held_out, 8192)?));
            model = learner.into_model();
        }
        Ok(save_model(to, &model.valid(), self.companions)?)
    }
}

/// Trains on `demonstrations` (0: as many as the committed checkpoint) with the tokenizer of `tokenizer` and writes the
/// folder `to`.
///
/// # Errors
/// [`PretrainError`].
pub fn pretrain(
    tokenizer: &Path,
    to: &Path,
    demonstrations: u64,
    observer: &dyn Observer,
) -> Result<(), PretrainError> {
    let demonstrations = if demonstrations == 0 { DEMONSTRATIONS } else { demonstrations };
    let config = Layers::new().set(["rollout.layout=transcript"])?.resolve()?;
    let world = World::open(config.config(), tokenizer)?;
    let dialogue = &world.dialogue;
    let note = |text: String| observer.event(Event::Note(&text));

    let demonstrator = Demonstrator::new(Household::new(HouseholdOptions::default()), Habits::BASE, SEED);
    let mesh = Mesh::new(0);
    let made = mesh.map((demonstrations + HELD_OUT) as usize, |index| {
        demonstrate(&world, &demonstrator, index as u64)
    })?;
    let won = |guided: usize| {
        made.iter().enumerate().filter(|(index, (_, won))| index % 2 == guided && *won).count() as f64
    };
    let (plain, guided) = (won(0), won(1));
    let mut lessons: Vec<Lesson> = made.into_iter().map(|(lesson, _)| lesson).collect();
    let held_out = lessons.split_off(demonstrations as usize);
    let again = lessons[..lessons.len().div_ceil(AGAIN)].to_vec();
    let lessons: Vec<Lesson> = lessons.into_iter().map(whole_text).collect();
    let tokens: usize = lessons.iter().map(|lesson| lesson.row().tokens()).sum();
    let percent = |won: f64| 200.0 * won / (demonstrations + HELD_OUT) as f64;
    note(format!(
        "{demonstrations} demonstrations, {tokens} tokens; won {:.0} % without a lesson, {:.0} % with one",
        percent(plain),
        percent(guided),
    ));

    let device = seed_model::device::select("cpu")?;
    let shape = shape(dialogue.tokenizer.vocab_size(), dialogue.tokenizer.end_ids());
    let model = CausalLm::init(&ModelConfig::from_json(shape)?, SEED, &device.autodiff());
    let companions = Companions {
        tokenizer: &dialogue.tokenizer,
        chat: &dialogue.chat,
        generation_config: None,
        processor: None,
    };
    let passes = [(&lessons[..], LR[0]), (&again[..], LR[1])];
    Recipe { model, seed: SEED, batch: BATCH, micro_tokens: 1400, companions }
        .make(&passes, &held_out, to, observer)
}

/// Demonstration number `index` as tokens, and whether it was won; every second one has a lesson in its prompt.
fn demonstrate(
    world: &World,
    demonstrator: &Demonstrator,
    index: u64,
) -> Result<(Lesson, bool), PretrainError> {
    let demonstration = if index.is_multiple_of(2) {
        demonstrator.plain(index / 2)?
    } else {
        demonstrator.guided(index / 2)?
    };
    // The same words that stage 1 teaches the policy to write.
    let skill = demonstration
        .guidance
        .as_ref()
        .and_then(|guidance| ScriptedAnnotator::skill(&guidance.source, OutcomeLabel::of(&guidance.source)));
    let block = skill.map(|skill| world.skill_block(&skill.episode_skill));
    let played = Played { trajectory: &demonstration.trajectory, frames: &[] };
    let lesson = transcript(&world.dialogue, played, block.as_deref())?;
    Ok((lesson, demonstration.trajectory.outcome.won))
}

/// Every token but the first is to be learnt: what the world says teaches the policy to read it.
fn whole_text(lesson: Lesson) -> Lesson {
    let mut text = lesson.prompt;
    text.extend(lesson.response);
    let response = text.split_off(1);
    Lesson::new(text, response)
}

/// Qwen3 at about a million parameters.
fn shape(vocabulary: usize, end_ids: &[u32]) -> serde_json::Value {
    serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": true,
        "attention_bias": false,
        "attention_dropout": 0.0,
        "use_sliding_window": false,
        "eos_token_id": end_ids.first(),
        "torch_dtype": "float32",
    })
}
