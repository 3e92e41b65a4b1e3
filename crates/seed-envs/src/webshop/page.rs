//! What stands on a page, and how it is written as text.

use super::python_text::is_space;
use std::borrow::Cow;
use std::fmt::Write as _;

/// What joins the parts of a page.
pub const JOINT: &str = " [SEP] ";

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextMode {
    /// Parts joined by ` [SEP] `.
    #[default]
    Text,
    /// A line for each part, with marks around what can be clicked and what was clicked.
    Rich,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node<'p> {
    /// Words.
    Text(Cow<'p, str>),
    /// A button.
    Button(&'static str),
    /// A value of an option.
    Option(&'p str),
    /// A link to a product.
    Link(&'p str),
}

impl Node<'_> {
    /// The text that a browser would keep: nothing of an empty one, one blank of one that is only blanks, and nothing
    /// where those hold a line feed.
    fn text(&self) -> Option<&str> {
        let text: &str = match self {
            Self::Text(text) => text,
            Self::Button(text) => text,
            Self::Option(text) | Self::Link(text) => text,
        };
        if text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0xc | b'\r')) {
            return (!text.is_empty() && !text.contains('\n')).then_some(" ");
        }
        Some(text)
    }
}

/// Writes a page as parts.
pub(crate) fn plain(nodes: &[Node<'_>]) -> String {
    let mut page = String::new();
    let mut between = "";
    for text in nodes.iter().filter_map(Node::text) {
        page.push_str(between);
        between = JOINT;
        page.push_str(text.trim_matches(is_space));
    }
    page
}

/// Writes a page line by line. `address` tells which options were clicked, `visited` which links.
pub(crate) fn rich(nodes: &[Node<'_>], address: &str, visited: impl Fn(&str) -> bool) -> String {
    let mut page = String::new();
    let mut clicked = Vec::new();
    for node in nodes {
        let Some(text) = node.text() else { continue };
        // Writing to a string cannot fail.
        _ = match node {
            Node::Text(_) => writeln!(page, "{text}"),
            Node::Button(_) => writeln!(page, "[button] {text} [button_]"),
            Node::Option(_) if address.contains(&format!("\"{text}\"")) => {
                clicked.push(text);
                writeln!(page, "  [clicked button] {text} [clicked button_]")
            }
            Node::Option(_) => writeln!(page, "  [button] {text} [button_]"),
            Node::Link(_) if visited(text) => writeln!(page, "\n[clicked button] {text} [clicked button_]"),
            Node::Link(_) => writeln!(page, "\n[button] {text} [button_]"),
        };
    }
    let mut front = String::new();
    for text in clicked.into_iter().rev() {
        _ = writeln!(front, "You have clicked {text}.");
    }
    front + &page
}
