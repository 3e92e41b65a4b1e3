//! Products and their search index in columns, shared read-only by everybody who shops.

use super::load::price_tag;
use super::search::index::{self, Index, IndexBuilder, IndexParts};
use super::search::{Hit, SearchError, Searcher};
use super::store::{Store, Texts, TextsBuilder, u32_at, u64_at};
use crate::environment::EnvError;
use std::collections::HashMap;
use std::path::Path;

/// Stands where a list is not there at all, which is something else than an empty list.
const ABSENT: u32 = u32::MAX;

/// Sections of the store.
const TOTALS: usize = 0;
const TEXTS: usize = 1;
const TEXT_STARTS: usize = 3;
const LISTS: usize = 4;
const LIST_STARTS: usize = 5;
const PRICES: usize = 6;
const WORDS: usize = 7;
const RANKS: usize = 9;
const BY_ASIN: usize = 10;
const INDEX: usize = 11;

/// Texts of a product, before its bullets.
const ASIN: usize = 0;
const NAME: usize = 1;
const DESCRIPTION: usize = 2;
const IMAGE: usize = 3;
const INSTRUCTION: usize = 4;
const BULLETS: usize = 5;

/// The nouns of a name in lower case, in order, with repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nouns(pub Box<[String]>);

/// A product on its way into a catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct NewProduct {
    /// Its key, at most ten characters.
    pub asin: String,
    /// Its title.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its features; at least one.
    pub bullets: Vec<String>,
    /// The address of its picture.
    pub image: String,
    /// Its department.
    pub category: String,
    /// The search that it was found by, lower-cased and trimmed.
    pub query: String,
    /// Its place in the tree of categories, levels joined by `›`.
    pub product_category: String,
    /// One price, or the ends of a range.
    pub prices: (f64, Option<f64>),
    /// Names of options and their values, in order.
    pub options: Vec<(String, Vec<String>)>,
    /// Its attributes.
    pub attributes: Vec<String>,
    /// What a synthetic customer says.
    pub instruction: Option<String>,
    /// What that customer asks for.
    pub instruction_attributes: Option<Vec<String>>,
    /// Whether the attributes' file knows the product.
    pub has_record: bool,
    /// The nouns of its name.
    pub nouns: Nouns,
}

/// Collects products, in order.
#[derive(Debug, Default)]
pub struct CatalogueBuilder {
    texts: TextsBuilder,
    text_starts: Vec<u8>,
    lists: Vec<u8>,
    list_starts: Vec<u8>,
    prices: Vec<u8>,
    words: TextsBuilder,
    numbers: HashMap<Box<str>, u32>,
    index: IndexBuilder,
    visible: u64,
    line: String,
}

impl CatalogueBuilder {
    /// Adds a product. Products that are not `visible` come last: the search index counts them, and nothing else.
    pub fn add(&mut self, product: &NewProduct, visible: bool) {
        self.visible += u64::from(visible);
        self.text_starts.extend((self.texts.len() as u64).to_le_bytes());
        self.list_starts.extend((self.lists.len() as u64 / 4).to_le_bytes());
        for text in [
            &product.asin,
            &product.name,
            &product.description,
            &product.image,
            product.instruction.as_ref().unwrap_or(&String::new()),
        ] {
            self.texts.push(text);
        }
        for bullet in &product.bullets {
            self.texts.push(bullet);
        }
        let (low, high) = product.prices;
        self.prices.extend(low.to_le_bytes());
        self.prices.extend(high.unwrap_or(f64::NAN).to_le_bytes());

        for word in [&product.category, &product.query, &product.product_category] {
            self.word(word);
        }
        let flags = u32::from(product.has_record) | u32::from(product.instruction.is_some()) << 1;
        self.number(flags);
        self.list(Some(&product.attributes));
        self.list(product.instruction_attributes.as_deref());
        self.list(Some(&product.nouns.0));
        self.number(product.options.len() as u32);
        for (name, values) in &product.options {
            self.word(name);
            self.list(Some(values));
        }

        // The indexed text: title, description, first feature and options, in lower case.
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let first = product.bullets.first().map_or("", String::as_str);
        for text in [&product.name, " ", &product.description, " ", first, " "] {
            line.push_str(text);
        }
        for (number, (name, values)) in product.options.iter().enumerate() {
            let between = if number == 0 { "" } else { ", and " };
            for text in [between, name, ": ", &values.join(", ")] {
                line.push_str(text);
            }
        }
        self.index.add(&line.to_lowercase());
        self.line = line;
    }

    /// How many products there are.
    pub fn len(&self) -> usize {
        self.list_starts.len() / 8
    }

    /// Whether there is no product.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The finished columns.
    pub fn finish(mut self, description: String) -> Store {
        self.text_starts.extend((self.texts.len() as u64).to_le_bytes());
        self.list_starts.extend((self.lists.len() as u64 / 4).to_le_bytes());
        let products = self.list_starts.len() / 8 - 1;
        let [text_offsets, text_bytes] = self.texts.finish();
        let asin = |number: u32| {
            let text = u64_at(&self.text_starts, number as usize) as usize;
            let range = u64_at(&text_offsets, text) as usize..u64_at(&text_offsets, text + 1) as usize;
            &text_bytes[range]
        };
        let mut order: Vec<u32> = (0..products as u32).collect();
        order.sort_by(|&one, &two| asin(one).cmp(asin(two)));
        let mut ranks = vec![0; products * 4];
        for (rank, &number) in order.iter().enumerate() {
            let at = number as usize * 4;
            ranks[at..at + 4].copy_from_slice(&(rank as u32).to_le_bytes());
        }
        let by_asin = order.into_iter().flat_map(u32::to_le_bytes).collect();
        let [word_offsets, word_bytes] = self.words.finish();
        let totals = self.visible.to_le_bytes().to_vec();
        let mut sections = vec![
            totals,
            text_offsets,
            text_bytes,
            self.text_starts,
            self.lists,
            self.list_starts,
            self.prices,
            word_offsets,
            word_bytes,
            ranks,
            by_asin,
        ];
        drop(self.numbers);
        let IndexParts(parts) = self.index.finish();
        sections.extend(parts);
        Store::new(description, sections)
    }

    fn number(&mut self, number: u32) {
        self.lists.extend(number.to_le_bytes());
    }

    /// Writes the number of a text that is kept once, however often it occurs.
    fn word(&mut self, word: &str) {
        let number = match self.numbers.get(word) {
            Some(&number) => number,
            None => {
                let number = self.words.push(word) as u32;
                self.numbers.insert(word.into(), number);
                number
            }
        };
        self.number(number);
    }

    fn list(&mut self, words: Option<&[String]>) {
        let Some(words) = words else { return self.number(ABSENT) };
        self.number(words.len() as u32);
        for word in words {
            self.word(word);
        }
    }
}

/// Number of a text that is kept once: names and values of options, attributes, nouns, categories, queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(pub(crate) u32);

/// Products and their search index. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Catalogue {
    store: Store,
    products: u32,
}

impl Catalogue {
    /// Over a store that [`CatalogueBuilder::finish`] made; `path` is named in errors.
    ///
    /// # Errors
    /// When the columns do not fit each other.
    pub fn new(store: Store, path: &Path) -> Result<Self, EnvError> {
        let visible = u64_at(store.section(TOTALS), 0);
        let catalogue = Self { products: visible as u32, store };
        let fits = || {
            let count = (catalogue.store.section(LIST_STARTS).len() / 8).checked_sub(1)?;
            let columns = [
                catalogue.store.section(TEXT_STARTS).len() == (count + 1) * 8,
                catalogue.store.section(PRICES).len() == count * 16,
                catalogue.store.section(RANKS).len() == count * 4,
                catalogue.store.section(BY_ASIN).len() == count * 4,
                catalogue.index().documents() == count,
                visible <= count as u64,
                u32::try_from(count).is_ok(),
            ];
            columns.iter().all(|fits| *fits).then_some(())
        };
        match fits() {
            Some(()) => Ok(catalogue),
            None => Err(EnvError::Data {
                path: path.into(),
                place: String::new(),
                found: "columns of different lengths".into(),
                expected: "a whole shop index; remove the file, and it is built again".into(),
            }),
        }
    }

    /// How many products the shop has.
    pub fn len(&self) -> usize {
        self.products as usize
    }

    /// Whether the shop is empty.
    pub fn is_empty(&self) -> bool {
        self.products == 0
    }

    /// Bytes of all columns.
    pub fn bytes(&self) -> usize {
        self.store.len()
    }

    /// Product `number`, from 0, in the order of the file.
    ///
    /// # Panics
    /// When there is no such product.
    pub fn product(&self, number: u32) -> Product<'_> {
        assert!(number < self.products, "product {number} of {}", self.products);
        Product { catalogue: self, number }
    }

    /// All products in order.
    pub fn products(&self) -> impl Iterator<Item = Product<'_>> {
        (0..self.products).map(|number| self.product(number))
    }

    /// The product with a key.
    pub fn find(&self, asin: &str) -> Option<Product<'_>> {
        let column = self.store.section(BY_ASIN);
        let (mut low, mut high) = (0, column.len() / 4);
        while low < high {
            let middle = low + (high - low) / 2;
            let number = u32_at(column, middle);
            match self.text(number, ASIN).cmp(asin) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return (number < self.products).then(|| self.product(number)),
            }
        }
        None
    }

    /// The search index.
    pub fn index(&self) -> Index<'_> {
        Index::new(&self.store, INDEX)
    }

    /// Something that answers queries over the index.
    pub fn searcher(&self) -> Searcher<'_> {
        Searcher::new(self.index(), self.store.section(RANKS))
    }

    /// The numbers of the best products for a query, at most `count` before those outside the shop are dropped.
    ///
    /// # Errors
    /// As [`Searcher::search`].
    pub fn search(&self, query: &str, count: usize) -> Result<Vec<Hit>, SearchError> {
        let mut hits = self.searcher().search(query, count)?;
        hits.retain(|hit| hit.document < self.products);
        Ok(hits)
    }

    /// The text of a word.
    pub fn word(&self, word: Word) -> &str {
        Texts::new(&self.store, WORDS).get(word.0 as usize)
    }

    fn text(&self, number: u32, field: usize) -> &str {
        let start = u64_at(self.store.section(TEXT_STARTS), number as usize) as usize;
        Texts::new(&self.store, TEXTS).get(start + field)
    }
}

/// Sections of an index, for whoever counts them.
const _: () = assert!(index::SECTIONS == 7);

/// A look at one product.
#[derive(Debug, Clone, Copy)]
pub struct Product<'c> {
    catalogue: &'c Catalogue,
    /// Its place in the catalogue.
    pub number: u32,
}

/// A list of words inside a product.
#[derive(Debug, Clone, Copy)]
pub struct Words<'c> {
    catalogue: &'c Catalogue,
    numbers: &'c [[u8; 4]],
}

impl<'c> Words<'c> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Word `number`.
    pub fn get(&self, number: usize) -> Option<Word> {
        self.numbers.get(number).map(|bytes| Word(u32::from_le_bytes(*bytes)))
    }

    /// The words in order.
    pub fn words(self) -> impl Iterator<Item = Word> + 'c {
        self.numbers.iter().map(|bytes| Word(u32::from_le_bytes(*bytes)))
    }

    /// Their texts in order.
    pub fn texts(self) -> impl Iterator<Item = &'c str> {
        let catalogue = self.catalogue;
        self.words().map(move |word| catalogue.word(word))
    }
}

/// An option of a product.
#[derive(Debug, Clone, Copy)]
pub struct ProductOption<'c> {
    /// Its name.
    pub name: Word,
    /// Its values.
    pub values: Words<'c>,
}

/// Reads the lists of a product one after the other.
struct Lists<'c> {
    catalogue: &'c Catalogue,
    rest: &'c [[u8; 4]],
}

impl<'c> Lists<'c> {
    fn number(&mut self) -> u32 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        u32::from_le_bytes(*first)
    }

    fn list(&mut self) -> Option<Words<'c>> {
        let length = self.number();
        if length == ABSENT {
            return None;
        }
        let (numbers, rest) = self.rest.split_at_checked(length as usize).unwrap_or((self.rest, &[]));
        self.rest = rest;
        Some(Words { catalogue: self.catalogue, numbers })
    }
}

impl<'c> Product<'c> {
    fn lists(&self) -> Lists<'c> {
        let starts = self.catalogue.store.section(LIST_STARTS);
        let at = self.number as usize;
        let range = u64_at(starts, at) as usize..u64_at(starts, at + 1) as usize;
        let all = self.catalogue.store.section(LISTS).as_chunks::<4>().0;
        Lists { catalogue: self.catalogue, rest: all.get(range).unwrap_or_default() }
    }

    /// The catalogue.
    pub fn catalogue(&self) -> &'c Catalogue {
        self.catalogue
    }

    /// Its key.
    pub fn asin(&self) -> &'c str {
        self.catalogue.text(self.number, ASIN)
    }

    /// Its title.
    pub fn name(&self) -> &'c str {
        self.catalogue.text(self.number, NAME)
    }

    /// Its description.
    pub fn description(&self) -> &'c str {
        self.catalogue.text(self.number, DESCRIPTION)
    }

    /// The address of its picture.
    pub fn image(&self) -> &'c str {
        self.catalogue.text(self.number, IMAGE)
    }

    /// Its features.
    pub fn bullets(&self) -> impl Iterator<Item = &'c str> + use<'c> {
        let starts = self.catalogue.store.section(TEXT_STARTS);
        let at = self.number as usize;
        let range = u64_at(starts, at) as usize + BULLETS..u64_at(starts, at + 1) as usize;
        let texts = Texts::new(&self.catalogue.store, TEXTS);
        range.map(move |number| texts.get(number))
    }

    /// One price, or the ends of a range.
    pub fn prices(&self) -> (f64, Option<f64>) {
        let column = self.catalogue.store.section(PRICES);
        let price = |at: usize| f64::from_bits(u64_at(column, at));
        let high = price(self.number as usize * 2 + 1);
        (price(self.number as usize * 2), (!high.is_nan()).then_some(high))
    }

    /// The text on its price tag.
    pub fn price_tag(&self) -> String {
        price_tag(self.prices())
    }

    /// Its department.
    pub fn category(&self) -> Word {
        Word(self.lists().number())
    }

    /// The search that it was found by.
    pub fn query(&self) -> Word {
        let mut lists = self.lists();
        lists.number();
        Word(lists.number())
    }

    /// Its place in the tree of categories.
    pub fn product_category(&self) -> Word {
        let mut lists = self.lists();
        lists.number();
        lists.number();
        Word(lists.number())
    }

    fn after_words(&self) -> (u32, Lists<'c>) {
        let mut lists = self.lists();
        for _ in 0..3 {
            lists.number();
        }
        (lists.number(), lists)
    }

    fn empty(&self) -> Words<'c> {
        Words { catalogue: self.catalogue, numbers: &[] }
    }

    /// Whether the attributes' file knows it.
    pub fn has_record(&self) -> bool {
        self.after_words().0 & 1 == 1
    }

    /// Its attributes.
    pub fn attributes(&self) -> Words<'c> {
        self.after_words().1.list().unwrap_or(self.empty())
    }

    /// What a synthetic customer says, and asks for.
    pub fn instruction(&self) -> Option<(&'c str, Words<'c>)> {
        let (flags, mut lists) = self.after_words();
        lists.list();
        let attributes = lists.list().unwrap_or(self.empty());
        (flags & 2 == 2).then(|| (self.catalogue.text(self.number, INSTRUCTION), attributes))
    }

    /// The nouns of its name, in lower case, with repeats.
    pub fn nouns(&self) -> Words<'c> {
        let (_, mut lists) = self.after_words();
        lists.list();
        lists.list();
        lists.list().unwrap_or(self.empty())
    }

    /// Its options in order.
    pub fn options(&self) -> impl Iterator<Item = ProductOption<'c>> + use<'c> {
        let (_, mut lists) = self.after_words();
        for _ in 0..3 {
            lists.list();
        }
        let empty = self.empty();
        let count = lists.number();
        (0..count)
            .map(move |_| ProductOption { name: Word(lists.number()), values: lists.list().unwrap_or(empty) })
    }
}
