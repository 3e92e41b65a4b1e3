//! Rotary frequencies of published configurations against those of `transformers` (`scripts/rope_reference.py`).

use crate::reference::*;
use seed_model::decoder::rotary_tables;
use seed_model::{ModelConfig, RopeScaling};
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    json(&package().join("tests/model/rope_reference.json")).as_array().unwrap().clone()
}

#[test]
fn frequencies_are_those_of_the_library() {
    let cases = cases();
    assert!(cases.len() >= 10);
    for case in &cases {
        let config = ModelConfig::from_json(case["config"].clone()).unwrap();
        let found = config.rotary_frequencies();
        let expected = floats(&case["inverse_frequencies"]);
        assert_eq!(found.radians.len(), expected.len(), "{}", case["name"]);
        for (i, (a, b)) in found.radians.iter().zip(&expected).enumerate() {
            // The library computes in f32.
            assert!((a / f64::from(*b) - 1.0).abs() < 2e-6, "{} pair {i}: {a}, not {b}", case["name"]);
        }
        let factor = case["attention_factor"].as_f64().unwrap();
        assert!((found.attention_factor - factor).abs() < 1e-6, "{}: {factor}", case["name"]);

        let tables = rotary_tables(&[0, 3], &found, &cpu());
        let (cos, sin) = (to_vec(tables.cos), to_vec(tables.sin));
        let pairs = expected.len();
        assert_close("position 0", &cos[..pairs], &vec![factor as f32; pairs], 1e-6);
        let wanted: Vec<f32> = expected.iter().map(|f| (3.0 * f).sin() * factor as f32).collect();
        assert_close("position 3", &sin[pairs..], &wanted, 1e-5);
    }
}

#[test]
fn what_is_written_means_the_same() {
    for case in cases() {
        let config = ModelConfig::from_json(case["config"].clone()).unwrap();
        let written = config.to_json("float32");
        let again = ModelConfig::from_json(written.clone()).unwrap();
        assert_eq!(again.rope_scaling, config.rope_scaling, "{}", case["name"]);
        assert_eq!(again.rotary_frequencies(), config.rotary_frequencies(), "{}", case["name"]);
        // The newer generation of keys holds base and scaling in one object.
        let mut newer = written;
        let mut rope = newer["rope_scaling"].take();
        if rope.is_null() {
            rope = json!({"rope_type": "default"});
        }
        rope["rope_theta"] = newer["rope_theta"].take();
        newer["rope_parameters"] = rope;
        assert_eq!(ModelConfig::from_json(newer).unwrap().rotary_frequencies(), config.rotary_frequencies());
    }
}

#[test]
fn missing_and_senseless_numbers_are_named() {
    let with = |scaling: Value| {
        let mut config = cases()[0]["config"].clone();
        config["rope_scaling"] = scaling;
        ModelConfig::from_json(config).map_err(|error| error.to_string())
    };
    for (scaling, message) in [
        (json!({"type": "linear"}), "`rope_scaling.factor` is null, needed: a positive number"),
        (json!({"type": "yarn", "factor": -1}), "`rope_scaling.factor` is -1, needed: a positive number"),
        (
            json!({"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}),
            "needed: above low_freq_factor",
        ),
        (json!({"type": "longrope", "factor": 8}), "supported: null, or type"),
        (json!("yarn"), "needed: an object or null"),
    ] {
        let found = with(scaling).unwrap_err();
        assert!(found.contains(message), "{found}");
    }
    // Without a factor, yarn takes the ratio of the two lengths.
    let config = with(json!({"type": "yarn", "original_max_position_embeddings": 8192})).unwrap();
    assert!(matches!(config.rope_scaling, Some(RopeScaling::Yarn { factor: 4.0, .. })));
}
