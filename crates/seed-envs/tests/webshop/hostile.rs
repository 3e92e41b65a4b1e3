//! Readers and actions against damaged and hostile input: errors, never a panic, never a hang.
//!
//! The same doors have `cargo fuzz` targets in `fuzz/`; here a bounded number of seeded mutations runs.

use crate::shared::{data, shop};
use proptest::prelude::*;
use seed_envs::pyrandom::PythonRandom;
use seed_envs::webshop::fuzzy::{ALIKE, alike, token_set_ratio};
use seed_envs::webshop::search::Analyzer;
use seed_envs::webshop::session::{Session, parse_action};
use seed_envs::webshop::{BadRecords, IndexFile, LoadOptions, ShopFiles, TextMode, load};
use serde_json::Value;

/// The first products of the edge catalogue, as text.
fn some_products() -> String {
    let text = std::fs::read_to_string(data().join("edge/items_shuffle_edge.json")).expect("a file");
    let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    Value::from(&all[..6]).to_string()
}

/// Cuts, doubles and overwrites pieces of a text.
fn damage(source: &str, random: &mut PythonRandom) -> Vec<u8> {
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..=random.below(2) {
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + 1 + random.below(20) as usize).min(bytes.len());
        match random.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at.max(2)),
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => bytes[at] = random.below(256) as u8,
            _ => {
                let words: [&[u8]; 8] = [b"null", b"[]", b"{}", b"\"\"", b"1e999", b"\\ud83d", b"$", b"/"];
                let word = words[random.below(8) as usize];
                bytes.splice(at..end, word.iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn damaged_products_are_errors_or_products() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let source = some_products();
    let whole: Vec<Value> = serde_json::from_str(&source).expect("JSON");
    let names: Vec<String> = whole
        .iter()
        .map(|product| serde_json::json!({"name": product["name"], "nouns": ["x"]}).to_string())
        .collect();
    std::fs::write(path("nouns.jsonl"), names.join("\n")).expect("a file");
    std::fs::write(path("items_ins_v2.json"), "{}").expect("a file");
    let mut random = PythonRandom::from_int(20_261_129);
    let (mut shops, mut errors, mut left_out) = (0, 0, 0);
    for round in 0..600 {
        std::fs::write(path("items_shuffle.json"), damage(&source, &mut random)).expect("a file");
        let files = ShopFiles::find(folder.path(), false).expect("all files");
        let bad_records = if round % 2 == 0 { BadRecords::Skip } else { BadRecords::Fail };
        let options = LoadOptions { bad_records, index: IndexFile::Memory, ..LoadOptions::default() };
        match load::load(&files, &options, &mut |_| {}) {
            Ok((catalogue, report)) => {
                shops += 1;
                left_out += report.bad.len();
                for product in catalogue.products() {
                    assert!(!product.price_tag().is_empty() && product.asin().chars().count() <= 10);
                    assert_eq!(
                        catalogue.find(product.asin()).map(|found| found.number),
                        Some(product.number)
                    );
                }
            }
            Err(error) => {
                errors += 1;
                assert!(error.to_string().contains(".json"), "{error}");
            }
        }
    }
    assert!(shops > 20 && errors > 50 && left_out > 5, "{shops} shops, {errors} errors, {left_out} left out");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_action_is_answered(actions in prop::collection::vec("(search|click|\\PC{0,5})\\[?[\\PC\n\\[\\]<>a-z]{0,30}\\]?", 1..12)) {
        let mut session = Session::new(shop("edge", None, true, true, 0, 233).0, 3, "fuzz");
        let mut random = PythonRandom::from_int(0);
        for action in &actions {
            session.act(action, &mut random);
            prop_assert!(!session.text(TextMode::Text).is_empty());
            prop_assert!(!session.text(TextMode::Rich).is_empty());
        }
    }

    #[test]
    fn an_action_is_put_together_from_its_parts(verb in "[a-z \\[\\]]{1,9}", argument in "[^\n\\[\\]]{1,20}", rest in "[^\\]]{0,9}") {
        let action = format!("{verb}[{argument}]{rest}");
        prop_assert_eq!(parse_action(&action), (verb.as_str(), Some(argument.as_str())));
        prop_assert_eq!(parse_action(&argument), (argument.as_str(), None));
    }

    #[test]
    fn any_text_has_terms(text in "\\PC{0,300}") {
        for term in Analyzer::default().analyze(&text) {
            prop_assert!(!term.is_empty() && term.encode_utf16().count() <= 256);
        }
    }

    #[test]
    fn likeness_is_bounded_and_decided_alike(one in "[a-z0-9 ()',é-]{0,60}", two in "[a-z0-9 ()',é-]{0,60}") {
        let ratio = token_set_ratio(&one, &two);
        prop_assert!(ratio <= 100);
        prop_assert_eq!(alike(&one, &two), ratio > ALIKE);
        let word = one.chars().any(|c| c.is_ascii_alphanumeric());
        prop_assert_eq!(token_set_ratio(&one, &one), if word { 100 } else { 0 });
    }
}
