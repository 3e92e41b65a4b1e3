//! A lower bound on the number of commands that are still needed: the LM-cut heuristic.
//!
//! Actions are relaxed (nothing is ever undone); then sets of actions of which at least one must be used are
//! found one after the other until none is needed any more. Helmert and Domshlak, "Landmarks, critical paths and
//! abstractions: what's the difference anyway?", ICAPS 2009.

/// Relaxed facts and operators of one search.
pub(super) struct LandmarkCut {
    facts: usize,
    goal: u32,
    operators: Vec<Relaxed>,
    /// Preconditions and effects of the operators, and operators by precondition.
    lists: Vec<u32>,
    needed_by: Vec<u32>,
    needed_starts: Vec<u32>,
    added_by: Vec<u32>,
    added_starts: Vec<u32>,
    base_cost: Vec<u32>,
    // Working memory of one evaluation.
    cost: Vec<u32>,
    missing: Vec<u32>,
    supporter: Vec<u32>,
    supporter_value: Vec<u32>,
    value: Vec<u32>,
    zone: Vec<Zone>,
    buckets: Vec<Vec<u32>>,
}

struct Relaxed {
    preconditions: (u32, u32),
    effects: (u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Zone {
    None,
    Goal,
    Before,
}

const INFINITE: u32 = u32::MAX;

/// An operator of the relaxed problem.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RelaxedOperator {
    pub(super) preconditions: Vec<u32>,
    pub(super) effects: Vec<u32>,
    pub(super) cost: u32,
}

/// For every fact, the numbers of the lists that contain it.
fn transpose<'a>(facts: usize, lists: impl Iterator<Item = &'a [u32]> + Clone) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; facts + 1];
    for &fact in lists.clone().flatten() {
        starts[fact as usize + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = starts.clone();
    let mut members = vec![0; starts[facts] as usize];
    for (number, list) in lists.enumerate() {
        for &fact in list {
            members[next[fact as usize] as usize] = number as u32;
            next[fact as usize] += 1;
        }
    }
    (starts, members)
}

impl LandmarkCut {
    /// `facts` counts the relaxed facts; fact `facts` (one more) is always true and is given to operators
    /// without preconditions.
    pub(super) fn new(facts: usize, goal: u32, mut operators: Vec<RelaxedOperator>) -> Self {
        let always = facts as u32;
        for operator in operators.iter_mut().filter(|operator| operator.preconditions.is_empty()) {
            operator.preconditions.push(always);
        }
        let facts = facts + 1;
        let mut lists = Vec::new();
        let mut relaxed = Vec::with_capacity(operators.len());
        for operator in &operators {
            let start = lists.len() as u32;
            lists.extend_from_slice(&operator.preconditions);
            let middle = lists.len() as u32;
            lists.extend_from_slice(&operator.effects);
            relaxed.push(Relaxed { preconditions: (start, middle), effects: (middle, lists.len() as u32) });
        }
        let (needed_starts, needed_by) =
            transpose(facts, operators.iter().map(|operator| operator.preconditions.as_slice()));
        let (added_starts, added_by) =
            transpose(facts, operators.iter().map(|operator| operator.effects.as_slice()));
        let count = operators.len();
        Self {
            facts,
            goal,
            operators: relaxed,
            lists,
            needed_by,
            needed_starts,
            added_by,
            added_starts,
            base_cost: operators.iter().map(|operator| operator.cost).collect(),
            cost: vec![0; count],
            missing: vec![0; count],
            supporter: vec![0; count],
            supporter_value: vec![0; count],
            value: vec![INFINITE; facts],
            zone: vec![Zone::None; facts],
            buckets: Vec::new(),
        }
    }

    fn enqueue(&mut self, fact: u32, value: u32) {
        if self.value[fact as usize] > value {
            self.value[fact as usize] = value;
            let bucket = value as usize;
            if self.buckets.len() <= bucket {
                self.buckets.resize_with(bucket + 1, Vec::new);
            }
            self.buckets[bucket].push(fact);
        }
    }

    fn effects(&self, operator: u32) -> std::ops::Range<usize> {
        let (start, end) = self.operators[operator as usize].effects;
        start as usize..end as usize
    }

    /// The bound for the state in which exactly `facts` hold; `None` when the goal cannot be reached.
    pub(super) fn evaluate(&mut self, holding: &[u32]) -> Option<u32> {
        self.cost.copy_from_slice(&self.base_cost);
        self.value.fill(INFINITE);
        for (missing, operator) in self.missing.iter_mut().zip(&self.operators) {
            *missing = operator.preconditions.1 - operator.preconditions.0;
        }
        for &fact in holding {
            self.enqueue(fact, 0);
        }
        let always = self.facts as u32 - 1;
        self.enqueue(always, 0);
        self.explore();
        if self.value[self.goal as usize] == INFINITE {
            return None;
        }
        let mut bound = 0;
        let mut cut = Vec::new();
        let mut stack = Vec::new();
        while self.value[self.goal as usize] > 0 {
            self.zone.fill(Zone::None);
            self.mark_goal_zone(&mut stack);
            self.find_cut(holding, &mut stack, &mut cut);
            let Some(least) = cut.iter().map(|&operator| self.cost[operator as usize]).min() else { break };
            bound += least;
            for &operator in &cut {
                self.cost[operator as usize] -= least;
            }
            self.explore_again(&cut);
        }
        Some(bound)
    }

    fn explore(&mut self) {
        let mut bucket = 0;
        while let Some((fact, value)) = self.next_fact(&mut bucket) {
            let users =
                self.needed_starts[fact as usize] as usize..self.needed_starts[fact as usize + 1] as usize;
            for index in users {
                let operator = self.needed_by[index];
                let missing = &mut self.missing[operator as usize];
                *missing -= 1;
                if *missing == 0 {
                    self.supporter[operator as usize] = fact;
                    self.supporter_value[operator as usize] = value;
                    let reached = value + self.cost[operator as usize];
                    for effect in self.effects(operator) {
                        self.enqueue(self.lists[effect], reached);
                    }
                }
            }
        }
    }

    /// The cheapest waiting fact from `bucket` on, with its value; entries that a lower value has overtaken are dropped.
    fn next_fact(&mut self, bucket: &mut usize) -> Option<(u32, u32)> {
        while *bucket < self.buckets.len() {
            let Some(fact) = self.buckets[*bucket].pop() else {
                *bucket += 1;
                continue;
            };
            let value = self.value[fact as usize];
            if value as usize >= *bucket {
                return Some((fact, value));
            }
        }
        None
    }

    /// Lowers values after the costs of `cut` went down.
    fn explore_again(&mut self, cut: &[u32]) {
        for &operator in cut {
            let reached = self.supporter_value[operator as usize] + self.cost[operator as usize];
            for effect in self.effects(operator) {
                self.enqueue(self.lists[effect], reached);
            }
        }
        let mut bucket = 0;
        while let Some((fact, value)) = self.next_fact(&mut bucket) {
            let users =
                self.needed_starts[fact as usize] as usize..self.needed_starts[fact as usize + 1] as usize;
            for index in users {
                let operator = self.needed_by[index];
                if self.missing[operator as usize] > 0
                    || self.supporter[operator as usize] != fact
                    || self.supporter_value[operator as usize] <= value
                {
                    continue;
                }
                let (start, end) = self.operators[operator as usize].preconditions;
                let preconditions = &self.lists[start as usize..end as usize];
                if let Some(&dearest) = preconditions.iter().max_by_key(|&&fact| self.value[fact as usize]) {
                    let dearest_value = self.value[dearest as usize];
                    let old = self.supporter_value[operator as usize];
                    self.supporter[operator as usize] = dearest;
                    self.supporter_value[operator as usize] = dearest_value;
                    if dearest_value < old {
                        let reached = dearest_value + self.cost[operator as usize];
                        for effect in self.effects(operator) {
                            self.enqueue(self.lists[effect], reached);
                        }
                    }
                }
            }
        }
    }

    /// Facts from which the goal follows at no cost.
    fn mark_goal_zone(&mut self, stack: &mut Vec<u32>) {
        stack.clear();
        stack.push(self.goal);
        self.zone[self.goal as usize] = Zone::Goal;
        while let Some(fact) = stack.pop() {
            let makers =
                self.added_starts[fact as usize] as usize..self.added_starts[fact as usize + 1] as usize;
            for index in makers {
                let operator = self.added_by[index] as usize;
                if self.cost[operator] == 0 && self.missing[operator] == 0 {
                    let supporter = self.supporter[operator];
                    if self.zone[supporter as usize] == Zone::None {
                        self.zone[supporter as usize] = Zone::Goal;
                        stack.push(supporter);
                    }
                }
            }
        }
    }

    /// Operators that lead from facts reached without the goal zone into it.
    fn find_cut(&mut self, holding: &[u32], stack: &mut Vec<u32>, cut: &mut Vec<u32>) {
        cut.clear();
        stack.clear();
        let always = self.facts as u32 - 1;
        for &fact in holding.iter().chain([&always]) {
            if self.zone[fact as usize] == Zone::None {
                self.zone[fact as usize] = Zone::Before;
                stack.push(fact);
            }
        }
        while let Some(fact) = stack.pop() {
            let users =
                self.needed_starts[fact as usize] as usize..self.needed_starts[fact as usize + 1] as usize;
            for index in users {
                let operator = self.needed_by[index];
                if self.missing[operator as usize] > 0 || self.supporter[operator as usize] != fact {
                    continue;
                }
                let effects = self.effects(operator);
                if effects.clone().any(|effect| self.zone[self.lists[effect] as usize] == Zone::Goal) {
                    cut.push(operator);
                    continue;
                }
                for effect in effects {
                    let fact = self.lists[effect];
                    if self.zone[fact as usize] == Zone::None {
                        self.zone[fact as usize] = Zone::Before;
                        stack.push(fact);
                    }
                }
            }
        }
    }
}
