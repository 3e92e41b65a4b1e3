//! The base checkpoint of `configs/alfworld-tiny.toml`: a tiny policy that plays ALFWorld's games badly.
//!
//! As the quick start's, but from ALFWorld's training games, which must be on this machine; a tokenizer with their words
//! is made on the way.

use super::{BATCH, LR, PretrainError, Recipe, SEED, shape, whole_text};
use crate::checkpoint::Companions;
use crate::config::Layers;
use crate::mesh::Mesh;
use crate::observer::{Event, Observer};
use crate::run_folder::{StorageError, write_file};
use crate::sft::fit::Lesson;
use crate::sft::transcript::transcript;
use crate::world::World;
use seed_analyzer::OutcomeLabel;
use seed_analyzer::annotator::scripted::ScriptedAnnotator;
use seed_envs::Trajectory;
use seed_envs::alfworld::demonstration::{Demonstrator, Habits};
use seed_envs::alfworld::{AlfWorld, AlfWorldOptions};
use seed_envs::household::vocabulary;
use seed_model::{CausalLm, ModelConfig};
use seed_rollout::dialogue::Played;
use std::collections::BTreeMap;
use std::path::Path;

/// Demonstrations, every second one with a lesson.
const DEMONSTRATIONS: u64 = 32_000;
/// Of so many of them one is learnt from again, the player's tokens alone.
const AGAIN: usize = 4;
/// Demonstrations that only measure.
const HELD_OUT: u64 = 100;
/// Steps of an episode.
const STEPS: usize = 30;
/// A word that occurs so often gets a token of its own.
const FREQUENT: usize = 20;

/// Trains on `demonstrations` episodes (0: as many as the committed checkpoint) over the training games under `data` (`None`:
/// where `ALFWORLD_DATA` points) with the prompts of the folder `prompts` and writes the folder `to`.
///
/// # Errors
/// [`PretrainError`].
pub fn pretrain(
    data: Option<&Path>,
    prompts: &Path,
    to: &Path,
    demonstrations: u64,
    observer: &dyn Observer,
) -> Result<(), PretrainError> {
    let note = |text: String| observer.event(Event::Note(&text));
    let demonstrations = if demonstrations == 0 { DEMONSTRATIONS } else { demonstrations };
    let options = AlfWorldOptions { max_steps: STEPS, ..AlfWorldOptions::default() };
    let games = match data {
        Some(data) => AlfWorld::open(data, options)?,
        None => AlfWorld::from_env(options)?,
    };
    let demonstrator = Demonstrator::new(games, Habits::BASE, SEED)?;
    let mesh = Mesh::new(0);
    let played: Vec<(Trajectory, Option<String>)> =
        mesh.map((demonstrations + HELD_OUT) as usize, |index| {
            // Every second one with a lesson, in the words that stage 1 teaches the policy to write.
            let annotate = |episode: &Trajectory| {
                let skill = ScriptedAnnotator::skill(episode, OutcomeLabel::of(episode))?;
                (index % 2 == 1).then_some(skill.episode_skill)
            };
            demonstrator.demonstrate(index as u64, annotate)
        })?;
    let percent = |guided: bool| {
        let all = played.iter().filter(|(_, lesson)| lesson.is_some() == guided);
        100.0 * all.clone().filter(|(episode, _)| episode.outcome.won).count() as f64
            / all.count().max(1) as f64
    };
    note(format!(
        "{demonstrations} episodes; won {:.0} % without a lesson, {:.0} % with one",
        percent(false),
        percent(true)
    ));

    write_tokenizer(&frequent_words(&played), to)?;
    let sets = ["env.name=alfworld", "rollout.layout=transcript"].map(str::to_owned);
    let sets = sets.into_iter().chain([
        format!("env.prompts={}", prompts.display()),
        format!("env.data={}", data.map(|data| data.display().to_string()).unwrap_or_default()),
    ]);
    let config = Layers::new().set(sets)?.resolve()?;
    let world = World::open(config.config(), to)?;
    let mut lessons: Vec<Lesson> = mesh.map(played.len(), |index| {
        let (trajectory, lesson) = &played[index];
        let block = lesson.as_ref().map(|lesson| world.skill_block(lesson));
        transcript(&world.dialogue, Played { trajectory, frames: &[] }, block.as_deref())
    })?;
    let held_out = lessons.split_off(demonstrations as usize);
    let again = lessons[..lessons.len().div_ceil(AGAIN)].to_vec();
    let lessons: Vec<Lesson> = lessons.into_iter().map(whole_text).collect();
    let tokens: usize = lessons.iter().map(|lesson| lesson.row().tokens()).sum();
    note(format!("{tokens} tokens, a vocabulary of {}", world.dialogue.tokenizer.vocab_size()));

    let device = seed_model::device::select("cpu")?;
    let (tokenizer, chat) = (&world.dialogue.tokenizer, &world.dialogue.chat);
    let shape = shape(tokenizer.vocab_size(), tokenizer.end_ids());
    let model = CausalLm::init(&ModelConfig::from_json(shape)?, SEED, &device.autodiff());
    let companions = Companions { tokenizer, chat, generation_config: None, processor: None };
    let passes = [(&lessons[..], LR[0]), (&again[..], LR[1])];
    Recipe { model, seed: SEED, batch: BATCH, micro_tokens: 4096, companions }
        .make(&passes, &held_out, to, observer)
}

/// The words of episodes and lessons that occur often, in the order of the alphabet.
fn frequent_words(played: &[(Trajectory, Option<String>)]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (episode, lesson) in played {
        let steps = episode.steps.iter().flat_map(|step| [&step.observation, &step.response]);
        let texts = steps.chain([&episode.task_description, &episode.final_observation]).chain(lesson);
        for word in texts.flat_map(|text| vocabulary::words(text)) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    counts.into_iter().filter(|(_, count)| *count >= FREQUENT).map(|(word, _)| word).collect()
}

fn write_tokenizer(words: &[String], to: &Path) -> Result<(), PretrainError> {
    std::fs::create_dir_all(to).map_err(|error| StorageError::write(to, error))?;
    let (tokenizer, config) = vocabulary::tokenizer_with(words);
    for (name, contents) in [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)] {
        write_file(&to.join(name), format!("{contents:#}\n").as_bytes())?;
    }
    Ok(())
}
