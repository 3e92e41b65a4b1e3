//! Domains and problems: the part of PDDL that household games use.
//!
//! Read like the Fast Downward translator reads it, oddities included: everything is lower-cased, an undeclared
//! type is a type without objects, the declared argument types of predicates are never checked.

use super::error::{GameError, Part, excerpt};
use super::relations::NumberMap;
use super::sexpr::{Sexpr, normalise, read};
use std::collections::HashMap;

/// Variables of one action with its quantifiers, at most.
const MAX_VARIABLES: usize = 24;
/// Arguments of a predicate, at most.
pub(super) const MAX_ARITY: usize = 6;
/// Alternatives that one condition may unfold to.
const MAX_ALTERNATIVES: usize = 256;
/// Requirements in one alternative.
const MAX_REQUIREMENTS: usize = 200;
/// Requirements that unfolding the conditions of one text may write; ALFWorld's domain needs a few hundred.
pub(super) const MAX_UNFOLDED: usize = 200_000;
/// Different objects that the conditions of one text may name.
const MAX_CONSTANTS: usize = 1000;

/// Index of a type in [`Types`].
pub(super) type TypeId = u16;

/// The tree of types; 0 is `object`, the root.
#[derive(Debug, Clone)]
pub(super) struct Types {
    names: Vec<String>,
    /// `None` for the root and for types that nobody declared (they have no objects).
    parents: Vec<Option<TypeId>>,
}

impl Types {
    fn new() -> Self {
        Self { names: vec!["object".into()], parents: vec![None] }
    }

    pub(super) fn find(&self, name: &str) -> Option<TypeId> {
        self.names.iter().position(|known| known == name).map(|index| index as TypeId)
    }

    fn find_or_add(&mut self, name: &str, part: Part, line: usize) -> Result<TypeId, GameError> {
        if let Some(known) = self.find(name) {
            return Ok(known);
        }
        if self.names.len() == 250 {
            let feature = "more than 250 types".into();
            return Err(GameError::Unsupported { part, line, feature });
        }
        self.names.push(name.into());
        self.parents.push(None);
        Ok((self.names.len() - 1) as TypeId)
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn name(&self, id: TypeId) -> &str {
        &self.names[id as usize]
    }

    /// Whether every `sub` is a `sup`.
    pub(super) fn is_a(&self, sub: TypeId, sup: TypeId) -> bool {
        let mut at = Some(sub);
        // A chain longer than the number of types is a circle.
        for _ in 0..=self.names.len() {
            match at {
                Some(id) if id == sup => return true,
                Some(id) => at = self.parents[id as usize],
                None => return false,
            }
        }
        false
    }
}

/// A predicate's name and number of arguments.
#[derive(Debug, Clone)]
pub(super) struct Predicate {
    pub(super) name: String,
    pub(super) arity: usize,
    /// Whether some action adds or deletes it; the others never change.
    pub(super) fluent: bool,
}

/// An argument: a variable of the surrounding scope or a named object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    Variable(u16),
    /// Index in [`Domain::constants`] or in a problem's own list.
    Constant(u16),
}

/// A predicate with arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Atom {
    pub(super) predicate: u16,
    pub(super) terms: Vec<Term>,
}

/// One requirement of a conjunction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    Holds(Atom),
    Lacks(Atom),
    Same(Term, Term),
    Differs(Term, Term),
}

/// Requirements that must hold together.
pub(super) type Conjunction = Vec<Literal>;

/// A condition as written; goals keep this shape, preconditions are unfolded to alternatives.
#[derive(Debug, Clone)]
pub(super) enum Formula {
    And(Vec<Formula>),
    Or(Vec<Formula>),
    Exists(Vec<u16>, Box<Formula>),
    Literal(Literal),
}

/// One change of an action.
#[derive(Debug, Clone)]
pub(super) struct Effect {
    /// Alternatives under which it happens; one empty alternative means always.
    pub(super) when: Vec<Conjunction>,
    pub(super) atom: Atom,
    pub(super) adds: bool,
}

/// A name with a type, as in a parameter list.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) kind: TypeId,
}

/// An action of the domain.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) parameters: usize,
    /// The parameters, then the variables of its quantifiers.
    pub(super) variables: Vec<Variable>,
    pub(super) preconditions: Vec<Conjunction>,
    pub(super) effects: Vec<Effect>,
}

/// A planning domain: types, predicates and actions.
#[derive(Debug, Clone)]
pub struct Domain {
    pub(super) types: Types,
    pub(super) predicates: Vec<Predicate>,
    pub(super) by_name: HashMap<String, u16>,
    /// Objects that conditions of the actions name.
    pub(super) constants: Vec<String>,
    /// Objects that the domain itself declares.
    pub(super) objects: Vec<(String, TypeId)>,
    pub(super) schemas: Vec<Schema>,
}

/// A planning problem: objects, what is true at the start, and the goal.
///
/// Names lie in one buffer and facts in one list, so that thousands of problems can be kept.
#[derive(Debug, Clone)]
pub struct Problem {
    names: Box<str>,
    /// Object `i` is `names[ends[i - 1]..ends[i]]`; sorted by name.
    ends: Box<[u32]>,
    pub(super) kinds: Box<[TypeId]>,
    /// Predicate, then its arguments, one fact after the other, without repetition.
    pub(super) init: Box<[u16]>,
    pub(super) goal: Formula,
    /// The line of the goal in the problem's text.
    pub(super) goal_line: usize,
    pub(super) goal_variables: Vec<Variable>,
    /// Objects that the goal names.
    pub(super) goal_constants: Vec<String>,
}

impl Problem {
    /// How many objects it declares.
    pub fn object_count(&self) -> usize {
        self.ends.len()
    }

    /// The object's internal name, lower-cased; objects are numbered in the order of their names.
    pub(super) fn object(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.names[start..self.ends[index] as usize]
    }

    pub(super) fn find(&self, name: &str) -> Option<u16> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.object(middle).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle as u16),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Bytes that this problem occupies.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.names.len()
            + self.ends.len() * 4
            + self.kinds.len() * 2
            + self.init.len() * 2
    }
}

fn define<'s, 'a>(whole: &'s Sexpr<'a>, part: Part) -> Result<&'s [Sexpr<'a>], GameError> {
    match whole.headed() {
        Some(("define", rest)) => Ok(rest),
        _ => Err(whole.unexpected(part, "(define …)")),
    }
}

/// A name of a typed list: its line, and the word of its type with that word's line.
struct Entry<'a> {
    name: &'a str,
    line: usize,
    kind: Option<(&'a str, usize)>,
}

/// Splits `a b - t c` into names with their types.
fn typed_list<'a>(items: &[Sexpr<'a>], part: Part) -> Result<Vec<Entry<'a>>, GameError> {
    let mut list: Vec<Entry<'a>> = Vec::with_capacity(items.len() / 3);
    let mut untyped = 0;
    let mut items = items.iter();
    while let Some(item) = items.next() {
        match item {
            Sexpr::Word("-", line) => {
                let kind = items.next().ok_or_else(|| GameError::Syntax {
                    part,
                    line: *line,
                    found: "the end of the list".into(),
                    expected: "a type after `-`".into(),
                })?;
                if let Some(("either", _)) = kind.headed() {
                    let feature = "the type `(either …)`".into();
                    return Err(GameError::Unsupported { part, line: kind.line(), feature });
                }
                let word = kind.word(part, "a type")?;
                for entry in &mut list[untyped..] {
                    entry.kind = Some((word, kind.line()));
                }
                untyped = list.len();
            }
            _ => list.push(Entry { name: item.word(part, "a name")?, line: item.line(), kind: None }),
        }
    }
    Ok(list)
}

impl Domain {
    /// Reads a domain. Action costs and requirements are read over.
    ///
    /// # Errors
    /// With the line, when the text is no domain or uses `forall`, `imply`, derived predicates or `either`.
    pub fn parse(text: &str) -> Result<Self, GameError> {
        let part = Part::Domain;
        let text = normalise(text, part)?;
        let whole = read(&text, part)?;
        let mut domain = Self {
            types: Types::new(),
            predicates: Vec::new(),
            by_name: HashMap::new(),
            constants: Vec::new(),
            objects: Vec::new(),
            schemas: Vec::new(),
        };
        let sections = define(&whole, part)?;
        // Actions may be written before what they use.
        for section in sections {
            match section.headed() {
                Some(("domain" | ":requirements" | ":functions" | ":action", _)) => {}
                Some((":types", items)) => {
                    for Entry { name, kind, line } in typed_list(items, part)? {
                        let id = domain.types.find_or_add(name, part, line)?;
                        if id != 0 {
                            let parent = match kind {
                                Some((kind, line)) => domain.types.find_or_add(kind, part, line)?,
                                None => 0,
                            };
                            domain.types.parents[id as usize] = Some(parent);
                        }
                    }
                }
                Some((":constants", items)) => {
                    for Entry { name, kind, line } in typed_list(items, part)? {
                        let kind = match kind {
                            Some((kind, line)) => domain.types.find_or_add(kind, part, line)?,
                            None => 0,
                        };
                        if domain.objects.len() == 10_000 {
                            let feature = "more than 10000 constants".into();
                            return Err(GameError::Unsupported { part, line, feature });
                        }
                        domain.objects.push((name.into(), kind));
                    }
                }
                Some((":predicates", items)) => {
                    for item in items {
                        let Some((name, arguments)) = item.headed() else {
                            return Err(item.unexpected(part, "(name ?argument - type …)"));
                        };
                        let arity = typed_list(arguments, part)?.len();
                        if arity > MAX_ARITY || domain.predicates.len() == 1000 {
                            let feature = "a predicate with more than 6 arguments, or the 1001st,".into();
                            return Err(GameError::Unsupported { part, line: item.line(), feature });
                        }
                        let id = domain.predicates.len() as u16;
                        if domain.by_name.insert(name.into(), id).is_some() {
                            return Err(item.unexpected(part, "each predicate once"));
                        }
                        domain.predicates.push(Predicate { name: name.into(), arity, fluent: false });
                    }
                }
                Some((head @ (":derived" | ":axiom"), _)) => {
                    let feature = format!("`{head}`");
                    return Err(GameError::Unsupported { part, line: section.line(), feature });
                }
                _ => return Err(section.unexpected(part, ":types, :predicates, :functions or :action")),
            }
        }
        let mut unfolded = 0;
        for section in sections {
            if let Some((":action", items)) = section.headed() {
                let schema = domain.action(items, section, &mut unfolded)?;
                if domain.schemas.len() == 250 {
                    let feature = "more than 250 actions".into();
                    return Err(GameError::Unsupported { part, line: section.line(), feature });
                }
                domain.schemas.push(schema);
            }
        }
        for effect in domain.schemas.iter().flat_map(|schema| &schema.effects) {
            domain.predicates[effect.atom.predicate as usize].fluent = true;
        }
        Ok(domain)
    }

    fn action(
        &mut self,
        items: &[Sexpr<'_>],
        section: &Sexpr<'_>,
        unfolded: &mut usize,
    ) -> Result<Schema, GameError> {
        let part = Part::Domain;
        let Some((name, items)) = items.split_first() else {
            return Err(section.unexpected(part, "a name after `:action`"));
        };
        let name = name.word(part, "a name after `:action`")?;
        let mut scope = Scope::new(part);
        let (mut precondition, mut effect) = (None, None);
        for pair in items.chunks(2) {
            let [key, value] = pair else {
                return Err(pair[0].unexpected(part, "a value after the keyword"));
            };
            match key.word(part, "`:parameters`, `:precondition` or `:effect`")? {
                ":parameters" => {
                    scope.declare(value.list(part, "a list of parameters")?, &mut self.types)?;
                }
                ":precondition" => precondition = Some(value),
                ":effect" => effect = Some(value),
                _ => return Err(key.unexpected(part, "`:parameters`, `:precondition` or `:effect`")),
            }
        }
        let parameters = scope.variables.len();
        let mut constants = std::mem::take(&mut self.constants);
        let preconditions = match precondition {
            Some(text) => {
                let formula = scope.condition(text, false, self, &mut constants)?;
                alternatives(&formula, part, text.line(), unfolded)?
            }
            None => vec![Vec::new()],
        };
        scope.unfolded = *unfolded;
        let mut effects = Vec::new();
        if let Some(text) = effect {
            scope.effect(text, None, self, &mut constants, &mut effects)?;
        }
        *unfolded = scope.unfolded;
        self.constants = constants;
        Ok(Schema { name: name.into(), parameters, variables: scope.variables, preconditions, effects })
    }
}

impl Problem {
    /// Reads a problem of `domain`.
    ///
    /// # Errors
    /// With the line, when the text is no problem or names a predicate that the domain does not have.
    pub fn parse(text: &str, domain: &Domain) -> Result<Self, GameError> {
        let part = Part::Problem;
        let text = normalise(text, part)?;
        let whole = read(&text, part)?;
        let sections = define(&whole, part)?;
        let mut objects: Vec<(&str, TypeId)> =
            domain.objects.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let (mut init, mut goal) = (None, None);
        for section in sections {
            match section.headed() {
                Some(("problem" | ":domain" | ":requirements" | ":metric", _)) => {}
                Some((":objects", items)) => {
                    for Entry { name, kind, line } in typed_list(items, part)? {
                        let kind = match kind {
                            None => 0,
                            Some((kind, line)) => {
                                domain.types.find(kind).ok_or_else(|| GameError::Syntax {
                                    part,
                                    line,
                                    found: format!("the type {}", excerpt(kind)),
                                    expected: "a type of the domain".into(),
                                })?
                            }
                        };
                        if objects.len() >= usize::from(u16::MAX) - 1 {
                            let feature = "more than 65534 objects".into();
                            return Err(GameError::Unsupported { part, line, feature });
                        }
                        objects.push((name, kind));
                    }
                }
                Some((":init", facts)) => init = Some(facts),
                Some((":goal", [condition])) => goal = Some(condition),
                _ => return Err(section.unexpected(part, "one of :objects, :init, :goal")),
            }
        }
        let goal = goal.ok_or_else(|| whole.unexpected(part, "a section (:goal condition)"))?;
        objects.sort_by(|a, b| a.0.cmp(b.0));
        objects.dedup_by(|a, b| a.0 == b.0);
        let numbers: HashMap<&str, u16> =
            objects.iter().enumerate().map(|(index, (name, _))| (*name, index as u16)).collect();
        let init = initial_facts(init.unwrap_or_default(), domain, &numbers)?;

        let mut types = domain.types.clone();
        let mut scope = Scope::new(part);
        let mut goal_constants = Vec::new();
        let goal_line = goal.line();
        let goal = scope.goal(goal, &mut types, domain, &mut goal_constants)?;
        for variable in &mut scope.variables {
            // A type that only the goal knows has no objects; any number beyond the domain's types says so.
            if domain.types.find(types.name(variable.kind)).is_none() {
                variable.kind = TypeId::MAX;
            }
        }
        let mut names = String::with_capacity(objects.iter().map(|(name, _)| name.len()).sum());
        let ends = objects
            .iter()
            .map(|(name, _)| {
                names.push_str(name);
                names.len() as u32
            })
            .collect();
        Ok(Self {
            names: names.into_boxed_str(),
            ends,
            kinds: objects.iter().map(|(_, kind)| *kind).collect(),
            init,
            goal,
            goal_line,
            goal_variables: scope.variables,
            goal_constants,
        })
    }
}

/// The facts of `:init` as predicate and object numbers; repetitions and numeric values are left out.
fn initial_facts(
    facts: &[Sexpr<'_>],
    domain: &Domain,
    numbers: &HashMap<&str, u16>,
) -> Result<Box<[u16]>, GameError> {
    let part = Part::Problem;
    let mut init: Vec<u16> = Vec::with_capacity(facts.len() * 3);
    let mut seen: NumberMap<u128, ()> = NumberMap::default();
    for fact in facts {
        let Some((name, arguments)) = fact.headed() else {
            return Err(fact.unexpected(part, "a fact (predicate object …)"));
        };
        match name {
            "=" => continue,
            "not" | "and" | "or" => {
                let feature = format!("`{name}` in :init");
                return Err(GameError::Unsupported { part, line: fact.line(), feature });
            }
            _ => {}
        }
        let Some(&predicate) = domain.by_name.get(name) else {
            return Err(fact.unexpected(part, "a predicate of the domain"));
        };
        if arguments.len() != domain.predicates[predicate as usize].arity {
            let expected = format!("{} arguments", domain.predicates[predicate as usize].arity);
            return Err(fact.unexpected(part, &expected));
        }
        let start = init.len();
        let mut key = u128::from(predicate);
        init.push(predicate);
        for argument in arguments {
            let word = argument.word(part, "an object")?;
            let Some(&number) = numbers.get(word) else {
                return Err(argument.unexpected(part, "an object of :objects"));
            };
            key = key << 16 | u128::from(number);
            init.push(number);
        }
        if seen.insert(key, ()).is_some() {
            init.truncate(start);
        }
    }
    Ok(init.into_boxed_slice())
}

/// The variables that are visible while a condition is read.
struct Scope {
    part: Part,
    variables: Vec<Variable>,
    /// Names in scope, innermost last.
    visible: Vec<(String, u16)>,
    /// Requirements written so far, see [`MAX_UNFOLDED`].
    unfolded: usize,
}

impl Scope {
    fn new(part: Part) -> Self {
        Self { part, variables: Vec::new(), visible: Vec::new(), unfolded: 0 }
    }

    fn declare(&mut self, items: &[Sexpr<'_>], types: &mut Types) -> Result<Vec<u16>, GameError> {
        let mut declared = Vec::new();
        for Entry { name, kind, line } in typed_list(items, self.part)? {
            if !name.starts_with('?') {
                let found = excerpt(name);
                let expected = "a variable".into();
                return Err(GameError::Syntax { part: self.part, line, found, expected });
            }
            if self.variables.len() == MAX_VARIABLES {
                let feature = "a condition with more than 24 variables".into();
                return Err(GameError::Unsupported { part: self.part, line, feature });
            }
            let kind = match kind {
                Some((kind, line)) => types.find_or_add(kind, self.part, line)?,
                None => 0,
            };
            let id = self.variables.len() as u16;
            self.variables.push(Variable { name: name[1..].into(), kind });
            self.visible.push((name.into(), id));
            declared.push(id);
        }
        Ok(declared)
    }

    fn term(&self, item: &Sexpr<'_>, constants: &mut Vec<String>) -> Result<Term, GameError> {
        let word = item.word(self.part, "a variable or an object")?;
        if word.starts_with('?') {
            let known = self.visible.iter().rev().find(|(name, _)| name == word);
            return match known {
                Some((_, id)) => Ok(Term::Variable(*id)),
                None => Err(item.unexpected(self.part, "a variable that a list of parameters declares")),
            };
        }
        let index = constants.iter().position(|known| known == word).unwrap_or_else(|| {
            constants.push(word.into());
            constants.len() - 1
        });
        if index == MAX_CONSTANTS {
            return Err(item.unexpected(self.part, "at most 1000 different objects in conditions"));
        }
        Ok(Term::Constant(index as u16))
    }

    fn atom(
        &self,
        item: &Sexpr<'_>,
        domain: &Domain,
        constants: &mut Vec<String>,
    ) -> Result<Atom, GameError> {
        let Some((name, arguments)) = item.headed() else {
            return Err(item.unexpected(self.part, "(predicate argument …)"));
        };
        let Some(&predicate) = domain.by_name.get(name) else {
            return Err(item.unexpected(self.part, "a predicate of the domain"));
        };
        let arity = domain.predicates[predicate as usize].arity;
        if arguments.len() != arity {
            return Err(item.unexpected(self.part, &format!("{arity} arguments")));
        }
        let terms = arguments.iter().map(|item| self.term(item, constants)).collect::<Result<_, _>>()?;
        Ok(Atom { predicate, terms })
    }

    /// A condition of an action; new types of its quantifiers are added to the domain.
    fn condition(
        &mut self,
        item: &Sexpr<'_>,
        negated: bool,
        domain: &mut Domain,
        constants: &mut Vec<String>,
    ) -> Result<Formula, GameError> {
        let mut types = std::mem::replace(&mut domain.types, Types::new());
        let formula = self.formula(item, negated, &mut types, domain, constants);
        domain.types = types;
        formula
    }

    fn goal(
        &mut self,
        item: &Sexpr<'_>,
        types: &mut Types,
        domain: &Domain,
        constants: &mut Vec<String>,
    ) -> Result<Formula, GameError> {
        self.formula(item, false, types, domain, constants)
    }

    fn formula(
        &mut self,
        item: &Sexpr<'_>,
        negated: bool,
        types: &mut Types,
        domain: &Domain,
        constants: &mut Vec<String>,
    ) -> Result<Formula, GameError> {
        let items = item.list(self.part, "a condition")?;
        if items.is_empty() {
            return Ok(if negated { Formula::Or(Vec::new()) } else { Formula::And(Vec::new()) });
        }
        let Some((head, rest)) = item.headed() else {
            return Err(item.unexpected(self.part, "a condition"));
        };
        let unsupported = |feature: &str| GameError::Unsupported {
            part: self.part,
            line: item.line(),
            feature: feature.into(),
        };
        match head {
            "and" | "or" => {
                let inner = rest
                    .iter()
                    .map(|item| self.formula(item, negated, types, domain, constants))
                    .collect::<Result<_, _>>()?;
                Ok(if (head == "and") == negated { Formula::Or(inner) } else { Formula::And(inner) })
            }
            "not" => match rest {
                [inner] => self.formula(inner, !negated, types, domain, constants),
                _ => Err(item.unexpected(self.part, "(not condition)")),
            },
            "exists" => {
                let [variables, inner] = rest else {
                    return Err(item.unexpected(self.part, "(exists (variables) condition)"));
                };
                if negated {
                    return Err(unsupported("`not` around `exists`"));
                }
                let before = self.visible.len();
                let declared = self.declare(variables.list(self.part, "a list of variables")?, types)?;
                let inner = self.formula(inner, negated, types, domain, constants)?;
                self.visible.truncate(before);
                Ok(Formula::Exists(declared, Box::new(inner)))
            }
            "=" => match rest {
                [left, right] => {
                    let (left, right) = (self.term(left, constants)?, self.term(right, constants)?);
                    let literal =
                        if negated { Literal::Differs(left, right) } else { Literal::Same(left, right) };
                    Ok(Formula::Literal(literal))
                }
                _ => Err(item.unexpected(self.part, "(= left right)")),
            },
            "forall" | "imply" | "when" | "<" | ">" | "<=" | ">=" => {
                Err(unsupported(&format!("`{head}` in a condition")))
            }
            _ => {
                let atom = self.atom(item, domain, constants)?;
                Ok(Formula::Literal(if negated { Literal::Lacks(atom) } else { Literal::Holds(atom) }))
            }
        }
    }

    fn effect(
        &mut self,
        item: &Sexpr<'_>,
        when: Option<&[Conjunction]>,
        domain: &mut Domain,
        constants: &mut Vec<String>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), GameError> {
        let items = item.list(self.part, "an effect")?;
        if items.is_empty() {
            return Ok(());
        }
        let Some((head, rest)) = item.headed() else {
            return Err(item.unexpected(self.part, "an effect"));
        };
        if effects.len() == 1000 {
            let feature = "an action with more than 1000 effects".into();
            return Err(GameError::Unsupported { part: self.part, line: item.line(), feature });
        }
        let (atom, adds) = match head {
            "and" => {
                for item in rest {
                    self.effect(item, when, domain, constants, effects)?;
                }
                return Ok(());
            }
            // Costs do not change what an agent can do.
            "increase" => return Ok(()),
            "when" => {
                let [condition, inner] = rest else {
                    return Err(item.unexpected(self.part, "(when condition effect)"));
                };
                if when.is_some() {
                    let feature = "`when` inside `when`".into();
                    return Err(GameError::Unsupported { part: self.part, line: item.line(), feature });
                }
                let formula = self.condition(condition, false, domain, constants)?;
                let when = alternatives(&formula, self.part, condition.line(), &mut self.unfolded)?;
                return self.effect(inner, Some(&when), domain, constants, effects);
            }
            "forall" | "decrease" | "assign" | "oneof" => {
                let feature = format!("`{head}` in an effect");
                return Err(GameError::Unsupported { part: self.part, line: item.line(), feature });
            }
            "not" => match rest {
                [inner] => (self.atom(inner, domain, constants)?, false),
                _ => return Err(item.unexpected(self.part, "(not atom)")),
            },
            _ => (self.atom(item, domain, constants)?, true),
        };
        // Each effect gets a copy of its condition.
        self.unfolded +=
            when.unwrap_or_default().iter().map(|conjunction| 1 + conjunction.len()).sum::<usize>();
        if self.unfolded > MAX_UNFOLDED {
            return Err(too_many(self.part, item.line()));
        }
        let when = when.map_or_else(|| vec![Vec::new()], <[_]>::to_vec);
        effects.push(Effect { when, atom, adds });
        Ok(())
    }
}

fn too_many(part: Part, line: usize) -> GameError {
    let feature = format!(
        "a condition with more than {MAX_ALTERNATIVES} alternatives or {MAX_REQUIREMENTS} requirements, or \
         {MAX_UNFOLDED} in all,"
    );
    GameError::Unsupported { part, line, feature }
}

/// Unfolds a condition to alternatives of plain conjunctions; quantified variables become free ones.
fn alternatives(
    formula: &Formula,
    part: Part,
    line: usize,
    unfolded: &mut usize,
) -> Result<Vec<Conjunction>, GameError> {
    let too_many = || too_many(part, line);
    Ok(match formula {
        Formula::Literal(literal) => vec![vec![literal.clone()]],
        Formula::Exists(_, inner) => alternatives(inner, part, line, unfolded)?,
        Formula::Or(inner) => {
            let mut all = Vec::new();
            for formula in inner {
                all.extend(alternatives(formula, part, line, unfolded)?);
                if all.len() > MAX_ALTERNATIVES {
                    return Err(too_many());
                }
            }
            all
        }
        Formula::And(inner) => {
            let mut all: Vec<Conjunction> = vec![Vec::new()];
            for formula in inner {
                let mut more = alternatives(formula, part, line, unfolded)?;
                let lengths = |list: &[Conjunction]| list.iter().map(|one| 1 + one.len()).sum::<usize>();
                if all.len() * more.len() > MAX_ALTERNATIVES {
                    return Err(too_many());
                }
                // What the next lines copy.
                *unfolded +=
                    all.len() * lengths(&more) + if more.len() > 1 { more.len() * lengths(&all) } else { 0 };
                if *unfolded > MAX_UNFOLDED {
                    return Err(too_many());
                }
                if more.len() == 1 {
                    let right = more.remove(0);
                    all.iter_mut().for_each(|left| left.extend_from_slice(&right));
                } else {
                    all = all
                        .iter()
                        .flat_map(|left| more.iter().map(|right| [left.as_slice(), right].concat()))
                        .collect();
                }
                if all.iter().any(|conjunction| conjunction.len() > MAX_REQUIREMENTS) {
                    return Err(too_many());
                }
                if all.is_empty() {
                    break;
                }
            }
            all
        }
    })
}

/// The alternatives of a part of a goal.
pub(super) fn goal_alternatives(
    formula: &Formula,
    line: usize,
    unfolded: &mut usize,
) -> Result<Vec<Conjunction>, GameError> {
    alternatives(formula, Part::Problem, line, unfolded)
}
