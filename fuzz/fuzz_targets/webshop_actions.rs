//! Any lines as actions in the embedded shop.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seed_envs::pyrandom::PythonRandom;
use seed_envs::webshop::session::Session;
use seed_envs::webshop::{TextMode, WebShop, WebShopOptions};
use std::sync::LazyLock;

static SHOP: LazyLock<WebShop> = LazyLock::new(|| WebShop::embedded(WebShopOptions::default()).expect("a shop"));

fuzz_target!(|text: &str| {
    let mut session = Session::new(SHOP.shop().clone(), text.len() % SHOP.shop().goals(), "fuzz");
    let mut random = PythonRandom::from_int(0);
    // Actions may hold line feeds: they are separated by NUL.
    for action in text.split('\0') {
        session.act(action, &mut random);
        assert!(!session.text(TextMode::Text).is_empty());
        for listed in session.admissible() {
            assert!(listed.starts_with("click[") || listed.starts_with("search["));
        }
    }
});
