//! The public files as people have them, and the rules by which the reference takes a product from them.

use super::catalogue::{Catalogue, CatalogueBuilder, NewProduct, Nouns};
use super::json::{Field, Place, Record, found, read_list, read_object};
use super::python_text::{float, is_space};
use super::store::{Store, checksum, map_file};
use crate::environment::EnvError;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Decimal digits of all scripts (`\d` of Python).
static DIGIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\p{Nd}$").expect("the pattern is a literal of this file"));

/// What a price is where none is given.
const UNKNOWN_PRICE: f64 = 100.0;

/// The attribute of products without a record.
const NO_ATTRIBUTES: &str = "DUMMY_ATTR";

/// The files of a shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopFiles {
    /// `items_shuffle.json` or `items_shuffle_1000.json`: a list of products.
    pub products: PathBuf,
    /// `items_ins_v2.json` or `items_ins_v2_1000.json`: attributes and synthetic instructions by asin.
    pub attributes: PathBuf,
    /// `items_human_ins.json`; needed for human goals only.
    pub human: Option<PathBuf>,
    /// The nouns of each product name, a line of JSON with `name` and `nouns` each.
    pub nouns: PathBuf,
}

/// File names that [`ShopFiles::find`] knows, the first one that is there being taken.
const KNOWN: [&[&str]; 4] = [
    &["items_shuffle.json", "items_shuffle_1000.json"],
    &["items_ins_v2.json", "items_ins_v2_1000.json"],
    &["items_human_ins.json"],
    &["nouns.jsonl", "items_nouns.jsonl"],
];

impl ShopFiles {
    /// The files in a folder, by their public names: with `small`, the 1,000-product set is preferred, else the full
    /// catalogue.
    ///
    /// # Errors
    /// When one that must be there is missing; the message says which names were looked for.
    pub fn find(folder: &Path, small: bool) -> Result<Self, EnvError> {
        let look = |names: &[&str]| {
            let mut names: Vec<&str> = names.to_vec();
            if small {
                names.reverse();
            }
            names.iter().map(|name| folder.join(name)).find(|path| path.is_file())
        };
        let need = |names: &[&str], what: &str| {
            look(names).ok_or_else(|| EnvError::Data {
                path: folder.into(),
                place: String::new(),
                found: format!("no {what}"),
                expected: format!("a file {}", names.join(" or ")),
            })
        };
        Ok(Self {
            products: need(KNOWN[0], "products")?,
            attributes: need(KNOWN[1], "attributes")?,
            human: look(KNOWN[2]),
            nouns: need(
                KNOWN[3],
                "nouns of the product names; make them once with `python scripts/webshop_nouns.py FOLDER`",
            )?,
        })
    }
}

/// What happens with a record that the reference cannot load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadRecords {
    /// The load fails, with file, record and field.
    #[default]
    Fail,
    /// The product is left out, counted, and named in the report.
    Skip,
}

/// Where the index is kept between runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IndexFile {
    /// Beside the products' file, with the ending `.seedshop`.
    #[default]
    Beside,
    /// In this file.
    At(PathBuf),
    /// Nowhere: it is built each time.
    Memory,
}

/// How a catalogue is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadOptions {
    /// Takes only the first records of the products' file. The search index then covers the first that many *loaded*
    /// products, as the reference's four prepared indexes do.
    pub num_products: Option<usize>,
    /// What happens with records that cannot be loaded.
    pub bad_records: BadRecords,
    /// Where the index is kept.
    pub index: IndexFile,
}

/// What was loaded and what was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Products in the shop.
    pub products: usize,
    /// Products that the search index covers.
    pub indexed: usize,
    /// Records whose asin is `nan`, too long, or was there before.
    pub skipped: usize,
    /// One message for each record that could not be loaded.
    pub bad: Vec<String>,
    /// How the index came about.
    #[serde(skip)]
    pub index: IndexOrigin,
}

/// How the index came about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IndexOrigin {
    /// Built, and not kept.
    #[default]
    Built,
    /// Built and saved there.
    Saved(PathBuf),
    /// Built; it could not be saved, for this reason.
    Unsaved(String),
    /// Opened from there.
    Opened(PathBuf),
}

/// A sign of life while a catalogue is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Records of the products' file that were read.
    pub records: usize,
}

/// Identity of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    bytes: u64,
    modified: u128,
    checksum: u64,
}

/// What an index file was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    num_products: Option<usize>,
    skip_bad: bool,
    sources: Vec<Source>,
    report: LoadReport,
}

/// Loads a catalogue: opens the saved index where it fits the files, else builds it (and saves it).
///
/// # Errors
/// When a file cannot be read or holds something that the reference could not load either; the message names file,
/// record and field.
pub fn load(
    files: &ShopFiles,
    options: &LoadOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Catalogue, LoadReport), EnvError> {
    let kept = match &options.index {
        IndexFile::Memory => None,
        IndexFile::At(path) => Some(path.clone()),
        IndexFile::Beside => {
            let count = options.num_products.map(|count| format!("{count}.")).unwrap_or_default();
            Some(files.products.with_extension(format!("{count}seedshop")))
        }
    };
    if let Some(path) = kept.as_ref().filter(|path| path.is_file()) {
        let store = Store::open(path)?;
        if let Ok(origin) = serde_json::from_str::<Origin>(store.description())
            && origin.num_products == options.num_products
            && origin.skip_bad == (options.bad_records == BadRecords::Skip)
            && unchanged(&origin.sources, files)?
        {
            let report = LoadReport { index: IndexOrigin::Opened(path.clone()), ..origin.report };
            return Ok((Catalogue::new(store, path)?, report));
        }
    }
    let (builder, mut report) = build(files, options, progress)?;
    let sources = if kept.is_some() { sources(files)? } else { Vec::new() };
    let skip_bad = options.bad_records == BadRecords::Skip;
    let origin = Origin { num_products: options.num_products, skip_bad, sources, report: report.clone() };
    let description = serde_json::to_string(&origin).unwrap_or_default();
    let store = builder.finish(description);
    let Some(path) = kept else {
        return Ok((Catalogue::new(store, &files.products)?, report));
    };
    match store.save(&path) {
        Ok(()) => {
            drop(store);
            report.index = IndexOrigin::Saved(path.clone());
            Ok((Catalogue::new(Store::open(&path)?, &path)?, report))
        }
        Err(error) => {
            let why = std::error::Error::source(&error).map(|source| format!("{error}: {source}"));
            report.index = IndexOrigin::Unsaved(why.unwrap_or_else(|| error.to_string()));
            Ok((Catalogue::new(store, &files.products)?, report))
        }
    }
}

fn read_error(path: &Path) -> impl FnOnce(std::io::Error) -> EnvError + use<> {
    let path = path.to_owned();
    move |source| EnvError::Read { path, source }
}

fn stamp(path: &Path) -> Result<(u64, u128), EnvError> {
    let metadata = std::fs::metadata(path).map_err(read_error(path))?;
    let modified = metadata.modified().map_err(read_error(path))?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Ok((metadata.len(), since))
}

fn content(path: &Path, bytes: u64) -> Result<u64, EnvError> {
    Ok(if bytes == 0 { 0 } else { checksum(&map_file(path)?[..]) })
}

fn sources(files: &ShopFiles) -> Result<Vec<Source>, EnvError> {
    let of = |path: &PathBuf| {
        let (bytes, modified) = stamp(path)?;
        Ok(Source { bytes, modified, checksum: content(path, bytes)? })
    };
    [&files.products, &files.attributes, &files.nouns].into_iter().map(of).collect()
}

/// Whether the files are still those of the index: same size and time, or same size and content.
fn unchanged(sources: &[Source], files: &ShopFiles) -> Result<bool, EnvError> {
    let paths = [&files.products, &files.attributes, &files.nouns];
    if sources.len() != paths.len() {
        return Ok(false);
    }
    for (source, path) in sources.iter().zip(paths) {
        let (bytes, modified) = stamp(path)?;
        if bytes != source.bytes || modified != source.modified && content(path, bytes)? != source.checksum {
            return Ok(false);
        }
    }
    Ok(true)
}

fn build(
    files: &ShopFiles,
    options: &LoadOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<(CatalogueBuilder, LoadReport), EnvError> {
    let mut attributes = read_attributes(&files.attributes)?;
    let nouns = read_nouns(&files.nouns)?;
    let mut builder = CatalogueBuilder::default();
    let mut report = LoadReport::default();
    let mut seen = HashSet::new();
    let limit = options.num_products.unwrap_or(usize::MAX);
    let mut without_nouns = (0usize, String::new());
    read_list(&files.products, &PRODUCT_FIELDS, |place, record| {
        if place.index % 1000 == 0 {
            progress(Progress { records: place.index });
        }
        // Records behind the cut only fill up the search index.
        let visible = place.index < limit;
        if !visible && builder.len() >= limit {
            return Ok(ControlFlow::Break(()));
        }
        let taken = (|| {
            let record = record.map_err(|other| place.bad("", other.kind(), "a product"))?;
            let Some(mut product) = product(place, record, &mut seen)? else { return Ok(None) };
            if let Some(record) = attributes.remove(&product.asin) {
                product.attributes = record.attributes.unwrap_or_else(|| vec![NO_ATTRIBUTES.to_owned()]);
                product.instruction = record.instruction;
                product.instruction_attributes = record.instruction_attributes;
                product.has_record = true;
            }
            if let Some(words) = nouns.get(&product.name) {
                product.nouns = words.clone();
            } else {
                if without_nouns.0 == 0 {
                    without_nouns.1.clone_from(&product.name);
                }
                without_nouns.0 += 1;
            }
            Ok(Some(product))
        })();
        match taken {
            Ok(Some(product)) => {
                report.products += usize::from(visible);
                builder.add(&product, visible);
            }
            Ok(None) => report.skipped += usize::from(visible),
            Err(error) if options.bad_records == BadRecords::Fail => return Err(error),
            Err(error) => report.bad.push(error.to_string()),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if without_nouns.0 > 0 {
        return Err(EnvError::Data {
            path: files.nouns.clone(),
            place: String::new(),
            found: format!("no nouns for {} product names, the first being `{}`", without_nouns.0, without_nouns.1),
            expected: "a line for every product name; make the file again with `python scripts/webshop_nouns.py FOLDER`"
                .into(),
        });
    }
    report.indexed = builder.len();
    Ok((builder, report))
}

const PRODUCT_FIELDS: [&str; 10] = [
    "asin",
    "name",
    "full_description",
    "small_description",
    "pricing",
    "customization_options",
    "images",
    "category",
    "query",
    "product_category",
];

/// A product from its record; `None` where the reference passes it over.
fn product(
    place: Place<'_>,
    record: Record<10>,
    seen: &mut HashSet<String>,
) -> Result<Option<NewProduct>, EnvError> {
    let Record(
        [asin, name, description, bullets, pricing, options, images, category, query, product_category],
    ) = record;
    let asin = place.text("asin", asin)?;
    if asin == "nan" || asin.chars().count() > 10 || !seen.insert(asin.clone()) {
        return Ok(None);
    }
    let place = place.named(&asin);
    if asin.to_lowercase().to_uppercase() != asin {
        let found = format!("`{asin}`");
        return Err(place.bad("asin", found, "capital letters: a clicked link is looked up in capitals"));
    }
    let bullets = match bullets {
        Some(Field::Text(text)) => vec![text],
        Some(Field::List(items)) if items.is_empty() => {
            return Err(place.bad(
                "small_description",
                "an empty list",
                "a text or a list that is not empty",
            ));
        }
        other => place.texts("small_description", other)?,
    };
    let image = match images {
        Some(Field::List(images)) => place.text("images", images.into_iter().next())?,
        other => return Err(place.bad("images", found(other.as_ref()), "a list of texts that is not empty")),
    };
    Ok(Some(NewProduct {
        name: place.text("name", name)?,
        description: place.text("full_description", description)?,
        bullets,
        image,
        category: place.text("category", category)?,
        query: place.text("query", query)?.to_lowercase().trim_matches(is_space).to_owned(),
        product_category: place.text("product_category", product_category)?,
        prices: prices(place, pricing)?,
        options: read_options(place, options)?,
        attributes: vec![NO_ATTRIBUTES.to_owned()],
        instruction: None,
        instruction_attributes: None,
        has_record: false,
        nouns: Nouns::default(),
        asin,
    }))
}

/// One price, or the ends of a range.
fn prices(place: Place<'_>, pricing: Option<Field>) -> Result<(f64, Option<f64>), EnvError> {
    let text = match pricing {
        None => return Ok((UNKNOWN_PRICE, None)),
        Some(value) if value.is_empty() => return Ok((UNKNOWN_PRICE, None)),
        Some(Field::Text(text)) => text,
        Some(other) => return Err(place.bad("pricing", other.kind(), "a text")),
    };
    let mut found = Vec::new();
    for piece in text.split('$').skip(1) {
        let digits: String =
            piece.chars().filter_map(|c| if c == '.' { Some('.') } else { digit(c) }).collect();
        let number = digits.parse::<f64>().map_err(|_| {
            place.bad(
                "pricing",
                format!("`{text}`, where no number is behind a `$`"),
                "a number behind each `$`",
            )
        })?;
        found.push(number);
    }
    match found[..] {
        [] => Err(place.bad("pricing", format!("`{text}`"), "a price that starts with `$`")),
        [one] => Ok((one, None)),
        [low, high, ..] => Ok((low, Some(high))),
    }
}

/// The decimal digit that a character is, in any script.
fn digit(c: char) -> Option<char> {
    if c.is_ascii() {
        return c.is_ascii_digit().then_some(c);
    }
    let is_digit =
        |point: u32| char::from_u32(point).is_some_and(|c| DIGIT.is_match(c.encode_utf8(&mut [0; 4])));
    if !is_digit(c as u32) {
        return None;
    }
    // Digits of a script stand in tens from zero on.
    let before = (1..=u32::from(u8::MAX)).take_while(|&back| is_digit(c as u32 - back)).count() as u32;
    char::from_digit(before % 10, 10)
}

type Options = Vec<(String, Vec<String>)>;

fn read_options(place: Place<'_>, field: Option<Field>) -> Result<Options, EnvError> {
    const NAME: &str = "customization_options";
    let entries = match field {
        Some(Field::Object(entries)) => entries,
        Some(value) if value.is_empty() => return Ok(Vec::new()),
        other => return Err(place.bad(NAME, found(other.as_ref()), "an object of options")),
    };
    let mut options: Options = Vec::new();
    for (name, contents) in entries {
        let path = format!("{NAME}.{name}");
        let contents = match contents {
            Field::Null => continue,
            Field::List(contents) => contents,
            // Python goes through an empty text or object without complaint.
            Field::Text(_) | Field::Object(_) if contents.is_empty() => Vec::new(),
            other => return Err(place.bad(&path, other.kind(), "null or a list of choices")),
        };
        let mut values = Vec::with_capacity(contents.len());
        for choice in contents {
            let Field::Object(choice) = choice else {
                return Err(place.bad(&path, choice.kind(), "choices that are objects"));
            };
            let value = choice.into_iter().find(|(key, _)| key == "value").map(|(_, value)| value);
            let value = place.text(&format!("{path}.value"), value)?;
            values.push(value.trim_matches(is_space).replace('/', " | ").to_lowercase());
        }
        let name = name.to_lowercase();
        match options.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = values,
            None => options.push((name, values)),
        }
    }
    Ok(options)
}

/// What the attributes' file says about a product.
#[derive(Debug)]
struct AttributeRecord {
    attributes: Option<Vec<String>>,
    instruction: Option<String>,
    instruction_attributes: Option<Vec<String>>,
}

fn read_attributes(path: &Path) -> Result<HashMap<String, AttributeRecord>, EnvError> {
    let mut records = HashMap::new();
    read_object(path, &["attributes", "instruction", "instruction_attributes"], |place, asin, record| {
        let place = place.named(&asin);
        let Record([attributes, instruction, wanted]) =
            record.map_err(|other| place.bad("", other.kind(), "a record"))?;
        let attributes = attributes.map(|value| place.texts("attributes", Some(value))).transpose()?;
        let optional = |value: Option<Field>| value.filter(|value| *value != Field::Null);
        let instruction =
            optional(instruction).map(|value| place.text("instruction", Some(value))).transpose()?;
        let instruction_attributes =
            optional(wanted).map(|value| place.texts("instruction_attributes", Some(value))).transpose()?;
        records.insert(asin.clone(), AttributeRecord { attributes, instruction, instruction_attributes });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(records)
}

/// A line of the nouns' file. Whatever else stands in it is not looked at.
#[derive(Debug, Deserialize)]
struct NounLine {
    name: String,
    nouns: Vec<String>,
}

fn read_nouns(path: &Path) -> Result<HashMap<String, Nouns>, EnvError> {
    use std::io::BufRead;
    let file = std::fs::File::open(path).map_err(read_error(path))?;
    let mut table = HashMap::new();
    for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.map_err(read_error(path))?;
        if line.trim().is_empty() {
            continue;
        }
        let entry: NounLine = serde_json::from_str(&line).map_err(|error| EnvError::Data {
            path: path.into(),
            place: format!(":{}", number + 1),
            found: error.to_string(),
            expected: "a line of JSON with `name` and the list `nouns`".into(),
        })?;
        table.insert(entry.name, Nouns(entry.nouns.into_boxed_slice()));
    }
    Ok(table)
}

/// An instruction that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HumanInstruction {
    /// The sentence.
    pub instruction: String,
    /// The attributes that it asks for.
    pub attributes: Vec<String>,
    /// The options that it asks for.
    pub options: Vec<String>,
}

/// Reads `items_human_ins.json`: the instructions of each product.
///
/// # Errors
/// With file, record and field.
pub fn read_human(path: &Path) -> Result<HashMap<String, Vec<HumanInstruction>>, EnvError> {
    let mut all = HashMap::new();
    let map = std::fs::read(path).map_err(read_error(path))?;
    let entries: Field = serde_json::from_slice(&map).map_err(|error| EnvError::Data {
        path: path.into(),
        place: format!(":{}:{}", error.line(), error.column()),
        found: error.to_string(),
        expected: "an object of lists of instructions".into(),
    })?;
    drop(map);
    let Field::Object(entries) = entries else {
        let expected = "an object of lists of instructions".into();
        return Err(EnvError::Data {
            path: path.into(),
            place: String::new(),
            found: entries.kind().into(),
            expected,
        });
    };
    for (index, (asin, list)) in entries.into_iter().enumerate() {
        let place = Place::new(path, index).named(&asin);
        let Field::List(list) = list else {
            return Err(place.bad("", list.kind(), "a list of instructions"));
        };
        let mut instructions = Vec::with_capacity(list.len());
        for (number, record) in list.into_iter().enumerate() {
            let Field::Object(fields) = record else {
                return Err(place.bad(&format!("[{number}]"), record.kind(), "an instruction"));
            };
            let mut fields: HashMap<String, Field> = fields.into_iter().collect();
            let mut name = |key: &str| (format!("[{number}].{key}"), fields.remove(key));
            let (path, value) = name("instruction");
            let instruction = place.text(&path, value)?;
            let (path, value) = name("instruction_attributes");
            let attributes = place.texts(&path, value)?;
            // Records without attributes are passed over before their options are looked at.
            let (path, value) = name("instruction_options");
            let options = if attributes.is_empty() { Vec::new() } else { place.texts(&path, value)? };
            instructions.push(HumanInstruction { instruction, attributes, options });
        }
        all.insert(asin, instructions);
    }
    Ok(all)
}

/// The text on a price tag.
pub(crate) fn price_tag((low, high): (f64, Option<f64>)) -> String {
    match high {
        None => format!("${}", float(low)),
        Some(high) => format!("${} to ${}", float(low), float(high)),
    }
}
