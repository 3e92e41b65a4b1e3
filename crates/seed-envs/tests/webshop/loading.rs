//! Loading: every rule and every case in which the reference stops, and the saved index.

use seed_envs::EnvError;
use seed_envs::pyrandom::PythonRandom;
use seed_envs::webshop::load::{IndexOrigin, load, read_human};
use seed_envs::webshop::{
    BadRecords, Catalogue, GoalKind, IndexFile, LoadOptions, LoadReport, Shop, ShopFiles, ShopOptions,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

/// A product that loads.
fn product(asin: &str) -> Value {
    json!({
        "asin": asin, "name": format!("mug {asin}"), "full_description": "a mug", "small_description": ["holds tea"],
        "pricing": "$20", "customization_options": {"Size": [{"value": " Big/Small "}]}, "images": ["x.jpg"],
        "category": "home", "query": " Mugs ", "product_category": "Home › Mugs",
    })
}

fn with(asin: &str, field: &str, value: Value) -> Value {
    let mut product = product(asin);
    product[field] = value;
    product
}

fn without(asin: &str, field: &str) -> Value {
    let mut product = product(asin);
    product.as_object_mut().expect("an object").remove(field);
    product
}

fn write(folder: &Path, products: &str) -> ShopFiles {
    let path = |name: &str| folder.join(name);
    std::fs::write(path("items_shuffle.json"), products).expect("a file");
    let list: Vec<Value> = serde_json::from_str(products).unwrap_or_default();
    let names: Vec<&str> = list.iter().filter_map(|product| product["name"].as_str()).collect();
    let nouns: Vec<String> =
        names.iter().map(|name| json!({"name": name, "nouns": ["mug"]}).to_string()).collect();
    std::fs::write(path("nouns.jsonl"), nouns.join("\n")).expect("a file");
    if !path("items_ins_v2.json").exists() {
        std::fs::write(path("items_ins_v2.json"), r#"{"A1": {"attributes": ["blue rim"], "instruction": "Get a mug", "instruction_attributes": ["blue rim"]}}"#).expect("a file");
    }
    ShopFiles::find(folder, false).expect("all files")
}

fn open_with(
    folder: &Path,
    products: &[Value],
    options: &LoadOptions,
) -> Result<(Catalogue, LoadReport), EnvError> {
    load(&write(folder, &Value::from(products).to_string()), options, &mut |_| {})
}

fn open(products: &[Value]) -> Result<(Catalogue, LoadReport), EnvError> {
    let folder = tempfile::tempdir().expect("a folder");
    open_with(folder.path(), products, &LoadOptions { index: IndexFile::Memory, ..LoadOptions::default() })
}

#[track_caller]
fn refused(bad: Value, place: &str, found: &str) {
    let error = open(&[product("A1"), bad]).expect_err("a bad record").to_string();
    assert!(error.contains("items_shuffle.json record 1") && error.contains(place), "{error}");
    assert!(error.contains(found), "{error}");
}

#[test]
fn bad_records_name_file_record_and_field() {
    refused(json!(5), "record 1:", "a number");
    refused(without("B1", "asin"), "field \"asin\"", "nothing");
    refused(with("B1", "asin", json!(3)), "field \"asin\"", "a number");
    refused(with("b1", "name", json!("x")), "(`b1`) field \"asin\"", "`b1`");
    refused(without("B1", "name"), "(`B1`) field \"name\"", "nothing");
    refused(with("B1", "full_description", Value::Null), "field \"full_description\"", "null");
    refused(with("B1", "small_description", json!([])), "field \"small_description\"", "an empty list");
    refused(
        with("B1", "small_description", json!(["x", 1])),
        "field \"small_description\"",
        "a number in the list",
    );
    refused(with("B1", "images", json!([])), "field \"images\"", "nothing");
    refused(with("B1", "pricing", json!("20")), "field \"pricing\"", "`20`");
    refused(with("B1", "pricing", json!("$1.2.3")), "field \"pricing\"", "`$1.2.3`");
    refused(with("B1", "pricing", json!("$")), "field \"pricing\"", "`$`");
    refused(with("B1", "pricing", json!(20)), "field \"pricing\"", "a number");
    refused(with("B1", "customization_options", json!("x")), "field \"customization_options\"", "a text");
    refused(
        with("B1", "customization_options", json!({"Size": 1})),
        "customization_options.Size",
        "a number",
    );
    refused(
        with("B1", "customization_options", json!({"Size": ["x"]})),
        "customization_options.Size",
        "a text",
    );
    refused(
        with("B1", "customization_options", json!({"Size": [{"x": 1}]})),
        "customization_options.Size.value",
        "nothing",
    );
    refused(without("B1", "query"), "field \"query\"", "nothing");
    refused(without("B1", "customization_options"), "field \"customization_options\"", "nothing");
}

#[test]
fn broken_json_names_line_and_column() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, place) in [
        ("", ":1:0"),
        ("[\n{\"asin\": }]", ":2:"),
        ("{}", ":1:"),
        ("[] x", ":1:4"),
        ("[{\"asin\": \"\\ud800\"}]", ":1:"),
    ] {
        let error =
            load(&write(folder.path(), text), &LoadOptions::default(), &mut |_| {}).expect_err("no JSON");
        assert!(error.to_string().contains(&format!("items_shuffle.json{place}")), "{error}");
    }
}

#[test]
fn rules_of_the_reference() {
    let (catalogue, report) = open(&[
        with("nan", "name", Value::Null),
        with("A1234567890", "name", Value::Null),
        with("A1", "pricing", json!("from $19.99 to $27.99 and $3")),
        with("A1", "name", Value::Null),
        with("A2", "pricing", Value::Null),
        with("A3", "pricing", json!("$٣.5")),
        with(
            "A4",
            "customization_options",
            json!({"SIZE": [{"value": "a"}], "Color": null, "x": [{"value": "İ"}], "size": [{"value": "B"}]}),
        ),
        with("A5", "small_description", json!("one text")),
    ])
    .expect("products");
    assert_eq!((report.products, report.skipped), (5, 3));
    let tags: Vec<String> = catalogue.products().map(|product| product.price_tag()).collect();
    assert_eq!(tags, ["$19.99 to $27.99", "$100.0", "$3.5", "$20.0", "$20.0"]);
    let options = |asin: &str| -> Vec<(String, Vec<&str>)> {
        let product = catalogue.find(asin).expect("a product");
        product
            .options()
            .map(|option| (catalogue.word(option.name).to_owned(), option.values.texts().collect()))
            .collect()
    };
    assert_eq!(options("A1"), [("size".to_owned(), vec!["big | small"])]);
    assert_eq!(options("A4"), [("size".to_owned(), vec!["b"]), ("x".to_owned(), vec!["i\u{307}"])]);
    let first = catalogue.find("A1").expect("a product");
    assert_eq!(catalogue.word(first.query()), "mugs");
    assert_eq!(first.attributes().texts().collect::<Vec<_>>(), ["blue rim"]);
    let other = catalogue.find("A5").expect("a product");
    assert_eq!(other.attributes().texts().collect::<Vec<_>>(), ["DUMMY_ATTR"]);
    assert_eq!(other.bullets().collect::<Vec<_>>(), ["one text"]);
    assert!(catalogue.find("A9").is_none() && catalogue.find("").is_none());
}

#[test]
fn bad_records_can_be_left_out_and_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        LoadOptions { bad_records: BadRecords::Skip, index: IndexFile::Memory, ..LoadOptions::default() };
    let (catalogue, report) =
        open_with(folder.path(), &[without("B1", "query"), product("A1")], &options).expect("a product");
    assert_eq!((catalogue.len(), report.bad.len()), (1, 1));
    assert!(report.bad[0].contains("record 0 (`B1`) field \"query\""), "{}", report.bad[0]);
}

#[test]
fn the_cut_comes_before_the_rules_but_the_index_counts_loaded_products() {
    let folder = tempfile::tempdir().expect("a folder");
    let products = [product("A1"), product("A1"), product("A2"), product("A3"), product("A4")];
    let options = LoadOptions { num_products: Some(3), index: IndexFile::Memory, ..LoadOptions::default() };
    let (catalogue, report) = open_with(folder.path(), &products, &options).expect("products");
    assert_eq!((report.products, report.indexed, report.skipped), (2, 3, 1));
    assert_eq!(catalogue.index().documents(), 3);
    let found: Vec<&str> = catalogue
        .search("mug", 50)
        .expect("a short query")
        .iter()
        .map(|hit| catalogue.product(hit.document).asin())
        .collect();
    assert_eq!(found, ["A1", "A2"], "equal scores by key, without what is outside the shop");
    assert!(catalogue.find("A3").is_none());
}

#[test]
fn missing_nouns_and_records_say_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = write(folder.path(), &json!([product("A1"), product("A2")]).to_string());
    std::fs::write(&files.nouns, "{\"name\": \"mug A1\", \"nouns\": []}\n").expect("a file");
    let memory = LoadOptions { index: IndexFile::Memory, ..LoadOptions::default() };
    let error = load(&files, &memory, &mut |_| {}).expect_err("a name without nouns").to_string();
    assert!(error.contains("no nouns for 1 product names") && error.contains("`mug A2`"), "{error}");
    std::fs::write(&files.nouns, "{\"name\": 1}").expect("a file");
    let error = load(&files, &memory, &mut |_| {}).expect_err("a bad line").to_string();
    assert!(error.contains("nouns.jsonl:1"), "{error}");

    let files = write(folder.path(), &json!([product("A1"), product("A2")]).to_string());
    let (catalogue, _) = load(&files, &memory, &mut |_| {}).expect("products");
    let shop = |goals| {
        let options = ShopOptions { goals, ..ShopOptions::default() };
        Shop::new(catalogue.clone(), &HashMap::new(), &options, &mut PythonRandom::from_int(0))
    };
    let error = shop(GoalKind::Synthetic).expect_err("A2 has no record").to_string();
    assert!(error.contains("record `A2`"), "{error}");
    let error = shop(GoalKind::Human).expect_err("no instructions").to_string();
    assert!(error.contains("no goals"), "{error}");

    std::fs::write(&files.attributes, r#"{"A1": {"attributes": [1]}}"#).expect("a file");
    let error = load(&files, &memory, &mut |_| {}).expect_err("a number").to_string();
    assert!(error.contains("items_ins_v2.json record 0 (`A1`) field \"attributes\""), "{error}");

    let path = folder.path().join("items_human_ins.json");
    std::fs::write(&path, r#"{"A1": [{"instruction": "x", "instruction_attributes": ["y"]}]}"#)
        .expect("a file");
    let error = read_human(&path).expect_err("no options").to_string();
    assert!(error.contains("record 0 (`A1`) field \"[0].instruction_options\""), "{error}");
}

#[test]
fn the_index_is_saved_opened_and_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = |products: &[Value]| {
        let (catalogue, report) =
            open_with(folder.path(), products, &LoadOptions::default()).expect("products");
        (catalogue.len(), report.products, report.index)
    };
    let kept = folder.path().join("items_shuffle.seedshop");
    let one = [product("A1")];
    assert_eq!(origin(&one), (1, 1, IndexOrigin::Saved(kept.clone())));
    // The same content written again has another time, and is recognised.
    assert_eq!(origin(&one), (1, 1, IndexOrigin::Opened(kept.clone())));
    let two = [product("A1"), product("A2")];
    assert_eq!(origin(&two), (2, 2, IndexOrigin::Saved(kept.clone())));

    let mut bytes = std::fs::read(&kept).expect("a file");
    for at in [3, 9, 40, bytes.len() - 2, bytes.len() - 1] {
        let old = bytes[at];
        bytes[at] ^= 0x10;
        std::fs::write(&kept, &bytes).expect("a file");
        bytes[at] = old;
        let error =
            open_with(folder.path(), &two, &LoadOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("items_shuffle.seedshop") && error.contains("built again"), "{at}: {error}");
    }
    std::fs::write(&kept, &bytes[..bytes.len() / 2]).expect("a file");
    assert!(open_with(folder.path(), &two, &LoadOptions::default()).is_err(), "a cut file");

    // Where nothing can be written, the shop is there all the same, and the report says so.
    let nowhere = IndexFile::At(folder.path().join("no/such/folder/x.seedshop"));
    let options = LoadOptions { index: nowhere, ..LoadOptions::default() };
    let (_, report) = open_with(folder.path(), &two, &options).expect("products");
    assert!(matches!(report.index, IndexOrigin::Unsaved(_)), "{:?}", report.index);
}
