//! Shortest plans: which commands win a game, proven to be as few as possible.

mod landmark_cut;
mod symmetry;
mod task;

use super::game::{Goal, Signed};
use super::state::{GameState, holds};
use landmark_cut::{LandmarkCut, RelaxedOperator};
use std::collections::{BTreeSet, HashMap, HashSet};
use symmetry::Symmetry;
use task::Task;

/// A sequence of commands that wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The commands, in order; empty when the goal holds already.
    pub commands: Vec<String>,
    /// No shorter sequence wins. False only when the search was cut short.
    pub shortest: bool,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The goal cannot be reached from this state.
    #[error("no sequence of commands wins from here")]
    Unsolvable,
    /// The search was given up.
    #[error("no plan among the first {states} states; raise the limit")]
    GaveUp {
        /// How many states were looked at.
        states: usize,
    },
}

/// States that a search looks at before it stops insisting on the shortest plan.
pub const DEFAULT_STATES: usize = 20_000;

impl GameState {
    /// A shortest plan from this state, with the default limit on states.
    ///
    /// # Errors
    /// [`PlanError`] when there is none or none was found.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        self.plan_within(DEFAULT_STATES)
    }

    /// A shortest plan from this state. After `states` states the search turns greedy, and gives up after as many
    /// again; a plan found then has `shortest == false`.
    ///
    /// The search is A* with the LM-cut bound on the part of the game that matters for its goal, states that
    /// differ only by interchangeable things counted once.
    ///
    /// # Errors
    /// [`PlanError`] when there is none or none was found.
    pub fn plan_within(&self, states: usize) -> Result<Plan, PlanError> {
        let game = self.game();
        let truth: Vec<bool> = (0..game.atoms).map(|atom| holds(self.truth(), atom as Signed * 2)).collect();
        let task = Task::new(game, &truth);
        let symmetry = Symmetry::new(game, &task);
        let search = Search::new(&task, &symmetry);
        let (found, shortest) = match search.run(states, 1) {
            Err(PlanError::GaveUp { .. }) => (Search::new(&task, &symmetry).run(states, 5)?, false),
            other => (other?, true),
        };
        let action = |operator: &usize| &game.actions[task.actions[*operator] as usize];
        let commands =
            found.iter().map(|operator| game.command(action(operator).command).to_owned()).collect();
        Ok(Plan { commands, shortest })
    }
}

/// A state that was seen.
struct Node {
    state: Box<[u64]>,
    parent: usize,
    operator: usize,
    cost: u32,
    bound: u32,
}

struct Search<'t> {
    task: &'t Task,
    symmetry: &'t Symmetry,
    bound: LandmarkCut,
    /// Literals that the relaxed operators ask about.
    asked: Vec<Signed>,
    nodes: Vec<Node>,
    seen: HashMap<Box<[u64]>, usize>,
    /// By estimated plan length, then by bound: nodes to be expanded.
    open: Vec<Vec<Vec<usize>>>,
}

impl<'t> Search<'t> {
    fn new(task: &'t Task, symmetry: &'t Symmetry) -> Self {
        let (bound, asked) = relax(task);
        Self { task, symmetry, bound, asked, nodes: Vec::new(), seen: HashMap::new(), open: Vec::new() }
    }

    /// A* with the bound multiplied by `weight`; the operators of a plan.
    fn run(mut self, states: usize, weight: u32) -> Result<Vec<usize>, PlanError> {
        let mut start = vec![0u64; self.task.atoms.len().div_ceil(64)].into_boxed_slice();
        for (atom, _) in self.task.initial.iter().enumerate().filter(|(_, holds)| **holds) {
            start[atom / 64] |= 1 << (atom % 64);
        }
        self.visit(start, usize::MAX, 0, 0, weight);
        let mut estimate = 0;
        while estimate < self.open.len() {
            let Some(node) = self.open[estimate].iter_mut().find_map(Vec::pop) else {
                estimate += 1;
                continue;
            };
            // A node that was reached again at a lower cost waits in two places.
            if (self.nodes[node].cost + weight * self.nodes[node].bound) as usize != estimate {
                continue;
            }
            let state = self.nodes[node].state.clone();
            if self.task.goal.holds(&|literal| holds(&state, literal)) {
                return Ok(self.trace(node));
            }
            if self.nodes.len() > states {
                return Err(PlanError::GaveUp { states: self.nodes.len() });
            }
            let task = self.task;
            for (number, operator) in task.operators.iter().enumerate() {
                if !operator.preconditions.iter().all(|&literal| holds(&state, literal)) {
                    continue;
                }
                let mut next = state.clone();
                for adds in [false, true] {
                    let fired = operator
                        .conditional
                        .iter()
                        .filter(|(_, when)| when.iter().all(|&l| holds(&state, l)));
                    let effects = operator.effects.iter().copied().chain(fired.map(|(effect, _)| *effect));
                    for effect in effects.filter(|effect| effect.is_multiple_of(2) == adds) {
                        let (word, bit) = (effect as usize / 128, effect / 2 % 64);
                        next[word] = next[word] & !(1 << bit) | u64::from(adds) << bit;
                    }
                }
                if next != state {
                    let cost = self.nodes[node].cost + 1;
                    let reached = self.visit(next, node, number, cost, weight);
                    // A bound never grows by more than a step on the way back, so it may sink below `estimate`.
                    estimate = estimate.min(reached.unwrap_or(estimate));
                }
            }
        }
        Err(PlanError::Unsolvable)
    }

    /// Notes a state; its estimate when it is new or cheaper than before.
    fn visit(
        &mut self,
        state: Box<[u64]>,
        parent: usize,
        operator: usize,
        cost: u32,
        weight: u32,
    ) -> Option<usize> {
        let mut key = state.clone();
        self.symmetry.normalise(&mut key);
        let index = match self.seen.get(&key) {
            Some(&index) if self.nodes[index].cost <= cost => return None,
            Some(&index) => {
                let node = &mut self.nodes[index];
                (node.state, node.parent, node.operator, node.cost) = (state, parent, operator, cost);
                index
            }
            None => {
                let holding: Vec<u32> =
                    self.asked.iter().copied().filter(|&literal| holds(&state, literal)).collect();
                let bound = self.bound.evaluate(&holding).unwrap_or(u32::MAX);
                let index = self.nodes.len();
                self.nodes.push(Node { state, parent, operator, cost, bound });
                self.seen.insert(key, index);
                index
            }
        };
        let bound = self.nodes[index].bound;
        if bound == u32::MAX {
            return None;
        }
        let estimate = (cost + weight * bound) as usize;
        if self.open.len() <= estimate {
            self.open.resize_with(estimate + 1, Vec::new);
        }
        let by_bound = &mut self.open[estimate];
        if by_bound.len() <= bound as usize {
            by_bound.resize_with(bound as usize + 1, Vec::new);
        }
        by_bound[bound as usize].push(index);
        Some(estimate)
    }

    fn trace(&self, mut node: usize) -> Vec<usize> {
        let mut operators = Vec::new();
        while self.nodes[node].parent != usize::MAX {
            operators.push(self.nodes[node].operator);
            node = self.nodes[node].parent;
        }
        operators.reverse();
        operators
    }
}

/// The relaxed problem behind the bound, and the literals that a state must tell it.
fn relax(task: &Task) -> (LandmarkCut, Vec<Signed>) {
    let mut operators: BTreeSet<RelaxedOperator> = BTreeSet::new();
    let mut next_fact = task.atoms.len() as u32 * 2;
    let goal = relax_goal(&task.goal, &mut next_fact, &mut operators);
    let mut asked: BTreeSet<Signed> = BTreeSet::new();
    task.goal.each_literal(&mut |literal| {
        asked.insert(literal);
    });
    for operator in &task.operators {
        asked.extend(&operator.preconditions);
        asked.extend(operator.conditional.iter().flat_map(|(_, when)| when));
    }
    // Which members of a group lead to the same effects with otherwise the same needs.
    let mut origins: HashMap<(Vec<Signed>, Vec<Signed>, usize), HashSet<Signed>> = HashMap::new();
    let useful = |effects: &[Signed]| {
        effects.iter().copied().filter(|effect| asked.contains(effect)).collect::<Vec<_>>()
    };
    for operator in &task.operators {
        let always = (operator.preconditions.clone(), useful(&operator.effects));
        let sometimes = operator
            .conditional
            .iter()
            .map(|(effect, when)| ([&operator.preconditions[..], when].concat(), useful(&[*effect])));
        for (preconditions, effects) in std::iter::once(always).chain(sometimes) {
            if effects.is_empty() {
                continue;
            }
            let member = task.groups.iter().enumerate().find_map(|(number, group)| {
                preconditions.iter().find(|literal| group.contains(literal)).map(|literal| (number, *literal))
            });
            if let Some((number, literal)) = member {
                let rest: Vec<Signed> =
                    preconditions.iter().copied().filter(|other| *other != literal).collect();
                origins.entry((rest, effects.clone(), number)).or_default().insert(literal);
            } else {
                operators.insert(RelaxedOperator { preconditions, effects, cost: 1 });
            }
        }
    }
    for ((rest, effects, number), members) in origins {
        let group = &task.groups[number];
        // From every member but those that the effects give anyway: the need of a member says nothing.
        if group.iter().all(|literal| members.contains(literal) || effects.contains(literal)) {
            operators.insert(RelaxedOperator { preconditions: rest, effects, cost: 1 });
            continue;
        }
        for member in members {
            let preconditions = [rest.as_slice(), &[member]].concat();
            operators.insert(RelaxedOperator { preconditions, effects: effects.clone(), cost: 1 });
        }
    }
    let operators = operators.into_iter().collect();
    (LandmarkCut::new(next_fact as usize, goal, operators), asked.into_iter().collect())
}

/// A relaxed fact that follows, at no cost, when the goal holds.
fn relax_goal(goal: &Goal, next_fact: &mut u32, operators: &mut BTreeSet<RelaxedOperator>) -> u32 {
    let mut fresh = || {
        *next_fact += 1;
        *next_fact - 1
    };
    match goal {
        Goal::Literal(literal) => *literal,
        Goal::All(goals) => {
            let fact = fresh();
            let preconditions = goals.iter().map(|goal| relax_goal(goal, next_fact, operators)).collect();
            operators.insert(RelaxedOperator { preconditions, effects: vec![fact], cost: 0 });
            fact
        }
        Goal::Any(goals) => {
            let fact = fresh();
            for goal in goals {
                let preconditions = match goal {
                    // A conjunction of literals needs no fact of its own.
                    Goal::All(inner) => {
                        inner.iter().map(|goal| relax_goal(goal, next_fact, operators)).collect()
                    }
                    other => vec![relax_goal(other, next_fact, operators)],
                };
                operators.insert(RelaxedOperator { preconditions, effects: vec![fact], cost: 0 });
            }
            fact
        }
    }
}
