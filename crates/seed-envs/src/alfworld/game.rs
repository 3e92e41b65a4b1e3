//! One game, ready to be played: facts, ground actions, command strings and the goal, shared by all its players.

use super::compile::compile;
use super::error::GameError;
use super::grammar::Grammar;
use super::logic::Logic;
use super::pddl::{Domain, Problem, TypeId};
use super::state::GameState;
use std::sync::Arc;

/// The facts of one predicate that may hold, sorted by their arguments.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) arity: usize,
    /// How many facts; kept apart, since a predicate may have no arguments.
    pub(super) length: usize,
    pub(super) arguments: Box<[u16]>,
    /// For each position after the first, the rows sorted by that argument (then as they are); empty where no
    /// query asks for this predicate.
    pub(super) orders: Box<[Box<[u32]>]>,
    /// The atom of row 0, where facts of this predicate may change; the others follow.
    pub(super) first_atom: Option<u32>,
    /// All rows have the argument types that every query asks for.
    pub(super) uniform: bool,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn row(&self, row: usize) -> &[u16] {
        &self.arguments[row * self.arity..(row + 1) * self.arity]
    }

    /// Rows that can match the pattern (`UNBOUND` matches all), in order; the caller checks them again.
    pub(super) fn rows<'t>(&'t self, pattern: &[u16]) -> Rows<'t> {
        let bound = pattern.iter().position(|&value| value != super::relations::UNBOUND);
        match bound {
            None => Rows::Range(0..self.len()),
            Some(0) => {
                let start = partition(self.len(), |row| self.row(row)[0] < pattern[0]);
                let end = partition(self.len(), |row| self.row(row)[0] <= pattern[0]);
                Rows::Range(start..end)
            }
            Some(position) => {
                let order = &self.orders[position - 1];
                let start =
                    partition(order.len(), |i| self.row(order[i] as usize)[position] < pattern[position]);
                let end =
                    partition(order.len(), |i| self.row(order[i] as usize)[position] <= pattern[position]);
                Rows::Listed(order[start..end].iter())
            }
        }
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.arguments.len() * 2
            + self.orders.iter().map(|order| 16 + order.len() * 4).sum::<usize>()
    }
}

/// The first index for which `less` is false.
fn partition(length: usize, less: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = (low + high) / 2;
        if less(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Rows of a table, in order.
pub(super) enum Rows<'t> {
    Range(std::ops::Range<usize>),
    Listed(std::slice::Iter<'t, u32>),
}

impl Iterator for Rows<'_> {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Range(range) => range.next(),
            Self::Listed(rows) => rows.next().map(|&row| row as usize),
        }
    }
}

/// A requirement on an atom: `atom * 2`, plus one when the atom must not hold (or is deleted).
pub(super) type Signed = u32;

/// A ground goal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Goal {
    All(Vec<Goal>),
    Any(Vec<Goal>),
    Literal(Signed),
}

/// A ground action; its lists lie in [`Game::lists`] and [`Game::arguments`].
#[derive(Debug, Clone, Copy)]
pub(super) struct GroundAction {
    pub(super) command: u32,
    pub(super) lists_start: u32,
    pub(super) arguments_start: u32,
    pub(super) schema: u8,
    pub(super) preconditions: u8,
    pub(super) effects: u16,
    /// Words of conditional effects: effect, number of conditions, conditions; and so on.
    pub(super) conditional: u16,
}

/// A game, compiled once and shared by everybody who plays it.
#[derive(Debug)]
pub struct Game {
    pub(super) logic: Arc<Logic>,
    pub(super) problem: Arc<Problem>,
    /// The constant texts of its grammar.
    pub(super) texts: Box<[Box<str>]>,
    pub(super) names: Strings,
    /// By predicate.
    pub(super) tables: Vec<Table>,
    pub(super) atoms: usize,
    pub(super) initial: Box<[u64]>,
    pub(super) actions: Box<[GroundAction]>,
    pub(super) lists: Box<[Signed]>,
    pub(super) arguments: Box<[u16]>,
    /// All commands, sorted.
    pub(super) commands: Strings,
    /// Actions whose rarest positive requirement is atom `a`: `watched[watch_starts[a]..watch_starts[a + 1]]`;
    /// the list after the last atom's holds those without any.
    pub(super) watch_starts: Box<[u32]>,
    pub(super) watched: Box<[u32]>,
    pub(super) goal: Goal,
    /// Atoms that the goal asks about.
    pub(super) goal_atoms: Box<[u64]>,
}

/// Many strings in one buffer.
#[derive(Debug, Default)]
pub(super) struct Strings {
    buffer: String,
    ends: Vec<u32>,
}

impl Strings {
    pub(super) fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        self.ends.push(self.buffer.len() as u32);
    }

    pub(super) fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.buffer[start..self.ends[index] as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn shrink(mut self) -> Self {
        self.buffer.shrink_to_fit();
        self.ends.shrink_to_fit();
        self
    }

    fn memory(&self) -> usize {
        self.buffer.capacity() + self.ends.capacity() * 4
    }
}

impl Game {
    /// Compiles a game from the three texts of its file: `pddl_domain`, `grammar` and `pddl_problem`.
    ///
    /// Where many games share a form, [`Logic`] is better made once: see [`Game::new`].
    ///
    /// # Errors
    /// When a text cannot be read, when they do not fit together, or when the goal can never be reached.
    pub fn from_texts(domain: &str, grammar: &str, problem: &str) -> Result<Arc<Self>, GameError> {
        let domain = Domain::parse(domain)?;
        let grammar = Grammar::parse(grammar)?;
        let problem = Problem::parse(problem, &domain)?;
        let logic = Logic::new(domain, &grammar)?;
        Self::new(&logic, &grammar, Arc::new(problem))
    }

    /// Compiles a game whose domain and rules are known: `grammar` gives only its constant texts.
    ///
    /// # Errors
    /// When the grammar's rules are not those of `logic`, the goal can never be reached or the game is too large.
    pub fn new(logic: &Arc<Logic>, grammar: &Grammar, problem: Arc<Problem>) -> Result<Arc<Self>, GameError> {
        if !logic.fits(grammar) {
            let problem = "its rules differ from those of the logic it is compiled with".into();
            return Err(GameError::Grammar { problem });
        }
        compile(logic, grammar.texts.clone(), problem, None).map(Arc::new)
    }

    /// A new play of this game.
    pub fn start(self: &Arc<Self>) -> GameState {
        GameState::new(self.clone())
    }

    /// The display name of an entity, e.g. `mug 1`.
    pub(super) fn name(&self, entity: u16) -> &str {
        self.names.get(entity as usize)
    }

    /// The internal name of an entity.
    pub(super) fn id(&self, entity: u16) -> &str {
        self.problem.object(entity as usize)
    }

    pub(super) fn kind(&self, entity: u16) -> TypeId {
        self.problem.kinds[entity as usize]
    }

    /// Internal name, display name and type of every object that an initial fact mentions, sorted by the first.
    pub fn entities(&self) -> Vec<(&str, &str, &str)> {
        let mentioned = self.problem.mentioned(&self.logic.domain);
        let described = |entity: u16| {
            (self.id(entity), self.name(entity), self.logic.domain.types.name(self.kind(entity)))
        };
        (0..self.problem.object_count() as u16).filter(|&e| mentioned[e as usize]).map(described).collect()
    }

    /// The command with this number; numbers follow the order of the strings.
    pub(super) fn command(&self, number: u32) -> &str {
        self.commands.get(number as usize)
    }

    /// How many different commands exist in this game.
    pub fn command_count(&self) -> usize {
        self.commands.len()
    }

    /// How many ground actions this game has.
    pub fn action_count(&self) -> usize {
        self.actions.len()
    }

    pub(super) fn arguments(&self, action: &GroundAction) -> &[u16] {
        let start = action.arguments_start as usize;
        let count = self.logic.domain.schemas[action.schema as usize].parameters;
        &self.arguments[start..start + count]
    }

    /// What must hold for an action.
    pub(super) fn preconditions(&self, action: &GroundAction) -> &[Signed] {
        let start = action.lists_start as usize;
        &self.lists[start..start + action.preconditions as usize]
    }

    /// What an action always does, in the order of the domain's text.
    pub(super) fn effects(&self, action: &GroundAction) -> &[Signed] {
        let start = action.lists_start as usize + action.preconditions as usize;
        &self.lists[start..start + action.effects as usize]
    }

    /// What an action does under conditions: pairs of effect and conditions.
    pub(super) fn conditional_effects(&self, action: &GroundAction) -> ConditionalEffects<'_> {
        let start = action.lists_start as usize + action.preconditions as usize + action.effects as usize;
        ConditionalEffects { words: &self.lists[start..start + action.conditional as usize] }
    }

    /// Bytes that the compiled game occupies (without its shared logic and problem).
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.names.memory()
            + self.commands.memory()
            + self.tables.iter().map(Table::memory).sum::<usize>()
            + self.actions.len() * size_of::<GroundAction>()
            + (self.lists.len() + self.watch_starts.len() + self.watched.len()) * 4
            + self.arguments.len() * 2
            + (self.initial.len() + self.goal_atoms.len()) * 8
            + self.goal.memory()
            + self.texts.iter().map(|text| 16 + text.len()).sum::<usize>()
    }
}

impl Goal {
    /// Whether it holds, when `holds` says which signed atoms do.
    pub(super) fn holds(&self, holds: &impl Fn(Signed) -> bool) -> bool {
        match self {
            Self::All(inner) => inner.iter().all(|goal| goal.holds(holds)),
            Self::Any(inner) => inner.iter().any(|goal| goal.holds(holds)),
            Self::Literal(literal) => holds(*literal),
        }
    }

    pub(super) fn each_literal(&self, each: &mut impl FnMut(Signed)) {
        match self {
            Self::All(inner) | Self::Any(inner) => inner.iter().for_each(|goal| goal.each_literal(each)),
            Self::Literal(literal) => each(*literal),
        }
    }

    fn memory(&self) -> usize {
        let inner = match self {
            Self::All(inner) | Self::Any(inner) => inner.iter().map(Self::memory).sum(),
            Self::Literal(_) => 0,
        };
        size_of::<Self>() + inner
    }
}

/// Walks over the conditional effects of an action.
pub(super) struct ConditionalEffects<'g> {
    words: &'g [u32],
}

impl<'g> Iterator for ConditionalEffects<'g> {
    type Item = (Signed, &'g [Signed]);
    fn next(&mut self) -> Option<Self::Item> {
        let [effect, count, rest @ ..] = self.words else { return None };
        let (conditions, rest) = rest.split_at(*count as usize);
        self.words = rest;
        Some((*effect, conditions))
    }
}
