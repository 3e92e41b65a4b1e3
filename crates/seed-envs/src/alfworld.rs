//! ALFWorld: household games in text, equal to the official environment byte for byte.
//!
//! A game file holds three texts: a planning domain, a grammar in TextWorld's language for logic files, and a
//! planning problem. Nothing of ALFWorld's own domain is built in: another domain with its own grammar plays
//! the same way.
//!
//! ```
//! use seed_envs::alfworld::Game;
//! let domain = "(define (domain lamps) (:types lamp) (:predicates (on ?l - lamp))
//!   (:action press :parameters (?l - lamp) :precondition (not (on ?l)) :effect (on ?l)))";
//! let grammar = r##"
//! grammar :: """{"intro": [{"rhs": "A dark room. #task#"}], "task": [{"rhs": "Your task is to: light it."}]}""";
//! action press { template :: "press {l}"; feedback :: "The {l.name} glows."; }
//! "##;
//! let problem = "(define (problem one) (:domain lamps) (:objects lamp_bar_1 - lamp)
//!   (:init) (:goal (exists (?l - lamp) (on ?l))))";
//! let mut play = Game::from_texts(domain, grammar, problem)?.start();
//! assert_eq!(play.introduction(), "A dark room. Your task is to: light it.");
//! assert_eq!(play.step("press lamp").text, "Nothing happens.");
//! # Ok::<(), seed_envs::alfworld::GameError>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Domain`], [`Grammar`], [`Problem`] | the three texts, read |
//! | [`Logic`] | a domain and a grammar bound together; made once for all games of one form |
//! | [`Game`] | a compiled game, shared by everybody who plays it |
//! | [`GameState`] | one play: [`GameState::step`], [`GameState::admissible`], [`GameState::won`], [`GameState::plan`] |
//! | [`AlfWorld`] | the official data as a [`Suite`](crate::Suite) of tasks |
//! | [`HandcodedExpert`] | the official package's rule-based expert |
//! | [`demonstration`] | episodes of a player with bad habits, to imitate |
//! | [`GameOrder`] | the order in which the official package plays its games |

mod compile;
pub mod demonstration;
mod error;
mod game;
mod grammar;
mod handcoded;
mod load;
mod logic;
mod names;
mod order;
mod pddl;
mod plan;
mod relations;
mod sexpr;
mod state;
mod suite;
mod text;

pub use error::{GameError, Part};
pub use game::Game;
pub use grammar::Grammar;
pub use handcoded::{ExpertError, HandcodedExpert};
pub use load::TaskParameters;
pub use logic::Logic;
pub use order::GameOrder;
pub use pddl::{Domain, Problem};
pub use plan::{DEFAULT_STATES, Plan, PlanError};
pub use state::{GameState, Turn};
pub use suite::{AlfWorld, AlfWorldOptions, LoadReport, open_game};
