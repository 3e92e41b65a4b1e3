//! Interchangeable things: twelve empty drawers are one drawer as far as a search is concerned.
//!
//! Candidates come from the facts that never change; whether two units may really be swapped is then checked on
//! the operators and the goal of the task, so that a wrong guess costs nothing but time.

use super::task::{Operator, Task};
use crate::alfworld::game::{Game, Goal, Signed};
use crate::alfworld::relations::UNBOUND;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Entities of one unit, at most (a place and what stands there).
const MAX_UNIT: usize = 8;
/// Atoms of one unit, at most.
const MAX_SLOTS: usize = 256;

/// Units that may be swapped: for each, its atoms, in the same order for all.
struct Class {
    units: Vec<Vec<u32>>,
}

/// What an unchanging fact says about an entity: predicate, position, and its arguments that are fixed.
type Trait = (u16, usize, Vec<u16>);
/// An entity's type and all its traits.
type Look<'a> = (u16, &'a [Trait]);
/// An atom seen from its unit: predicate, and for each argument the unit's member or the entity outside.
type Role = (u16, Vec<(bool, u16)>);

/// The interchangeable units of a task.
pub(super) struct Symmetry {
    classes: Vec<Class>,
}

impl Symmetry {
    pub(super) fn new(game: &Game, task: &Task) -> Self {
        let described: Vec<(u16, &[u16])> = task.atoms.iter().map(|&atom| describe(game, atom)).collect();
        let mut moving = vec![false; game.problem.object_count()];
        described.iter().for_each(|(_, arguments)| arguments.iter().for_each(|&e| moving[e as usize] = true));
        let operators: HashSet<&Operator> = task.operators.iter().collect();
        let goal = sorted_goal(&task.goal, &|literal| literal);
        let mut classes = Vec::new();
        for units in candidates(game, &moving) {
            for units in with_slots(&units, &described, game.problem.object_count()) {
                // Neighbours that may be swapped make the whole run interchangeable.
                let mut run: Vec<Vec<u32>> = Vec::new();
                for unit in units {
                    if let Some(last) = run.last()
                        && !may_swap(task, &operators, &goal, last, &unit)
                    {
                        keep(&mut classes, std::mem::take(&mut run));
                    }
                    run.push(unit);
                }
                keep(&mut classes, run);
            }
        }
        Self { classes }
    }

    /// Sorts the units of each class by their facts: states that differ by swaps alone become (mostly) equal.
    pub(super) fn normalise(&self, state: &mut [u64]) {
        let mut keys: Vec<[u64; MAX_SLOTS / 64]> = Vec::new();
        for class in &self.classes {
            keys.clear();
            keys.extend(class.units.iter().map(|slots| {
                let mut key = [0; MAX_SLOTS / 64];
                for (index, &atom) in slots.iter().enumerate() {
                    key[index / 64] |= (state[atom as usize / 64] >> (atom % 64) & 1) << (index % 64);
                }
                key
            }));
            if keys.is_sorted() {
                continue;
            }
            keys.sort_unstable();
            for (slots, key) in class.units.iter().zip(&keys) {
                for (index, &atom) in slots.iter().enumerate() {
                    let word = &mut state[atom as usize / 64];
                    *word =
                        *word & !(1 << (atom % 64)) | (key[index / 64] >> (index % 64) & 1) << (atom % 64);
                }
            }
        }
    }
}

fn keep(classes: &mut Vec<Class>, units: Vec<Vec<u32>>) {
    if units.len() > 1 {
        classes.push(Class { units });
    }
}

/// Predicate and arguments of a game's atom.
fn describe(game: &Game, atom: u32) -> (u16, &[u16]) {
    let predicate = game
        .tables
        .iter()
        .rposition(|table| table.first_atom.is_some_and(|first| first <= atom && table.len() > 0))
        .unwrap_or_default();
    let table = &game.tables[predicate];
    (predicate as u16, table.row((atom - table.first_atom.unwrap_or_default()) as usize))
}

/// Groups of units that look the same to the facts that never change.
fn candidates(game: &Game, moving: &[bool]) -> Vec<Vec<Vec<u16>>> {
    let domain = &game.logic.domain;
    let mut parent: Vec<u16> = (0..moving.len() as u16).collect();
    fn root(parent: &mut [u16], mut entity: u16) -> u16 {
        while parent[entity as usize] != entity {
            parent[entity as usize] = parent[parent[entity as usize] as usize];
            entity = parent[entity as usize];
        }
        entity
    }
    let mut profiles: Vec<Vec<Trait>> = vec![Vec::new(); moving.len()];
    for (predicate, table) in game.tables.iter().enumerate().filter(|(_, table)| table.first_atom.is_none()) {
        for row in 0..table.len() {
            let arguments = table.row(row);
            let mut linked = None;
            for (position, &entity) in arguments.iter().enumerate().filter(|(_, e)| moving[**e as usize]) {
                let masked =
                    arguments.iter().map(|&e| if moving[e as usize] { UNBOUND } else { e }).collect();
                profiles[entity as usize].push((predicate as u16, position, masked));
                let own = root(&mut parent, entity);
                match linked {
                    Some(other) => parent[own as usize] = other,
                    None => linked = Some(own),
                }
            }
        }
    }
    profiles.iter_mut().for_each(|profile| profile.sort_unstable());
    let named = domain.constants.iter().chain(&game.problem.goal_constants);
    let named: HashSet<u16> = named.filter_map(|name| game.problem.find(name)).collect();
    let mut units: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for entity in (0..moving.len() as u16).filter(|&entity| moving[entity as usize]) {
        units.entry(root(&mut parent, entity)).or_default().push(entity);
    }
    let mut classes: BTreeMap<Vec<Look<'_>>, Vec<Vec<u16>>> = BTreeMap::new();
    for mut unit in units.into_values() {
        if unit.len() > MAX_UNIT || unit.iter().any(|entity| named.contains(entity)) {
            continue;
        }
        let look = |entity: u16| (game.kind(entity), profiles[entity as usize].as_slice());
        unit.sort_by_key(|&entity| look(entity));
        classes.entry(unit.iter().map(|&entity| look(entity)).collect()).or_default().push(unit);
    }
    classes.into_values().filter(|units| units.len() > 1).collect()
}

/// The atoms of each unit, for units with matching atoms.
fn with_slots(units: &[Vec<u16>], described: &[(u16, &[u16])], entities: usize) -> Vec<Vec<Vec<u32>>> {
    let mut place: Vec<Option<(usize, u16)>> = vec![None; entities];
    for (number, unit) in units.iter().enumerate() {
        for (member, &entity) in unit.iter().enumerate() {
            place[entity as usize] = Some((number, member as u16));
        }
    }
    let mut slots: Vec<Vec<(Role, u32)>> = vec![Vec::new(); units.len()];
    for (atom, (predicate, arguments)) in described.iter().enumerate() {
        let mut unit = None;
        for &entity in *arguments {
            match (place[entity as usize], unit) {
                (Some((own, _)), Some(other)) if own != other => return Vec::new(),
                (Some((own, _)), _) => unit = Some(own),
                (None, _) => {}
            }
        }
        if let Some(unit) = unit {
            let role = |&entity: &u16| match place[entity as usize] {
                Some((_, member)) => (true, member),
                None => (false, entity),
            };
            slots[unit].push(((*predicate, arguments.iter().map(role).collect()), atom as u32));
        }
    }
    let mut groups: BTreeMap<Vec<Role>, Vec<Vec<u32>>> = BTreeMap::new();
    for mut slots in slots {
        if slots.is_empty() || slots.len() > MAX_SLOTS {
            continue;
        }
        slots.sort_unstable();
        let (roles, atoms) = slots.into_iter().unzip();
        groups.entry(roles).or_default().push(atoms);
    }
    groups.into_values().filter(|units| units.len() > 1).collect()
}

/// Whether swapping the atoms of two units maps the operators and the goal onto themselves.
fn may_swap(task: &Task, operators: &HashSet<&Operator>, goal: &Goal, left: &[u32], right: &[u32]) -> bool {
    let mut swapped: HashMap<u32, u32> = HashMap::with_capacity(left.len() * 2);
    for (&a, &b) in left.iter().zip(right) {
        swapped.insert(a, b);
        swapped.insert(b, a);
    }
    let map = |literal: Signed| swapped.get(&(literal / 2)).map_or(literal, |atom| atom * 2 + literal % 2);
    let sorted = |list: &[Signed]| {
        let mut list: Vec<Signed> = list.iter().map(|&literal| map(literal)).collect();
        list.sort_unstable();
        list
    };
    let touched = |literal: &Signed| swapped.contains_key(&(literal / 2));
    task.operators.iter().all(|operator| {
        let conditional =
            operator.conditional.iter().any(|(effect, when)| touched(effect) || when.iter().any(touched));
        if !conditional && !operator.preconditions.iter().chain(&operator.effects).any(touched) {
            return true;
        }
        operators.contains(&Operator {
            preconditions: sorted(&operator.preconditions),
            effects: sorted(&operator.effects),
            conditional: operator
                .conditional
                .iter()
                .map(|(effect, when)| (map(*effect), sorted(when)))
                .collect(),
        })
    }) && sorted_goal(&task.goal, &map) == *goal
}

fn sorted_goal(goal: &Goal, map: &impl Fn(Signed) -> Signed) -> Goal {
    let inner = |goals: &[Goal]| {
        let mut goals: Vec<Goal> = goals.iter().map(|goal| sorted_goal(goal, map)).collect();
        goals.sort_unstable();
        goals
    };
    match goal {
        Goal::All(goals) => Goal::All(inner(goals)),
        Goal::Any(goals) => Goal::Any(inner(goals)),
        Goal::Literal(literal) => Goal::Literal(map(*literal)),
    }
}
