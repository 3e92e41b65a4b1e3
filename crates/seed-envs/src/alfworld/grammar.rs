//! The text language of TextWorld's logic files (TWL2): command templates, feedback and the rules they use.

use super::error::{GameError, Part, excerpt};
use super::sexpr::MAX_TEXT;
use serde_json::Value;
use std::collections::HashMap;

/// Rules that call each other, at most this deep.
pub(super) const MAX_RULE_DEPTH: usize = 32;
/// Requirements of one query, at most: each is a level of recursion when a text is made.
const MAX_QUERY: usize = 64;
/// Pieces of all right-hand sides; ALFWorld's grammar has a few hundred.
const MAX_TOKENS: usize = 50_000;

/// A variable with the type it was written with; equal only when both words are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TypedName {
    pub(super) name: String,
    pub(super) kind: String,
}

/// `predicate(variables)` in a condition or query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryAtom {
    pub(super) predicate: String,
    /// Indices in [`Grammar::variables`].
    pub(super) variables: Vec<u16>,
}

/// What of an entity is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Name,
    Id,
    Indefinite,
    Definite,
}

/// A piece of an expression such as `o.indefinite + ' ' + o.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// The first attribute that is not empty.
    Of(String, Vec<Attribute>),
}

/// What a `{…}` prints for each match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Printed {
    Expression(Vec<Piece>),
    Rule(String),
}

/// A piece of a right-hand side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Text(String),
    Rule(String),
    /// All matches one after the other; without a query, once.
    Each {
        printed: Printed,
        query: Option<Vec<QueryAtom>>,
    },
    /// All matches as an enumeration.
    List {
        printed: Printed,
        query: Option<Vec<QueryAtom>>,
    },
    /// Something that this reader does not understand; an error only where a game can reach it.
    Broken(String),
}

/// One way to write a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    pub(super) condition: Option<Vec<QueryAtom>>,
    pub(super) tokens: Vec<Token>,
}

/// Template and feedback of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActionText {
    pub(super) template: Vec<Token>,
    pub(super) feedback: Vec<Token>,
}

/// A rule: alternatives in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    Alternatives(Vec<Alternative>),
    /// Plain text that never depends on anything; kept apart from the rest, since games of one form differ
    /// in such rules alone (the task).
    Text(usize),
}

/// Everything of a grammar but its constant texts; equal for all games of one form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rules {
    pub(super) variables: Vec<TypedName>,
    pub(super) rules: Vec<(String, Rule)>,
    pub(super) actions: Vec<(String, ActionText)>,
}

/// A parsed TWL2 text.
#[derive(Debug, Clone)]
pub struct Grammar {
    pub(super) rules: Rules,
    /// The constant texts that [`Rule::Text`] refers to.
    pub(super) texts: Vec<Box<str>>,
}

impl Grammar {
    /// Reads a grammar.
    ///
    /// # Errors
    /// With the line, when the text is not made of `grammar` and `action` blocks with valid JSON.
    pub fn parse(text: &str) -> Result<Self, GameError> {
        if text.len() > MAX_TEXT {
            return Err(GameError::TooLarge { what: "bytes of grammar", found: text.len(), limit: MAX_TEXT });
        }
        let mut reader = BlockReader { text, at: 0, counted: (0, 1) };
        let mut builder = Builder::default();
        loop {
            reader.skip_blank();
            if reader.rest().is_empty() {
                break;
            }
            match reader.word()? {
                "grammar" => {
                    reader.expect("::")?;
                    let (json, line) = reader.string()?;
                    reader.expect(";")?;
                    builder.rules(json, line)?;
                }
                "action" => builder.action(&mut reader)?,
                other => return Err(reader.syntax(&excerpt(other), "`grammar` or `action`")),
            }
        }
        Ok(builder.finish())
    }
}

/// Walks over the blocks of a logic file.
struct BlockReader<'a> {
    text: &'a str,
    at: usize,
    /// A place and its line: counting goes on from there, so that many short blocks cost no more than one long one.
    counted: (usize, usize),
}

impl<'a> BlockReader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn line(&mut self) -> usize {
        let (from, line) = self.counted;
        let passed = self.text.as_bytes()[from..self.at].iter().filter(|&&b| b == b'\n').count();
        self.counted = (self.at, line + passed);
        line + passed
    }

    fn syntax(&mut self, found: &str, expected: &str) -> GameError {
        let (found, expected) = (found.into(), expected.into());
        GameError::Syntax { part: Part::Grammar, line: self.line(), found, expected }
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn word(&mut self) -> Result<&'a str, GameError> {
        self.skip_blank();
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(rest.len());
        if length == 0 {
            let head = rest.get(..rest.chars().next().map_or(0, char::len_utf8)).unwrap_or_default();
            return Err(self.syntax(&excerpt(head), "a name"));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn expect(&mut self, mark: &str) -> Result<(), GameError> {
        self.skip_blank();
        if !self.rest().starts_with(mark) {
            let head: String = self.rest().chars().take(10).collect();
            return Err(self.syntax(&excerpt(&head), &format!("`{mark}`")));
        }
        self.at += mark.len();
        Ok(())
    }

    /// A text in single or triple double quotes, and the line on which it starts.
    fn string(&mut self) -> Result<(&'a str, usize), GameError> {
        self.skip_blank();
        let quote = if self.rest().starts_with("\"\"\"") { "\"\"\"" } else { "\"" };
        self.expect(quote)?;
        let line = self.line();
        let rest = self.rest();
        let Some(length) = rest.find(quote) else {
            return Err(self.syntax("a text without end", &format!("`{quote}`")));
        };
        self.at += length + quote.len();
        Ok((&rest[..length], line))
    }
}

/// A rule before constant texts are set apart.
#[derive(Default)]
struct Builder {
    variables: Vec<TypedName>,
    variable_ids: HashMap<TypedName, u16>,
    rules: Vec<(String, Vec<Alternative>)>,
    rule_ids: HashMap<String, usize>,
    actions: Vec<(String, ActionText)>,
    action_ids: HashMap<String, usize>,
    /// Pieces read so far.
    tokens: usize,
}

impl Builder {
    fn finish(self) -> Grammar {
        let mut texts = Vec::new();
        let rules = self
            .rules
            .into_iter()
            .map(|(name, mut alternatives)| {
                let constant = match alternatives.as_mut_slice() {
                    [Alternative { condition: None, tokens }] => match tokens.as_mut_slice() {
                        [Token::Text(text)] => Some(std::mem::take(text)),
                        _ => None,
                    },
                    _ => None,
                };
                let rule = match constant {
                    Some(text) => {
                        texts.push(text.into_boxed_str());
                        Rule::Text(texts.len() - 1)
                    }
                    None => Rule::Alternatives(alternatives),
                };
                (name, rule)
            })
            .collect();
        Grammar { rules: Rules { variables: self.variables, rules, actions: self.actions }, texts }
    }

    fn action(&mut self, reader: &mut BlockReader<'_>) -> Result<(), GameError> {
        let name = reader.word()?.to_lowercase();
        reader.expect("{")?;
        let (mut template, mut feedback) = (Vec::new(), Vec::new());
        loop {
            reader.skip_blank();
            if reader.rest().starts_with('}') {
                reader.at += 1;
                break;
            }
            let key = reader.word()?;
            reader.expect("::")?;
            let (value, line) = reader.string()?;
            reader.expect(";")?;
            match key {
                "template" => template = self.tokens(value),
                "feedback" => feedback = self.tokens(value),
                "grammar" => {
                    // Keeps the line numbers: a dropped line stays as an empty one.
                    let kept: Vec<&str> = value
                        .split('\n')
                        .map(|line| if line.trim_start().starts_with('#') { "" } else { line })
                        .collect();
                    self.rules(&kept.join("\n"), line)?;
                }
                "pddl" => {}
                _ => {
                    return Err(reader.syntax(&excerpt(key), "`template`, `feedback`, `grammar` or `pddl`"));
                }
            }
        }
        let text = ActionText { template, feedback };
        match self.action_ids.get(&name) {
            Some(&index) => self.actions[index].1 = text,
            None => {
                if self.actions.len() == 1000 {
                    return Err(reader.syntax("the 1001st action", "at most 1000"));
                }
                self.action_ids.insert(name.clone(), self.actions.len());
                self.actions.push((name, text));
            }
        }
        Ok(())
    }

    fn rules(&mut self, json: &str, line: usize) -> Result<(), GameError> {
        let syntax = |line: usize, found: String, expected: &str| GameError::Syntax {
            part: Part::Grammar,
            line,
            found,
            expected: expected.into(),
        };
        let value: Value = serde_json::from_str(json).map_err(|error| {
            syntax(line + error.line().saturating_sub(1), format!("text that is no JSON ({error})"), "JSON")
        })?;
        let Value::Object(map) = value else {
            return Err(syntax(line, excerpt(&value.to_string()), "an object of rules"));
        };
        for (name, value) in map {
            let wrong = |value: &Value, expected: &str| {
                syntax(line, format!("rule `{name}` with {}", excerpt(&value.to_string())), expected)
            };
            let Value::Array(list) = &value else {
                return Err(wrong(&value, "a list of alternatives"));
            };
            let mut alternatives = Vec::with_capacity(list.len());
            for item in list {
                let Some(Value::String(rhs)) = item.get("rhs") else {
                    return Err(wrong(item, "an object with the text `rhs`"));
                };
                let condition = match item.get("condition") {
                    None | Some(Value::Null) => None,
                    Some(Value::String(text)) if text.trim().is_empty() => None,
                    Some(Value::String(text)) => {
                        Some(self.query(text).map_err(|problem| wrong(item, &problem))?)
                    }
                    Some(other) => return Err(wrong(other, "a text as `condition`")),
                };
                alternatives.push(Alternative { condition, tokens: self.tokens(rhs) });
            }
            match self.rule_ids.get(&name) {
                Some(&index) => self.rules[index].1 = alternatives,
                None => {
                    if self.rules.len() == 10_000 {
                        return Err(syntax(line, "the 10001st rule".into(), "at most 10000"));
                    }
                    self.rule_ids.insert(name.clone(), self.rules.len());
                    self.rules.push((name, alternatives));
                }
            }
        }
        Ok(())
    }

    /// Reads a right-hand side; stops without a word at the first character that fits nothing.
    fn tokens(&mut self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut at = 0;
        loop {
            at = skip_before_token(text, at);
            let rest = &text[at..];
            let Some(first) = rest.chars().next() else { break };
            self.tokens += 1;
            if self.tokens > MAX_TOKENS {
                tokens.push(Token::Broken(format!("the grammar has more than {MAX_TOKENS} pieces of text")));
                break;
            }
            let (token, length) = match first {
                '"' => match rest[1..].find('"') {
                    Some(length) if !rest[1..=length].contains(RESERVED) => {
                        (Token::Text(rest[1..=length].into()), length + 2)
                    }
                    _ => break,
                },
                '#' => match rest[1..].find('#') {
                    Some(length) if length > 0 => (Token::Rule(rest[1..=length].trim().into()), length + 2),
                    _ => break,
                },
                '{' => match self.braces(rest) {
                    Some((Ok((printed, query)), length)) => (Token::Each { printed, query }, length),
                    Some((Err(problem), length)) => (Token::Broken(problem), length),
                    None => break,
                },
                '[' => {
                    let inner = rest[1..].trim_start();
                    let offset = rest.len() - inner.len();
                    match self.braces(inner) {
                        Some((outcome, length)) => {
                            let after = inner[length..].trim_start();
                            if !after.starts_with(']') {
                                break;
                            }
                            let token = match outcome {
                                Ok((printed, query)) => Token::List { printed, query },
                                Err(problem) => Token::Broken(problem),
                            };
                            (token, offset + (inner.len() - after.len()) + 1)
                        }
                        None => break,
                    }
                }
                _ if RESERVED.contains(&first) => break,
                _ => {
                    let length = rest.find(RESERVED).unwrap_or(rest.len());
                    (Token::Text(rest[..length].into()), length)
                }
            };
            match (tokens.last_mut(), token) {
                (Some(Token::Text(before)), Token::Text(more)) => before.push_str(&more),
                (_, token) => tokens.push(token),
            }
            at += length;
        }
        tokens
    }

    /// `{printed}` or `{printed | query}` at the start of `text`, with its length.
    #[expect(clippy::type_complexity, reason = "used in one place, twice")]
    fn braces(&mut self, text: &str) -> Option<(Result<(Printed, Option<Vec<QueryAtom>>), String>, usize)> {
        if !text.starts_with('{') {
            return None;
        }
        let length = text.find('}')? + 1;
        let inner = &text[1..length - 1];
        let (printed, query) = match inner.split_once('|') {
            Some((printed, query)) => (printed.trim(), Some(query)),
            None => (inner.trim(), None),
        };
        let outcome = (|| {
            let printed = match printed.strip_prefix('#').and_then(|rest| rest.strip_suffix('#')) {
                Some(rule) => Printed::Rule(rule.trim().into()),
                None => Printed::Expression(expression(printed)?),
            };
            let query = query.map(|query| self.query(query)).transpose()?;
            Ok((printed, query))
        })();
        Some((outcome, length))
    }

    /// `p(x:type, …) & q(…)`.
    fn query(&mut self, text: &str) -> Result<Vec<QueryAtom>, String> {
        let mut atoms = Vec::new();
        for atom in text.split('&') {
            if atoms.len() == MAX_QUERY {
                return Err(format!("at most {MAX_QUERY} requirements"));
            }
            let wrong = || format!("`predicate(variable:type, …)` instead of {}", excerpt(atom.trim()));
            let (predicate, rest) = atom.trim().split_once('(').ok_or_else(wrong)?;
            let list = rest.trim_end().strip_suffix(')').ok_or_else(wrong)?;
            if list.contains(['(', ')']) || predicate.trim().is_empty() {
                return Err(wrong());
            }
            let mut variables = Vec::new();
            for variable in list.split(',').map(str::trim).filter(|variable| !variable.is_empty()) {
                // TextWorld takes the name itself as the type where none is written.
                let (name, kind) = variable.split_once(':').unwrap_or((variable, variable));
                let typed = TypedName { name: name.trim().into(), kind: kind.trim().into() };
                let next = self.variables.len();
                if next == usize::from(u16::MAX) || variables.len() == 16 {
                    return Err("fewer variables".into());
                }
                let id = *self.variable_ids.entry(typed.clone()).or_insert(next as u16);
                if usize::from(id) == next {
                    self.variables.push(typed);
                }
                variables.push(id);
            }
            atoms.push(QueryAtom { predicate: predicate.trim().into(), variables });
        }
        Ok(atoms)
    }
}

/// Characters that end a literal.
const RESERVED: &[char] = &[';', '|', '"', '<', '>', '[', ']', '#', '{', '}'];

/// Tabs are skipped before a token; at the start of the text and of a line so are all blanks and `//` comments.
fn skip_before_token(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        let line_start = at == 0 || text[..at].ends_with('\n');
        let skipped = if line_start {
            let trimmed = rest.trim_start();
            let blank = rest.len() - trimmed.len();
            if trimmed.starts_with("//") && (blank == 0 || text[..at + blank].ends_with('\n')) {
                blank + trimmed.find('\n').map_or(trimmed.len(), |end| end + 1)
            } else {
                blank
            }
        } else {
            rest.len() - rest.trim_start_matches('\t').len()
        };
        if skipped == 0 {
            return at;
        }
        at += skipped;
    }
}

/// The part of Python that templates use: attributes and texts joined by `+`, with `or` between attributes.
fn expression(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    for term in split_terms(text) {
        let term = term.trim();
        let quoted = term.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
        if let Some(quote) = quoted {
            match term[1..].strip_suffix(quote) {
                Some(text) if !text.contains([quote, '\\']) => pieces.push(Piece::Text(text.into())),
                _ => return Err(format!("cannot read the text {}", excerpt(term))),
            }
            continue;
        }
        let mut attributes = Vec::new();
        let mut variable = None;
        for choice in term.split(" or ").map(str::trim) {
            let (name, attribute) = match choice.split_once('.') {
                Some((name, attribute)) => (name, attribute),
                None => (choice, "name"),
            };
            let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if !plain || variable.is_some_and(|before| before != name) {
                return Err(format!("cannot read the expression {}", excerpt(term)));
            }
            variable = Some(name);
            attributes.push(match attribute {
                "name" => Attribute::Name,
                "id" => Attribute::Id,
                "indefinite" => Attribute::Indefinite,
                "definite" => Attribute::Definite,
                _ => return Err(format!("there is no attribute {}", excerpt(attribute))),
            });
        }
        let variable = variable.unwrap_or_default();
        pieces.push(Piece::Of(variable.into(), attributes));
    }
    Ok(pieces)
}

/// Splits at every `+` outside quotes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut quote = None;
    let mut start = 0;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '+') => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}
