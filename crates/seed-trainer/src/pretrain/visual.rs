//! The base checkpoint of `configs/ezpoints-visual.toml`: a tiny policy of Qwen2.5-VL's shape that reads EZPoints' pictures
//! and plays badly.
//!
//! Two kinds of lessons: what the cards of a picture count, which teaches it to see; and steps of a player with bad habits,
//! half of them with a lesson of an earlier episode of the same deal in the prompt that takes habits away. Nothing here
//! teaches it to write lessons: that is stage 1.

use super::{PretrainError, Recipe};
use crate::checkpoint::{Companions, save_model};
use crate::config::Layers;
use crate::mesh::Mesh;
use crate::observer::{Event, Observer};
use crate::run_folder::{StorageError, write_file};
use crate::sft::fit::Lesson;
use crate::sft::transcript::response;
use crate::world::World;
use seed_envs::ezpoints::CardGames;
use seed_envs::ezpoints::demonstration::{Demonstration, Demonstrator, Habits, in_pictures};
use seed_envs::ezpoints::vocabulary;
use seed_model::{CausalLm, ChatTemplate, ImageProcessor, Message, ModelConfig, Tokenizer, VisionConfig};
use seed_rollout::dialogue::{DialogueError, Played, PromptOverflow};
use seed_rollout::eyes::SightError;
use seed_rollout::row::Layout;
use seed_rollout::template::IMAGE_MARK;
use std::path::Path;

/// Seed of weights, demonstrations and order.
const SEED: u64 = 2026;
/// Episodes, every second one with a lesson.
const DEMONSTRATIONS: u64 = 6_500;
/// Episodes that only measure.
const HELD_OUT: u64 = 50;
/// Lessons of one step.
const BATCH: usize = 64;
/// Peak learning rate.
const LR: f64 = 2e-3;
/// Steps of an episode.
const STEPS: usize = 8;
/// Frames of 300 × 300 pixels become 140 × 140: 25 tokens, ranks still to be read.
const MAX_PIXELS: usize = 20_000;

/// Trains on `demonstrations` episodes (0: as many as the committed checkpoint) with the prompts of the folder `prompts` and
/// writes the folder `to`.
///
/// # Errors
/// [`PretrainError`].
pub fn pretrain(
    prompts: &Path,
    to: &Path,
    demonstrations: u64,
    observer: &dyn Observer,
) -> Result<(), PretrainError> {
    let demonstrations = if demonstrations == 0 { DEMONSTRATIONS } else { demonstrations };
    let model = start(to)?;
    let sets = ["env.name=ezpoints".to_owned(), format!("env.prompts={}", prompts.display())];
    let config = Layers::new().set(sets)?.resolve()?;
    // The policy sees, so that the world shows pictures.
    let world = World::open(config.config(), to)?;

    let demonstrator = Demonstrator::new(CardGames::open(in_pictures(STEPS))?, Habits::BASE, SEED);
    let made = Mesh::new(0).map((demonstrations + HELD_OUT) as usize, |index| {
        let demonstration = demonstrator.demonstrate(index as u64, index % 2 == 1)?;
        let won = demonstration.trajectory.outcome.won;
        Ok::<_, PretrainError>((lessons(&world, &demonstration)?, won))
    })?;
    let percent = |guided: usize| {
        let all = made.iter().skip(guided).step_by(2);
        100.0 * all.clone().filter(|(_, won)| *won).count() as f64 / all.count().max(1) as f64
    };
    observer.event(Event::Note(&format!(
        "{demonstrations} episodes; won {:.0} % without a lesson, {:.0} % with one",
        percent(0),
        percent(1)
    )));
    let mut made = made.into_iter().map(|(lessons, _)| lessons);
    let training: Vec<Lesson> = made.by_ref().take(demonstrations as usize).flatten().collect();
    let held_out: Vec<Lesson> = made.flatten().collect();
    let processor = processor();
    let companions = Companions {
        tokenizer: &world.dialogue.tokenizer,
        chat: &world.dialogue.chat,
        generation_config: None,
        processor: Some(&processor),
    };
    let recipe = Recipe { model, seed: SEED, batch: BATCH, micro_tokens: 2048, companions };
    recipe.make(&[(&training[..], LR)], &held_out, to, observer)
}

/// Writes a folder with fresh weights, and gives them with gradients.
fn start(to: &Path) -> Result<CausalLm, PretrainError> {
    std::fs::create_dir_all(to).map_err(|error| StorageError::write(to, error))?;
    for (name, contents) in [
        ("tokenizer.json", vocabulary::tokenizer_json()),
        ("tokenizer_config.json", vocabulary::tokenizer_config_json()),
    ] {
        write_file(&to.join(name), format!("{contents:#}\n").as_bytes())?;
    }
    let (tokenizer, chat) = (Tokenizer::load(to)?, ChatTemplate::load(to)?);
    let config = ModelConfig::from_json(shape(tokenizer.vocab_size(), tokenizer.end_ids()))?;
    let device = seed_model::device::select("cpu")?;
    let model = CausalLm::init(&config, SEED, &device.autodiff());
    let processor = processor();
    let companions = Companions {
        tokenizer: &tokenizer,
        chat: &chat,
        generation_config: None,
        processor: Some(&processor),
    };
    save_model(to, &model, companions)?;
    Ok(model)
}

fn processor() -> ImageProcessor {
    ImageProcessor { max_pixels: MAX_PIXELS, ..ImageProcessor::default() }
}

/// An episode as rows to imitate: each step, and for each frame what its cards count.
fn lessons(world: &World, demonstration: &Demonstration) -> Result<Vec<Lesson>, PretrainError> {
    let Demonstration { trajectory, frames, guidance, cards } = demonstration;
    let block = guidance.as_ref().map(|(_, lesson)| world.skill_block(&lesson.text()));
    let played = Played { trajectory, frames };
    let mut lessons = Vec::with_capacity(trajectory.steps.len() + frames.len());
    for (place, step) in trajectory.steps.iter().enumerate() {
        let prompt = world.dialogue.prompt_of(
            played,
            place,
            block.as_deref(),
            Layout::Step,
            usize::MAX,
            PromptOverflow::DropHistory,
        )?;
        lessons.push(Lesson::new(prompt.context, response(&world.dialogue, &step.response)?));
    }
    let eyes = world.dialogue.eyes.as_ref().ok_or(SightError::Blind).map_err(DialogueError::from)?;
    let counts = cards.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
    for frame in frames {
        let picture = eyes.look(frame).map_err(DialogueError::from)?;
        let question = [Message::user(format!("{IMAGE_MARK}\nCards?"))];
        let context = world.dialogue.encode_with_pictures(&question, &[picture])?;
        lessons.push(Lesson::new(context, response(&world.dialogue, &counts)?));
    }
    Ok(lessons)
}

/// Qwen2.5-VL at about half a million parameters.
fn shape(vocabulary: usize, end_ids: &[u32]) -> serde_json::Value {
    const HIDDEN: usize = 96;
    const HEADS: usize = 4;
    let first = vocabulary::first_picture_mark() as u32;
    let vision = VisionConfig::new(2, 48, 2, HIDDEN, HIDDEN / HEADS, first);
    serde_json::json!({
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "initializer_range": 0.05,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "rope_scaling": { "type": "mrope", "mrope_section": vision.mrope_section },
        "tie_word_embeddings": true,
        "attention_dropout": 0.0,
        "use_sliding_window": false,
        "eos_token_id": end_ids.first(),
        "torch_dtype": "float32",
        "vision_start_token_id": vision.vision_start_token_id,
        "vision_end_token_id": vision.vision_end_token_id,
        "image_token_id": vision.image_token_id,
        "video_token_id": vision.video_token_id,
        "vision_config": {
            "hidden_act": "silu",
            "depth": vision.depth,
            "hidden_size": vision.hidden_size,
            "intermediate_size": vision.intermediate_size,
            "num_heads": vision.num_heads,
            "in_channels": vision.in_channels,
            "patch_size": vision.patch_size,
            "spatial_merge_size": vision.spatial_merge_size,
            "temporal_patch_size": vision.temporal_patch_size,
            "window_size": vision.window_size,
            "fullatt_block_indexes": vision.fullatt_block_indexes,
            "out_hidden_size": vision.out_hidden_size,
        },
    })
}
