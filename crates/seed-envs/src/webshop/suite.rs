//! WebShop as a suite of tasks.

use super::catalogue::Catalogue;
use super::embedded;
use super::expert::advise;
use super::goals::GoalKind;
use super::load::{
    self, BadRecords, HumanInstruction, IndexFile, LoadOptions, LoadReport, Progress, ShopFiles,
};
use super::page::{JOINT, TextMode};
use super::python_text::is_space;
use super::session::{Effect, Session};
use super::shop::{Ceiling, OFFICIAL_SHUFFLE, Shop, ShopOptions};
use super::text_env::Dialect;
use crate::environment::{EnvError, Environment, LastStep, Observation, Step, StepInfo, Suite, Task};
use crate::pyrandom::{NumpyRandomState, PythonRandom};
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Seed by which the panel is drawn from the test goals.
const PANEL_SEED: i128 = 128;

/// What the purchase is worth to a trainer. [`StepInfo::score`] always holds the shop's own score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PurchaseReward {
    /// [`WebShopOptions::win_reward`] when the score is exactly 1, else nothing (verl-agent).
    #[default]
    Success,
    /// The score times [`WebShopOptions::win_reward`].
    Score,
}

/// Which goal is which task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskOrder {
    /// One order for all: the official one (seed 233), with prices and caps from [`WebShopOptions::seed`]. The first
    /// goals are `test`, the rest `train`, and `panel` is a fixed draw from `test`. They share no goal.
    #[default]
    Fixed,
    /// The habit of verl-agent: every worker shuffles the goals by a seed of its own, and each calls its first 500
    /// `test` and the rest `train`, so that test goals are trained on. Kept to repeat published runs.
    VerlAgent {
        /// Seed of the first training worker; test workers start 1,000 above it.
        seed: u32,
        /// Groups of workers, each with a seed of its own.
        workers: u32,
    },
}

/// How WebShop is played.
#[derive(Debug, Clone, PartialEq)]
pub struct WebShopOptions {
    /// Whose instructions.
    pub goals: GoalKind,
    /// Takes only the first records of the products' file.
    pub num_products: Option<usize>,
    /// Steps after which an episode is truncated; invalid actions count.
    pub max_steps: usize,
    /// The reward of the best purchase.
    pub win_reward: f64,
    /// What other purchases are worth.
    pub purchase_reward: PurchaseReward,
    /// How pages are written.
    pub mode: TextMode,
    /// Whether the list of actions is the reference's to the letter, with `click[search]` and values that no action can
    /// name, or holds only what is carried out.
    pub listing: Dialect,
    /// Whether product pages lead to their attributes.
    pub show_attributes: bool,
    /// Seed of prices within ranges and of price caps.
    pub seed: i128,
    /// Which goal is which task.
    pub order: TaskOrder,
    /// Goals in `test`; at most half of all.
    pub test_goals: usize,
    /// Goals in `panel`.
    pub panel_goals: usize,
    /// What happens with records that cannot be loaded.
    pub bad_records: BadRecords,
    /// Where the search index is kept.
    pub index: IndexFile,
}

impl Default for WebShopOptions {
    fn default() -> Self {
        Self {
            goals: GoalKind::Synthetic,
            num_products: None,
            max_steps: 15,
            win_reward: 10.0,
            purchase_reward: PurchaseReward::Success,
            mode: TextMode::Text,
            listing: Dialect::Official,
            show_attributes: false,
            seed: 0,
            order: TaskOrder::Fixed,
            test_goals: 500,
            panel_goals: 128,
            bad_records: BadRecords::Fail,
            index: IndexFile::Beside,
        }
    }
}

struct Inner {
    catalogue: Catalogue,
    human: HashMap<String, Vec<HumanInstruction>>,
    options: WebShopOptions,
    report: LoadReport,
    /// The shop of the fixed order, or of the first training worker.
    first: Arc<Shop>,
    /// Shops by seed, for the habit of one shop a worker.
    shops: Mutex<HashMap<u32, Arc<Shop>>>,
    splits: Splits,
}

/// Names of splits and their tasks, in order.
type Splits = Vec<(String, Arc<[Task]>)>;

/// The suite `webshop`. Cloning shares the data.
#[derive(Clone)]
pub struct WebShop {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for WebShop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { catalogue, options, first, .. } = &*self.inner;
        let (products, goals) = (catalogue.len(), first.goals());
        f.debug_struct("WebShop")
            .field("products", &products)
            .field("goals", &goals)
            .field("options", options)
            .finish()
    }
}

impl WebShop {
    /// The name of the suite.
    pub const NAME: &str = "webshop";

    /// Loads the public files. `progress` is called from time to time while an index is built.
    ///
    /// # Errors
    /// When a file cannot be read or used, with file, record and field.
    pub fn open(
        files: &ShopFiles,
        options: WebShopOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, EnvError> {
        let WebShopOptions { num_products, bad_records, .. } = options;
        let load_options = LoadOptions { num_products, bad_records, index: options.index.clone() };
        let human = match (&files.human, options.goals) {
            (Some(path), GoalKind::Human) => load::read_human(path)?,
            (None, GoalKind::Human) => {
                return Err(EnvError::Data {
                    path: files.products.clone(),
                    place: String::new(),
                    found: "no `items_human_ins.json` beside it".into(),
                    expected: "the instructions for human goals; or choose synthetic goals".into(),
                });
            }
            (_, GoalKind::Synthetic) => HashMap::new(),
        };
        let (catalogue, report) = load::load(files, &load_options, progress)?;
        Self::over(catalogue, human, report, options)
    }

    /// The shop that needs no data: products and instructions of our own, from a seed.
    ///
    /// # Errors
    /// When the options leave no goals.
    pub fn embedded(options: WebShopOptions) -> Result<Self, EnvError> {
        let products = options.num_products.unwrap_or(embedded::PRODUCTS);
        let catalogue = embedded::catalogue(embedded::SEED, products)?;
        let report = LoadReport { products, indexed: products, ..LoadReport::default() };
        Self::over(catalogue, embedded::human(embedded::SEED, products), report, options)
    }

    /// Over a catalogue of any origin.
    ///
    /// # Errors
    /// When goals cannot be made.
    pub fn over(
        catalogue: Catalogue,
        human: HashMap<String, Vec<HumanInstruction>>,
        report: LoadReport,
        options: WebShopOptions,
    ) -> Result<Self, EnvError> {
        let (seed, shuffle) = match options.order {
            TaskOrder::Fixed => (options.seed, OFFICIAL_SHUFFLE),
            TaskOrder::VerlAgent { seed, .. } => (seed.into(), seed.into()),
        };
        let first = Arc::new(make_shop(&catalogue, &human, &options, seed, shuffle)?);
        let inner =
            Inner { catalogue, human, options, report, first, shops: Mutex::default(), splits: Vec::new() };
        let splits = inner.list()?;
        // The ceiling belongs to what a reader of success rates must know: it is there from the start.
        inner.first.ceiling();
        Ok(Self { inner: Arc::new(Inner { splits, ..inner }) })
    }

    /// What was loaded and left out.
    pub fn report(&self) -> &LoadReport {
        &self.inner.report
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &WebShopOptions {
        &self.inner.options
    }

    /// The shop of the fixed order (or of the first training worker).
    pub fn shop(&self) -> &Arc<Shop> {
        &self.inner.first
    }

    /// Goals that cannot be fulfilled by buying what is asked for.
    pub fn ceiling(&self) -> &Ceiling {
        self.inner.first.ceiling()
    }

    /// How many tasks of a split can be fulfilled, and how many there are.
    ///
    /// # Errors
    /// As [`Suite::tasks`].
    pub fn reachable(&self, split: &str) -> Result<(usize, usize), EnvError> {
        let tasks = self.tasks(split)?;
        let mut reachable = 0;
        for task in tasks.iter() {
            let (shop, goal) = self.inner.place(task)?;
            reachable += usize::from(shop.best_case(goal).total >= 1.0);
        }
        Ok((reachable, tasks.len()))
    }

    /// The shop and the goal of a task.
    ///
    /// # Errors
    /// When the task is unknown.
    pub fn place(&self, task: &Task) -> Result<(Arc<Shop>, usize), EnvError> {
        self.inner.place(task)
    }
}

/// The goal numbers that verl-agent's environment manager plays, reset after reset: each time the first `environments`
/// of a permutation of the range.
#[derive(Debug, Clone)]
pub struct VerlOrder {
    random: NumpyRandomState,
    range: Range<usize>,
    environments: usize,
}

impl VerlOrder {
    /// For a base seed, a range of goals and a number of environments (without their repeats within a group).
    pub fn new(seed: u32, range: Range<usize>, environments: usize) -> Self {
        Self { random: NumpyRandomState::new(seed), range, environments }
    }
}

impl Iterator for VerlOrder {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let permutation = self.random.permutation(self.range.len());
        Some(permutation.into_iter().take(self.environments).map(|place| self.range.start + place).collect())
    }
}

fn make_shop(
    catalogue: &Catalogue,
    human: &HashMap<String, Vec<HumanInstruction>>,
    options: &WebShopOptions,
    seed: i128,
    shuffle_seed: i128,
) -> Result<Shop, EnvError> {
    let options = ShopOptions {
        goals: options.goals,
        shuffle_seed,
        show_attributes: options.show_attributes,
        ..ShopOptions::default()
    };
    Shop::new(catalogue.clone(), human, &options, &mut PythonRandom::from_int(seed))
}

impl Inner {
    /// How many goals are for tests.
    fn test_goals(&self) -> usize {
        self.options.test_goals.min(self.first.goals() / 2)
    }

    fn list(&self) -> Result<Splits, EnvError> {
        let goals = self.first.goals();
        let tests = self.test_goals();
        if tests == 0 {
            return Err(EnvError::Data {
                path: PathBuf::from(WebShop::NAME),
                place: String::new(),
                found: format!("{goals} goals, {} of them for tests", self.options.test_goals),
                expected: "goals for tests and others to train on".into(),
            });
        }
        let task = |split: &str, middle: &str, shop: &Shop, goal: usize| {
            let product = shop.goal(goal).product();
            let kind = product.catalogue().word(product.category()).to_owned();
            Task { id: format!("{split}/{middle}goal_{goal:05}"), split: split.to_owned(), kind }
        };
        Ok(match self.options.order {
            TaskOrder::Fixed => {
                let list = |split: &str, range: &mut dyn Iterator<Item = usize>| {
                    let tasks = range.map(|goal| task(split, "", &self.first, goal)).collect();
                    (split.to_owned(), tasks)
                };
                let all: Vec<usize> = (0..tests).collect();
                let count = self.options.panel_goals.clamp(1, tests);
                let drawn = PythonRandom::from_int(PANEL_SEED).sample(&all, count);
                let mut panel: Vec<usize> = drawn.into_iter().flatten().copied().collect();
                panel.sort_unstable();
                vec![
                    list("train", &mut (tests..goals)),
                    list("test", &mut (0..tests)),
                    list("panel", &mut panel.into_iter()),
                ]
            }
            TaskOrder::VerlAgent { seed, workers } => {
                let mut splits = Vec::new();
                for (split, base, range) in
                    [("train", seed, tests..goals), ("test", seed.saturating_add(1000), 0..tests)]
                {
                    let mut tasks = Vec::new();
                    for worker in 0..workers.max(1) {
                        let seed = base.saturating_add(worker);
                        let shop = self.shop(seed)?;
                        let middle = format!("seed_{seed}/");
                        tasks.extend(range.clone().map(|goal| task(split, &middle, &shop, goal)));
                    }
                    splits.push((split.to_owned(), tasks.into()));
                }
                splits
            }
        })
    }

    /// The shop of a worker.
    fn shop(&self, seed: u32) -> Result<Arc<Shop>, EnvError> {
        if matches!(self.options.order, TaskOrder::VerlAgent { seed: first, .. } if first == seed) {
            return Ok(self.first.clone());
        }
        let mut shops = self.shops.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shop) = shops.get(&seed) {
            return Ok(shop.clone());
        }
        let shop =
            Arc::new(make_shop(&self.catalogue, &self.human, &self.options, seed.into(), seed.into())?);
        shops.insert(seed, shop.clone());
        Ok(shop)
    }

    fn place(&self, task: &Task) -> Result<(Arc<Shop>, usize), EnvError> {
        let unknown = || EnvError::UnknownTask { suite: WebShop::NAME.into(), id: task.id.clone() };
        let (split, rest) = task.id.split_once('/').ok_or_else(unknown)?;
        let number = |text: &str| text.parse::<usize>().ok().filter(|goal| *goal < self.first.goals());
        let (shop, goal, seed) = match self.options.order {
            TaskOrder::Fixed => (self.first.clone(), rest.strip_prefix("goal_"), String::new()),
            TaskOrder::VerlAgent { .. } => {
                let rest = rest.strip_prefix("seed_").ok_or_else(unknown)?;
                let (seed, goal) = rest.split_once("/goal_").ok_or_else(unknown)?;
                let seed = seed.parse().map_err(|_| unknown())?;
                (self.shop(seed)?, Some(goal), format!("seed_{seed}/"))
            }
        };
        let goal = goal.and_then(number).ok_or_else(unknown)?;
        // One spelling for a task: `goal_7` is none.
        let known = self.splits.iter().any(|(name, _)| name == split)
            && task.id == format!("{split}/{seed}goal_{goal:05}")
            && (split == "train") == (goal >= self.test_goals());
        if known { Ok((shop, goal)) } else { Err(unknown()) }
    }
}

impl Suite for WebShop {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn splits(&self) -> Vec<String> {
        self.inner.splits.iter().map(|(name, _)| name.clone()).collect()
    }

    fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
        let found = self.inner.splits.iter().find(|(name, _)| name == split);
        found.map(|(_, tasks)| tasks.clone()).ok_or_else(|| EnvError::UnknownSplit {
            suite: Self::NAME.into(),
            split: split.into(),
            known: self.splits().join(", "),
        })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(WebShopEnvironment { suite: self.clone(), episode: None })
    }

    /// The instruction as it stands on the pages.
    fn task_description(&self, task: &Task) -> Option<String> {
        let (shop, goal) = self.inner.place(task).ok()?;
        let instruction = shop.goal(goal).instruction();
        // On a page it is a part of its own, trimmed; an instruction that holds the mark between parts is cut there.
        instruction.split(JOINT).next().map(|first| first.trim_matches(is_space).to_owned())
    }
}

/// A customer's place in a [`WebShop`].
#[derive(Clone)]
struct WebShopEnvironment {
    suite: WebShop,
    episode: Option<Episode>,
}

#[derive(Clone)]
struct Episode {
    session: Session,
    random: PythonRandom,
    steps: usize,
    last: LastStep,
    /// The page as it stands, made anew only when an action was carried out.
    page: Observation,
}

fn observe(session: &Session, options: &WebShopOptions) -> Observation {
    let list = match options.listing {
        Dialect::Official => session.admissible(),
        Dialect::VerlAgent => session.listed_actions(),
    };
    Observation { admissible: Some(list.into()), ..Observation::text(session.text(options.mode)) }
}

impl Environment for WebShopEnvironment {
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Observation, EnvError> {
        self.episode = None;
        let (shop, goal) = self.suite.inner.place(task)?;
        let session = Session::new(shop, goal, &goal.to_string());
        let page = observe(&session, &self.suite.inner.options);
        let random = PythonRandom::from_int(seed.into());
        self.episode =
            Some(Episode { session, random, steps: 0, last: LastStep::default(), page: page.clone() });
        Ok(page)
    }

    fn step(&mut self, action: &str) -> Result<Step, EnvError> {
        let options = &self.suite.inner.options;
        let episode = self.episode.as_mut().ok_or(EnvError::NotReset)?;
        if let Some(last) = episode.last.again() {
            return Ok(last);
        }
        let effect = episode.session.act(action, &mut episode.random);
        episode.steps += 1;
        if matches!(effect, Effect::Carried | Effect::Bought(_)) {
            episode.page = observe(&episode.session, options);
        }
        let mut info = StepInfo { action_valid: Some(true), ..StepInfo::default() };
        let mut reward = 0.0;
        let mut done = false;
        match effect {
            Effect::Bought(bought) => {
                done = true;
                info.score = bought.total;
                info.won = bought.total == 1.0;
                info.details = bought.details();
                reward = match options.purchase_reward {
                    PurchaseReward::Success => options.win_reward * f64::from(u8::from(info.won)),
                    PurchaseReward::Score => options.win_reward * bought.total,
                };
            }
            Effect::Carried => {}
            // Listed by verl-agent, and without effect.
            Effect::Ignored if options.listing == Dialect::VerlAgent => info.action_valid = None,
            Effect::Ignored => info.action_valid = Some(false),
            Effect::Refused(refusal) => {
                info.action_valid = Some(false);
                info.details.insert("refused".into(), Value::String(refusal.to_string()));
            }
        }
        let truncated = !done && episode.steps >= options.max_steps;
        let step = Step { observation: episode.page.clone(), reward, done, truncated, info };
        Ok(episode.last.keep(step))
    }

    fn snapshot(&self) -> Box<dyn Environment> {
        Box::new(self.clone())
    }

    /// The next action on the way to buying exactly what is asked for.
    fn expert_action(&self) -> Option<String> {
        let episode = self.episode.as_ref().filter(|episode| !episode.last.is_over())?;
        advise(&episode.session)
    }
}
