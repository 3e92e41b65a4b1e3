//! What can be measured about skills: how many there are, how they read, whether they speak of their episode, and
//! whether they move the policy more than somebody else's skill does.

use crate::skill::Skill;
use seed_envs::Trajectory;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

/// The figures of one batch of analysed episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SkillQuality {
    /// Episodes that were analysed.
    pub episodes: usize,
    /// Share of episodes with an accepted skill, in 0..=1.
    pub parse_rate: f64,
    /// Mean length of a skill in words.
    pub words_mean: f64,
    /// Longest skill in words.
    pub words_max: usize,
    /// Mean length of a skill in characters.
    pub chars_mean: f64,
    /// Mean share of a skill's word triples that occurred in it before, in 0..=1; high when it babbles.
    pub repetition: f64,
    /// Different skills (compared by their words) over all skills, in 0..=1; low when one lesson is given to all.
    pub distinct_share: f64,
    /// Mean share of the named objects and actions that occur in the episode, over the skills that name any.
    pub grounding: f64,
    /// Share of skills that name no object and no action at all; they do not count in `grounding`.
    pub nameless_share: f64,
}

impl SkillQuality {
    /// Measures a batch. `None` stands for an episode whose analysis gave no accepted skill.
    ///
    /// An empty batch, or one without skills, gives zeros.
    pub fn measure(batch: &[(&Trajectory, Option<&Skill>)], lexicon: &Lexicon) -> Self {
        let skills: Vec<(&Trajectory, String)> =
            batch.iter().filter_map(|(trajectory, skill)| Some((*trajectory, text_of((*skill)?)))).collect();
        let mut quality = Self { episodes: batch.len(), ..Self::default() };
        if skills.is_empty() {
            return quality;
        }
        let count = skills.len() as f64;
        let mut distinct = HashSet::new();
        let (mut grounded, mut naming) = (0.0, 0_usize);
        for (trajectory, text) in &skills {
            let words = words(text);
            quality.words_mean += words.len() as f64 / count;
            quality.words_max = quality.words_max.max(words.len());
            quality.chars_mean += text.chars().count() as f64 / count;
            quality.repetition += repetition(&words) / count;
            if let Some(share) = lexicon.grounding(text, trajectory) {
                grounded += share;
                naming += 1;
            }
            distinct.insert(words);
        }
        quality.parse_rate = count / batch.len() as f64;
        quality.distinct_share = distinct.len() as f64 / count;
        quality.nameless_share = 1.0 - naming as f64 / count;
        quality.grounding = if naming > 0 { grounded / naming as f64 } else { 0.0 };
        quality
    }
}

/// The texts of a skill that reach the policy.
fn text_of(skill: &Skill) -> String {
    let steps = skill.step_skills.values().map(String::as_str);
    [skill.episode_skill.as_str()].into_iter().chain(steps).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Words in lower case, without punctuation and numbers.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The share of word triples that occurred before, in 0..=1; 0 for less than four words.
pub fn repetition(words: &[String]) -> f64 {
    let triples = words.windows(3);
    let all = triples.len();
    if all < 2 {
        return 0.0;
    }
    1.0 - triples.collect::<HashSet<_>>().len() as f64 / all as f64
}

/// Words that join others and name nothing, and those that say where or when.
const FUNCTION_WORDS: [&str; 62] = [
    "a", "an", "and", "again", "all", "any", "are", "arrive", "as", "at", "be", "been", "before", "by",
    "can", "do", "for", "from", "happens", "have", "in", "is", "it", "its", "middle", "nothing", "next",
    "no", "not", "now", "of", "off", "on", "one", "or", "other", "quickly", "around", "looking", "room",
    "see", "so", "some", "task", "that", "the", "them", "then", "there", "this", "to", "two", "up", "was",
    "what", "when", "where", "will", "with", "you", "your", "loc",
];

/// The words that name objects, places and actions of a world.
#[derive(Debug, Clone, Default)]
pub struct Lexicon {
    names: BTreeSet<String>,
}

impl Lexicon {
    /// The words of all commands and actions of some episodes, and of whatever they list with a number (`mug 2`).
    ///
    /// Take the episodes of a whole batch: a name that only occurs elsewhere is just what an ungrounded skill uses.
    pub fn of<'a>(trajectories: impl IntoIterator<Item = &'a Trajectory>) -> Self {
        let mut names = BTreeSet::new();
        for trajectory in trajectories {
            for step in &trajectory.steps {
                let commands = step.admissible.iter().chain([&step.action]);
                names.extend(commands.flat_map(|command| words(command)));
                names.extend(numbered(&step.observation));
            }
            names.extend(numbered(&trajectory.final_observation));
        }
        Self::from_words(names)
    }

    /// A lexicon of given words. Function words (`the`, `to`, …) are left out.
    pub fn from_words(words: impl IntoIterator<Item = String>) -> Self {
        let names = words.into_iter().map(|word| word.to_lowercase());
        Self { names: names.filter(|word| !FUNCTION_WORDS.contains(&word.as_str())).collect() }
    }

    /// The names in a text, each once. A plural with `s` counts as its singular where only that is known.
    pub fn names_in(&self, text: &str) -> BTreeSet<String> {
        words(text).into_iter().filter_map(|word| self.known(&word).map(str::to_owned)).collect()
    }

    fn known<'a>(&self, word: &'a str) -> Option<&'a str> {
        let singular = || word.strip_suffix("es").into_iter().chain(word.strip_suffix('s'));
        if self.names.contains(word) {
            return Some(word);
        }
        singular().find(|word| self.names.contains(*word))
    }

    /// The share of the names in a skill that occur anywhere in its episode; `None` when it names nothing.
    pub fn grounding(&self, skill: &str, trajectory: &Trajectory) -> Option<f64> {
        let named = self.names_in(skill);
        if named.is_empty() {
            return None;
        }
        let mut there = BTreeSet::new();
        let mut add = |text: &str| there.extend(words(text));
        add(&trajectory.task_description);
        add(&trajectory.final_observation);
        for step in &trajectory.steps {
            add(&step.observation);
            add(&step.action);
            step.admissible.iter().for_each(|command| add(command));
        }
        let here = Self { names: there };
        let grounded = named.iter().filter(|name| here.known(name).is_some()).count();
        Some(grounded as f64 / named.len() as f64)
    }
}

/// Words that are followed by a number: how the worlds of rooms and objects name their things.
fn numbered(text: &str) -> impl Iterator<Item = String> {
    let mut tokens = text.split(|c: char| !c.is_alphanumeric()).filter(|token| !token.is_empty()).peekable();
    std::iter::from_fn(move || {
        loop {
            let token = tokens.next()?;
            let number = tokens.peek().is_some_and(|next| next.bytes().all(|byte| byte.is_ascii_digit()));
            if number && token.chars().all(char::is_alphabetic) {
                return Some(token.to_lowercase());
            }
        }
    })
}

/// One row's log-probabilities of the same sampled tokens under four prompts, summed over its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LiftRow {
    /// How many tokens were summed.
    pub tokens: usize,
    /// The plain prompt.
    pub plain: f64,
    /// With the skill of its own episode.
    pub real: f64,
    /// With the skill of another episode ([`shuffled_partners`]).
    pub shuffled: f64,
    /// With the block around an empty skill.
    pub empty: f64,
}

/// How much a skill raises the log-probability of the sampled tokens, in nats per token.
///
/// A skill that does its work lifts more than a stranger's skill and more than an empty block; if `real` and
/// `shuffled` are alike, the block's mere presence does it. The counted rows are those with tokens and finite numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lift {
    /// Rows that were counted.
    pub rows: usize,
    /// Rows left out: no tokens, or a number that is not finite.
    pub skipped: usize,
    /// Mean of (real − plain) per token.
    pub real: f64,
    /// Mean of (shuffled − plain) per token.
    pub shuffled: f64,
    /// Mean of (empty − plain) per token.
    pub empty: f64,
    /// Mean of (real − shuffled) per row and token, rows weighing alike.
    pub advantage: f64,
    /// Standard error of `advantage` over rows; 0 for less than two rows.
    pub advantage_error: f64,
    /// Share of rows in which the real skill beats the shuffled one, in 0..=1.
    pub wins: f64,
}

impl Lift {
    /// Computes the figures. The first three are weighted by tokens; no rows give zeros.
    pub fn of(rows: &[LiftRow]) -> Self {
        let usable = |row: &&LiftRow| {
            row.tokens > 0
                && [row.plain, row.real, row.shuffled, row.empty].iter().all(|logp| logp.is_finite())
        };
        let counted: Vec<&LiftRow> = rows.iter().filter(usable).collect();
        let skipped = rows.len() - counted.len();
        if counted.is_empty() {
            return Self { skipped, ..Self::default() };
        }
        let tokens: f64 = counted.iter().map(|row| row.tokens as f64).sum();
        let mean = |gain: fn(&LiftRow) -> f64| counted.iter().map(|row| gain(row)).sum::<f64>() / tokens;
        let count = counted.len() as f64;
        let advantages: Vec<f64> =
            counted.iter().map(|row| (row.real - row.shuffled) / row.tokens as f64).collect();
        let advantage = advantages.iter().sum::<f64>() / count;
        let squares: f64 = advantages.iter().map(|x| (x - advantage).powi(2)).sum();
        Self {
            rows: counted.len(),
            skipped,
            real: mean(|row| row.real - row.plain),
            shuffled: mean(|row| row.shuffled - row.plain),
            empty: mean(|row| row.empty - row.plain),
            advantage,
            advantage_error: if count > 1.0 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 },
            wins: advantages.iter().filter(|x| **x > 0.0).count() as f64 / count,
        }
    }
}

/// For each episode another one whose skill it borrows: of another task wherever there is one, never itself.
///
/// Equal arguments give equal partners. A single episode has no partner.
pub fn shuffled_partners(tasks: &[&str], seed: u64) -> Vec<Option<usize>> {
    // Splitmix64: tiny, well mixed, and the same everywhere.
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut below = |n: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % n
    };
    (0..tasks.len())
        .map(|own| {
            let others = |wanted: fn(&str, &str) -> bool| -> Vec<usize> {
                (0..tasks.len()).filter(|&at| at != own && wanted(tasks[at], tasks[own])).collect()
            };
            let strangers = others(|a, b| a != b);
            let choice = if strangers.is_empty() { others(|_, _| true) } else { strangers };
            (!choice.is_empty()).then(|| choice[below(choice.len())])
        })
        .collect()
}
