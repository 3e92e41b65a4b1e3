//! What customers want: instructions with attributes, options and a price cap, in the order that a seed gives.

use super::catalogue::{Catalogue, Product, Word};
use super::load::HumanInstruction;
use crate::environment::EnvError;
use crate::pyrandom::PythonRandom;
use std::collections::HashMap;
use std::path::PathBuf;

/// A cap that no price reaches, where none is said.
const NO_CAP: f64 = 1_000_000.0;

/// Goals that a shop takes at most: more would not fit into the memory of the reference either.
const MAX_GOALS: usize = 100_000_000;

/// Whose instructions they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GoalKind {
    /// Sentences that people wrote.
    Human,
    /// Sentences made from attributes, with every combination of options.
    #[default]
    Synthetic,
}

/// Goals that share product, sentence and cap.
#[derive(Debug, Clone)]
struct Group {
    product: u32,
    /// In whole dollars; 0 for none.
    cap: u16,
    weight: f64,
    human: Option<HumanInstruction>,
}

/// One goal: a group and the number of its combination of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    group: u32,
    combination: u32,
}

/// The goals of a shop in their final order.
#[derive(Debug, Clone, Default)]
pub struct Goals {
    groups: Vec<Group>,
    entries: Vec<Entry>,
}

/// What a goal wants beside the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalOptions<'g> {
    /// Values as a person named them.
    Human(&'g [String]),
    /// Names and values, by name.
    Synthetic(Vec<(&'g str, &'g str)>),
}

/// A look at one goal.
#[derive(Debug, Clone, Copy)]
pub struct Goal<'g> {
    group: &'g Group,
    combination: u32,
    product: Product<'g>,
}

impl<'g> Goal<'g> {
    /// The product that it was made from.
    pub fn product(&self) -> Product<'g> {
        self.product
    }

    /// The highest price that will do; 1,000,000 where the sentence names none.
    pub fn price_cap(&self) -> f64 {
        if self.group.cap == 0 { NO_CAP } else { f64::from(self.group.cap) }
    }

    /// How likely a random session gets it, relative to the others.
    pub fn weight(&self) -> f64 {
        self.group.weight
    }

    /// The weight as Python prints it: those of human goals are whole numbers.
    pub fn is_human(&self) -> bool {
        self.group.human.is_some()
    }

    /// Calls `each` with the wanted attributes in order.
    pub fn for_each_attribute(&self, mut each: impl FnMut(&'g str)) {
        match &self.group.human {
            Some(human) => human.attributes.iter().for_each(|attribute| each(attribute)),
            None => {
                self.product.instruction().into_iter().flat_map(|(_, words)| words.texts()).for_each(each)
            }
        }
    }

    /// The wanted attributes.
    pub fn attributes(&self) -> Vec<&'g str> {
        let mut list = Vec::new();
        self.for_each_attribute(|attribute| list.push(attribute));
        list
    }

    /// The wanted options.
    pub fn options(&self) -> GoalOptions<'g> {
        match &self.group.human {
            Some(human) => GoalOptions::Human(&human.options),
            None => {
                let catalogue = self.product.catalogue();
                let pairs = self.option_words().into_iter();
                GoalOptions::Synthetic(
                    pairs.map(|(name, value)| (catalogue.word(name), catalogue.word(value))).collect(),
                )
            }
        }
    }

    /// Names and values that a synthetic goal wants, by name; the last name's value changes fastest from goal to goal.
    pub fn option_words(&self) -> Vec<(Word, Word)> {
        if self.group.human.is_some() {
            return Vec::new();
        }
        let mut options: Vec<_> = self.product.options().collect();
        let catalogue = self.product.catalogue();
        options.sort_by(|one, two| catalogue.word(one.name).cmp(catalogue.word(two.name)));
        let mut rest = self.combination as usize;
        let mut pairs: Vec<(Word, Word)> = options
            .iter()
            .rev()
            .filter_map(|option| {
                let count = option.values.len().max(1);
                let value = option.values.get(rest % count)?;
                rest /= count;
                Some((option.name, value))
            })
            .collect();
        pairs.reverse();
        pairs
    }

    /// What the customer says.
    pub fn instruction(&self) -> String {
        let mut text = match &self.group.human {
            Some(human) => human.instruction.trim_matches('.').to_owned(),
            None => self.product.instruction().map(|(text, _)| text.to_owned()).unwrap_or_default(),
        };
        if let GoalOptions::Synthetic(pairs) = self.options() {
            for (number, (name, value)) in pairs.into_iter().enumerate() {
                let between = if number == 0 { " with " } else { ", and " };
                for part in [between, name, ": ", value] {
                    text.push_str(part);
                }
            }
        }
        if self.group.cap != 0 {
            text.push_str(&format!(", and price lower than {}.00 dollars", self.group.cap));
        }
        text
    }
}

/// A price cap for a product: two of the next four round prices above it are drawn, and the higher one counts.
fn draw_cap(price: f64, random: &mut PythonRandom) -> u16 {
    let candidates: Vec<u16> =
        (1..100).map(|tens| tens * 10).filter(|&cap| f64::from(cap) > price).take(4).collect();
    random.sample(&candidates, 2).and_then(|drawn| drawn.into_iter().max().copied()).unwrap_or(0)
}

impl Goals {
    /// The instructions of people, in the order of the products.
    pub(crate) fn human(
        catalogue: &Catalogue,
        prices: &[f64],
        instructions: &HashMap<String, Vec<HumanInstruction>>,
        random: &mut PythonRandom,
    ) -> Self {
        let mut goals = Self::default();
        for product in catalogue.products() {
            for human in instructions.get(product.asin()).into_iter().flatten() {
                // Passed over before anything is drawn for it.
                if human.attributes.is_empty() {
                    continue;
                }
                let cap = draw_cap(prices[product.number as usize], random);
                goals.entries.push(Entry { group: goals.groups.len() as u32, combination: 0 });
                let human = Some(human.clone());
                goals.groups.push(Group { product: product.number, cap, weight: 1.0, human });
            }
        }
        goals
    }

    /// Every combination of options of every product with an instruction.
    ///
    /// # Errors
    /// When a product has no record, or its instruction no attributes: the reference fails then; when there are more
    /// goals than fit into memory.
    pub(crate) fn synthetic(
        catalogue: &Catalogue,
        prices: &[f64],
        random: &mut PythonRandom,
    ) -> Result<Self, EnvError> {
        let mut goals = Self::default();
        // How many goals carry an attribute.
        let mut carriers: HashMap<Word, u64> = HashMap::new();
        let bad = |product: Product<'_>, field: &str, found: &str, expected: &str| EnvError::Data {
            path: PathBuf::from("the attributes' file"),
            place: format!(" record `{}`{field}", product.asin()),
            found: found.to_owned(),
            expected: expected.to_owned(),
        };
        for product in catalogue.products() {
            if !product.has_record() {
                return Err(bad(product, "", "nothing", "a record for each product; or choose human goals"));
            }
            let Some((_, attributes)) = product.instruction() else { continue };
            if attributes.is_empty() {
                let field = " field \"instruction_attributes\"";
                return Err(bad(product, field, "nothing", "at least one attribute beside an instruction"));
            }
            let cap = draw_cap(prices[product.number as usize], random);
            let combinations = product
                .options()
                .try_fold(1usize, |count, option| count.checked_mul(option.values.len()))
                .filter(|count| goals.entries.len().saturating_add(*count) <= MAX_GOALS);
            let Some(combinations) = combinations else {
                let expected = format!("at most {MAX_GOALS} goals in a shop; set `num_products`");
                return Err(bad(product, "", "more combinations of options", &expected));
            };
            for word in attributes.words() {
                *carriers.entry(word).or_default() += combinations as u64;
            }
            let group = goals.groups.len() as u32;
            goals.entries.extend((0..combinations as u32).map(|combination| Entry { group, combination }));
            goals.groups.push(Group { product: product.number, cap, weight: 0.0, human: None });
        }
        for group in &mut goals.groups {
            if let Some((_, attributes)) = catalogue.product(group.product).instruction() {
                let shares =
                    attributes.words().map(|word| 1.0 / carriers.get(&word).copied().unwrap_or(1) as f64);
                group.weight = shares.fold(0.0, |sum, share| sum + share) / attributes.len() as f64;
            }
        }
        Ok(goals)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Goal `number`.
    ///
    /// # Panics
    /// When there is no such goal.
    pub(crate) fn get<'g>(&'g self, catalogue: &'g Catalogue, number: usize) -> Goal<'g> {
        let entry = self.entries[number];
        let group = &self.groups[entry.group as usize];
        Goal { group, combination: entry.combination, product: catalogue.product(group.product) }
    }

    /// Shuffles as the reference does.
    pub(crate) fn shuffle(&mut self, random: &mut PythonRandom) {
        random.shuffle(&mut self.entries);
    }

    /// 0, and behind each goal the sum of the weights so far.
    pub(crate) fn cumulative_weights(&self) -> Vec<f64> {
        let mut sums = Vec::with_capacity(self.entries.len() + 1);
        sums.push(0.0);
        let mut sum = 0.0;
        for entry in &self.entries {
            sum += self.groups[entry.group as usize].weight;
            sums.push(sum);
        }
        sums
    }

    /// Keeps `count` goals, drawn by weight without repeats, in the order in which they are drawn.
    pub(crate) fn limit(&mut self, count: usize, random: &mut PythonRandom) {
        if count >= self.entries.len() {
            return;
        }
        let sums = self.cumulative_weights();
        let mut kept = Vec::with_capacity(count);
        let mut drawn = std::collections::HashSet::new();
        // The draw is shifted by one, so that the first goal cannot come: without it, all others are a full set.
        while kept.len() < count.min(self.entries.len() - 1) {
            let index = weighted_index(&sums, random);
            if drawn.insert(index) {
                kept.push(self.entries[index]);
            }
        }
        self.entries = kept;
    }
}

/// The index that a random session gets: drawn by weight, with the reference's shift by one.
pub(crate) fn weighted_index(cumulative: &[f64], random: &mut PythonRandom) -> usize {
    let place = random.uniform(0.0, cumulative.last().copied().unwrap_or_default());
    cumulative.partition_point(|&sum| sum <= place).min(cumulative.len().saturating_sub(2))
}
