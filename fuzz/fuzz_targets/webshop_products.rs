//! Any bytes as a shop's list of products, loaded strictly and leniently.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::webshop::load::load;
use seed_envs::webshop::{BadRecords, IndexFile, LoadOptions, ShopFiles};
use std::path::PathBuf;

fuzz_target!(|bytes: &[u8]| {
    let folder: PathBuf = std::env::temp_dir().join(format!("seed-fuzz-webshop-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    let files = ShopFiles {
        products: write("products.json", bytes),
        attributes: write("attributes.json", b"{}"),
        human: None,
        nouns: write("nouns.jsonl", b"{\"name\": \"mug\", \"nouns\": [\"mug\"]}\n"),
    };
    for bad_records in [BadRecords::Fail, BadRecords::Skip] {
        let options = LoadOptions { bad_records, index: IndexFile::Memory, ..LoadOptions::default() };
        if let Ok((catalogue, _)) = load(&files, &options, &mut |_| {}) {
            for product in catalogue.products() {
                assert!(!product.price_tag().is_empty());
            }
        }
    }
});
