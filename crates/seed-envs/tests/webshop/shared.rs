//! Where the reference data lies, and shops made from it.

use seed_envs::pyrandom::PythonRandom;
use seed_envs::webshop::load::{load, read_human};
use seed_envs::webshop::{
    Catalogue, GoalKind, HumanInstruction, IndexFile, LoadOptions, Shop, ShopFiles, ShopOptions,
};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

/// The folder `data/webshop` of the reference data.
pub(crate) fn data() -> PathBuf {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data/webshop");
    assert!(data.is_dir(), "no folder {}: set SEED_SHARED to the folder `shared`", data.display());
    data
}

/// A file of JSON.
pub(crate) fn json(name: &str) -> Value {
    let path = data().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// The lines of a file of JSON lines.
pub(crate) fn lines(name: &str) -> Vec<Value> {
    let path = data().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// A value as the reader of the recordings would read it: it may be off in a number's last bit, for both sides alike.
pub(crate) fn as_read(value: impl Into<Value>) -> Value {
    serde_json::from_str(&value.into().to_string()).expect("JSON")
}

pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}` in {value}"))
}

pub(crate) fn strings(value: &Value) -> Vec<&str> {
    let list = value.as_array().unwrap_or_else(|| panic!("no list: {value}"));
    list.iter().map(|item| item.as_str().expect("a text")).collect()
}

/// The files of `real1k` or `edge`.
pub(crate) fn files(dataset: &str) -> ShopFiles {
    let suffix = if dataset == "edge" { "edge" } else { "1000" };
    let folder = data().join(dataset);
    ShopFiles {
        products: folder.join(format!("items_shuffle_{suffix}.json")),
        attributes: folder.join(format!("items_ins_v2_{suffix}.json")),
        human: Some(folder.join("items_human_ins.json")),
        nouns: data().join(format!("golden/{dataset}_nouns.jsonl")),
    }
}

type Key = (String, Option<usize>);

/// A catalogue of `real1k` or `edge`, loaded once.
pub(crate) fn catalogue(dataset: &str, num_products: Option<usize>) -> Catalogue {
    static LOADED: LazyLock<Mutex<HashMap<Key, Catalogue>>> = LazyLock::new(Mutex::default);
    let mut loaded = LOADED.lock().expect("no test panics here");
    let make = || {
        let options = LoadOptions { num_products, index: IndexFile::Memory, ..LoadOptions::default() };
        load(&files(dataset), &options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}")).0
    };
    loaded.entry((dataset.to_owned(), num_products)).or_insert_with(make).clone()
}

pub(crate) fn human(dataset: &str) -> HashMap<String, Vec<HumanInstruction>> {
    read_human(&files(dataset).human.expect("a file")).unwrap_or_else(|error| panic!("{error}"))
}

/// A shop, and the generator as the construction left it.
pub(crate) fn shop(
    dataset: &str,
    num_products: Option<usize>,
    human_goals: bool,
    show_attributes: bool,
    seed: i128,
    shuffle_seed: i128,
) -> (Arc<Shop>, PythonRandom) {
    let goals = if human_goals { GoalKind::Human } else { GoalKind::Synthetic };
    let options = ShopOptions { goals, shuffle_seed, show_attributes, ..ShopOptions::default() };
    let mut random = PythonRandom::from_int(seed);
    let shop = Shop::new(catalogue(dataset, num_products), &human(dataset), &options, &mut random)
        .unwrap_or_else(|error| panic!("{error}"));
    (Arc::new(shop), random)
}
