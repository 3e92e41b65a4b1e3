//! From a response to an action: what counts as one, and what makes it invalid.
//!
//! A *projection* reads the whole text that a policy wrote and takes the action from it. It never fails: a
//! senseless response still gives an action (the reference implementations send one to the environment too), and
//! [`Projected::invalid`] says what was wrong, so that a trainer can charge the penalty for it.
//!
//! The rules are those of verl-agent and its descendants, down to their quirks, since published numbers depend on
//! them. Each quirk is named where it lives.

use crate::search_qa::protocol::{Protocol, Request, cut_response};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

/// An action as an environment takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Action {
    /// The number of an action of a small fixed set; −1 where no action could be read.
    Index(i64),
    /// A command in words.
    Text(String),
}

impl Action {
    /// The action as a text: the command, or the index in decimal. What an environment takes for an index is told by
    /// [`Projection::command`].
    pub fn command(&self) -> Cow<'_, str> {
        match self {
            Action::Text(text) => Cow::Borrowed(text),
            Action::Index(index) => Cow::Owned(index.to_string()),
        }
    }
}

/// What is wrong with a response. The order is the order in which the reasons are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Invalid {
    /// No complete action, search or answer block, or no `"action":` with an action behind it.
    NoAction,
    /// The block is there, but none of the known actions is in it.
    UnknownAction,
    /// More than one action where exactly one is wanted.
    SeveralActions,
    /// The opening or the closing think tag is missing.
    NoThinking,
    /// An ideograph U+4E00–U+9FFF in the response (a sign of language mixing).
    Ideograph,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::NoAction => "no action block",
            Invalid::UnknownAction => "no known action in the action block",
            Invalid::SeveralActions => "more than one action",
            Invalid::NoThinking => "no complete think block",
            Invalid::Ideograph => "a CJK ideograph in the response",
        })
    }
}

/// The action that was read from a response, and whether the response had the required form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projected {
    /// What goes to the environment, also when the response is invalid.
    pub action: Action,
    /// Why the response is invalid; `None` when it is valid. Admissibility is *not* part of validity.
    pub invalid: Option<Invalid>,
}

impl Projected {
    /// The response had the required form.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_none()
    }
}

/// The games of `gym_cards` that share one projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardGame {
    /// `-`, `+`.
    NumberLine,
    /// `stand`, `hit`.
    Blackjack,
    /// `1` … `10`, `+`, `*`, `=`.
    EzPoints,
    /// `1` … `10`, `+`, `-`, `*`, `/`, `(`, `)`, `=`.
    Points24,
}

impl CardGame {
    /// The actions; the place in the list is the index that [`Projection::project`] returns.
    pub fn actions(self) -> &'static [&'static str] {
        match self {
            CardGame::NumberLine => &["-", "+"],
            CardGame::Blackjack => &["stand", "hit"],
            CardGame::EzPoints => &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "*", "="],
            CardGame::Points24 => {
                &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "+", "-", "*", "/", "(", ")", "="]
            }
        }
    }

    fn has_numbers(self) -> bool {
        matches!(self, CardGame::EzPoints | CardGame::Points24)
    }
}

/// The moves of Sokoban in the order in which they are looked for; the index is the environment's.
const SOKOBAN_MOVES: [(&str, i64); 5] = [("up", 1), ("down", 2), ("left", 3), ("right", 4), ("still", 0)];

/// The rule by which the action is taken from a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum Projection {
    /// The lower-cased, trimmed text between the first `<action>` and the first `</action>` (ALFWorld, WebShop).
    ///
    /// The two places are found independently: when the closing tag comes first the action is empty and still
    /// valid. Without the tags the action is the end of the lower-cased response, untrimmed.
    Tagged {
        /// How many characters of the end are sent when a tag is missing: 30 for ALFWorld, 20 for WebShop.
        fallback_chars: usize,
        /// Whether `<think>` and `</think>` (in exact lower case) must be there. Off for Qwen3 with thinking
        /// switched off, whose template has put an empty think block into the prompt already.
        require_think: bool,
    },
    /// Sokoban: the first of up, down, left, right, still contained *anywhere* in the action block, in that order.
    ///
    /// So `left then up` and `supper` are both up. Nothing found is 0 (still).
    Sokoban {
        /// As in [`Projection::Tagged`].
        require_think: bool,
    },
    /// Search-augmented question answering: one search or answer block, rebuilt with lower-case tags.
    ///
    /// The text is cut after the first `</search>`, else after the first `</answer>` (exact lower case); then a
    /// search block wins over an answer block (any case). A response with several opening tags is invalid, but its
    /// first block is still executed. Thinking is not required.
    SearchQa,
    /// The same with its slips switched one by one.
    SearchQaWith {
        /// The switches.
        rules: SearchRules,
    },
    /// Search-R1: the response up to and including its first `</search>`, else its first `</answer>`. It joins the
    /// transcript as it is, and its first complete block by position (exact lower case) is carried out; a response
    /// without one is invalid.
    SearchR1,
    /// `gym_cards`: the one action contained in the lower-cased text behind the key `"action":`.
    ///
    /// Two quirks stay: without the key only the very last character is looked at, and `10` is taken out of the text
    /// before the other actions are looked for, so `12` holds two actions and `100` is ten.
    Cards {
        /// Which set of actions.
        game: CardGame,
    },
    /// The whole trimmed response is the command: for tiny policies that say nothing else. Empty is invalid.
    Command,
}

/// How a response with several blocks is read, see [`Projection::SearchQa`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRules {
    /// A search wins over an answer wherever they stand, and the text is cut behind the first `</search>`. Off, the
    /// first complete block of the whole text counts.
    pub search_wins: bool,
    /// The action of an invalid response is carried out. Off, nothing is.
    pub execute_invalid: bool,
}

impl SearchRules {
    /// As verl-agent does.
    pub const VERL_AGENT: Self = Self { search_wins: true, execute_invalid: true };
    /// The first block, and only of a valid response.
    pub const CORRECTED: Self = Self { search_wins: false, execute_invalid: false };
}

impl Projection {
    /// The rule for an environment by its name: `alfworld`, `webshop`, `sokoban`, `sokoban_visual`, `search_qa`,
    /// `ezpoints`, `number_line`, `blackjack`, `points24` and each of these with `_text` behind it, `household`;
    /// `search_r1` for the other protocol of `search_qa`.
    ///
    /// `require_think` matters where actions stand in tags: `alfworld`, `webshop`, `sokoban` and `household`.
    ///
    /// # Errors
    /// [`UnknownProjection`] for any other name.
    pub fn for_environment(name: &str, require_think: bool) -> Result<Self, UnknownProjection> {
        Ok(match name {
            "alfworld" => Projection::Tagged { fallback_chars: 30, require_think },
            "webshop" => Projection::Tagged { fallback_chars: 20, require_think },
            "sokoban" | "sokoban_visual" => Projection::Sokoban { require_think },
            "search_qa" => Projection::SearchQa,
            "search_r1" => Projection::SearchR1,
            "ezpoints" | "ezpoints_text" => Projection::Cards { game: CardGame::EzPoints },
            "number_line" | "number_line_text" => Projection::Cards { game: CardGame::NumberLine },
            "blackjack" | "blackjack_text" => Projection::Cards { game: CardGame::Blackjack },
            "points24" | "points24_text" => Projection::Cards { game: CardGame::Points24 },
            // Its demonstrations mark the command with action tags, so that validity means something.
            "household" => Projection::Tagged { fallback_chars: 30, require_think },
            _ => return Err(UnknownProjection { name: name.to_owned() }),
        })
    }

    /// The text of an action for [`Environment::step`](crate::Environment::step): commands as they are, the moves of
    /// Sokoban by name, the actions of the card games as they are written; empty where no action could be read.
    pub fn command<'a>(&self, action: &'a Action) -> Cow<'a, str> {
        let &Action::Index(index) = action else { return action.command() };
        let name = match self {
            Projection::Sokoban { .. } => {
                SOKOBAN_MOVES.iter().find(|(_, known)| *known == index).map(|(name, _)| *name)
            }
            Projection::Cards { game } => {
                usize::try_from(index).ok().and_then(|index| game.actions().get(index).copied())
            }
            _ => return action.command(),
        };
        Cow::Borrowed(name.unwrap_or_default())
    }

    /// Takes the action from a response. Never fails, whatever the text.
    pub fn project(&self, response: &str) -> Projected {
        match *self {
            Projection::Tagged { fallback_chars, require_think } => {
                tagged(response, fallback_chars, require_think)
            }
            Projection::Sokoban { require_think } => sokoban(response, require_think),
            Projection::SearchQa => search_qa(response, SearchRules::VERL_AGENT),
            Projection::SearchQaWith { rules } => search_qa(response, rules),
            Projection::SearchR1 => {
                let kept = cut_response(response);
                let invalid = matches!(Protocol::SearchR1.request(kept), Request::Nothing);
                Projected {
                    action: Action::Text(kept.to_owned()),
                    invalid: invalid.then_some(Invalid::NoAction),
                }
            }
            Projection::Cards { game } => cards(response, game),
            Projection::Command => {
                let action = trim(response).to_owned();
                let invalid = action.is_empty().then_some(Invalid::NoAction);
                Projected { action: Action::Text(action), invalid }
            }
        }
    }
}

/// No projection is known for an environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no projection for environment `{name}`; known are alfworld, webshop, sokoban, sokoban_visual, search_qa, search_r1, ezpoints, number_line, blackjack, points24 (each also with `_text` behind it), household"
)]
pub struct UnknownProjection {
    /// The name that was asked for.
    pub name: String,
}

/// Trims white space as Python's `str.strip` does: Unicode white space and the separators U+001C–U+001F.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// The last `count` characters.
fn tail(text: &str, count: usize) -> &str {
    match count.checked_sub(1) {
        None => "",
        Some(n) => text.char_indices().rev().nth(n).map_or(text, |(at, _)| &text[at..]),
    }
}

/// What stands between the first opening and the first closing action tag; empty when they are in the wrong order,
/// `None` when one is missing.
fn action_block(lower: &str) -> Option<&str> {
    let start = lower.find("<action>")? + "<action>".len();
    let end = lower.find("</action>")?;
    Some(trim(lower.get(start..end).unwrap_or_default()))
}

fn thinks(response: &str) -> bool {
    response.contains("<think>") && response.contains("</think>")
}

fn tagged(response: &str, fallback_chars: usize, require_think: bool) -> Projected {
    let lower = response.to_lowercase();
    let (action, missing) = match action_block(&lower) {
        Some(block) => (block, None),
        None => (tail(&lower, fallback_chars), Some(Invalid::NoAction)),
    };
    let invalid =
        missing.or_else(|| (require_think && !thinks(response)).then_some(Invalid::NoThinking)).or_else(
            || response.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)).then_some(Invalid::Ideograph),
        );
    Projected { action: Action::Text(action.to_owned()), invalid }
}

fn sokoban(response: &str, require_think: bool) -> Projected {
    let lower = response.to_lowercase();
    let Some(block) = action_block(&lower) else {
        return Projected { action: Action::Index(0), invalid: Some(Invalid::NoAction) };
    };
    let (index, unknown) = match SOKOBAN_MOVES.iter().find(|(word, _)| block.contains(word)) {
        Some((_, index)) => (*index, None),
        None => (0, Some(Invalid::UnknownAction)),
    };
    let invalid = unknown.or_else(|| (require_think && !thinks(response)).then_some(Invalid::NoThinking));
    Projected { action: Action::Index(index), invalid }
}

// Case-insensitive by Unicode simple folding, so that even a long s (U+017F) opens a search, as in the reference.
static SEARCH_BLOCK: LazyLock<Regex> = LazyLock::new(|| pattern("(?is)<search>(.*?)</search>"));
static ANSWER_BLOCK: LazyLock<Regex> = LazyLock::new(|| pattern("(?is)<answer>(.*?)</answer>"));
static SEARCH_OPEN: LazyLock<Regex> = LazyLock::new(|| pattern("(?i)<search>"));
static ANSWER_OPEN: LazyLock<Regex> = LazyLock::new(|| pattern("(?i)<answer>"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a literal of this file")
}

fn search_qa(response: &str, rules: SearchRules) -> Projected {
    let text = trim(response);
    let block = |text: &str, pattern: &Regex, tag: &str| {
        let found = pattern.captures(text)?;
        Some((found.get(0)?.start(), format!("<{tag}>{}</{tag}>", trim(found.get(1)?.as_str()))))
    };
    let action = if rules.search_wins {
        let cut = ["</search>", "</answer>"]
            .iter()
            .find_map(|tag| text.find(tag).map(|at| &text[..at + tag.len()]))
            .unwrap_or(text);
        block(cut, &SEARCH_BLOCK, "search").or_else(|| block(cut, &ANSWER_BLOCK, "answer"))
    } else {
        let both = [block(text, &SEARCH_BLOCK, "search"), block(text, &ANSWER_BLOCK, "answer")];
        both.into_iter().flatten().min_by_key(|(at, _)| *at)
    };

    // Validity is judged on the whole response, not on the part that was kept.
    let searches = SEARCH_OPEN.find_iter(response).take(2).count();
    let answers = ANSWER_OPEN.find_iter(response).take(2).count();
    let invalid = match action {
        None => Some(Invalid::NoAction),
        Some(_) if searches + answers > 1 => Some(Invalid::SeveralActions),
        Some(_) => None,
    };
    let action = action.map(|(_, action)| action).filter(|_| rules.execute_invalid || invalid.is_none());
    Projected { action: Action::Text(action.unwrap_or_default()), invalid }
}

fn cards(response: &str, game: CardGame) -> Projected {
    const KEY: &str = "\"action\":";
    let lower = response.to_lowercase();
    // The reference slices from the index −1 when the key is missing, which leaves the last character.
    let mut text = Cow::Borrowed(lower.find(KEY).map_or_else(|| tail(&lower, 1), |at| &lower[at..]));
    let mut found = Vec::new();
    if game.has_numbers() && text.contains("10") {
        found.push("10");
        text = Cow::Owned(text.replace("10", ""));
    }
    for &action in game.actions() {
        if text.contains(action) && !found.contains(&action) {
            found.push(action);
        }
    }
    let (index, invalid) = match found[..] {
        [] => (-1, Some(Invalid::NoAction)),
        [only] => {
            let index = game.actions().iter().position(|action| *action == only);
            (index.map_or(-1, |index| index as i64), None)
        }
        _ => (-1, Some(Invalid::SeveralActions)),
    };
    Projected { action: Action::Index(index), invalid }
}
