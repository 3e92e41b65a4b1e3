//! The text environment of the reference with its own sessions, random draws and history, to repeat recorded runs.

use super::goals::weighted_index;
use super::page::{JOINT, TextMode};
use super::reward::Reward;
use super::session::{Effect, Session};
use super::shop::Shop;
use crate::environment::EnvError;
use crate::pyrandom::PythonRandom;
use std::collections::HashMap;
use std::sync::Arc;

/// Which reference is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// princeton-nlp/WebShop.
    #[default]
    Official,
    /// The copy in verl-agent and its descendants: after a purchase it starts a random session before it looks at the
    /// page, so that the last observation belongs to another task.
    VerlAgent,
}

/// How the environment is set up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// Which reference.
    pub dialect: Dialect,
    /// How pages are written.
    pub mode: TextMode,
    /// Earlier observations in front of an observation.
    pub num_prev_obs: usize,
    /// Earlier actions in front of an observation.
    pub num_prev_actions: usize,
    /// What is put in front of each session's name.
    pub session_prefix: String,
}

/// Which session is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionName<'n> {
    /// The goal of that number.
    Goal(usize),
    /// A name; the first time, a goal is drawn for it.
    Named(&'n str),
    /// Ten random letters.
    Random,
}

/// What a step gave.
#[derive(Debug, Clone, PartialEq)]
pub struct TextStep {
    /// The page, with history where that is asked for.
    pub observation: String,
    /// The reward of this step.
    pub reward: f64,
    /// Something was bought.
    pub done: bool,
    /// The parts of the reward of a purchase.
    pub breakdown: Option<Reward>,
}

/// The environment.
#[derive(Debug, Clone)]
pub struct TextEnvironment {
    shop: Arc<Shop>,
    options: TextOptions,
    random: PythonRandom,
    weights: Arc<[f64]>,
    /// Goals of the sessions that there have been.
    goals: HashMap<String, usize>,
    session: Session,
    seen: Vec<String>,
    done: Vec<String>,
}

impl TextEnvironment {
    /// Over a shop, with the generator as [`Shop::new`] left it. A random session is started, as in the reference.
    pub fn new(shop: Arc<Shop>, options: TextOptions, random: PythonRandom) -> Self {
        let weights = shop.cumulative_weights().into();
        let session = Session::new(shop.clone(), 0, "");
        let mut environment = Self {
            shop,
            options,
            random,
            weights,
            goals: HashMap::new(),
            session,
            seen: Vec::new(),
            done: Vec::new(),
        };
        environment.start_random();
        environment
    }

    /// Seeds the generator anew.
    pub fn seed(&mut self, seed: i128) {
        self.random = PythonRandom::from_int(seed);
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Starts a session and returns its name and the first page.
    ///
    /// # Errors
    /// When there is no goal of that number.
    pub fn reset(&mut self, name: SessionName<'_>) -> Result<(String, String), EnvError> {
        let name = match name {
            SessionName::Goal(number) if number >= self.shop.goals() => {
                let id = format!("goal {number} of {}", self.shop.goals());
                return Err(EnvError::UnknownTask { suite: "webshop".into(), id });
            }
            SessionName::Goal(number) => self.start(&number.to_string(), Some(number)),
            SessionName::Named(name) => self.start(name, None),
            SessionName::Random => self.start_random(),
        };
        Ok((name, self.seen[0].clone()))
    }

    fn start_random(&mut self) -> String {
        let name: String =
            (0..10).map(|_| char::from(b'a' + (self.random.random() * 26.0).floor() as u8)).collect();
        self.start(&name, None)
    }

    fn start(&mut self, name: &str, number: Option<usize>) -> String {
        let name = format!("{}{name}", self.options.session_prefix);
        let goal = match self.goals.get(&name) {
            Some(&goal) => goal,
            None => {
                let goal = number.unwrap_or_else(|| weighted_index(&self.weights, &mut self.random));
                self.goals.insert(name.clone(), goal);
                goal
            }
        };
        self.session = Session::new(self.shop.clone(), goal, &name);
        self.seen = vec![self.session.text(self.options.mode)];
        self.done.clear();
        name
    }

    /// Carries out an action.
    pub fn step(&mut self, action: &str) -> TextStep {
        let breakdown = match self.session.act(action, &mut self.random) {
            Effect::Bought(reward) => Some(reward),
            Effect::Carried | Effect::Ignored | Effect::Refused(_) => None,
        };
        if breakdown.is_some() && self.options.dialect == Dialect::VerlAgent {
            self.start_random();
        }
        let page = self.session.text(self.options.mode);
        self.done.push(action.to_owned());
        let mut parts = vec![page.as_str()];
        let last = |list: &[String], back: usize| list.len().checked_sub(back);
        for back in 1..=self.options.num_prev_obs.max(self.options.num_prev_actions) {
            if let Some(at) = last(&self.done, back).filter(|_| back <= self.options.num_prev_actions) {
                parts.push(&self.done[at]);
            }
            if let Some(at) = last(&self.seen, back).filter(|_| back <= self.options.num_prev_obs) {
                parts.push(&self.seen[at]);
            }
        }
        parts.reverse();
        let observation = parts.join(JOINT);
        self.seen.push(page);
        TextStep {
            observation,
            reward: breakdown.map_or(0.0, |reward| reward.total),
            done: breakdown.is_some(),
            breakdown,
        }
    }
}
