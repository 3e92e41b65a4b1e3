//! What a purchase is worth: type, attributes, options and price, as the reference scores them.

use super::catalogue::{Product, Word};
use super::fuzzy::alike;
use super::goals::{Goal, GoalOptions};
use super::python_text::{is_space, repr};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// Words that stand for a whole option when they are contained in it; the first in this order wins.
const COLOURS: &str = "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown \
    burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral \
    cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green \
    grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight \
    mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose \
    royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise \
    violet walnut wheat white wine yellow";

/// The title's share of common nouns where the wanted name has none.
const NO_NOUNS: f64 = 0.2;

/// A purchase's worth and how it comes about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reward {
    /// The whole, 0 to 1.
    pub total: f64,
    /// Whether it is the right kind of thing: 1, 0.5, 0.1 or 0; it multiplies the rest.
    pub r_type: f64,
    /// The share of wanted attributes that it has, and their weight in the whole.
    pub attributes: (f64, f64),
    /// The share of wanted options that were chosen, and their weight; `None` where none is wanted.
    pub options: Option<(f64, f64)>,
    /// Whether the price is within the cap, and its weight.
    pub price: (bool, f64),
    /// It was found by the same search.
    pub query_match: bool,
    /// Two levels of the category trees agree.
    pub category_match: bool,
    /// The share of the wanted name's nouns that its own name has.
    pub title_score: f64,
}

impl Reward {
    /// The parts by the names that the reference gives them.
    pub fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        let mut put = |name: &str, value: Value| _ = details.insert(name.to_owned(), value);
        put("r_type", self.r_type.into());
        put("r_att", self.attributes.0.into());
        put("w_att", self.attributes.1.into());
        put("query_match", self.query_match.into());
        put("category_match", self.category_match.into());
        put("title_score", self.title_score.into());
        if let Some((share, weight)) = self.options {
            put("r_option", share.into());
            put("w_option", weight.into());
        }
        put("r_price", self.price.0.into());
        put("w_price", self.price.1.into());
        details
    }
}

/// The colour that an option is reduced to, or the option itself.
pub fn reduce_colour(option: &str) -> &str {
    COLOURS.split(' ').find(|colour| option.contains(colour)).unwrap_or(option)
}

/// A wanted option as it is compared: a pair of name and value is reduced only when one of them *is* a colour.
fn reduce_pair(name: &str, value: &str) -> String {
    let colour = COLOURS.split(' ').find(|colour| *colour == name || *colour == value);
    colour.map_or_else(|| format!("({}, {})", repr(name), repr(value)), str::to_owned)
}

/// What buying `product` at `price` with the chosen values is worth for a goal.
pub fn reward(goal: &Goal<'_>, product: Product<'_>, price: f64, chosen: &[&str]) -> Reward {
    let chosen: Vec<&str> = chosen.iter().map(|value| reduce_colour(value)).collect();
    let wanted = wanted_options(goal);
    let matched_options =
        wanted.iter().filter(|wanted| chosen.iter().any(|chosen| alike(chosen, wanted))).count();
    let (attributes, matched_attributes) = count_attributes(goal, product);
    let within = price <= goal.price_cap();
    let parts = (attributes + wanted.len() + 1) as f64;
    let kind = kind(goal.product(), product);
    let matched = (matched_attributes + matched_options + usize::from(within)) as f64;
    Reward {
        total: matched / parts * kind.r_type,
        r_type: kind.r_type,
        attributes: (matched_attributes as f64 / attributes as f64, attributes as f64 / parts),
        options: (!wanted.is_empty())
            .then(|| (matched_options as f64 / wanted.len() as f64, wanted.len() as f64 / parts)),
        price: (within, 1.0 / parts),
        query_match: kind.query_match,
        category_match: kind.category_match,
        title_score: kind.title_score,
    }
}

fn wanted_options<'g>(goal: &Goal<'g>) -> Vec<Cow<'g, str>> {
    match goal.options() {
        GoalOptions::Human(options) => {
            options.iter().map(|option| Cow::Borrowed(reduce_colour(option))).collect()
        }
        GoalOptions::Synthetic(pairs) => {
            pairs.iter().map(|(name, value)| Cow::Owned(reduce_pair(name, value))).collect()
        }
    }
}

/// How many attributes are wanted, and how many of them the product has.
fn count_attributes(goal: &Goal<'_>, product: Product<'_>) -> (usize, usize) {
    let has: Vec<&str> = product.attributes().texts().collect();
    let mut texts: Option<[String; 3]> = None;
    let (mut wanted, mut matched) = (0, 0);
    goal.for_each_attribute(|attribute| {
        wanted += 1;
        // The product's side comes first; the measure is not symmetric.
        let found = has.contains(&attribute) && alike(attribute, attribute)
            || has.iter().any(|has| alike(has, attribute))
            || texts
                .get_or_insert_with(|| {
                    let bullets: Vec<&str> = product.bullets().collect();
                    [product.name(), &bullets.join(" "), product.description()].map(str::to_lowercase)
                })
                .iter()
                .any(|text| text.contains(attribute));
        matched += usize::from(found);
    });
    (wanted, matched)
}

struct Kind {
    r_type: f64,
    query_match: bool,
    category_match: bool,
    title_score: f64,
}

/// The levels of a product's place in the tree of categories.
fn levels(product: Product<'_>) -> HashSet<&str> {
    let path = product.catalogue().word(product.product_category());
    path.split('›').map(|level| level.trim_matches(is_space)).collect()
}

fn kind(wanted: Product<'_>, bought: Product<'_>) -> Kind {
    let query_match = bought.query() == wanted.query();
    let category_match = levels(bought).intersection(&levels(wanted)).count() >= 2;
    let nouns: HashSet<Word> = bought.nouns().words().collect();
    let names: HashSet<Word> = wanted.nouns().words().collect();
    let title_score = match wanted.nouns().len() {
        0 => NO_NOUNS,
        count => names.intersection(&nouns).count() as f64 / count as f64,
    };
    let mut r_type = if query_match || category_match || title_score > 0.2 { 1.0 } else { 0.5 };
    if title_score < 0.1 {
        r_type = 0.1;
    }
    if title_score == 0.0 {
        r_type = 0.0;
    }
    Kind { r_type, query_match, category_match, title_score }
}
