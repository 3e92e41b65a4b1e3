//! One play of a game: what holds, what can be done, what is said.

use super::game::{Game, Signed};
use super::text::{Facts, Renderer};
use std::sync::Arc;

/// What the agent reads when a command cannot be carried out.
const NOTHING_HAPPENS: &str = "Nothing happens.";

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the agent reads.
    pub text: String,
    /// Whether the command was admissible.
    pub accepted: bool,
}

/// A running play. Cloning it costs a few kilobytes and starts a branch.
#[derive(Debug, Clone)]
pub struct GameState {
    game: Arc<Game>,
    memory: Memory,
    /// Command numbers that are admissible, ascending, each with the action that carries it out.
    available: Vec<(u32, u32)>,
    admissible: Arc<[String]>,
    won: bool,
}

/// Three sets of atoms.
#[derive(Debug, Clone)]
struct Memory {
    /// What is true.
    truth: Box<[u64]>,
    /// What the text generator believes: it applies every conditional effect, whatever its condition.
    told: Box<[u64]>,
    /// The explicit negative facts: what some action deleted and none added since.
    denied: Box<[u64]>,
}

fn test(set: &[u64], atom: u32) -> bool {
    set[atom as usize / 64] >> (atom % 64) & 1 == 1
}

fn put(set: &mut [u64], atom: u32, value: bool) {
    let word = &mut set[atom as usize / 64];
    *word = *word & !(1 << (atom % 64)) | u64::from(value) << (atom % 64);
}

impl Facts for Memory {
    fn holds(&self, atom: u32) -> bool {
        test(&self.told, atom)
    }
    fn denied(&self, atom: u32) -> bool {
        test(&self.denied, atom)
    }
}

impl GameState {
    pub(super) fn new(game: Arc<Game>) -> Self {
        let truth = game.initial.clone();
        let memory = Memory { told: truth.clone(), denied: vec![0; truth.len()].into_boxed_slice(), truth };
        let won = game.goal.holds(&|literal| holds(&memory.truth, literal));
        let mut state = Self { game, memory, available: Vec::new(), admissible: Arc::default(), won };
        state.list_commands();
        state
    }

    /// The game that is played.
    pub fn game(&self) -> &Arc<Game> {
        &self.game
    }

    /// The text at the start of the game (rendered from the present facts).
    pub fn introduction(&self) -> String {
        Renderer::new(&self.game, &self.memory).rule(self.game.logic.intro)
    }

    /// The commands that would be carried out now, sorted by code point. Shared: copying the list is free.
    pub fn admissible(&self) -> &Arc<[String]> {
        &self.admissible
    }

    /// Whether the goal holds now. It may be lost again when the play goes on.
    pub fn won(&self) -> bool {
        self.won
    }

    /// Carries out one command.
    ///
    /// Blanks around it are ignored (those that Python's `str.strip` knows); beyond that it must be one of
    /// [`Self::admissible`]. Anything else is answered with `Nothing happens.` and changes nothing.
    pub fn step(&mut self, command: &str) -> Turn {
        let command = python_strip(command);
        let game = self.game.clone();
        let found = self.available.binary_search_by(|&(number, _)| game.command(number).cmp(command));
        match found {
            Ok(index) => {
                let (_, action) = self.available[index];
                self.apply(action);
                let ground = &game.actions[action as usize];
                let wording = &game.logic.wordings[ground.schema as usize];
                let text = Renderer::new(&game, &self.memory)
                    .bind(&wording.parameters, game.arguments(ground))
                    .nodes(&wording.feedback);
                Turn { text, accepted: true }
            }
            Err(_) => Turn { text: NOTHING_HAPPENS.into(), accepted: false },
        }
    }

    /// The facts that hold for the text generator: `(predicate, internal names)`, sorted; explicit negative
    /// facts have the predicate `not_…`. Only predicates that actions can change.
    pub fn facts(&self) -> Vec<(String, Vec<&str>)> {
        self.facts_named(|entity| self.game.id(entity))
    }

    /// The same facts with display names.
    pub(super) fn facts_by_display_name(&self) -> Vec<(String, Vec<&str>)> {
        self.facts_named(|entity| self.game.name(entity))
    }

    fn facts_named<'s>(&'s self, name: impl Fn(u16) -> &'s str) -> Vec<(String, Vec<&'s str>)> {
        let domain = &self.game.logic.domain;
        let mut facts = Vec::new();
        for (predicate, table) in domain.predicates.iter().zip(&self.game.tables) {
            let Some(first) = table.first_atom else { continue };
            for row in 0..table.len() {
                let atom = first + row as u32;
                let names = || table.row(row).iter().map(|&entity| name(entity)).collect();
                if self.memory.holds(atom) {
                    facts.push((predicate.name.clone(), names()));
                }
                if self.memory.denied(atom) {
                    facts.push((format!("not_{}", predicate.name), names()));
                }
            }
        }
        facts.sort();
        facts
    }

    /// Bytes that this play occupies beside its shared game.
    pub fn memory(&self) -> usize {
        let admissible: usize =
            self.admissible.iter().map(|text| size_of::<String>() + text.capacity()).sum();
        size_of::<Self>() + self.memory.truth.len() * 24 + self.available.capacity() * 8 + admissible
    }

    /// The atoms that are true.
    pub(super) fn truth(&self) -> &[u64] {
        &self.memory.truth
    }

    fn apply(&mut self, action: u32) {
        let game = self.game.clone();
        let ground = &game.actions[action as usize];
        let before = (ground.conditional > 0).then(|| self.memory.truth.clone());
        let memory = &mut self.memory;
        let mut touches_goal = false;
        // Deletions come first: an atom that is both deleted and added holds afterwards.
        for adds in [false, true] {
            for &effect in game.effects(ground).iter().filter(|&&effect| effect.is_multiple_of(2) == adds) {
                put(&mut memory.truth, effect / 2, adds);
                touches_goal |= test(&game.goal_atoms, effect / 2);
            }
            let Some(before) = &before else { continue };
            for (effect, conditions) in game.conditional_effects(ground) {
                if effect.is_multiple_of(2) == adds
                    && conditions.iter().all(|&literal| holds(before, literal))
                {
                    put(&mut memory.truth, effect / 2, adds);
                    touches_goal |= test(&game.goal_atoms, effect / 2);
                }
            }
        }
        let conditional = game.conditional_effects(ground).map(|(effect, _)| effect);
        for effect in game.effects(ground).iter().copied().chain(conditional) {
            put(&mut memory.told, effect / 2, effect.is_multiple_of(2));
            put(&mut memory.denied, effect / 2, effect % 2 == 1);
        }
        if touches_goal {
            self.won = game.goal.holds(&|literal| holds(&self.memory.truth, literal));
        }
        self.list_commands();
    }

    /// Finds the applicable actions and, where the list changed, writes it anew.
    fn list_commands(&mut self) {
        let game = &self.game;
        let truth = &self.memory.truth;
        let mut available = Vec::with_capacity(self.available.len() + 16);
        let mut consider = |place: usize| {
            let range = game.watch_starts[place] as usize..game.watch_starts[place + 1] as usize;
            for &action in &game.watched[range] {
                let ground = &game.actions[action as usize];
                if game.preconditions(ground).iter().all(|&literal| holds(truth, literal)) {
                    available.push((ground.command, action));
                }
            }
        };
        for (index, &word) in truth.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                consider(index * 64 + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
        consider(game.atoms);
        available.sort_unstable();
        available.dedup_by_key(|(command, _)| *command);
        let same = available.len() == self.available.len()
            && available.iter().zip(&self.available).all(|(new, old)| new.0 == old.0);
        if !same {
            self.admissible =
                available.iter().map(|&(command, _)| game.command(command).to_owned()).collect();
        }
        self.available = available;
    }
}

pub(super) fn holds(truth: &[u64], literal: Signed) -> bool {
    test(truth, literal / 2) == literal.is_multiple_of(2)
}

/// What Python's `str.strip()` leaves: it also removes the separators U+001C to U+001F.
fn python_strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}
