//! From rules and facts to what the agent reads.

use super::game::Game;
use super::grammar::Attribute;
use super::logic::{Body, Logic, Node, Part, Print, Requirement};
use super::relations::UNBOUND;

/// An observation is cut beyond this many bytes; ALFWorld's longest have about 2,000.
const MAX_TEXT: usize = 1 << 20;
/// Facts that the queries of one text may look at.
const MAX_LOOKS: usize = 1 << 22;

/// Which facts hold, by the number of their atom.
pub(super) trait Facts {
    fn holds(&self, atom: u32) -> bool;
    /// Whether the explicit fact `not_p` is there.
    fn denied(&self, atom: u32) -> bool;
}

/// Facts before a game starts: only what never changes is asked for.
pub(super) struct NoFacts;

impl Facts for NoFacts {
    fn holds(&self, _: u32) -> bool {
        false
    }
    fn denied(&self, _: u32) -> bool {
        false
    }
}

/// One text in the making.
pub(super) struct Renderer<'a, F> {
    game: &'a Game,
    logic: &'a Logic,
    facts: &'a F,
    /// Query variable and entity, in the order of binding.
    bindings: Vec<(u16, u16)>,
    looks: usize,
    out: String,
}

impl<'a, F: Facts> Renderer<'a, F> {
    pub(super) fn new(game: &'a Game, facts: &'a F) -> Self {
        let (bindings, out) = (Vec::with_capacity(12), String::with_capacity(256));
        Self { game, logic: &game.logic, facts, bindings, looks: 0, out }
    }

    pub(super) fn bind(mut self, variables: &[u16], entities: &[u16]) -> Self {
        self.bindings.extend(variables.iter().copied().zip(entities.iter().copied()));
        self
    }

    pub(super) fn rule(mut self, rule: u16) -> String {
        self.write_rule(rule);
        self.out
    }

    pub(super) fn nodes(self, nodes: &'a [Node]) -> String {
        self.nodes_and_looks(nodes).0
    }

    /// The text, and how many facts its queries looked at.
    pub(super) fn nodes_and_looks(mut self, nodes: &'a [Node]) -> (String, usize) {
        self.write(nodes);
        (self.out, self.looks)
    }

    fn full(&self) -> bool {
        self.out.len() > MAX_TEXT || self.looks > MAX_LOOKS
    }

    fn write_rule(&mut self, rule: u16) {
        let logic = self.logic;
        match &logic.bodies[rule as usize] {
            Body::Text(text) => self.out.push_str(&self.game.texts[*text]),
            Body::Alternatives(alternatives) => {
                for (condition, nodes) in alternatives {
                    if condition.as_deref().is_none_or(|query| self.any(query)) {
                        return self.write(nodes);
                    }
                }
            }
        }
    }

    fn write(&mut self, nodes: &'a [Node]) {
        for node in nodes {
            if self.full() {
                return;
            }
            match node {
                Node::Text(text) => self.out.push_str(text),
                Node::Rule(rule) => self.write_rule(*rule),
                Node::Broken(_) => {}
                Node::Each(print, None) => self.print(print),
                Node::Each(print, Some(query)) => {
                    self.matches(query, &mut |renderer| {
                        renderer.print(print);
                        !renderer.full()
                    });
                }
                Node::List(print, query) => self.list(print, query.as_deref()),
            }
        }
    }

    fn list(&mut self, print: &'a Print, query: Option<&'a [Requirement]>) {
        let Some([empty, separator, last]) = self.logic.list_rules else { return };
        // Where the text of each item starts; separators are put in afterwards, when the last one is known.
        let start = self.out.len();
        let mut starts: Vec<usize> = Vec::with_capacity(16);
        match query {
            None => {
                starts.push(start);
                self.print(print);
            }
            Some(query) => {
                self.matches(query, &mut |renderer| {
                    starts.push(renderer.out.len());
                    renderer.print(print);
                    !renderer.full()
                });
            }
        }
        match starts.len() {
            0 => self.write_rule(empty),
            1 => {}
            count => {
                let items = self.out.split_off(start);
                for (index, &item) in starts.iter().enumerate() {
                    if index + 1 == count {
                        self.write_rule(last);
                    } else if index > 0 {
                        self.write_rule(separator);
                    }
                    let end = starts.get(index + 1).map_or(items.len(), |&next| next - start);
                    self.out.push_str(&items[item - start..end]);
                }
            }
        }
    }

    fn print(&mut self, print: &'a Print) {
        match print {
            Print::Rule(rule) => self.write_rule(*rule),
            Print::Expression(parts) => {
                for part in parts {
                    match part {
                        Part::Text(text) => self.out.push_str(text),
                        Part::Of(name, attributes) => {
                            let variables = &self.logic.variables;
                            let bound = self.bindings.iter().rev();
                            let entity =
                                bound.into_iter().find(|(id, _)| variables[*id as usize].name == *name);
                            let Some(&(_, entity)) = entity else { continue };
                            let value = attributes
                                .iter()
                                .map(|attribute| match attribute {
                                    Attribute::Name => self.game.name(entity),
                                    Attribute::Id => self.game.id(entity),
                                    Attribute::Indefinite => "a",
                                    Attribute::Definite => "the",
                                })
                                .find(|value| !value.is_empty());
                            self.out.push_str(value.unwrap_or_default());
                        }
                    }
                }
            }
        }
    }

    fn any(&mut self, query: &'a [Requirement]) -> bool {
        let mut found = false;
        self.matches(query, &mut |_| {
            found = true;
            false
        });
        found
    }

    /// Calls `each` for every match, in the order of the facts' arguments, until it says false.
    fn matches(&mut self, query: &'a [Requirement], each: &mut dyn FnMut(&mut Self) -> bool) -> bool {
        let Some((requirement, rest)) = query.split_first() else { return each(self) };
        let Some(predicate) = requirement.predicate else { return true };
        let game = self.game;
        let table = &game.tables[predicate as usize];
        let arity = requirement.variables.len();
        let mut pattern = [UNBOUND; super::pddl::MAX_ARITY];
        for (value, variable) in pattern.iter_mut().zip(&requirement.variables) {
            if let Some((_, entity)) = self.bindings.iter().find(|(id, _)| id == variable) {
                *value = *entity;
            }
        }
        let before = self.bindings.len();
        // Facts whose types are the asked ones come first, those of subtypes after them.
        for exact in [true, false] {
            if !exact && table.uniform {
                break;
            }
            for row in table.rows(&pattern[..arity]) {
                self.looks += 1;
                let arguments = table.row(row);
                let atom = table.first_atom.map(|first| first + row as u32);
                let holds = match (atom, requirement.negated) {
                    (Some(atom), false) => self.facts.holds(atom),
                    (Some(atom), true) => self.facts.denied(atom),
                    (None, negated) => !negated,
                };
                if !holds || (!table.uniform && self.exact_types(requirement, arguments) != exact) {
                    continue;
                }
                let go_on = !self.bind_row(requirement, arguments) || self.matches(rest, each);
                self.bindings.truncate(before);
                if !go_on {
                    return false;
                }
                if self.full() {
                    return false;
                }
            }
        }
        true
    }

    fn exact_types(&self, requirement: &Requirement, arguments: &[u16]) -> bool {
        requirement.variables.iter().zip(arguments).all(|(&variable, &entity)| {
            self.logic.variables[variable as usize].kind == Some(self.game.kind(entity))
        })
    }

    fn bind_row(&mut self, requirement: &Requirement, arguments: &[u16]) -> bool {
        for (&variable, &entity) in requirement.variables.iter().zip(arguments) {
            match self.bindings.iter().find(|(id, _)| *id == variable) {
                Some((_, bound)) if *bound == entity => {}
                Some(_) => return false,
                None => {
                    let Some(kind) = self.logic.variables[variable as usize].kind else { return false };
                    let types = &self.logic.domain.types;
                    let taken = self.bindings.iter().any(|(_, bound)| *bound == entity);
                    if taken || !types.is_a(self.game.kind(entity), kind) {
                        return false;
                    }
                    self.bindings.push((variable, entity));
                }
            }
        }
        true
    }
}
