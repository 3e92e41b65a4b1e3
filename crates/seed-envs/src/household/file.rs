//! A game as a file: JSON with domain, grammar and problem, as ALFWorld's `game.tw-pddl` has them.

use super::generate::{Game, Goal, TaskKind};
use super::knowledge::{self, ReceptacleKind, Treatment};
use serde::Serialize;
use std::fmt::Write as _;

/// The rules of the world, the same text in every game.
pub const DOMAIN: &str = include_str!("domain.pddl");

/// The grammar of the world, with the slots `@ROOMS@` and `@TASK@`.
pub const GRAMMAR: &str = include_str!("grammar.twl2");

/// The contents of a `game.tw-pddl` file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GameFile {
    /// [`DOMAIN`].
    pub pddl_domain: String,
    /// [`GRAMMAR`] with its slots filled.
    pub grammar: String,
    /// Objects, initial facts and goal.
    pub pddl_problem: String,
    /// Always true.
    pub solvable: bool,
    /// A shortest winning list of commands.
    pub walkthrough: Vec<String>,
}

impl GameFile {
    /// Writes a game down.
    pub fn new(game: &Game) -> Self {
        Self {
            pddl_domain: DOMAIN.to_owned(),
            grammar: GRAMMAR
                .replace("@ROOMS@", &game.layout.rooms_text())
                .replace("@TASK@", &game.goal.text()),
            pddl_problem: problem(game),
            solvable: true,
            walkthrough: game.walkthrough(),
        }
    }

    /// The file's bytes: one line of JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("strings and a flag always serialise")
    }
}

/// The PDDL problem of a game.
///
/// The engine numbers equal things from the count downwards in the order of their ids; ids therefore count down, so that
/// `drawer 1` is the first drawer everywhere.
fn problem(game: &Game) -> String {
    let receptacles = ids(&game.layout.receptacles);
    let kinds: Vec<&str> = game.objects.iter().map(|placed| placed.kind.name).collect();
    let items = ids(&kinds);
    let mut item_kinds = kinds.clone();
    item_kinds.dedup();
    let receptacle_kinds = game.layout.kinds();

    let mut text = String::from(
        "(define (problem house)\n (:domain household)\n (:objects\n  agent - agent\n  hall - place\n",
    );
    // Writing to a string cannot fail.
    let mut line = |words: std::fmt::Arguments| writeln!(text, "  {words}").expect("strings take any text");
    for receptacle in &receptacles {
        line(format_args!("at_{receptacle} - place"));
        line(format_args!("{receptacle} - receptacle"));
    }
    for item in &items {
        line(format_args!("{item} - item"));
    }
    for kind in &receptacle_kinds {
        line(format_args!("{}_kind - receptaclekind", kind.name));
    }
    for kind in &item_kinds {
        line(format_args!("{kind}_kind - itemkind"));
    }
    line(format_args!(")\n (:init\n  (near agent hall)"));
    for (receptacle, name) in receptacles.iter().zip(&game.layout.receptacles) {
        line(format_args!("(standsat {receptacle} at_{receptacle})"));
        line(format_args!("(receptaclekind {receptacle} {name}_kind)"));
        for fact in knowledge::receptacle(name).map(receptacle_facts).unwrap_or_default() {
            line(format_args!("({fact} {receptacle})"));
        }
    }
    for (item, placed) in items.iter().zip(&game.objects) {
        line(format_args!("(itemkind {item} {}_kind)", placed.kind.name));
        line(format_args!("(inside {item} {})", receptacles[placed.at]));
        line(format_args!("({} {item})", if placed.kind.portable() { "portable" } else { "lamp" }));
        for treatment in placed.kind.treatments {
            line(format_args!("({}able {item})", treatment.verb()));
        }
    }
    for receptacle in &receptacle_kinds {
        for item in item_kinds.iter().filter_map(|name| knowledge::object(name)) {
            if receptacle.accepts.contains(&item.group) {
                line(format_args!("(accepts {}_kind {}_kind)", receptacle.name, item.name));
            }
        }
    }
    line(format_args!(")\n (:goal {}))", goal(&game.goal)));
    text
}

fn receptacle_facts(kind: &ReceptacleKind) -> Vec<&'static str> {
    let treats = kind.treats.map(|treatment| match treatment {
        Treatment::Clean => "cleans",
        Treatment::Heat => "heats",
        Treatment::Cool => "cools",
    });
    kind.openable.then_some("openable").into_iter().chain(treats).collect()
}

fn goal(goal: &Goal) -> String {
    let Goal { kind, object, target, .. } = goal;
    let object = object.name;
    match kind {
        TaskKind::Pick | TaskKind::Treat(_) => {
            let state = match kind {
                TaskKind::Treat(treatment) => format!(" ({} ?o)", treatment.state()),
                _ => String::new(),
            };
            format!(
                "(exists (?r - receptacle ?o - item) (and (receptaclekind ?r {target}_kind) (itemkind ?o {object}_kind) \
                 (inside ?o ?r){state}))"
            )
        }
        TaskKind::PickTwo => format!(
            "(exists (?r - receptacle ?o - item ?p - item) (and (receptaclekind ?r {target}_kind) \
             (itemkind ?o {object}_kind) (itemkind ?p {object}_kind) (not (= ?o ?p)) (inside ?o ?r) (inside ?p ?r)))"
        ),
        TaskKind::Look => format!(
            "(exists (?a - agent ?o - item ?l - item ?r - receptacle ?s - place) (and (itemkind ?o {object}_kind) \
             (itemkind ?l {target}_kind) (holds ?a ?o) (shining ?l) (inside ?l ?r) (standsat ?r ?s) (near ?a ?s)))"
        ),
    }
}

/// Ids whose numbers count down inside a kind: two drawers are `drawer_bar_02`, `drawer_bar_01`.
fn ids(kinds: &[&str]) -> Vec<String> {
    let mut left = 0;
    kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| {
            let first = index == 0 || kinds[index - 1] != *kind;
            left = if first {
                kinds[index..].iter().take_while(|other| *other == kind).count()
            } else {
                left - 1
            };
            format!("{kind}_bar_{left:02}")
        })
        .collect()
}
