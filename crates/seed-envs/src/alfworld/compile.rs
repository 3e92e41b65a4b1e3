//! From a problem to a [`Game`]: which facts may hold, which actions there are, what they are called.

use super::error::GameError;
use super::game::{Game, Goal, GroundAction, Signed, Strings, Table};
use super::logic::Logic;
use super::names::display_names;
use super::pddl::{Atom, Conjunction, Formula, Literal, MAX_ARITY, Problem, Term, Variable};
use super::relations::{Join, MAX_WORK, NumberMap, Relations, key};
use super::text::{NoFacts, Renderer};
use crate::pyrandom::PythonRandom;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Ground actions of one game, at most.
const MAX_ACTIONS: usize = 300_000;
/// Ground alternatives of one goal, at most.
const MAX_GOALS: usize = 50_000;
/// Bytes of all commands of one game, at most.
const MAX_COMMAND_BYTES: usize = 16 << 20;
/// Conditions and effects of all ground actions, at most.
const MAX_LITERALS: usize = 8 << 20;
/// Comparisons between conditions and effects of all ground actions, at most.
const MAX_COMPARISONS: usize = 500_000_000;
/// Facts that all commands of one game may look at.
const MAX_COMMAND_LOOKS: usize = 5_000_000;

const NO_ATOM: u32 = u32::MAX;

/// An atom under a binding, as a fact number; `None` when it can never hold.
struct Grounder<'a> {
    constants: &'a [Option<u16>],
}

impl Grounder<'_> {
    fn arguments(&self, atom: &Atom, binding: &[u16], arguments: &mut [u16; MAX_ARITY]) -> bool {
        for (argument, term) in arguments.iter_mut().zip(&atom.terms) {
            *argument = match term {
                Term::Variable(variable) => binding[*variable as usize],
                Term::Constant(constant) => match self.constants[*constant as usize] {
                    Some(entity) => entity,
                    None => return false,
                },
            };
        }
        true
    }

    fn fact(&self, relations: &Relations<'_>, atom: &Atom, binding: &[u16]) -> Option<u32> {
        let mut arguments = [0; MAX_ARITY];
        let known = self.arguments(atom, binding, &mut arguments);
        known.then(|| relations.find(atom.predicate, &arguments[..atom.terms.len()])).flatten()
    }

    /// Requirements on facts that may change; `None` when they contradict what never does.
    fn requirements(
        &self,
        relations: &Relations<'_>,
        fluent: impl Fn(u16) -> bool,
        conjunction: &Conjunction,
        binding: &[u16],
        atom_of: &[u32],
        out: &mut Vec<Signed>,
    ) -> bool {
        let start = out.len();
        for literal in conjunction {
            let (atom, lacking) = match literal {
                Literal::Holds(atom) => (atom, false),
                Literal::Lacks(atom) => (atom, true),
                Literal::Same(..) | Literal::Differs(..) => continue,
            };
            match self.fact(relations, atom, binding) {
                Some(fact) if fluent(atom.predicate) => {
                    let signed = atom_of[fact as usize] * 2 + u32::from(lacking);
                    if out[start..].contains(&(signed ^ 1)) {
                        return false;
                    }
                    if !out[start..].contains(&signed) {
                        out.push(signed);
                    }
                }
                Some(_) if lacking => return false,
                Some(_) => {}
                None if lacking => {}
                None => return false,
            }
        }
        true
    }
}

/// An action's alternatives as joins.
struct Alternative<'a> {
    schema: usize,
    conjunction: &'a Conjunction,
    join: Join,
}

/// Compiles a game. See [`Game::new`]. With a seed, the numbers in names are dealt out in a shuffled order, as the
/// official option `domain_randomization` does after `random.seed(seed)`.
pub(super) fn compile(
    logic: &Arc<Logic>,
    texts: Vec<Box<str>>,
    problem: Arc<Problem>,
    shuffle: Option<u64>,
) -> Result<Game, GameError> {
    let domain = &logic.domain;
    let shapes: Vec<(usize, bool)> = domain.predicates.iter().map(|p| (p.arity, p.fluent)).collect();
    let mut relations = Relations::new(&domain.types, &problem.kinds, &shapes);
    for (predicate, arguments) in problem.facts(domain) {
        relations.insert(predicate, arguments)?;
    }
    let initial_facts = relations.len();
    let constants: Vec<Option<u16>> = domain.constants.iter().map(|name| problem.find(name)).collect();
    let grounder = Grounder { constants: &constants };
    let fluent = |predicate: u16| domain.predicates[predicate as usize].fluent;

    let mut alternatives = Vec::new();
    for (index, schema) in domain.schemas.iter().enumerate() {
        for conjunction in &schema.preconditions {
            let needed = 0..schema.parameters as u16;
            if let Some(join) = relations.plan(conjunction, &schema.variables, needed, &constants) {
                alternatives.push(Alternative { schema: index, conjunction, join });
            }
        }
    }
    reach(logic, &mut relations, &grounder, &alternatives)?;

    let (tables, atom_of, atoms) = tables(logic, &problem, &relations);
    let mut initial = vec![0u64; atoms.div_ceil(64)].into_boxed_slice();
    for &atom in atom_of[..initial_facts].iter().filter(|&&atom| atom != NO_ATOM) {
        initial[atom as usize / 64] |= 1 << (atom % 64);
    }
    let goal = ground_goal(logic, &problem, &mut relations, &atom_of)?;
    if goal == Goal::Any(Vec::new()) {
        return Err(GameError::GoalUnreachable);
    }
    let mut goal_atoms = vec![0u64; initial.len()].into_boxed_slice();
    goal.each_literal(&mut |literal| goal_atoms[literal as usize / 128] |= 1 << (literal / 2 % 64));

    let mut out = Actions::default();
    for alternative in &alternatives {
        let schema = &domain.schemas[alternative.schema];
        let mut requirements = Vec::new();
        relations.enumerate(&alternative.join, &mut |relations, binding| {
            requirements.clear();
            if grounder.requirements(
                relations,
                fluent,
                alternative.conjunction,
                binding,
                &atom_of,
                &mut requirements,
            ) {
                out.push(
                    alternative.schema,
                    binding,
                    &requirements,
                    |condition, lists| {
                        grounder.requirements(relations, fluent, condition, binding, &atom_of, lists)
                    },
                    |atom| grounder.fact(relations, atom, binding).map(|fact| atom_of[fact as usize]),
                    schema,
                )?;
            }
            Ok(())
        })?;
    }
    drop(alternatives);
    drop(relations);

    let mentioned = problem.mentioned(domain);
    let mut order: Vec<u16> = (0..problem.object_count() as u16).filter(|&e| mentioned[e as usize]).collect();
    if let Some(seed) = shuffle {
        PythonRandom::from_int(i128::from(seed)).shuffle(&mut order);
    }
    let mut game = Game {
        logic: logic.clone(),
        names: display_names(&problem, &mentioned, &order),
        problem,
        texts: texts.into_boxed_slice(),
        tables,
        atoms,
        initial,
        actions: out.actions.into_boxed_slice(),
        lists: out.lists.into_boxed_slice(),
        arguments: out.arguments.into_boxed_slice(),
        commands: Strings::default(),
        watch_starts: Box::default(),
        watched: Box::default(),
        goal,
        goal_atoms,
    };
    name_commands(&mut game)?;
    watch(&mut game);
    Ok(game)
}

/// Adds every fact that can be reached when nothing is ever undone.
fn reach(
    logic: &Logic,
    relations: &mut Relations<'_>,
    grounder: &Grounder<'_>,
    alternatives: &[Alternative<'_>],
) -> Result<(), GameError> {
    let domain = &logic.domain;
    // How many facts of its predicates an alternative had seen when it was last tried.
    let mut tried: Vec<Option<usize>> = vec![None; alternatives.len()];
    let mut fresh: Vec<(u16, [u16; MAX_ARITY])> = Vec::new();
    let mut asked = vec![false; domain.predicates.len()];
    for literal in alternatives.iter().flat_map(|alternative| alternative.conjunction) {
        if let Literal::Holds(atom) = literal {
            asked[atom.predicate as usize] = true;
        }
    }
    // Facts that no action asks for can wait until everything else is there.
    let feeds = |alternative: &Alternative<'_>| {
        let effects = &domain.schemas[alternative.schema].effects;
        effects.iter().any(|effect| effect.adds && asked[effect.atom.predicate as usize])
    };
    let mut last = false;
    let mut looked = 0;
    loop {
        let mut grown = false;
        for (alternative, tried) in alternatives.iter().zip(&mut tried) {
            if !last && !feeds(alternative) {
                continue;
            }
            let seen: usize = alternative
                .conjunction
                .iter()
                .map(|literal| match literal {
                    Literal::Holds(atom) => relations.size_of(atom.predicate),
                    _ => 0,
                })
                .sum();
            if *tried == Some(seen) {
                continue;
            }
            *tried = Some(seen);
            let schema = &domain.schemas[alternative.schema];
            fresh.clear();
            relations.enumerate(&alternative.join, &mut |relations, binding| {
                looked += schema.effects.len();
                let sizes = [
                    ("effects to follow", looked, MAX_WORK),
                    ("new facts at once", fresh.len(), MAX_WORK / 10),
                ];
                if let Some(&(what, found, limit)) = sizes.iter().find(|(_, found, limit)| found > limit) {
                    return Err(GameError::TooLarge { what, found, limit });
                }
                for effect in schema.effects.iter().filter(|effect| effect.adds) {
                    let mut arguments = [0; MAX_ARITY];
                    let arity = effect.atom.terms.len();
                    // Conditions of conditional effects are taken as satisfiable.
                    if grounder.arguments(&effect.atom, binding, &mut arguments)
                        && relations.find(effect.atom.predicate, &arguments[..arity]).is_none()
                    {
                        fresh.push((effect.atom.predicate, arguments));
                    }
                }
                Ok(())
            })?;
            for (predicate, arguments) in &fresh {
                let arity = domain.predicates[*predicate as usize].arity;
                grown |= relations.insert(*predicate, &arguments[..arity])?;
            }
        }
        if !grown && last {
            return Ok(());
        }
        last |= !grown;
    }
}

/// Sorts the facts of each predicate and numbers those that may change.
fn tables(logic: &Logic, problem: &Problem, relations: &Relations<'_>) -> (Vec<Table>, Vec<u32>, usize) {
    let domain = &logic.domain;
    let mut atom_of = vec![NO_ATOM; relations.len()];
    let mut atoms = 0;
    let mut tables = Vec::with_capacity(domain.predicates.len());
    for (id, predicate) in domain.predicates.iter().enumerate() {
        let mut facts = relations.facts_of(id as u16).to_vec();
        facts.sort_unstable_by(|&a, &b| relations.fact(a).1.cmp(relations.fact(b).1));
        let first_atom = predicate.fluent.then_some(atoms as u32);
        if predicate.fluent {
            for (row, &fact) in facts.iter().enumerate() {
                atom_of[fact as usize] = (atoms + row) as u32;
            }
            atoms += facts.len();
        }
        let arguments: Box<[u16]> =
            facts.iter().flat_map(|&fact| relations.fact(fact).1.iter().copied()).collect();
        let arity = predicate.arity;
        let mut table = Table { arity, length: facts.len(), arguments, first_atom, ..Table::default() };
        if logic.queried[id] {
            table.orders = (1..arity)
                .map(|position| {
                    let mut order: Vec<u32> = (0..table.length as u32).collect();
                    order.sort_by_key(|&row| table.row(row as usize)[position]);
                    order.into_boxed_slice()
                })
                .collect();
            let kinds = |row: usize| table.row(row).iter().map(|&e| problem.kinds[e as usize]);
            // One signature means that sorting by it first changes nothing.
            table.uniform = (1..table.length).all(|row| kinds(row).eq(kinds(0)));
        }
        tables.push(table);
    }
    (tables, atom_of, atoms)
}

/// The goal over atoms; `Any` of nothing when it can never hold.
fn ground_goal(
    logic: &Logic,
    problem: &Problem,
    relations: &mut Relations<'_>,
    atom_of: &[u32],
) -> Result<Goal, GameError> {
    let constants: Vec<Option<u16>> = problem.goal_constants.iter().map(|name| problem.find(name)).collect();
    let mut size = GoalSize::default();
    ground_formula(&problem.goal, logic, problem, relations, &constants, atom_of, &mut size)
}

/// How much of a goal was written so far.
#[derive(Default)]
struct GoalSize {
    /// Conjunctions, looked at or found.
    parts: usize,
    /// Requirements of those looked at.
    unfolded: usize,
}

impl GoalSize {
    fn add(&mut self, parts: usize) -> Result<(), GameError> {
        self.parts += parts;
        if self.parts > MAX_GOALS {
            let what = "ways to reach the goal";
            return Err(GameError::TooLarge { what, found: self.parts, limit: MAX_GOALS });
        }
        Ok(())
    }
}

fn ground_formula(
    formula: &Formula,
    logic: &Logic,
    problem: &Problem,
    relations: &mut Relations<'_>,
    constants: &[Option<u16>],
    atom_of: &[u32],
    size: &mut GoalSize,
) -> Result<Goal, GameError> {
    let mut inner =
        |formula: &Formula| ground_formula(formula, logic, problem, relations, constants, atom_of, size);
    match formula {
        Formula::And(formulas) => {
            let goals = formulas.iter().map(&mut inner).collect::<Result<Vec<_>, _>>()?;
            Ok(all(goals))
        }
        Formula::Or(formulas) => {
            let goals = formulas.iter().map(&mut inner).collect::<Result<Vec<_>, _>>()?;
            Ok(any(goals))
        }
        Formula::Exists(..) | Formula::Literal(_) => {
            let mut found = BTreeSet::new();
            let domain = &logic.domain;
            let fluent = |predicate: u16| domain.predicates[predicate as usize].fluent;
            let grounder = Grounder { constants };
            for conjunction in super::pddl::goal_alternatives(formula, problem.goal_line, &mut size.unfolded)?
            {
                size.add(1)?;
                let variables: &[Variable] = &problem.goal_variables;
                let declared = declared(formula).into_iter();
                let Some(join) = relations.plan(&conjunction, variables, declared, constants) else {
                    continue;
                };
                relations.enumerate(&join, &mut |relations, binding| {
                    let mut literals = Vec::new();
                    if grounder.requirements(relations, fluent, &conjunction, binding, atom_of, &mut literals)
                    {
                        literals.sort_unstable();
                        size.add(usize::from(found.insert(literals)))?;
                    }
                    Ok(())
                })?;
            }
            let conjunction = |literals: Vec<Signed>| all(literals.into_iter().map(Goal::Literal).collect());
            Ok(any(found.into_iter().map(conjunction).collect()))
        }
    }
}

/// The variables that a formula's quantifiers declare.
fn declared(formula: &Formula) -> Vec<u16> {
    match formula {
        Formula::Exists(variables, inner) => [variables.clone(), declared(inner)].concat(),
        Formula::And(inner) | Formula::Or(inner) => inner.iter().flat_map(declared).collect(),
        Formula::Literal(_) => Vec::new(),
    }
}

fn all(goals: Vec<Goal>) -> Goal {
    let mut flat = Vec::new();
    for goal in goals {
        match goal {
            Goal::All(inner) => flat.extend(inner),
            Goal::Any(inner) if inner.is_empty() => return Goal::Any(inner),
            other => flat.push(other),
        }
    }
    if flat.len() == 1 { flat.remove(0) } else { Goal::All(flat) }
}

fn any(goals: Vec<Goal>) -> Goal {
    let mut flat = Vec::new();
    for goal in goals {
        match goal {
            Goal::Any(inner) => flat.extend(inner),
            Goal::All(inner) if inner.is_empty() => return Goal::All(inner),
            other => flat.push(other),
        }
    }
    if flat.len() == 1 { flat.remove(0) } else { Goal::Any(flat) }
}

/// Ground actions while they are collected.
#[derive(Default)]
struct Actions {
    actions: Vec<GroundAction>,
    lists: Vec<Signed>,
    arguments: Vec<u16>,
    comparisons: usize,
}

impl Actions {
    /// Adds an action unless nothing is left of its effects.
    fn push(
        &mut self,
        schema_index: usize,
        binding: &[u16],
        requirements: &[Signed],
        mut condition: impl FnMut(&Conjunction, &mut Vec<Signed>) -> bool,
        atom: impl Fn(&Atom) -> Option<u32>,
        schema: &super::pddl::Schema,
    ) -> Result<(), GameError> {
        let always = |effect: &&super::pddl::Effect| effect.when.iter().any(Vec::is_empty);
        let conditions = schema.effects.iter().flat_map(|effect| &effect.when);
        self.comparisons += schema.effects.len() * (schema.effects.len() + requirements.len())
            + conditions.map(|condition| condition.len().pow(2)).sum::<usize>();
        let sizes = [
            ("comparisons between effects", self.comparisons, MAX_COMPARISONS),
            ("conditions and effects of ground actions", self.lists.len(), MAX_LITERALS),
        ];
        if let Some(&(what, found, limit)) = sizes.iter().find(|(_, found, limit)| found > limit) {
            return Err(GameError::TooLarge { what, found, limit });
        }
        let start = self.lists.len();
        self.lists.extend_from_slice(requirements);
        let effects_start = self.lists.len();
        for effect in schema.effects.iter().filter(always) {
            let Some(atom) = atom(&effect.atom) else { continue };
            self.lists.push(atom * 2 + u32::from(!effect.adds));
        }
        // An added atom is not deleted by the same action; what already holds before is no effect.
        let mut kept = effects_start;
        for index in effects_start..self.lists.len() {
            let effect = self.lists[index];
            let overruled = effect % 2 == 1 && self.lists[effects_start..].contains(&(effect - 1));
            if !overruled && !requirements.contains(&effect) {
                self.lists.swap(kept, index);
                kept += 1;
            }
        }
        self.lists.truncate(kept);
        let conditional_start = self.lists.len();
        for effect in schema.effects.iter().filter(|effect| !always(effect)) {
            let Some(atom) = atom(&effect.atom) else { continue };
            for alternative in &effect.when {
                let entry = self.lists.len();
                self.lists.extend([atom * 2 + u32::from(!effect.adds), 0]);
                if condition(alternative, &mut self.lists) {
                    self.lists[entry + 1] = (self.lists.len() - entry - 2) as u32;
                } else {
                    self.lists.truncate(entry);
                }
            }
        }
        if self.lists.len() == effects_start {
            self.lists.truncate(start);
            return Ok(());
        }
        let too_large =
            |what| GameError::TooLarge { what, found: self.actions.len() + 1, limit: MAX_ACTIONS };
        let numbers = (
            u8::try_from(requirements.len()),
            u16::try_from(conditional_start - effects_start),
            u16::try_from(self.lists.len() - conditional_start),
        );
        let (Ok(preconditions), Ok(effects), Ok(conditional)) = numbers else {
            return Err(too_large("ground actions with too many conditions or effects"));
        };
        if self.actions.len() == MAX_ACTIONS {
            return Err(too_large("ground actions"));
        }
        self.actions.push(GroundAction {
            command: 0,
            lists_start: start as u32,
            arguments_start: self.arguments.len() as u32,
            schema: schema_index as u8,
            preconditions,
            effects,
            conditional,
        });
        self.arguments.extend_from_slice(&binding[..schema.parameters]);
        Ok(())
    }
}

/// Renders the commands, each once, and numbers them in the order of their strings.
fn name_commands(game: &mut Game) -> Result<(), GameError> {
    let mut texts: Vec<String> = Vec::new();
    let (mut bytes, mut looks) = (0, 0);
    let mut known: NumberMap<u128, u32> = HashMap::default();
    let mut numbers = Vec::with_capacity(game.actions.len());
    let mut shown = Vec::new();
    for action in &game.actions {
        let wording = &game.logic.wordings[action.schema as usize];
        let arguments = game.arguments(action);
        shown.clear();
        shown.extend(arguments.iter().zip(&wording.shown).filter(|(_, shown)| **shown).map(|(&e, _)| e));
        let mut render = || {
            let renderer = Renderer::new(game, &NoFacts).bind(&wording.parameters, arguments);
            let (text, looked) = renderer.nodes_and_looks(&wording.template);
            looks += looked;
            bytes += text.len();
            texts.push(text);
            texts.len() as u32 - 1
        };
        // Seven arguments and the schema fit into the key.
        let number = if shown.len() <= 7 {
            *known.entry(key(u16::from(action.schema) + 1, &shown)).or_insert_with(render)
        } else {
            render()
        };
        numbers.push(number);
        if bytes > MAX_COMMAND_BYTES {
            let what = "bytes of commands";
            return Err(GameError::TooLarge { what, found: bytes, limit: MAX_COMMAND_BYTES });
        }
        if looks > MAX_COMMAND_LOOKS {
            let what = "facts that commands ask for";
            return Err(GameError::TooLarge { what, found: looks, limit: MAX_COMMAND_LOOKS });
        }
    }
    let mut order: Vec<u32> = (0..texts.len() as u32).collect();
    order.sort_unstable_by(|&a, &b| texts[a as usize].cmp(&texts[b as usize]));
    let mut commands = Strings::default();
    let mut ranks = vec![0; texts.len()];
    let mut last: Option<u32> = None;
    for &text in &order {
        if last.is_none_or(|last| texts[last as usize] != texts[text as usize]) {
            commands.push(&texts[text as usize]);
            last = Some(text);
        }
        ranks[text as usize] = commands.len() as u32 - 1;
    }
    for (action, number) in game.actions.iter_mut().zip(numbers) {
        action.command = ranks[number as usize];
    }
    game.commands = commands.shrink();
    Ok(())
}

/// Files every action under its rarest positive requirement, so that a state need not look at all of them.
fn watch(game: &mut Game) {
    // How rarely an atom holds is guessed from its predicate's share of true facts at the start.
    let mut rarity = vec![f32::MAX; game.atoms];
    for table in &game.tables {
        if let Some(first) = table.first_atom {
            let range = first as usize..first as usize + table.len();
            let holding = range.clone().filter(|&a| game.initial[a / 64] >> (a % 64) & 1 == 1).count();
            rarity[range].fill(holding as f32 / table.len().max(1) as f32);
        }
    }
    let spot = |action: &GroundAction| {
        let positive = game.preconditions(action).iter().filter(|&&literal| literal % 2 == 0);
        let rarest =
            positive.map(|literal| *literal as usize / 2).min_by(|&a, &b| rarity[a].total_cmp(&rarity[b]));
        rarest.unwrap_or(game.atoms)
    };
    let mut starts = vec![0u32; game.atoms + 2];
    for action in &game.actions {
        starts[spot(action) + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut next = starts.clone();
    let mut watched = vec![0u32; game.actions.len()];
    for (number, action) in game.actions.iter().enumerate() {
        let place = &mut next[spot(action)];
        watched[*place as usize] = number as u32;
        *place += 1;
    }
    game.watch_starts = starts.into_boxed_slice();
    game.watched = watched.into_boxed_slice();
}
