//! The part of a game that matters for its goal: few atoms, few operators.
//!
//! Everything here is exact: a shortest plan of the small task is a shortest plan of the game. Three arguments
//! are used, and each is checked on the ground actions before it is relied on.
//!
//! 1. *Relevance.* An action matters when it makes something true that the goal or an action that matters needs.
//! 2. *Self-serving needs.* When all that need `x` use it only to make `x` false (opening needs "not opened"), then
//!    nobody ever has to make `x` true.
//! 3. *Hands.* Let exactly one of "hands empty" and "holds o" be true at any time. Picking up something that matters
//!    to nobody, to put it down later, can be left out of any plan: between the two, hands are not empty with it and
//!    empty without it.

use crate::alfworld::game::{Game, Goal, Signed};
use std::collections::{HashMap, HashSet};

const UNUSED: u32 = u32::MAX;

/// An operator over the task's own atoms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Operator {
    pub(super) preconditions: Vec<Signed>,
    pub(super) effects: Vec<Signed>,
    pub(super) conditional: Vec<(Signed, Vec<Signed>)>,
}

/// A search problem.
pub(super) struct Task {
    /// The game's atom of each of the task's atoms.
    pub(super) atoms: Vec<u32>,
    pub(super) operators: Vec<Operator>,
    /// The game's action behind each operator.
    pub(super) actions: Vec<u32>,
    pub(super) goal: Goal,
    /// The task's atoms that hold at the start.
    pub(super) initial: Vec<bool>,
    /// Sets of positive literals of which exactly one holds at any time.
    pub(super) groups: Vec<Vec<u32>>,
}

/// For every signed atom, the actions that make it so.
struct Makers {
    starts: Vec<u32>,
    actions: Vec<u32>,
}

impl Makers {
    fn new(game: &Game) -> Self {
        let mut starts = vec![0u32; game.atoms * 2 + 1];
        let each = |visit: &mut dyn FnMut(u32, Signed)| {
            for (number, action) in game.actions.iter().enumerate() {
                for &effect in game.effects(action) {
                    visit(number as u32, effect);
                }
                for (effect, _) in game.conditional_effects(action) {
                    visit(number as u32, effect);
                }
            }
        };
        each(&mut |_, effect| starts[effect as usize + 1] += 1);
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut actions = vec![0; starts[game.atoms * 2] as usize];
        each(&mut |number, effect| {
            actions[next[effect as usize] as usize] = number;
            next[effect as usize] += 1;
        });
        Self { starts, actions }
    }

    fn of(&self, literal: Signed) -> &[u32] {
        &self.actions[self.starts[literal as usize] as usize..self.starts[literal as usize + 1] as usize]
    }
}

/// What matters: signed atoms and actions.
struct Relevance {
    needed: Vec<bool>,
    matters: Vec<bool>,
}

/// `exempt[x]`: nobody has to make `x` true. `hands`: makers of its first literal count only when the other
/// literal they consume is needed (or holds now).
fn relevance(
    game: &Game,
    makers: &Makers,
    exempt: &[bool],
    hands: Option<&Group>,
    truth: &[bool],
) -> Relevance {
    let mut needed = vec![false; game.atoms * 2];
    let mut matters = vec![false; game.actions.len()];
    let mut queue = Vec::new();
    game.goal.each_literal(&mut |literal| queue.push(literal));
    let mut waiting: Vec<u32> = Vec::new();
    loop {
        let Some(literal) = queue.pop() else {
            // Actions that free the hands of something that turned out to be needed.
            let Some(hands) = hands else { break };
            let ready = |&action: &u32| {
                let preconditions = game.preconditions(&game.actions[action as usize]);
                preconditions.iter().any(|&p| {
                    hands.contains(p) && p != hands.free && (needed[p as usize] || truth[p as usize / 2])
                })
            };
            let (now, later): (Vec<u32>, Vec<u32>) = waiting.iter().partition(|action| ready(action));
            if now.is_empty() {
                break;
            }
            waiting = later;
            for action in now {
                mark(game, action, &mut matters, &mut queue);
            }
            continue;
        };
        if std::mem::replace(&mut needed[literal as usize], true) || exempt[literal as usize] {
            continue;
        }
        if hands.is_some_and(|hands| hands.free == literal) {
            waiting.extend(makers.of(literal).iter().filter(|&&action| !matters[action as usize]));
            continue;
        }
        for &action in makers.of(literal) {
            mark(game, action, &mut matters, &mut queue);
        }
    }
    Relevance { needed, matters }
}

fn mark(game: &Game, action: u32, matters: &mut [bool], queue: &mut Vec<Signed>) {
    if !std::mem::replace(&mut matters[action as usize], true) {
        let action = &game.actions[action as usize];
        queue.extend_from_slice(game.preconditions(action));
        for (_, conditions) in game.conditional_effects(action) {
            queue.extend_from_slice(conditions);
        }
    }
}

/// Literals of which exactly one holds at any time.
struct Group {
    /// The literal that stands for "none of the others".
    free: Signed,
    members: HashSet<Signed>,
}

impl Group {
    fn contains(&self, literal: Signed) -> bool {
        self.members.contains(&literal)
    }
}

/// Whether exactly one of `members` holds now and every action keeps it so.
fn exactly_one(game: &Game, members: &HashSet<Signed>, truth: &[bool]) -> bool {
    let holds = |literal: Signed| truth[literal as usize / 2] == literal.is_multiple_of(2);
    if members.iter().filter(|&&literal| holds(literal)).count() != 1 {
        return false;
    }
    let touched = |literal: Signed| members.contains(&literal) || members.contains(&(literal ^ 1));
    game.actions.iter().all(|action| {
        let effects = game.effects(action);
        let (mut gained, mut lost) = (0, 0);
        for &effect in effects {
            gained += usize::from(members.contains(&effect));
            if members.contains(&(effect ^ 1)) {
                // Only what certainly held before is certainly lost.
                lost += 1 + 2 * usize::from(!game.preconditions(action).contains(&(effect ^ 1)));
            }
        }
        gained == lost && gained <= 1 && !game.conditional_effects(action).any(|(effect, _)| touched(effect))
    })
}

/// The group of a need `free` that is consumed together with the making of one other atom: holds(o).
fn hands_group(game: &Game, makers: &Makers, free: Signed, truth: &[bool]) -> Option<Group> {
    let consumers = makers.of(free ^ 1);
    for predicate in &game.tables {
        let Some(first) = predicate.first_atom else { continue };
        let range = first..first + predicate.len() as u32;
        if range.contains(&(free / 2)) {
            continue;
        }
        let mut members = HashSet::from([free]);
        let all_make_one = consumers.iter().all(|&action| {
            let made: Vec<Signed> = game
                .effects(&game.actions[action as usize])
                .iter()
                .copied()
                .filter(|effect| effect.is_multiple_of(2) && range.contains(&(effect / 2)))
                .collect();
            members.extend(&made);
            made.len() == 1
        });
        if all_make_one && members.len() > 2 && exactly_one(game, &members, truth) {
            return Some(Group { free, members });
        }
    }
    None
}

impl Task {
    /// The task of reaching the goal from the state in which `truth` holds.
    pub(super) fn new(game: &Game, truth: &[bool]) -> Self {
        let makers = Makers::new(game);
        let nothing = vec![false; game.atoms * 2];
        let mut exempt = nothing.clone();
        let mut found = relevance(game, &makers, &exempt, None, truth);
        // Argument 2.
        let mut other_use = vec![false; game.atoms * 2];
        for (action, _) in game.actions.iter().zip(&found.matters).filter(|(_, matters)| **matters) {
            let serves = |literal: Signed| {
                game.effects(action)
                    .iter()
                    .all(|&effect| effect == literal ^ 1 || !found.needed[effect as usize])
                    && action.conditional == 0
            };
            for &literal in game.preconditions(action) {
                other_use[literal as usize] |= !serves(literal);
            }
            for (_, conditions) in game.conditional_effects(action) {
                conditions.iter().for_each(|&literal| other_use[literal as usize] = true);
            }
        }
        game.goal.each_literal(&mut |literal| other_use[literal as usize] = true);
        for literal in 0..game.atoms * 2 {
            exempt[literal] = found.needed[literal] && !other_use[literal];
        }
        found = relevance(game, &makers, &exempt, None, truth);
        // Argument 3.
        let candidates = (0..game.atoms as u32 * 2).filter(|&literal| {
            found.needed[literal as usize]
                && literal % 2 == 1
                && makers.of(literal).len() > 1
                && !exempt[literal as usize]
        });
        for free in candidates {
            let Some(group) = hands_group(game, &makers, free, truth) else { continue };
            let fewer = relevance(game, &makers, &exempt, Some(&group), truth);
            if hands_argument_holds(game, &group, &fewer) {
                found = fewer;
                break;
            }
        }
        Self::project(game, &found, truth)
    }

    fn project(game: &Game, found: &Relevance, truth: &[bool]) -> Self {
        let mut number = vec![UNUSED; game.atoms];
        let mut atoms = Vec::new();
        for (atom, number) in number.iter_mut().enumerate() {
            if found.needed[atom * 2] || found.needed[atom * 2 + 1] {
                *number = atoms.len() as u32;
                atoms.push(atom as u32);
            }
        }
        let map = |literal: Signed| number[literal as usize / 2] * 2 + literal % 2;
        let mut operators = Vec::new();
        let mut actions = Vec::new();
        let mut seen = HashSet::new();
        for (index, action) in game.actions.iter().enumerate().filter(|(index, _)| found.matters[*index]) {
            let known = |literal: &Signed| number[*literal as usize / 2] != UNUSED;
            let sorted = |list: &[Signed]| {
                let mut list: Vec<Signed> = list.iter().filter(|l| known(l)).map(|&l| map(l)).collect();
                list.sort_unstable();
                list
            };
            let operator = Operator {
                preconditions: sorted(game.preconditions(action)),
                effects: sorted(game.effects(action)),
                conditional: game
                    .conditional_effects(action)
                    .filter(|(effect, _)| known(effect))
                    .map(|(effect, conditions)| (map(effect), sorted(conditions)))
                    .collect(),
            };
            if seen.insert(operator.clone()) {
                operators.push(operator);
                actions.push(index as u32);
            }
        }
        let mut task = Self {
            initial: atoms.iter().map(|&atom| truth[atom as usize]).collect(),
            goal: map_goal(&game.goal, &map),
            atoms,
            operators,
            actions,
            groups: Vec::new(),
        };
        for table in &game.tables {
            let Some(first) = table.first_atom else { continue };
            let all: HashSet<Signed> = (first..first + table.len() as u32).map(|atom| atom * 2).collect();
            let tracked = all.iter().all(|&literal| number[literal as usize / 2] != UNUSED);
            if all.len() > 1 && tracked && exactly_one(game, &all, truth) {
                task.groups.push(all.iter().map(|&literal| map(literal)).collect());
            }
        }
        task.drop_idle_moves();
        task
    }

    /// Where every member of a group can be reached from every other by an action that does nothing else, going to
    /// a member that nothing but such moves needs is a detour.
    fn drop_idle_moves(&mut self) {
        for group in self.groups.clone() {
            let members: HashSet<Signed> = group.iter().copied().collect();
            let moves_to = |operator: &Operator| match (&operator.preconditions[..], &operator.effects[..]) {
                ([from], [a, b]) if operator.conditional.is_empty() && members.contains(from) => {
                    let lost = from ^ 1;
                    match (*a == lost, *b == lost) {
                        (true, false) if members.contains(b) => Some(*b),
                        (false, true) if members.contains(a) => Some(*a),
                        _ => None,
                    }
                }
                _ => None,
            };
            let mut ways: HashMap<Signed, usize> = HashMap::new();
            let mut used: HashSet<Signed> = HashSet::new();
            for operator in &self.operators {
                match moves_to(operator) {
                    Some(target) => *ways.entry(target).or_default() += 1,
                    None => {
                        used.extend(&operator.preconditions);
                        used.extend(operator.conditional.iter().flat_map(|(_, conditions)| conditions));
                    }
                }
            }
            self.goal.each_literal(&mut |literal| {
                used.insert(literal);
            });
            // Operators are distinct, so that the number of moves is the number of origins.
            let complete = |target: &Signed| ways.get(target) == Some(&(group.len() - 1));
            let asked_negatively = group.iter().any(|literal| used.contains(&(literal ^ 1)));
            if asked_negatively || !group.iter().filter(|literal| used.contains(literal)).all(complete) {
                continue;
            }
            let keep: Vec<bool> = self
                .operators
                .iter()
                .map(|operator| moves_to(operator).is_none_or(|target| used.contains(&target)))
                .collect();
            let mut kept = keep.iter();
            self.operators.retain(|_| *kept.next().unwrap_or(&true));
            let mut kept = keep.iter();
            self.actions.retain(|_| *kept.next().unwrap_or(&true));
        }
    }
}

/// Argument 3 holds when actions that matter and actions that do not never touch the same held thing, and the
/// latter change nothing else that matters.
fn hands_argument_holds(game: &Game, group: &Group, found: &Relevance) -> bool {
    let kept = |literal: Signed| found.needed[literal as usize];
    game.actions.iter().zip(&found.matters).all(|(action, &matters)| {
        game.effects(action).iter().all(|&effect| {
            let member = [effect, effect ^ 1].into_iter().find(|&literal| group.contains(literal));
            match member {
                Some(member) if member == group.free => true,
                Some(member) => kept(member) == matters,
                None => true,
            }
        }) && (matters || !kept(group.free ^ 1) || !game.effects(action).contains(&(group.free ^ 1)))
    })
}

fn map_goal(goal: &Goal, map: &impl Fn(Signed) -> Signed) -> Goal {
    match goal {
        Goal::All(inner) => Goal::All(inner.iter().map(|goal| map_goal(goal, map)).collect()),
        Goal::Any(inner) => Goal::Any(inner.iter().map(|goal| map_goal(goal, map)).collect()),
        Goal::Literal(literal) => Goal::Literal(map(*literal)),
    }
}
