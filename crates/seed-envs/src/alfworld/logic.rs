//! A domain and a grammar bound together: names replaced by numbers, everything that text needs checked once.

use super::error::{GameError, excerpt};
use super::grammar::{
    Attribute, Grammar, MAX_RULE_DEPTH, Piece, Printed, QueryAtom, Rule, Rules, Token, TypedName,
};
use super::pddl::{Domain, TypeId};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Rule calls that the check of one logic follows, at most.
const MAX_CHECKED_CALLS: usize = 10_000;
/// Pieces of text that one rule may stand for, each query with one match.
const MAX_PIECES: usize = 10_000;
/// Pieces that the check of one logic looks at, rules that are called in several ways counted each time.
const MAX_CHECKED_PIECES: usize = 300_000;
/// Variables that one text may bind.
const MAX_BOUND: usize = 100;

/// A requirement of a query, resolved.
#[derive(Debug, Clone)]
pub(super) struct Requirement {
    /// `None` where the domain has no such predicate: never satisfied.
    pub(super) predicate: Option<u16>,
    /// Asks for the explicit negative fact `not_p`.
    pub(super) negated: bool,
    pub(super) variables: Vec<u16>,
}

/// A piece of an expression; variables are looked up by name alone.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Text(Box<str>),
    Of(u16, Vec<Attribute>),
}

/// What is printed for each match.
#[derive(Debug, Clone)]
pub(super) enum Print {
    Expression(Vec<Part>),
    Rule(u16),
}

/// A piece of text, resolved.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(Box<str>),
    Rule(u16),
    Each(Print, Option<Vec<Requirement>>),
    List(Print, Option<Vec<Requirement>>),
    /// Never reached: the check refuses logics that can reach it.
    Broken(String),
}

/// A rule, resolved.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Alternatives(Vec<(Option<Vec<Requirement>>, Vec<Node>)>),
    Text(usize),
}

/// A variable of queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryVariable {
    pub(super) name: u16,
    /// `None` for a type that the domain does not have.
    pub(super) kind: Option<TypeId>,
}

/// Texts of one action.
#[derive(Debug, Clone)]
pub(super) struct Wording {
    pub(super) template: Vec<Node>,
    pub(super) feedback: Vec<Node>,
    /// The query variable of each parameter.
    pub(super) parameters: Vec<u16>,
    /// Whether the template uses parameter `i`.
    pub(super) shown: Vec<bool>,
}

/// Domain and rules of one form of games; shared by all games of that form.
#[derive(Debug)]
pub struct Logic {
    pub(super) domain: Domain,
    pub(super) rules: Rules,
    pub(super) bodies: Vec<Body>,
    pub(super) variables: Vec<QueryVariable>,
    pub(super) wordings: Vec<Wording>,
    pub(super) intro: u16,
    /// Rules `list_empty`, `list_separator`, `list_last_separator`.
    pub(super) list_rules: Option<[u16; 3]>,
    /// Predicates that queries ask for.
    pub(super) queried: Vec<bool>,
}

struct Resolver<'a> {
    domain: &'a Domain,
    rules: HashMap<&'a str, u16>,
    names: HashMap<String, u16>,
}

impl Resolver<'_> {
    fn name(&mut self, name: &str) -> u16 {
        let next = self.names.len() as u16;
        *self.names.entry(name.to_owned()).or_insert(next)
    }

    fn query(&self, atoms: &[QueryAtom]) -> Vec<Requirement> {
        let resolve = |atom: &QueryAtom| {
            let known = |name: &str| {
                let predicate = self.domain.by_name.get(name).copied();
                predicate.filter(|&id| self.domain.predicates[id as usize].arity == atom.variables.len())
            };
            let (predicate, negated) = match known(&atom.predicate) {
                Some(predicate) => (Some(predicate), false),
                None => (atom.predicate.strip_prefix("not_").and_then(known), true),
            };
            Requirement { predicate, negated, variables: atom.variables.clone() }
        };
        atoms.iter().map(resolve).collect()
    }

    fn rule(&self, name: &str) -> Result<u16, String> {
        self.rules.get(name).copied().ok_or_else(|| format!("there is no rule {}", excerpt(name)))
    }

    fn print(&mut self, printed: &Printed) -> Result<Print, String> {
        Ok(match printed {
            Printed::Rule(name) => Print::Rule(self.rule(name)?),
            Printed::Expression(pieces) => Print::Expression(
                pieces
                    .iter()
                    .map(|piece| match piece {
                        Piece::Text(text) => Part::Text(text.as_str().into()),
                        Piece::Of(name, attributes) => Part::Of(self.name(name), attributes.clone()),
                    })
                    .collect(),
            ),
        })
    }

    fn nodes(&mut self, tokens: &[Token]) -> Vec<Node> {
        tokens
            .iter()
            .map(|token| match token {
                Token::Text(text) => Node::Text(text.as_str().into()),
                Token::Rule(name) => self.rule(name).map_or_else(Node::Broken, Node::Rule),
                Token::Each { printed, query } => {
                    let query = query.as_deref().map(|query| self.query(query));
                    self.print(printed).map_or_else(Node::Broken, |print| Node::Each(print, query))
                }
                Token::List { printed, query } => {
                    let query = query.as_deref().map(|query| self.query(query));
                    self.print(printed).map_or_else(Node::Broken, |print| Node::List(print, query))
                }
                Token::Broken(problem) => Node::Broken(problem.clone()),
            })
            .collect()
    }
}

impl Logic {
    /// Binds a domain and the rules of a grammar together.
    ///
    /// # Errors
    /// When an action has no template, or a text that a game can reach uses a missing rule, an unbound
    /// variable, rules that call each other without end, or a construct that the reader does not know.
    pub fn new(domain: Domain, grammar: &Grammar) -> Result<Arc<Self>, GameError> {
        let fail = |problem: String| Err(GameError::Grammar { problem });
        let rules = &grammar.rules;
        let mut typed = rules.variables.clone();
        let mut resolver = Resolver {
            domain: &domain,
            rules: rules.rules.iter().enumerate().map(|(id, (name, _))| (name.as_str(), id as u16)).collect(),
            names: HashMap::new(),
        };
        let bodies: Vec<Body> = rules
            .rules
            .iter()
            .map(|(_, rule)| match rule {
                Rule::Text(text) => Body::Text(*text),
                Rule::Alternatives(alternatives) => Body::Alternatives(
                    alternatives
                        .iter()
                        .map(|alternative| {
                            let condition =
                                alternative.condition.as_deref().map(|query| resolver.query(query));
                            (condition, resolver.nodes(&alternative.tokens))
                        })
                        .collect(),
                ),
            })
            .collect();
        let mut wordings = Vec::new();
        for schema in &domain.schemas {
            let Some((_, text)) = rules.actions.iter().find(|(name, _)| *name == schema.name) else {
                return fail(format!("the domain's action `{}` has no `action` block", schema.name));
            };
            if text.template.is_empty() {
                return fail(format!("the action `{}` has no template", schema.name));
            }
            let parameters = schema.variables[..schema.parameters]
                .iter()
                .map(|variable| {
                    let kind = domain.types.name(variable.kind).to_owned();
                    let name = TypedName { name: variable.name.clone(), kind };
                    typed.iter().position(|known| *known == name).unwrap_or_else(|| {
                        typed.push(name);
                        typed.len() - 1
                    }) as u16
                })
                .collect();
            wordings.push(Wording {
                template: resolver.nodes(&text.template),
                feedback: resolver.nodes(&text.feedback),
                parameters,
                shown: Vec::new(),
            });
        }
        let variables: Vec<QueryVariable> = typed
            .iter()
            .map(|typed| QueryVariable {
                name: resolver.name(&typed.name),
                kind: domain.types.find(&typed.kind),
            })
            .collect();
        let Ok(intro) = resolver.rule("intro") else {
            return fail("the rule `intro` is missing".into());
        };
        let list = |name: &str| resolver.rule(name);
        let list_rules = match (list("list_empty"), list("list_separator"), list("list_last_separator")) {
            (Ok(empty), Ok(separator), Ok(last)) => Some([empty, separator, last]),
            _ => None,
        };
        let mut names = vec![String::new(); resolver.names.len()];
        for (name, id) in &resolver.names {
            names[*id as usize].clone_from(name);
        }
        drop(resolver);
        let mut check = Check {
            rules,
            bodies: &bodies,
            variables: &variables,
            names: &names,
            domain: &domain,
            list_rules,
            seen: HashMap::new(),
            pieces: 0,
            queried: vec![false; domain.predicates.len()],
        };
        check.rule(intro, &BTreeSet::new(), false)?;
        for (schema, wording) in domain.schemas.iter().zip(&wordings) {
            let place = format!("action `{}`", schema.name);
            let bound: BTreeSet<u16> =
                wording.parameters.iter().map(|&id| variables[id as usize].name).collect();
            check.nodes(&wording.template, &bound, true, &place)?;
            check.nodes(&wording.feedback, &bound, false, &place)?;
        }
        let queried = check.queried;
        for wording in &mut wordings {
            let used: Vec<bool> = wording
                .parameters
                .iter()
                .map(|&id| mentions(&wording.template, id, variables[id as usize].name))
                .collect();
            wording.shown = used;
        }
        let rules = rules.clone();
        Ok(Arc::new(Self { domain, rules, bodies, variables, wordings, intro, list_rules, queried }))
    }

    /// Whether a game with this grammar can share this logic: same rules, only constant texts differ.
    pub fn fits(&self, grammar: &Grammar) -> bool {
        self.rules == grammar.rules
    }

    /// The domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

/// Whether a template's text can depend on a parameter.
fn mentions(nodes: &[Node], variable: u16, name: u16) -> bool {
    nodes.iter().any(|node| match node {
        Node::Text(_) | Node::Broken(_) => false,
        Node::Rule(_) => true,
        Node::Each(print, query) | Node::List(print, query) => {
            let printed = match print {
                Print::Rule(_) => true,
                Print::Expression(parts) => {
                    parts.iter().any(|part| matches!(part, Part::Of(of, _) if *of == name))
                }
            };
            let asked = query.iter().flatten().any(|atom| atom.variables.contains(&variable));
            // A parameter that a query does not name still excludes its entity from the matches.
            printed || asked || query.is_some()
        }
    })
}

struct Check<'a> {
    rules: &'a Rules,
    bodies: &'a [Body],
    variables: &'a [QueryVariable],
    names: &'a [String],
    domain: &'a Domain,
    list_rules: Option<[u16; 3]>,
    /// What was found for a rule called with these names bound; `None` while it is being checked.
    seen: HashMap<(u16, BTreeSet<u16>, bool), Option<Extent>>,
    /// How many pieces were looked at.
    pieces: usize,
    queried: Vec<bool>,
}

/// How much text a rule can stand for.
#[derive(Clone, Copy, Default)]
struct Extent {
    /// Levels of calls.
    height: usize,
    /// Pieces, with one match for each query.
    pieces: usize,
}

impl Extent {
    fn add(&mut self, other: Self) {
        self.height = self.height.max(other.height);
        self.pieces = self.pieces.saturating_add(other.pieces);
    }
}

impl Check<'_> {
    fn fail<T>(&self, place: &str, problem: &str) -> Result<T, GameError> {
        Err(GameError::Grammar { problem: format!("{place}: {problem}") })
    }

    fn rule(&mut self, rule: u16, bound: &BTreeSet<u16>, fixed: bool) -> Result<Extent, GameError> {
        let place = format!("rule {}", excerpt(&self.rules.rules[rule as usize].0));
        let bodies = self.bodies;
        let Body::Alternatives(alternatives) = &bodies[rule as usize] else {
            return Ok(Extent { height: 1, pieces: 1 });
        };
        let call = (rule, bound.clone(), fixed);
        match self.seen.get(&call) {
            Some(Some(extent)) => return Ok(*extent),
            Some(None) => return self.fail(&place, "it calls itself"),
            None => {}
        }
        if self.seen.len() == MAX_CHECKED_CALLS
            || self.seen.values().filter(|e| e.is_none()).count() > MAX_RULE_DEPTH
        {
            return self.fail(&place, "rules call each other too deeply or in too many ways");
        }
        self.seen.insert(call.clone(), None);
        let mut extent = Extent::default();
        for (condition, nodes) in alternatives {
            if let Some(condition) = condition {
                self.query(condition, bound, fixed, &place)?;
            }
            extent.add(self.nodes(nodes, bound, fixed, &place)?);
        }
        extent.add(Extent { height: extent.height + 1, pieces: 1 });
        if extent.pieces > MAX_PIECES {
            return self.fail(&place, "it stands for more than 10000 pieces of text");
        }
        self.seen.insert(call, Some(extent));
        Ok(extent)
    }

    fn query(
        &mut self,
        query: &[Requirement],
        bound: &BTreeSet<u16>,
        fixed: bool,
        place: &str,
    ) -> Result<BTreeSet<u16>, GameError> {
        let mut bound = bound.clone();
        for requirement in query {
            if let Some(predicate) = requirement.predicate {
                self.queried[predicate as usize] = true;
                if fixed && self.domain.predicates[predicate as usize].fluent {
                    return self.fail(place, "the command depends on facts that change");
                }
            }
            bound.extend(requirement.variables.iter().map(|&id| self.variables[id as usize].name));
        }
        if bound.len() > MAX_BOUND {
            return self.fail(place, "it binds more than 100 variables");
        }
        Ok(bound)
    }

    /// `fixed` texts must not depend on facts that change (commands are made once per game).
    fn nodes(
        &mut self,
        nodes: &[Node],
        bound: &BTreeSet<u16>,
        fixed: bool,
        place: &str,
    ) -> Result<Extent, GameError> {
        let mut extent = Extent { height: 0, pieces: nodes.len() };
        self.pieces += nodes.len();
        if self.pieces > MAX_CHECKED_PIECES {
            return self.fail(
                place,
                "the grammar has too many pieces of text, or its rules call each other too often",
            );
        }
        for node in nodes {
            match node {
                Node::Text(_) => {}
                Node::Broken(problem) => return self.fail(place, problem),
                Node::Rule(rule) => extent.add(self.rule(*rule, bound, fixed)?),
                Node::Each(print, query) | Node::List(print, query) => {
                    if matches!(node, Node::List(..)) {
                        let Some(rules) = self.list_rules else {
                            let problem = "a list needs the rules `list_empty`, `list_separator`, `list_last_separator`";
                            return self.fail(place, problem);
                        };
                        for rule in rules {
                            extent.add(self.rule(rule, bound, fixed)?);
                        }
                    }
                    let bound = match query {
                        Some(query) => Cow::Owned(self.query(query, bound, fixed, place)?),
                        None => Cow::Borrowed(bound),
                    };
                    match print {
                        Print::Rule(rule) => extent.add(self.rule(*rule, &bound, fixed)?),
                        Print::Expression(parts) => {
                            for part in parts {
                                if let Part::Of(name, _) = part
                                    && !bound.contains(name)
                                {
                                    let name = &self.names[*name as usize];
                                    return self.fail(place, &format!("nothing binds {}", excerpt(name)));
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(extent)
    }
}
