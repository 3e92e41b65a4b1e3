//! A shop of our own, made from a seed: products, attributes, options, instructions. It needs no data, and grows to any
//! size for benchmarks.

use super::catalogue::{Catalogue, CatalogueBuilder, NewProduct, Nouns};
use super::load::HumanInstruction;
use crate::environment::EnvError;
use crate::pyrandom::PythonRandom;
use std::collections::HashMap;
use std::path::Path;

/// Seed of the shop that is played by default.
pub const SEED: u64 = 7;
/// Its products.
pub const PRODUCTS: usize = 600;

/// Products of one kind.
struct Line {
    category: &'static str,
    path: &'static str,
    query: &'static str,
    /// Nouns that name the thing, the last one being its head.
    things: &'static [&'static str],
    materials: &'static [&'static str],
    attributes: &'static [&'static str],
    options: &'static [(&'static str, &'static [&'static str])],
    uses: &'static [&'static str],
    /// Lowest price in dollars; prices go up to four times as high.
    price: u32,
}

const SHADES: &[&str] = &["black", "white", "navy", "forest green", "grey", "sky blue", "burgundy", "sand"];
const SIZES: &[&str] = &["small", "medium", "large", "x-large"];
const PACKS: &[&str] = &["1 count", "2 count", "6 count", "12 count"];

#[rustfmt::skip]
const LINES: [Line; 15] = [
    Line { category: "fashion", path: "Clothes › Outdoor › Jackets", query: "rain jackets", things: &["rain jacket", "storm jacket", "hiking jacket"], materials: &["nylon", "polyester", "cotton"], attributes: &["water resistant", "taped seams", "packable hood", "two way zipper", "machine wash", "reflective trim"], options: &[("color", SHADES), ("size", SIZES)], uses: &["rainy walks", "mountain trips", "the way to work"], price: 35 },
    Line { category: "fashion", path: "Clothes › Footwear › Boots", query: "winter boots", things: &["winter boots", "snow boots", "ankle boots"], materials: &["leather", "suede", "rubber"], attributes: &["wool lining", "non slip sole", "wide fit", "quick lacing", "water resistant", "arch support"], options: &[("color", SHADES), ("size", &["38", "39", "40", "41", "42", "43"])], uses: &["icy streets", "long winters", "muddy paths"], price: 45 },
    Line { category: "fashion", path: "Clothes › Basics › Socks", query: "socks", things: &["crew socks", "hiking socks", "ankle socks"], materials: &["wool", "cotton", "bamboo"], attributes: &["cushioned heel", "seamless toe", "odor control", "machine wash", "breathable mesh"], options: &[("color", SHADES), ("size", SIZES), ("pack", PACKS)], uses: &["every day", "long hikes", "cold evenings"], price: 8 },
    Line { category: "home", path: "Home › Kitchen › Cookware", query: "frying pans", things: &["frying pan", "skillet", "saute pan"], materials: &["steel", "iron", "aluminum"], attributes: &["non stick", "oven safe", "induction ready", "stay cool handle", "dishwasher safe", "pouring lip"], options: &[("size", &["8 inch", "10 inch", "12 inch"]), ("color", SHADES)], uses: &["weekday dinners", "eggs and pancakes", "searing fish"], price: 18 },
    Line { category: "home", path: "Home › Bedroom › Bedding", query: "duvet covers", things: &["duvet cover", "quilt cover"], materials: &["linen", "cotton", "flannel"], attributes: &["hidden zipper", "corner ties", "machine wash", "wrinkle resistant", "hypoallergenic fabric"], options: &[("color", SHADES), ("size", &["twin", "queen", "king"])], uses: &["warm nights", "guest rooms", "children's rooms"], price: 28 },
    Line { category: "home", path: "Home › Living Room › Lamps", query: "table lamps", things: &["table lamp", "reading lamp", "bedside lamp"], materials: &["brass", "ceramic", "oak"], attributes: &["dimmable light", "touch control", "usb port", "fabric shade", "energy saving"], options: &[("color", SHADES), ("plug", &["type a", "type c", "type g"])], uses: &["late readers", "small tables", "a cosy corner"], price: 24 },
    Line { category: "garden", path: "Garden › Tools › Pruning", query: "garden shears", things: &["garden shears", "hedge shears", "pruning shears"], materials: &["steel", "titanium"], attributes: &["rust proof", "soft grip", "safety lock", "replaceable blade", "left handed"], options: &[("length", &["20 cm", "25 cm", "60 cm"]), ("color", SHADES)], uses: &["roses and hedges", "small hands", "spring work"], price: 14 },
    Line { category: "garden", path: "Garden › Plants › Pots", query: "plant pots", things: &["plant pot", "flower pot", "herb pot"], materials: &["terracotta", "concrete", "bamboo"], attributes: &["drainage hole", "frost proof", "self watering", "matching saucer", "uv resistant"], options: &[("color", SHADES), ("size", SIZES), ("pack", PACKS)], uses: &["window sills", "balconies", "kitchen herbs"], price: 9 },
    Line { category: "electronics", path: "Electronics › Audio › Headphones", query: "wireless headphones", things: &["wireless headphones", "sports headphones", "studio headphones"], materials: &["aluminum", "silicone"], attributes: &["noise cancelling", "fast charging", "long battery", "foldable frame", "sweat proof", "voice control"], options: &[("color", SHADES), ("style", &["over ear", "on ear"])], uses: &["trains and planes", "morning runs", "long calls"], price: 39 },
    Line { category: "electronics", path: "Electronics › Power › Chargers", query: "phone chargers", things: &["wall charger", "travel charger", "desk charger"], materials: &["aluminum", "polycarbonate"], attributes: &["fast charging", "overheat protection", "foldable plug", "two ports", "compact size"], options: &[("power", &["20 watt", "45 watt", "65 watt"]), ("color", SHADES)], uses: &["hotel rooms", "full desks", "empty batteries"], price: 15 },
    Line { category: "electronics", path: "Electronics › Computers › Keyboards", query: "computer keyboards", things: &["computer keyboard", "gaming keyboard", "travel keyboard"], materials: &["aluminum", "walnut", "polycarbonate"], attributes: &["quiet keys", "back lit", "wireless link", "spill proof", "hot swappable"], options: &[("layout", &["ansi", "iso", "compact"]), ("color", SHADES)], uses: &["quiet offices", "long texts", "small desks"], price: 29 },
    Line { category: "grocery", path: "Groceries › Breakfast › Cereals", query: "granola", things: &["granola", "crunchy muesli", "oat granola"], materials: &["oat", "almond", "hazelnut"], attributes: &["gluten free", "low sugar", "high fiber", "plant based", "no palm oil"], options: &[("flavor", &["honey", "mango", "cinnamon", "apple"]), ("size", &["300 gram", "500 gram", "1 kilo"])], uses: &["quick breakfasts", "yoghurt bowls", "hikes"], price: 5 },
    Line { category: "grocery", path: "Groceries › Drinks › Tea", query: "herbal tea", things: &["herbal tea", "loose tea", "evening tea"], materials: &["chamomile", "rooibos", "peppermint"], attributes: &["caffeine free", "organic leaves", "compostable bags", "no added flavor", "fair trade"], options: &[("size", &["20 bags", "50 bags", "100 gram"]), ("pack", PACKS)], uses: &["quiet evenings", "cold days", "after dinner"], price: 6 },
    Line { category: "beauty", path: "Beauty › Skin › Creams", query: "face cream", things: &["face cream", "day cream", "night cream"], materials: &["aloe", "shea", "jojoba"], attributes: &["fragrance free", "for dry skin", "cruelty free", "paraben free", "sun protection"], options: &[("size", &["30 ml", "50 ml", "100 ml"]), ("pack", PACKS)], uses: &["sensitive skin", "dry winters", "every morning"], price: 12 },
    Line { category: "beauty", path: "Beauty › Hair › Brushes", query: "hair brushes", things: &["hair brush", "paddle brush", "travel brush"], materials: &["bamboo", "beech", "silicone"], attributes: &["detangling pins", "anti static", "heat resistant", "soft bristles", "cruelty free"], options: &[("color", SHADES), ("style", &["oval", "square", "round"])], uses: &["long hair", "wet hair", "short trips"], price: 7 },
];

/// Words that are no nouns, in front of a name.
const PRAISE: [&str; 10] = [
    "sturdy",
    "everyday",
    "classic",
    "modern",
    "slim",
    "reliable",
    "handy",
    "premium",
    "lightweight",
    "simple",
];

const SYLLABLES: [&str; 24] = [
    "bar", "cor", "dal", "el", "fen", "gar", "hol", "in", "jun", "kel", "lor", "mar", "nor", "ost", "pel",
    "quin", "ros", "sol", "tam", "ul", "ver", "wen", "yar", "zel",
];

/// Digits of a key.
const KEY_DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Makes product after product of a seed. Product `number` is the same whatever was made before.
#[derive(Debug, Clone, Copy)]
pub struct Generator {
    seed: u64,
}

impl Generator {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A stream of its own for each product and purpose.
    fn random(&self, purpose: &str, number: usize) -> PythonRandom {
        PythonRandom::from_str(&format!("webshop/{}/{purpose}/{number}", self.seed))
    }

    /// Product `number`.
    pub fn product(&self, number: usize) -> NewProduct {
        let mut random = self.random("product", number);
        let mut pick = |items: &[&'static str]| random.choice(items).copied().unwrap_or_default();
        let line = &LINES[number % LINES.len()];
        let brand: String = {
            let syllables = [pick(&SYLLABLES), pick(&SYLLABLES), pick(&SYLLABLES)];
            let mut brand = syllables.concat();
            brand[..1].make_ascii_uppercase();
            brand
        };
        let (praise, material, thing) = (pick(&PRAISE), pick(line.materials), pick(line.things));
        let model = format!("{}{}", pick(&["A", "K", "M", "T", "X"]), 10 + random.below(990));
        let count = 3 + random.below(2) as usize;
        let attributes: Vec<String> = random
            .sample(line.attributes, count)
            .into_iter()
            .flatten()
            .map(|text| (*text).to_owned())
            .collect();
        let options = line
            .options
            .iter()
            .map(|(name, values)| {
                let count = 2 + random.below(values.len() as u64 - 1) as usize;
                let chosen = random.sample(values, count).unwrap_or_default();
                // As in the list, so that sizes stand in their order.
                let kept =
                    values.iter().filter(|value| chosen.contains(value)).map(|value| (*value).to_owned());
                ((*name).to_owned(), kept.collect())
            })
            .collect();
        let cents = |random: &mut PythonRandom| {
            let low = u64::from(line.price) * 100;
            (low + random.below(3 * low)) as f64 / 100.0
        };
        let low = cents(&mut random);
        let high = (random.below(8) == 0).then(|| ((low * 1.25) * 100.0).round() / 100.0);
        let use_for = random.choice(line.uses).copied().unwrap_or_default();
        let name = format!("{brand} {praise} {material} {thing} {model} for {use_for}");
        let mut nouns = vec![brand.to_lowercase(), material.to_owned()];
        nouns.extend(thing.split(' ').map(str::to_owned));
        nouns.push(model.to_lowercase());
        let bullets = attributes
            .iter()
            .map(|attribute| {
                format!("{}: the {thing} stays that way, season after season.", capital(attribute))
            })
            .chain([format!("Made of {material} by {brand}.")])
            .collect();
        let description = format!(
            "A {praise} {thing} of {material}, made for {use_for}. {brand} tests every {thing} by hand before it \
             leaves the workshop. Model {model}."
        );
        let wanted: Vec<String> = random.sample(&attributes, 2).into_iter().flatten().cloned().collect();
        // Four of five products have customers of their own.
        let instruction = (random.below(5) > 0)
            .then(|| format!("Please get me {} with {} and {}", line.query, wanted[0], wanted[1]));
        NewProduct {
            asin: key(number),
            name,
            description,
            bullets,
            image: String::new(),
            category: line.category.to_owned(),
            query: line.query.to_owned(),
            product_category: line.path.to_owned(),
            prices: (low, high),
            options,
            attributes,
            instruction_attributes: instruction.is_some().then_some(wanted),
            instruction,
            has_record: true,
            nouns: Nouns(nouns.into()),
        }
    }

    /// What a person would ask for who wants product `number`; `None` for most products.
    pub fn human(&self, number: usize) -> Option<HumanInstruction> {
        let mut random = self.random("human", number);
        if random.below(3) > 0 {
            return None;
        }
        let product = self.product(number);
        let line = &LINES[number % LINES.len()];
        let attributes: Vec<String> = random.sample(&product.attributes, 2)?.into_iter().cloned().collect();
        let options: Vec<String> =
            product.options.iter().filter_map(|(_, values)| random.choice(values).cloned()).collect();
        let opening = *random.choice(&["i'd like", "looking for", "can you find me", "i need"])?;
        let reason = *random.choice(line.uses)?;
        let instruction = format!(
            "{opening} {} for {reason}, {} and {}, in {}",
            line.query,
            attributes[0],
            attributes[1],
            options.join(" and ")
        );
        Some(HumanInstruction { instruction, attributes, options })
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A key of ten signs for a number: different for different numbers, and in another order.
fn key(number: usize) -> String {
    // A multiplier without a factor in common with 36, so that nothing falls together.
    let mut rest = (number as u64).wrapping_mul(48_271).wrapping_add(11) % 36u64.pow(9);
    let mut digits = [0; 9];
    for digit in digits.iter_mut().rev() {
        *digit = KEY_DIGITS[(rest % 36) as usize];
        rest /= 36;
    }
    digits.iter().fold(String::from("S"), |mut key, &digit| {
        key.push(char::from(digit));
        key
    })
}

/// The catalogue of a seed with so many products.
///
/// # Errors
/// Never in practice: the columns fit.
pub fn catalogue(seed: u64, products: usize) -> Result<Catalogue, EnvError> {
    let generator = Generator::new(seed);
    let mut builder = CatalogueBuilder::default();
    for number in 0..products {
        builder.add(&generator.product(number), true);
    }
    Catalogue::new(builder.finish(String::new()), Path::new("the embedded shop"))
}

/// What people ask for in the catalogue of a seed.
pub fn human(seed: u64, products: usize) -> HashMap<String, Vec<HumanInstruction>> {
    let generator = Generator::new(seed);
    (0..products).filter_map(|number| Some((key(number), vec![generator.human(number)?]))).collect()
}
