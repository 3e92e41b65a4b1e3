//! A shop: products with their prices of the day and what its customers want.

use super::catalogue::Catalogue;
use super::goals::{Goal, GoalKind, GoalOptions, Goals};
use super::load::HumanInstruction;
use super::reward::{Reward, reward};
use crate::environment::EnvError;
use crate::pyrandom::PythonRandom;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Seed of the goals' order in the official environment.
pub const OFFICIAL_SHUFFLE: i128 = 233;

/// How a shop is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopOptions {
    /// Whose instructions.
    pub goals: GoalKind,
    /// Seed of the goals' order: 233 in the official environment, the environment's own seed in verl-agent.
    pub shuffle_seed: i128,
    /// Keeps only so many goals, drawn by weight.
    pub limit_goals: Option<usize>,
    /// Whether product pages lead to their attributes.
    pub show_attributes: bool,
    /// Words that are drawn before everything else: 1 repeats recordings in which a library drew one while it was
    /// imported.
    pub skip_words: u32,
}

impl Default for ShopOptions {
    fn default() -> Self {
        Self {
            goals: GoalKind::Synthetic,
            shuffle_seed: OFFICIAL_SHUFFLE,
            limit_goals: None,
            show_attributes: false,
            skip_words: 0,
        }
    }
}

/// Goals that no purchase can fulfil, by the letter of the reward.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ceiling {
    /// How many goals there are.
    pub goals: usize,
    /// Goals that score below 1 although exactly the wanted product is bought with exactly the wanted options, with
    /// that score.
    pub below_one: Vec<(usize, f64)>,
}

impl Ceiling {
    /// The highest success rate that buying what is asked for can reach.
    pub fn success_rate(&self) -> f64 {
        if self.goals == 0 { 0.0 } else { 1.0 - self.below_one.len() as f64 / self.goals as f64 }
    }
}

/// Products, prices and goals. Read-only, and shared by all sessions.
#[derive(Debug)]
pub struct Shop {
    catalogue: Catalogue,
    prices: Vec<f64>,
    goals: Goals,
    show_attributes: bool,
    ceiling: OnceLock<Ceiling>,
}

impl Shop {
    /// Opens a shop. Prices within ranges and price caps are drawn from `random`, in the order of the reference; then it
    /// is seeded anew with [`ShopOptions::shuffle_seed`] and the goals are shuffled.
    ///
    /// # Errors
    /// When goals cannot be made; when there is none.
    pub fn new(
        catalogue: Catalogue,
        human: &HashMap<String, Vec<HumanInstruction>>,
        options: &ShopOptions,
        random: &mut PythonRandom,
    ) -> Result<Self, EnvError> {
        for _ in 0..options.skip_words {
            random.getrandbits(32);
        }
        let prices: Vec<f64> = catalogue
            .products()
            .map(|product| match product.prices() {
                (price, None) => price,
                (low, Some(high)) => random.uniform(low, high),
            })
            .collect();
        let mut goals = match options.goals {
            GoalKind::Human => Goals::human(&catalogue, &prices, human, random),
            GoalKind::Synthetic => Goals::synthetic(&catalogue, &prices, random)?,
        };
        *random = PythonRandom::from_int(options.shuffle_seed);
        goals.shuffle(random);
        if let Some(count) = options.limit_goals {
            goals.limit(count, random);
        }
        if goals.is_empty() {
            return Err(EnvError::Data {
                path: "webshop".into(),
                place: String::new(),
                found: format!("no goals for {} products", catalogue.len()),
                expected: match options.goals {
                    GoalKind::Human => "instructions in `items_human_ins.json` for products of the catalogue",
                    GoalKind::Synthetic => "products with an instruction in `items_ins_v2.json`",
                }
                .into(),
            });
        }
        Ok(Self {
            catalogue,
            prices,
            goals,
            show_attributes: options.show_attributes,
            ceiling: OnceLock::new(),
        })
    }

    /// The products.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The price of the day of a product.
    ///
    /// # Panics
    /// When there is no such product.
    pub fn price(&self, product: u32) -> f64 {
        self.prices[product as usize]
    }

    /// Whether product pages lead to their attributes.
    pub fn show_attributes(&self) -> bool {
        self.show_attributes
    }

    /// How many goals there are; never 0.
    pub fn goals(&self) -> usize {
        self.goals.len()
    }

    /// Goal `number`.
    ///
    /// # Panics
    /// When there is no such goal.
    pub fn goal(&self, number: usize) -> Goal<'_> {
        self.goals.get(&self.catalogue, number)
    }

    /// 0, and behind each goal the sum of the weights so far.
    pub(crate) fn cumulative_weights(&self) -> Vec<f64> {
        self.goals.cumulative_weights()
    }

    /// What buying a product with the chosen values of options is worth for a goal.
    pub fn reward(&self, goal: usize, product: u32, chosen: &[&str]) -> Reward {
        reward(&self.goal(goal), self.catalogue.product(product), self.price(product), chosen)
    }

    /// What buying exactly the wanted product with exactly the wanted options is worth.
    pub fn best_case(&self, goal: usize) -> Reward {
        let wanted = self.goal(goal);
        let chosen: Vec<&str> = match wanted.options() {
            GoalOptions::Human(values) => values.iter().map(String::as_str).collect(),
            GoalOptions::Synthetic(pairs) => pairs.into_iter().map(|(_, value)| value).collect(),
        };
        self.reward(goal, wanted.product().number, &chosen)
    }

    /// The goals that cannot be fulfilled; computed when it is first asked for, over all cores.
    pub fn ceiling(&self) -> &Ceiling {
        self.ceiling.get_or_init(|| {
            let score = |goal| (goal, self.best_case(goal).total);
            let below_one =
                (0..self.goals()).into_par_iter().map(score).filter(|(_, score)| *score < 1.0).collect();
            Ceiling { goals: self.goals(), below_one }
        })
    }
}
