//! Every case of `vectors/losses.json` as a named test, in double and in single precision where tensors are involved.
//!
//! The file is found through `SEED_SHARED` (default: `../shared` beside the workspace). Every number that a case expects is
//! compared; an unknown kind, a missing file or an unread expectation fails.

mod case;
mod kinds;
mod logits;

use burn::tensor::DType;
use case::{Case, Environment};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn main() {
    let arguments = Arguments::from_args();
    let trials = match load() {
        Ok(file) => trials(&Arc::new(file)),
        Err(message) => vec![Trial::test("losses.json", move || Err(Failed::from(message)))],
    };
    libtest_mimic::run(&arguments, trials).exit();
}

fn trials(file: &Arc<Value>) -> Vec<Trial> {
    let Some(cases) = file["cases"].as_array().filter(|cases| !cases.is_empty()) else {
        return vec![Trial::test("losses.json", || Err(Failed::from("the file has no cases")))];
    };
    let mut trials = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let id = case["id"].as_str().unwrap_or("case without id");
        let kind = case["kind"].as_str().unwrap_or("case without kind");
        let precisions: &[DType] =
            if kinds::works_on_slices(kind) { &[DType::F64] } else { &[DType::F64, DType::F32] };
        for &dtype in precisions {
            let precision = if dtype == DType::F64 { "f64" } else { "f32" };
            let file = Arc::clone(file);
            trials.push(Trial::test(format!("{kind}::{id}::{precision}"), move || {
                let environment = Environment::new(dtype);
                kinds::run(&Case::new(&file, index, dtype)?, &environment).map_err(Failed::from)
            }));
        }
    }
    trials
}

fn load() -> Result<Value, String> {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = shared.join("vectors/losses.json");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!("`{}`: {error}; set SEED_SHARED to the folder that holds `vectors`", path.display())
    })?;
    serde_json::from_str(&quote_non_finite(&text)).map_err(|error| format!("`{}`: {error}", path.display()))
}

/// Python writes NaN and infinities as bare words, which JSON does not have; `numbers` reads them as strings.
fn quote_non_finite(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            quoted.push('"');
        }
        // Ids and notes hold no escaped quotation marks, so every second part lies outside a string.
        if index % 2 == 0 {
            quoted.push_str(
                &part
                    .replace("NaN", "\"NaN\"")
                    .replace("Infinity", "\"inf\"")
                    .replace("-\"inf\"", "\"-inf\""),
            );
        } else {
            quoted.push_str(part);
        }
    }
    quoted
}
