//! Sentence encoders: MiniLM, which `cargo xtask fetch minilm` gets, against its reference; and small ones made here.

use crate::ops::numbers;
use crate::reference::*;
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use seed_model::checkpoint::WeightFiles;
use seed_model::encoder::Pooling;
use seed_model::{EncoderOptions, PackedBatch, TextEncoder, ops};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

fn minilm() -> TextEncoder {
    let weights = artefact("minilm/model.safetensors", "minilm");
    TextEncoder::load(weights.parent().unwrap(), &EncoderOptions::default(), &cpu(), FloatDType::F32).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

/// `contents` of the passages by their ids.
fn passages() -> HashMap<String, String> {
    let data = vectors("../data/search_qa");
    let files = ["wiki18_mini.jsonl", "multihop_mini.jsonl"];
    let rows = files.iter().flat_map(|file| lines(&data.join(file)));
    rows.map(|row| (text(&row, "id").to_owned(), text(&row, "contents").to_owned())).collect()
}

#[test]
fn minilm_reads_its_recipe_from_the_folder() {
    let recipe = minilm().recipe().clone();
    assert_eq!((recipe.pooling, recipe.normalize, recipe.max_tokens), (Pooling::Mean, true, 256));
    assert_eq!((recipe.query_prefix.as_str(), recipe.passage_prefix.as_str()), ("", ""));
}

#[test]
fn minilm_gives_the_reference_tokens_layers_vectors_and_rankings() {
    let encoder = minilm();
    let folder = vectors("minilm");
    let contents = passages();
    for case in lines(&folder.join("tokens.jsonl")) {
        let source = match case["passage"].as_str() {
            Some(id) => contents[id].as_str(),
            None => text(&case, "text"),
        };
        assert_eq!(encoder.tokens(&[source]).unwrap(), [ids(&case["ids"])], "{source}");
    }

    let trace = WeightFiles::open_file(&folder.join("layer_trace.safetensors")).unwrap();
    let mut states_seen = 0;
    for (name, query) in [("q0", "q00"), ("q7", "q07")] {
        let queries = lines(&folder.join("query_embeddings.jsonl"));
        let row = queries.iter().find(|row| row["id"] == query).unwrap();
        let tokens = encoder.tokens(&[text(row, "text")]).unwrap();
        let hidden = trace.names().find(|n| n.starts_with(name) && n.ends_with("hidden")).unwrap();
        let expected = stored(&trace, hidden);
        let found: Vec<f32> =
            encoder.bert().hidden_states(&PackedBatch::new(&tokens)).into_iter().flat_map(to_vec).collect();
        assert_close(hidden, &found, &expected, 2e-5);
        states_seen += found.len() / (tokens[0].len() * encoder.width());
    }
    assert_eq!(states_seen, 14, "the embeddings and six layers, twice");

    let queries = lines(&folder.join("query_embeddings.jsonl"));
    let texts: Vec<&str> = queries.iter().map(|row| text(row, "text")).collect();
    let vectors_of_queries = encoder.encode_queries(&texts).unwrap();
    for (row, found) in queries.iter().zip(vectors_of_queries.rows()) {
        let key = row.as_object().unwrap().keys().find(|key| row[*key].is_array()).unwrap();
        assert_close(text(row, "text"), found, &floats(&row[key]), 1e-5);
    }

    // Whatever is in a list, and each 30th of the others, is embedded here; the rest is taken from the reference.
    let subset = json(&vectors("../data/search_qa/dense_subset.json"));
    let subset: Vec<&str> = subset.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let reference = lines(&folder.join("dense_reference.jsonl"));
    let top = |case: &Value, n: usize| -> Vec<(String, f32)> {
        let pairs = case["top"].as_array().unwrap().iter().take(n);
        pairs.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_f64().unwrap() as f32)).collect()
    };
    let listed: BTreeSet<String> = reference.iter().flat_map(|case| top(case, 5)).map(|(id, _)| id).collect();
    let chosen: Vec<usize> =
        (0..subset.len()).filter(|i| i % 30 == 0 || listed.contains(subset[*i])).collect();
    let files = WeightFiles::open_file(&folder.join("passage_embeddings.safetensors")).unwrap();
    let mut matrix = stored(&files, "passages");
    let width = encoder.width();
    let texts: Vec<&str> = chosen.iter().map(|i| contents[subset[*i]].as_str()).collect();
    for (i, found) in chosen.iter().zip(encoder.encode_passages(&texts).unwrap().rows()) {
        let row = &mut matrix[i * width..(i + 1) * width];
        assert_close(subset[*i], found, row, 1e-5);
        row.copy_from_slice(found);
    }
    let by_id: BTreeMap<&str, &[f32]> = queries
        .iter()
        .zip(vectors_of_queries.rows())
        .filter_map(|(row, vector)| Some((row["id"].as_str()?, vector)))
        .collect();
    for case in &reference {
        let query = by_id[text(case, "query")];
        let dot = |row: &[f32]| query.iter().zip(row).map(|(a, b)| f64::from(a * b)).sum::<f64>() as f32;
        let mut scored: Vec<(f32, &str)> =
            matrix.chunks_exact(width).map(dot).zip(subset.iter().copied()).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let expected = top(case, 6);
        for k in 0..5 {
            // Where two neighbours are closer than rounding, either order is right; the reference shows six decimals.
            let near = |j: usize| (expected[j].1 - expected[k].1).abs() < 1.2e-5;
            if near(k + 1) || (k > 0 && near(k - 1)) {
                continue;
            }
            assert_eq!(scored[k].1, expected[k].0, "{} place {k}", case["query"]);
            assert!((scored[k].0 - expected[k].1).abs() < 1.1e-5, "{} place {k}", case["query"]);
        }
    }
}

/// A folder with a small encoder: `layers` layers, width 48, words `w0` to `w19`; names of tensors begin with `prefix`.
fn small(layers: usize, prefix: &str, extra: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    let (hidden, inner, vocab, positions) = (48, 80, 24, 32);
    let config = json!({
        "model_type": "bert", "vocab_size": vocab, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": 3, "intermediate_size": inner, "max_position_embeddings": positions,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2
    });
    std::fs::write(path.join("config.json"), config.to_string()).unwrap();
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned).into_iter();
    let words: Vec<String> = words.chain((0..20).map(|i| format!("w{i}"))).collect();
    let vocabulary: serde_json::Map<String, Value> =
        words.iter().enumerate().map(|(id, word)| (word.clone(), json!(id))).collect();
    let special = |id: usize| {
        json!({"id": id, "content": words[id], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "normalizer": {"type": "Lowercase"},
        "padding": {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [special(0), special(1), special(2), special(3)],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    });
    std::fs::write(path.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".into(), vec![vocab, hidden]),
        ("embeddings.position_embeddings.weight".into(), vec![positions, hidden]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, hidden]),
        ("embeddings.LayerNorm.weight".into(), vec![hidden]),
        ("embeddings.LayerNorm.bias".into(), vec![hidden]),
        ("pooler.dense.weight".into(), vec![hidden, hidden]),
        ("pooler.dense.bias".into(), vec![hidden]),
    ];
    for layer in 0..layers {
        for (part, to, from) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", inner, hidden),
            ("output.dense", hidden, inner),
        ] {
            shapes.push((format!("encoder.layer.{layer}.{part}.weight"), vec![to, from]));
            shapes.push((format!("encoder.layer.{layer}.{part}.bias"), vec![to]));
        }
        for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
            shapes.push((format!("encoder.layer.{layer}.{part}.weight"), vec![hidden]));
            shapes.push((format!("encoder.layer.{layer}.{part}.bias"), vec![hidden]));
        }
    }
    shapes.extend(extra.iter().map(|name| ((*name).to_owned(), vec![2])));
    let stored: Vec<(String, Vec<usize>, Vec<u8>)> = shapes
        .into_iter()
        .enumerate()
        .map(|(seed, (name, shape))| {
            let values = numbers(shape.iter().product(), seed as u64 + 1);
            let bytes = values.iter().flat_map(|x| (x * 0.3).to_le_bytes()).collect();
            (format!("{prefix}{name}"), shape, bytes)
        })
        .collect();
    let views = stored
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    safetensors::serialize_to_file(views, None, &path.join("model.safetensors")).unwrap();
    (folder, path)
}

fn load(path: &Path, options: &EncoderOptions) -> Result<TextEncoder, String> {
    TextEncoder::load(path, options, &cpu(), FloatDType::F32).map_err(|error| error.to_string())
}

#[test]
fn prefixes_cuts_and_first_tokens_do_what_they_say() {
    let (_folder, path) = small(12, "bert.", &[]);
    let options =
        EncoderOptions { query_prefix: Some("W1 ".into()), max_tokens: Some(6), ..EncoderOptions::bge() };
    let encoder = load(&path, &options).unwrap();
    assert_eq!(
        encoder.tokens(&["w3 w4", "", "zzz w0 w1 w2 w3 w4"]).unwrap(),
        [vec![2, 7, 8, 3], vec![2, 3], vec![2, 1, 4, 5, 6, 3]]
    );
    let queries = encoder.encode_queries(&["w3 w4"]).unwrap();
    assert_eq!(queries, encoder.encode(&["w1 w3 w4"]).unwrap());
    assert_ne!(queries, encoder.encode_passages(&["w3 w4"]).unwrap());
    let hidden = to_vec(encoder.bert().forward(&PackedBatch::new(&[[2u32, 5, 7, 8, 3]])));
    let norm = hidden[..48].iter().map(|x| x * x).sum::<f32>().sqrt();
    let first: Vec<f32> = hidden[..48].iter().map(|x| x / norm).collect();
    assert_close("first token", queries.row(0), &first, 1e-6);
    assert!(encoder.encode(&[] as &[&str]).unwrap().is_empty());

    let (_plain, path) = small(12, "", &[]);
    let same = load(&path, &options).unwrap();
    assert_eq!(same.encode(&["w1 w3 w4"]).unwrap(), queries, "names with and without a prefix");
}

#[test]
fn what_does_not_fit_is_named() {
    let (_folder, path) = small(1, "", &["classifier.weight"]);
    assert!(
        load(&path, &EncoderOptions::bge()).unwrap_err().contains("`classifier.weight` belongs to nothing")
    );
    let (_folder, path) = small(1, "", &[]);
    assert!(load(&path, &EncoderOptions::default()).unwrap_err().contains("set `EncoderOptions::pooling`"));
    let long = EncoderOptions { max_tokens: Some(33), ..EncoderOptions::bge() };
    assert!(load(&path, &long).unwrap_err().contains("needed: 3 to 32"));
    std::fs::write(path.join("modules.json"), json!([{"idx": 0, "type": "x.models.Dense"}]).to_string())
        .unwrap();
    assert!(load(&path, &EncoderOptions::bge()).unwrap_err().contains("\"x.models.Dense\" is not supported"));
    std::fs::remove_file(path.join("modules.json")).unwrap();
    let mut config = json(&path.join("config.json"));
    config["hidden_act"] = json!("relu");
    std::fs::write(path.join("config.json"), config.to_string()).unwrap();
    let error = TextEncoder::load(&path, &EncoderOptions::bge(), &cpu(), FloatDType::F32).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("`hidden_act` is \"relu\", which is not supported"), "{source}");
    std::fs::remove_file(path.join("tokenizer.json")).unwrap();
    config["hidden_act"] = json!("gelu");
    std::fs::write(path.join("config.json"), config.to_string()).unwrap();
    assert!(load(&path, &EncoderOptions::bge()).unwrap_err().contains("tokenizer.json"));
}

fn constant<const R: usize>(shape: [usize; R], seed: u64, size: f32) -> Tensor<R> {
    let values: Vec<f32> = numbers(shape.iter().product(), seed).iter().map(|x| x * size).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_text_has_one_vector_in_any_company(texts in prop::collection::vec(prop::collection::vec(0u32..20, 0..30), 1..8)) {
        let (_folder, path) = small(2, "", &[]);
        let encoder = load(&path, &EncoderOptions::e5()).unwrap();
        let texts: Vec<String> = texts
            .iter()
            .map(|words| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" "))
            .collect();
        let together = encoder.encode_passages(&texts).unwrap();
        for (row, text) in together.rows().zip(&texts) {
            let alone = encoder.encode_passages(std::slice::from_ref(text)).unwrap();
            prop_assert_eq!(alone.row(0), row, "{}", text);
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            prop_assert!((norm - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn layer_norm_equals_its_definition(tokens in 1usize..300, width in 8usize..140, seed in 0u64..1000, shift in -20f32..20.0) {
        let x = constant([tokens, width], seed, 3.0) + shift;
        let (w, b) = (constant([width], seed + 1, 1.0), constant([width], seed + 2, 1.0));
        let found = to_vec(ops::layer_norm(x.clone(), w.clone(), b.clone(), 1e-12));
        let wanted = to_vec(ops::portable::layer_norm(x, w, b, 1e-12));
        prop_assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1e-3), "{:?}\n{:?}", found, wanted);
    }
}

#[test]
fn gelu_is_exact_over_its_range() {
    // Φ by its series or continued fraction in f64.
    let tail = |z: f64| {
        if z < 3.0 {
            let (mut term, mut sum, mut n) = (z, z, 0.0);
            while term.abs() > 1e-17 {
                n += 1.0;
                term *= -z * z / n;
                sum += term / (2.0 * n + 1.0);
            }
            1.0 - 2.0 / std::f64::consts::PI.sqrt() * sum
        } else {
            let fraction = (1..=200).rev().fold(0.0, |s, k| f64::from(k) / 2.0 / (z + s));
            (-z * z).exp() / (std::f64::consts::PI.sqrt() * (z + fraction))
        }
    };
    let xs: Vec<f32> = (-1300..=1300).map(|i| i as f32 * 0.01).collect();
    let found =
        to_vec(ops::gelu(Tensor::from_data(TensorData::new(xs.clone(), [1, xs.len()]), &Device::flex())));
    for (x, y) in xs.iter().zip(found) {
        let half = f64::from(x.abs()) * 0.5 * tail(f64::from(x.abs()) / std::f64::consts::SQRT_2);
        let wanted = if *x < 0.0 { -half } else { f64::from(*x) - half };
        let error = (f64::from(y) - wanted).abs();
        assert!(
            error <= 1e-30 + 1e-5 * wanted.abs() && error < 5e-7 * wanted.abs().max(1.0),
            "gelu({x}) is {y}, not {wanted}"
        );
    }
}
