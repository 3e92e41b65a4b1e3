//! All facts that may ever hold in a game, indexed for joins: what turns a lifted condition into ground ones.

use super::error::GameError;
use super::pddl::{Atom, Conjunction, Literal, MAX_ARITY, Term, TypeId, Types, Variable};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Facts that may hold, at most.
const MAX_FACTS: usize = 200_000;
/// Elementary steps of all joins of one game; ALFWorld's games need about a hundred thousand.
pub(super) const MAX_WORK: usize = 10_000_000;

pub(super) const UNBOUND: u16 = u16::MAX;
const NONE: u32 = u32::MAX;

/// A multiplicative hash for keys that are numbers already.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.0 ^= self.0 >> 32;
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}

/// A map whose keys are numbers.
pub(super) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A predicate and its arguments as one number.
pub(super) fn key(predicate: u16, arguments: &[u16]) -> u128 {
    arguments.iter().fold(u128::from(predicate), |key, &argument| key << 16 | u128::from(argument))
}

/// One predicate's share of the index.
struct Relation {
    arity: usize,
    fluent: bool,
    facts: Vec<u32>,
    /// For position `p` and entity `e`, at `p * entities + e`, the first fact of a linked list.
    heads: Vec<u32>,
    /// How many lists of each position are not empty.
    distinct: Vec<usize>,
}

/// What is called with every binding.
type Found<'f, 'a> = dyn FnMut(&Relations<'a>, &[u16]) -> Result<(), GameError> + 'f;

/// The facts and the typed entities of one game.
pub(super) struct Relations<'a> {
    kinds: &'a [TypeId],
    /// At `sub * types + sup`, whether every `sub` is a `sup`.
    subtypes: Vec<bool>,
    types: usize,
    relations: Vec<Relation>,
    /// Arguments of fact `f` start at `starts[f]`.
    starts: Vec<u32>,
    predicates: Vec<u16>,
    arguments: Vec<u16>,
    /// Parallel to `arguments`: the next fact with the same entity in the same position.
    next: Vec<u32>,
    numbers: NumberMap<u128, u32>,
    work: usize,
}

/// A literal whose constants are replaced by entities.
enum Ready {
    Holds(u16, Vec<Slot>),
    Lacks(u16, Vec<Slot>),
    Same(Slot, Slot, bool),
}

#[derive(Clone, Copy)]
enum Slot {
    Variable(u16),
    Entity(u16),
}

/// A step of a join.
enum JoinStep {
    Check(Ready),
    Scan(u16, Vec<Slot>),
    Each(u16),
}

/// A conjunction, ready to be enumerated.
pub(super) struct Join {
    steps: Vec<JoinStep>,
    kinds: Vec<TypeId>,
    bound: Vec<bool>,
}

impl<'a> Relations<'a> {
    pub(super) fn new(types: &'a Types, kinds: &'a [TypeId], predicates: &[(usize, bool)]) -> Self {
        let relations = predicates
            .iter()
            .map(|&(arity, fluent)| Relation {
                arity,
                fluent,
                facts: Vec::new(),
                heads: Vec::new(),
                distinct: vec![0; arity],
            })
            .collect();
        let count = types.len();
        let pairs =
            (0..count * count).map(|pair| types.is_a((pair / count) as TypeId, (pair % count) as TypeId));
        Self {
            kinds,
            subtypes: pairs.collect(),
            types: count,
            relations,
            starts: Vec::new(),
            predicates: Vec::new(),
            arguments: Vec::new(),
            next: Vec::new(),
            numbers: HashMap::default(),
            work: 0,
        }
    }

    /// Whether an entity is of a type; no entity is of a type that the domain does not have.
    fn is_of(&self, entity: usize, kind: TypeId) -> bool {
        usize::from(kind) < self.types
            && self.subtypes[usize::from(self.kinds[entity]) * self.types + usize::from(kind)]
    }

    /// Adds a fact; false when it was there already.
    pub(super) fn insert(&mut self, predicate: u16, arguments: &[u16]) -> Result<bool, GameError> {
        let fact = self.starts.len() as u32;
        match self.numbers.entry(key(predicate, arguments)) {
            std::collections::hash_map::Entry::Occupied(_) => return Ok(false),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(fact),
        };
        if self.starts.len() == MAX_FACTS {
            let found = MAX_FACTS + 1;
            return Err(GameError::TooLarge { what: "facts that may hold", found, limit: MAX_FACTS });
        }
        let relation = &mut self.relations[predicate as usize];
        if relation.heads.is_empty() {
            relation.heads = vec![NONE; relation.arity * self.kinds.len()];
        }
        self.starts.push(self.arguments.len() as u32);
        self.predicates.push(predicate);
        relation.facts.push(fact);
        for (position, &entity) in arguments.iter().enumerate() {
            let head = &mut relation.heads[position * self.kinds.len() + entity as usize];
            if *head == NONE {
                relation.distinct[position] += 1;
            }
            self.next.push(*head);
            self.arguments.push(entity);
            *head = fact;
        }
        Ok(true)
    }

    pub(super) fn find(&self, predicate: u16, arguments: &[u16]) -> Option<u32> {
        self.numbers.get(&key(predicate, arguments)).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn size_of(&self, predicate: u16) -> usize {
        self.relations[predicate as usize].facts.len()
    }

    pub(super) fn fact(&self, fact: u32) -> (u16, &[u16]) {
        let start = self.starts[fact as usize] as usize;
        let predicate = self.predicates[fact as usize];
        (predicate, &self.arguments[start..start + self.relations[predicate as usize].arity])
    }

    pub(super) fn facts_of(&self, predicate: u16) -> &[u32] {
        &self.relations[predicate as usize].facts
    }

    /// Chooses an order for the requirements: what is already decided first, then the smallest connected
    /// relation. `constants` maps constants to entities; one that is no entity makes its atom false.
    pub(super) fn plan(
        &self,
        conjunction: &Conjunction,
        variables: &[Variable],
        needed: impl Iterator<Item = u16>,
        constants: &[Option<u16>],
    ) -> Option<Join> {
        let slot = |term: &Term| match term {
            Term::Variable(variable) => Some(Slot::Variable(*variable)),
            Term::Constant(constant) => constants[*constant as usize].map(Slot::Entity),
        };
        let slots = |atom: &Atom| atom.terms.iter().map(slot).collect::<Option<Vec<_>>>();
        let mut rest = Vec::new();
        for literal in conjunction {
            match literal {
                Literal::Holds(atom) => rest.push(Ready::Holds(atom.predicate, slots(atom)?)),
                Literal::Lacks(atom) => {
                    // What can never hold is lacking.
                    if let Some(slots) = slots(atom) {
                        rest.push(Ready::Lacks(atom.predicate, slots));
                    }
                }
                Literal::Same(left, right) => rest.push(Ready::Same(slot(left)?, slot(right)?, true)),
                Literal::Differs(left, right) => {
                    if let (Some(left), Some(right)) = (slot(left), slot(right)) {
                        rest.push(Ready::Same(left, right, false));
                    }
                }
            }
        }
        let mut open: Vec<bool> = vec![false; variables.len()];
        let mut mark = |slot: &Slot| {
            if let Slot::Variable(variable) = slot {
                open[*variable as usize] = true;
            }
        };
        for literal in &rest {
            match literal {
                Ready::Holds(_, slots) | Ready::Lacks(_, slots) => slots.iter().for_each(&mut mark),
                Ready::Same(left, right, _) => [left, right].into_iter().for_each(&mut mark),
            }
        }
        needed.for_each(|variable| open[variable as usize] = true);
        let mut steps = Vec::new();
        loop {
            let known = |slot: &Slot| match slot {
                Slot::Variable(variable) => !open[*variable as usize],
                Slot::Entity(_) => true,
            };
            let decided = rest.iter().position(|literal| match literal {
                Ready::Holds(_, slots) | Ready::Lacks(_, slots) => slots.iter().all(known),
                Ready::Same(left, right, _) => known(left) && known(right),
            });
            if let Some(index) = decided {
                steps.push(JoinStep::Check(rest.swap_remove(index)));
                continue;
            }
            let best = rest
                .iter()
                .enumerate()
                .filter_map(|(index, literal)| match literal {
                    Ready::Holds(predicate, slots) => Some((self.cost(*predicate, slots, known), index)),
                    _ => None,
                })
                .min();
            if let Some((_, index)) = best {
                if let Ready::Holds(predicate, slots) = rest.swap_remove(index) {
                    for slot in &slots {
                        if let Slot::Variable(variable) = slot {
                            open[*variable as usize] = false;
                        }
                    }
                    steps.push(JoinStep::Scan(predicate, slots));
                }
                continue;
            }
            match open.iter().position(|&open| open) {
                Some(variable) => {
                    open[variable] = false;
                    steps.push(JoinStep::Each(variable as u16));
                }
                None => break,
            }
        }
        let kinds = variables.iter().map(|variable| variable.kind).collect();
        Some(Join { steps, kinds, bound: vec![false; variables.len()] })
    }

    /// Expected matches of a scan, connected ones first, things that change later than things that never do.
    fn cost(&self, predicate: u16, slots: &[Slot], known: impl Fn(&Slot) -> bool) -> (bool, usize) {
        let relation = &self.relations[predicate as usize];
        let mut size = relation.facts.len();
        if relation.fluent {
            size = size.max(4 * self.kinds.len());
        }
        let mut connected = false;
        for (position, slot) in slots.iter().enumerate() {
            if known(slot) {
                connected = true;
                let distinct = relation.distinct[position].max(if relation.fluent { 16 } else { 1 });
                size = size.min(relation.facts.len().max(size) / distinct + 1);
            }
        }
        (!connected, size)
    }

    /// Calls `found` with every binding that satisfies the join among the facts that may hold.
    ///
    /// A requirement that something that may change is *lacking* counts as satisfiable.
    pub(super) fn enumerate(&mut self, join: &Join, found: &mut Found<'_, 'a>) -> Result<(), GameError> {
        let mut binding = vec![UNBOUND; join.bound.len()];
        let mut work = self.work;
        self.walk(join, 0, &mut binding, &mut work, found)?;
        self.work = work;
        Ok(())
    }

    fn walk(
        &self,
        join: &Join,
        step: usize,
        binding: &mut [u16],
        work: &mut usize,
        found: &mut Found<'_, 'a>,
    ) -> Result<(), GameError> {
        *work += 1;
        if *work > MAX_WORK {
            return Err(GameError::TooLarge {
                what: "steps to ground the actions",
                found: *work,
                limit: MAX_WORK,
            });
        }
        let value = |slot: &Slot, binding: &[u16]| match slot {
            Slot::Variable(variable) => binding[*variable as usize],
            Slot::Entity(entity) => *entity,
        };
        match join.steps.get(step) {
            None => {
                // Whoever is called compares the requirements with each other.
                *work += join.steps.len().pow(2) / 16;
                found(self, binding)
            }
            Some(JoinStep::Check(literal)) => {
                let mut arguments = [0; MAX_ARITY];
                let fill = |slots: &[Slot], arguments: &mut [u16; MAX_ARITY], binding: &[u16]| {
                    for (argument, slot) in arguments.iter_mut().zip(slots) {
                        *argument = value(slot, binding);
                    }
                };
                let holds = match literal {
                    Ready::Holds(predicate, slots) => {
                        fill(slots, &mut arguments, binding);
                        self.find(*predicate, &arguments[..slots.len()]).is_some()
                    }
                    Ready::Lacks(predicate, slots) => {
                        fill(slots, &mut arguments, binding);
                        self.relations[*predicate as usize].fluent
                            || self.find(*predicate, &arguments[..slots.len()]).is_none()
                    }
                    Ready::Same(left, right, same) => {
                        (value(left, binding) == value(right, binding)) == *same
                    }
                };
                if holds { self.walk(join, step + 1, binding, work, found) } else { Ok(()) }
            }
            Some(JoinStep::Each(variable)) => {
                let kind = join.kinds[*variable as usize];
                *work += self.kinds.len() / 16;
                for entity in 0..self.kinds.len() {
                    if self.is_of(entity, kind) {
                        binding[*variable as usize] = entity as u16;
                        self.walk(join, step + 1, binding, work, found)?;
                    }
                }
                binding[*variable as usize] = UNBOUND;
                Ok(())
            }
            Some(JoinStep::Scan(predicate, slots)) => {
                let relation = &self.relations[*predicate as usize];
                if relation.facts.is_empty() {
                    return Ok(());
                }
                // The bound position with the most lists has the shortest ones.
                let anchor = (0..slots.len())
                    .filter(|&position| value(&slots[position], binding) != UNBOUND)
                    .max_by_key(|&position| relation.distinct[position]);
                match anchor {
                    Some(position) => {
                        let entity = value(&slots[position], binding) as usize;
                        let mut fact = relation.heads[position * self.kinds.len() + entity];
                        while fact != NONE {
                            self.try_fact(join, step, fact, slots, binding, work, found)?;
                            fact = self.next[self.starts[fact as usize] as usize + position];
                        }
                    }
                    None => {
                        for &fact in &relation.facts {
                            self.try_fact(join, step, fact, slots, binding, work, found)?;
                        }
                    }
                }
                Ok(())
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one recursion")]
    fn try_fact(
        &self,
        join: &Join,
        step: usize,
        fact: u32,
        slots: &[Slot],
        binding: &mut [u16],
        work: &mut usize,
        found: &mut Found<'_, 'a>,
    ) -> Result<(), GameError> {
        *work += 1;
        let start = self.starts[fact as usize] as usize;
        let mut fresh = [UNBOUND; MAX_ARITY];
        let mut fits = true;
        for (position, slot) in slots.iter().enumerate() {
            let entity = self.arguments[start + position];
            match slot {
                Slot::Entity(wanted) => fits = *wanted == entity,
                Slot::Variable(variable) => {
                    let bound = &mut binding[*variable as usize];
                    if *bound == UNBOUND {
                        let kind = join.kinds[*variable as usize];
                        fits = self.is_of(entity as usize, kind);
                        if fits {
                            *bound = entity;
                            fresh[position] = *variable;
                        }
                    } else {
                        fits = *bound == entity;
                    }
                }
            }
            if !fits {
                break;
            }
        }
        let outcome = if fits { self.walk(join, step + 1, binding, work, found) } else { Ok(()) };
        for variable in fresh {
            if variable != UNBOUND {
                binding[variable as usize] = UNBOUND;
            }
        }
        outcome
    }
}
