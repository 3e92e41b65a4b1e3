//! One customer's way through the shop: pages, what can be clicked, and what a click does.

use super::catalogue::{Product, Word};
use super::page::{Node, TextMode, plain, rich};
use super::python_text::{dict, float, html_json, is_space, json};
use super::reward::Reward;
use super::search::SearchError;
use super::shop::Shop;
use crate::pyrandom::PythonRandom;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Products that a search finds at most.
pub const FOUND: usize = 50;
/// Products on a page of results.
pub const PER_PAGE: i64 = 10;
/// The address of the shop, which some rules look at.
const HOME: &str = "http://127.0.0.1:3000";

const BUY: &str = "Buy Now";
const BACK: &str = "Back to Search";
const NEXT: &str = "Next >";
const PREVIOUS: &str = "< Prev";
const SEARCH: &str = "Search";

/// The pages behind a product page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubPage {
    /// The description.
    Description,
    /// The features.
    Features,
    /// Reviews, of which there are none.
    Reviews,
    /// Attributes and categories, where the shop shows them.
    Attributes,
}

impl SubPage {
    const ALL: [Self; 4] = [Self::Description, Self::Features, Self::Reviews, Self::Attributes];

    fn name(self) -> &'static str {
        match self {
            Self::Description => "Description",
            Self::Features => "Features",
            Self::Reviews => "Reviews",
            Self::Attributes => "Attributes",
        }
    }
}

/// The page that a customer looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The page with the search bar.
    Search,
    /// A page of results.
    Results,
    /// A product.
    Item,
    /// A page behind a product.
    Sub(SubPage),
    /// After the purchase.
    Done,
}

/// What an action did.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The page was made anew.
    Carried,
    /// Something was bought: the episode is over.
    Bought(Reward),
    /// Nothing: it is no action, or not one of this page.
    Ignored,
    /// Nothing: the reference would have stopped with an error here.
    Refused(Refusal),
}

/// Why a search is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// `<a>`: products by attribute, which the text environment cannot list.
    #[error("`<a>` cannot be searched in the text environment")]
    ByAttribute,
    /// `<c>` without a category.
    #[error("`<c>` needs a category behind it")]
    NoCategory,
    /// `<r>` in a shop with fewer products than a search returns.
    #[error("`<r>` needs a shop of {FOUND} products, this one has {found}")]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// The query itself.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// What stands behind a key that can be clicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Button,
    Link(u32),
    Option(Word, Word),
}

/// A customer with a goal.
#[derive(Debug, Clone)]
pub struct Session {
    shop: Arc<Shop>,
    id: Arc<str>,
    goal: usize,
    instruction: Arc<str>,
    view: View,
    /// The query as it was typed, in lower case.
    keywords: Option<Arc<str>>,
    page: i64,
    found: Arc<[u32]>,
    product: Option<u32>,
    /// Products that were opened since the last start, in order.
    visited: Vec<u32>,
    options: Vec<(Word, Word)>,
    reward: Option<f64>,
}

/// Splits an action into verb and argument: `verb[argument]`, where the last bracket that is closed again counts.
/// Without an argument the whole text is the verb.
pub fn parse_action(action: &str) -> (&str, Option<&str>) {
    let line = action.split('\n').next().unwrap_or_default();
    let parse = || {
        let close = line.rfind(']')?;
        // The argument has at least one character, and so has the verb.
        let last = line[..close].char_indices().next_back()?.0;
        let open = line[..last].rfind('[').filter(|&open| open > 0)?;
        Some((&line[..open], Some(&line[open + 1..close])))
    };
    parse().unwrap_or((action, None))
}

impl Session {
    /// A customer with goal `goal` on the start page.
    ///
    /// # Panics
    /// When there is no such goal.
    pub fn new(shop: Arc<Shop>, goal: usize, id: &str) -> Self {
        let instruction = shop.goal(goal).instruction().into();
        Self {
            shop,
            id: id.into(),
            goal,
            instruction,
            view: View::Search,
            keywords: None,
            page: 1,
            found: Arc::default(),
            product: None,
            visited: Vec::new(),
            options: Vec::new(),
            reward: None,
        }
    }

    /// The shop.
    pub fn shop(&self) -> &Arc<Shop> {
        &self.shop
    }

    /// The number of the goal.
    pub fn goal(&self) -> usize {
        self.goal
    }

    /// What the customer wants.
    pub fn instruction(&self) -> &str {
        &self.instruction
    }

    /// The heading of the start page.
    pub fn heading(&self) -> String {
        format!("Instruction: {}", self.instruction)
    }

    /// The page.
    pub fn view(&self) -> View {
        self.view
    }

    /// Whether there is a search bar. Searching works without one too.
    pub fn has_search_bar(&self) -> bool {
        self.view == View::Search
    }

    /// The product that is looked at or was bought.
    pub fn product(&self) -> Option<Product<'_>> {
        self.product.map(|number| self.shop.catalogue().product(number))
    }

    /// The products on this page of results, and how many were found in all.
    pub fn results(&self) -> (&[u32], usize) {
        let shown = if self.view == View::Results { self.shown() } else { &[] };
        (shown, self.found.len())
    }

    /// What was searched last, in lower case.
    pub fn keywords(&self) -> Option<&str> {
        self.keywords.as_deref()
    }

    /// Whether a product was found and stands on a later page of the results.
    pub fn is_ahead(&self, product: u32) -> bool {
        let behind = self.page.saturating_mul(PER_PAGE).max(0) as usize;
        self.found.iter().skip(behind).any(|&number| number == product)
    }

    /// Whether a click on a value sets the option of that name.
    pub fn leads_to(&self, value: &str, name: &str) -> bool {
        let catalogue = self.shop.catalogue();
        // A value that is called like a button does what the button does.
        let button =
            self.view == View::Item && self.buttons().iter().any(|button| button.eq_ignore_ascii_case(value));
        let target = self.targets().into_iter().find(|(key, _)| key == value).map(|(_, target)| target);
        !button && matches!(target, Some(Target::Option(option, _)) if catalogue.word(option) == name)
    }

    /// The start page, with everything forgotten but the goal.
    pub fn restart(&mut self) {
        self.view = View::Search;
        self.keywords = None;
        self.page = 1;
        self.found = Arc::default();
        self.product = None;
        self.visited.clear();
        self.options.clear();
    }

    /// Carries out an action. `random` is drawn from by the search `<r>` alone.
    pub fn act(&mut self, action: &str, random: &mut PythonRandom) -> Effect {
        let (verb, Some(argument)) = parse_action(action) else { return Effect::Ignored };
        let argument = argument.to_lowercase();
        match verb {
            "search" => match self.find(&argument, random) {
                Ok(found) => {
                    self.keywords = Some(argument.as_str().into());
                    self.show_results(found, 1)
                }
                Err(refusal) => Effect::Refused(refusal),
            },
            "click" if argument != "search" => {
                let target = self.targets().into_iter().find(|(key, _)| *key == argument);
                match target.map(|(_, target)| target) {
                    Some(target) => self.click(&argument, target, random),
                    None => Effect::Ignored,
                }
            }
            _ => Effect::Ignored,
        }
    }

    fn click(&mut self, name: &str, target: Target, random: &mut PythonRandom) -> Effect {
        let is = |button: &str| name.eq_ignore_ascii_case(button);
        if is(BUY) {
            return self.buy();
        }
        if is(BACK) {
            self.restart();
            return Effect::Carried;
        }
        if is(NEXT) || is(PREVIOUS) {
            // The reference looks for the page's name in the address, where a query can fool it.
            let address = self.address();
            let names = ["search_results", "item_page", "item_sub_page"];
            let page = names.into_iter().find(|name| address.contains(name));
            match (is(NEXT), page) {
                (true, Some("search_results")) => return self.turn(self.page.saturating_add(1), random),
                (false, Some("search_results")) => return self.turn(self.page.saturating_sub(1), random),
                (false, Some("item_page")) => return self.turn(self.page, random),
                _ => {}
            }
        } else if let Some(sub) = SubPage::ALL.into_iter().find(|sub| is(sub.name())) {
            self.view = View::Sub(sub);
            return Effect::Carried;
        }
        match target {
            Target::Link(product) => {
                self.product = Some(product);
                if !self.visited.contains(&product) {
                    self.visited.push(product);
                }
            }
            Target::Option(name, value) => match self.options.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => self.options.push((name, value)),
            },
            Target::Button => {}
        }
        self.view = View::Item;
        Effect::Carried
    }

    /// A page of the results of the query that was typed last, which is asked again.
    fn turn(&mut self, page: i64, random: &mut PythonRandom) -> Effect {
        let Some(keywords) = self.keywords.clone() else { return Effect::Ignored };
        // Only a random choice is another one the second time.
        let found = if keywords.split(' ').next() == Some("<r>") {
            match self.find(&keywords, random) {
                Ok(found) => found,
                Err(refusal) => return Effect::Refused(refusal),
            }
        } else {
            self.found.clone()
        };
        self.show_results(found, page)
    }

    fn show_results(&mut self, found: Arc<[u32]>, page: i64) -> Effect {
        self.found = found;
        self.page = page;
        self.product = None;
        self.options.clear();
        self.view = View::Results;
        Effect::Carried
    }

    fn buy(&mut self) -> Effect {
        let Some(product) = self.product else { return Effect::Ignored };
        let catalogue = self.shop.catalogue();
        let chosen: Vec<&str> = self.options.iter().map(|&(_, value)| catalogue.word(value)).collect();
        let reward = self.shop.reward(self.goal, product, &chosen);
        self.reward = Some(reward.total);
        self.view = View::Done;
        Effect::Bought(reward)
    }

    /// The numbers of the products that a query finds, best first.
    fn find(&self, keywords: &str, random: &mut PythonRandom) -> Result<Arc<[u32]>, Refusal> {
        let catalogue = self.shop.catalogue();
        let (first, rest) = match keywords.split_once(' ') {
            Some((first, rest)) => (first, Some(rest)),
            None => (keywords, None),
        };
        let listed = |keep: &dyn Fn(Product<'_>) -> bool| -> Arc<[u32]> {
            catalogue.products().filter(|&product| keep(product)).map(|product| product.number).collect()
        };
        Ok(match first {
            "<r>" => {
                let all: Vec<u32> = (0..catalogue.len() as u32).collect();
                let drawn = random.sample(&all, FOUND).ok_or(Refusal::TooFew { found: all.len() })?;
                drawn.into_iter().copied().collect()
            }
            "<a>" => return Err(Refusal::ByAttribute),
            "<c>" => {
                let category = rest.and_then(|rest| rest.split(' ').next()).ok_or(Refusal::NoCategory)?;
                let category = category.trim_matches(is_space);
                listed(&|product| catalogue.word(product.category()) == category)
            }
            "<q>" => {
                let query = rest.unwrap_or_default().trim_matches(is_space);
                listed(&|product| catalogue.word(product.query()) == query)
            }
            _ => catalogue.search(keywords, FOUND)?.iter().map(|hit| hit.document).collect(),
        })
    }

    /// The results on this page, cut out as Python cuts a list, negative numbers counting from its end.
    fn shown(&self) -> &[u32] {
        let length = self.found.len() as i64;
        let place = |at: i64| if at < 0 { (at + length).max(0) } else { at.min(length) } as usize;
        let start = place(self.page.saturating_sub(1).saturating_mul(PER_PAGE));
        let end = place(self.page.saturating_mul(PER_PAGE));
        self.found.get(start..end).unwrap_or_default()
    }

    /// The buttons of the page in order.
    fn buttons(&self) -> Vec<&'static str> {
        match self.view {
            View::Search => vec![SEARCH],
            View::Results if self.page > 1 => vec![BACK, PREVIOUS, NEXT],
            View::Results => vec![BACK, NEXT],
            View::Item => {
                let mut buttons = vec![BACK, PREVIOUS];
                buttons.extend(
                    SubPage::ALL.iter().map(|sub| sub.name()).take(if self.shop.show_attributes() {
                        4
                    } else {
                        3
                    }),
                );
                buttons.push(BUY);
                buttons
            }
            View::Sub(_) => vec![BACK, PREVIOUS],
            View::Done => Vec::new(),
        }
    }

    /// What can be clicked: keys in order, and what stands behind them. An equal key that comes later takes the place
    /// of the earlier one.
    fn targets(&self) -> Vec<(Cow<'_, str>, Target)> {
        let catalogue = self.shop.catalogue();
        let mut targets: Vec<(Cow<'_, str>, Target)> = self
            .buttons()
            .into_iter()
            .map(|button| (Cow::Owned(button.to_ascii_lowercase()), Target::Button))
            .collect();
        if self.view == View::Results {
            // Keys of products are all different, and none is a button.
            targets.extend(self.shown().iter().map(|&number| {
                (Cow::Owned(catalogue.product(number).asin().to_lowercase()), Target::Link(number))
            }));
        }
        if let (View::Item, Some(product)) = (self.view, self.product()) {
            let mut places: HashMap<Cow<'_, str>, usize> =
                targets.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect();
            for option in product.options() {
                for value in option.values.words() {
                    let target = Target::Option(option.name, value);
                    let key = Cow::Borrowed(catalogue.word(value));
                    match places.get(&key) {
                        Some(&place) => targets[place].1 = target,
                        None => {
                            places.insert(key.clone(), targets.len());
                            targets.push((key, target));
                        }
                    }
                }
            }
        }
        targets
    }

    /// What can be clicked, as the reference lists it: with the search button, which does nothing, and with values that
    /// no action can name.
    pub fn clickables(&self) -> Vec<String> {
        self.targets().into_iter().map(|(key, _)| key.into_owned()).collect()
    }

    /// The actions that are carried out on this page: a search with a mark for the words where there is a search bar,
    /// and each click.
    pub fn admissible(&self) -> Vec<String> {
        let search = self.has_search_bar().then(|| SEARCH_MARK.to_owned());
        let clicks =
            self.targets().into_iter().map(|(key, _)| key).filter(|key| key != "search").filter_map(|key| {
                let action = format!("click[{key}]");
                (parse_action(&action).1 == Some(&key)).then_some(action)
            });
        search.into_iter().chain(clicks).collect()
    }

    /// The actions as verl-agent lists them: each clickable, whether or not an action can name it.
    pub fn listed_actions(&self) -> Vec<String> {
        let search = self.has_search_bar().then(|| SEARCH_MARK.to_owned());
        let clicks = self.targets().into_iter().map(|(key, _)| format!("click[{key}]"));
        search.into_iter().chain(clicks).collect()
    }

    /// The chosen options by name, in the order in which they were first chosen.
    pub fn chosen(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let catalogue = self.shop.catalogue();
        self.options.iter().map(|&(name, value)| (catalogue.word(name), catalogue.word(value)))
    }

    /// The address of the page.
    pub fn address(&self) -> String {
        let id = &self.id;
        let keywords = self.keywords.as_deref().unwrap_or_default().replace(' ', "+");
        let asin = self.product().map(|product| product.asin()).unwrap_or_default();
        let page = self.page;
        match self.view {
            View::Search => format!("{HOME}/{id}"),
            View::Results => format!("{HOME}/search_results/{id}/{keywords}/{page}"),
            View::Item => format!("{HOME}/item_page/{id}/{asin}/{keywords}/{page}/{}", json(self.chosen())),
            View::Sub(sub) => {
                let options = dict(self.chosen());
                format!("{HOME}/item_sub_page/{id}/{asin}/{keywords}/{page}/{}/{options}", sub.name())
            }
            View::Done => format!("{HOME}/done/{id}/{asin}/{}", dict(self.chosen())),
        }
    }

    /// The page as text.
    pub fn text(&self, mode: TextMode) -> String {
        let nodes = self.nodes();
        match mode {
            TextMode::Text => plain(&nodes),
            TextMode::Rich => {
                let catalogue = self.shop.catalogue();
                let visited =
                    |asin: &str| self.visited.iter().any(|&number| catalogue.product(number).asin() == asin);
                rich(&nodes, &self.address(), visited)
            }
        }
    }

    fn nodes(&self) -> Vec<Node<'_>> {
        let catalogue = self.shop.catalogue();
        let mut nodes = Vec::new();
        let text = |text| Node::Text(Cow::Borrowed(text));
        if let (View::Done, Some(product)) = (self.view, self.product()) {
            return self.receipt(product);
        }
        if self.view == View::Search {
            nodes.extend([
                text("WebShop"),
                text("Instruction: "),
                text(&self.instruction),
                Node::Button(SEARCH),
            ]);
            return nodes;
        }
        nodes.extend([text("Instruction:"), text(&self.instruction), Node::Button(BACK)]);
        match (self.view, self.product()) {
            (View::Results, _) => {
                let header = format!("Page {} (Total results: {})", self.page, self.found.len());
                nodes.push(Node::Text(header.into()));
                if self.page > 1 {
                    nodes.push(Node::Button(PREVIOUS));
                }
                nodes.push(Node::Button(NEXT));
                for &number in self.shown() {
                    let product = catalogue.product(number);
                    nodes.push(Node::Link(product.asin()));
                    nodes.push(text(product.name()));
                    nodes.push(Node::Text(product.price_tag().into()));
                }
            }
            (View::Item, Some(product)) => {
                nodes.push(Node::Button(PREVIOUS));
                for option in product.options() {
                    nodes.push(text(catalogue.word(option.name)));
                    nodes.extend(option.values.texts().map(Node::Option));
                }
                nodes.push(text(product.name()));
                nodes.push(Node::Text(format!("Price: {}", product.price_tag()).into()));
                nodes.push(text("Rating: N.A."));
                nodes.extend(self.buttons().into_iter().skip(2).map(Node::Button));
            }
            (View::Sub(sub), Some(product)) => {
                nodes.push(Node::Button(PREVIOUS));
                let behind_blank = |text: &str| Node::Text(format!(" {text}").into());
                match sub {
                    SubPage::Description => nodes.push(text(product.description())),
                    SubPage::Features => nodes.extend(product.bullets().map(behind_blank)),
                    SubPage::Reviews => {}
                    SubPage::Attributes => {
                        nodes.extend(product.attributes().texts().map(behind_blank));
                        let words = [product.category(), product.query(), product.product_category()];
                        nodes.extend(words.map(|word| text(catalogue.word(word))));
                    }
                }
            }
            _ => {}
        }
        nodes
    }

    /// The page after a purchase, which tells nothing of the goal.
    fn receipt(&self, product: Product<'_>) -> Vec<Node<'_>> {
        let text = |text: &str| Node::Text(Cow::Owned(text.to_owned()));
        let mut nodes = Vec::new();
        let head = [
            "Thank you for shopping with us!",
            "Your code: ",
            "None",
            " (Paste it in your MTurk interface.)",
        ];
        nodes.extend(head.map(text));
        nodes.extend(["Purchased", "asin", product.asin(), "options", &html_json(self.chosen())].map(text));
        for label in ["attrs", "category", "query", "product category"] {
            nodes.extend([label, "None"].map(text));
        }
        // The label `instuction text` is misspelt in the reference too.
        let labels = [
            "asin",
            "options",
            "attrs",
            "price upper",
            "instuction text",
            "category",
            "product category",
            "query",
        ];
        nodes.push(text("Target"));
        nodes.extend(labels.map(text));
        let score = float(self.reward.unwrap_or_default());
        let tail =
            ["Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)", &score, "Reward Details ", "None"];
        nodes.extend(tail.map(text));
        nodes
    }
}

/// How a search stands in a list of actions.
pub const SEARCH_MARK: &str = "search[<your query>]";
