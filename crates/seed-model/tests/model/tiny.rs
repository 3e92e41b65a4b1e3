//! The tiny checkpoints: every set in the folder, whatever its shape.

use crate::reference::*;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};
use seed_model::checkpoint::{self, WeightFiles};
use seed_model::{CausalLm, PackedBatch, ScoreRow, score};
use serde_json::Value;
use std::path::PathBuf;

/// One checkpoint with its expected values.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) expected: Value,
    pub(crate) tensors: WeightFiles,
}

/// Every `reference_<name>.json` that has a checkpoint folder `<name>` beside it.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for set in ["qwen2_tiny", "qwen3_tiny"] {
        let dir = vectors(set);
        let mut names: Vec<String> = std::fs::read_dir(&dir)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter_map(|file| Some(file.strip_prefix("reference_")?.strip_suffix(".json")?.to_owned()))
            .collect();
        names.sort();
        assert!(!names.is_empty(), "{} holds no reference_*.json", dir.display());
        for name in names {
            let expected = json(&dir.join(format!("reference_{name}.json")));
            let tensors = WeightFiles::open_file(&dir.join(format!("reference_{name}.safetensors"))).unwrap();
            cases.push(Case { folder: dir.join(&name), name: format!("{set}/{name}"), expected, tensors });
        }
    }
    cases
}

impl Case {
    pub(crate) fn load(&self) -> CausalLm {
        checkpoint::load(&self.folder, &cpu(), FloatDType::F32).unwrap().model
    }

    pub(crate) fn prompts(&self) -> Vec<Vec<u32>> {
        self.expected["prompts"].as_array().unwrap().iter().map(|p| ids(&p["input_ids"])).collect()
    }

    /// The rows of `train_batch` without padding, and for each its labels.
    pub(crate) fn train_rows(&self) -> Vec<(Vec<u32>, Vec<i64>)> {
        let batch = &self.expected["train_batch"];
        let rows =
            batch["input_ids"].as_array().unwrap().iter().zip(batch["attention_mask"].as_array().unwrap());
        rows.zip(batch["labels"].as_array().unwrap())
            .map(|((row, mask), labels)| {
                let real: Vec<bool> = mask.as_array().unwrap().iter().map(|m| m == 1).collect();
                let keep = |i: &usize| real[*i];
                let row = ids(row);
                let labels: Vec<i64> =
                    labels.as_array().unwrap().iter().map(|l| l.as_i64().unwrap()).collect();
                let at: Vec<usize> = (0..row.len()).filter(keep).collect();
                (at.iter().map(|i| row[*i]).collect(), at.iter().map(|i| labels[*i]).collect())
            })
            .collect()
    }

    /// Mean cross-entropy over the labelled tokens of `train_batch`.
    pub(crate) fn loss(&self, model: &CausalLm) -> Tensor<1> {
        let rows = self.train_rows();
        let split: Vec<(&[u32], &[u32], &[i64])> =
            rows.iter().map(|(row, labels)| (&row[..1], &row[1..], &labels[1..])).collect();
        let score_rows: Vec<ScoreRow> =
            split.iter().map(|(prompt, response, _)| ScoreRow::new(prompt, response)).collect();
        let scores = score(model, &score_rows, 1.0, false).unwrap();
        let labelled: Vec<f32> = split
            .iter()
            .flat_map(|(_, _, labels)| labels.iter().map(|l| if *l < 0 { 0.0 } else { 1.0 }))
            .collect();
        let count: f32 = labelled.iter().sum();
        let mask = Tensor::<1>::from_floats(labelled.as_slice(), &cpu());
        (scores.logp * mask).sum().neg().div_scalar(count)
    }
}

#[test]
fn logits_and_hidden_states() {
    for case in cases() {
        let model = case.load();
        for (k, prompt) in case.prompts().iter().enumerate() {
            let batch = PackedBatch::new(&[prompt]);
            let expected = stored(&case.tensors, &format!("prompt{k}.logits"));
            assert_close(
                &format!("{} logits {k}", case.name),
                &to_vec(model.logits(&batch)),
                &expected,
                2e-4,
            );
        }
        for (i, state) in model.hidden_states(&PackedBatch::new(&case.prompts()[..1])).into_iter().enumerate()
        {
            let expected = stored(&case.tensors, &format!("prompt0.hidden.{i}"));
            assert_close(&format!("{} hidden {i}", case.name), &to_vec(state), &expected, 2e-4);
        }
    }
}

#[test]
fn log_probabilities_and_entropies_in_one_packed_batch() {
    for case in cases() {
        let model = case.load();
        let prompts = case.prompts();
        let rows: Vec<ScoreRow> = prompts.iter().map(|ids| ScoreRow::new(&ids[..1], &ids[1..])).collect();
        for (key, temperature) in [("temperature_1.0", 1.0), ("temperature_0.7", 0.7)] {
            let scores = score(&model, &rows, temperature, true).unwrap();
            let logp = to_vec(scores.logp);
            let expected: Vec<f32> =
                case.expected["logprobs"].as_array().unwrap().iter().flat_map(|k| floats(&k[key])).collect();
            assert_close(&format!("{} {key}", case.name), &logp, &expected, 2e-4);
            if temperature == 1.0 {
                // The reference also has the entropy after the last token, which predicts nothing here.
                let expected: Vec<f32> = case.expected["entropy"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .flat_map(|k| {
                        let all = floats(k);
                        all[..all.len() - 1].to_vec()
                    })
                    .collect();
                assert_close(
                    &format!("{} entropy", case.name),
                    &to_vec(scores.entropy.unwrap()),
                    &expected,
                    2e-4,
                );
            }
        }
    }
}

#[test]
fn a_padded_batch_equals_its_packed_rows() {
    for case in cases() {
        let model = case.load();
        let padded = &case.expected["left_padded"];
        let masks: Vec<Vec<f32>> = padded["attention_mask"].as_array().unwrap().iter().map(floats).collect();
        let rows: Vec<Vec<u32>> = padded["input_ids"].as_array().unwrap().iter().map(ids).collect();
        let real: Vec<Vec<u32>> = rows
            .iter()
            .zip(&masks)
            .map(|(row, mask)| row.iter().zip(mask).filter(|(_, m)| **m == 1.0).map(|(id, _)| *id).collect())
            .collect();
        let batch = PackedBatch::new(&real);
        let positions: Vec<u32> = padded["position_ids"]
            .as_array()
            .unwrap()
            .iter()
            .zip(&masks)
            .flat_map(|(row, mask)| {
                ids(row).into_iter().zip(mask).filter(|(_, m)| **m == 1.0).map(|(p, _)| p).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(batch.positions(), positions);
        let vocab = model.config().vocab_size;
        let expected = stored(&case.tensors, "left_padded.logits");
        let expected: Vec<f32> = expected
            .chunks(vocab)
            .zip(masks.iter().flatten())
            .filter(|(_, m)| **m == 1.0)
            .flat_map(|(logits, _)| logits.to_vec())
            .collect();
        assert_close(&format!("{} left padded", case.name), &to_vec(model.logits(&batch)), &expected, 2e-4);
    }
}

#[test]
fn loss_and_full_gradients() {
    for case in cases() {
        let model = case.load().train();
        let loss = case.loss(&model);
        let expected = case.expected["loss"].as_f64().unwrap() as f32;
        assert_close(&format!("{} loss", case.name), &to_vec(loss.clone()), &[expected], 2e-5);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        let found = seed_model::optim::named_gradients(&model, &grads);
        let names: Vec<&str> = case.tensors.names().filter_map(|name| name.strip_prefix("grad.")).collect();
        assert_eq!(names.len(), found.len(), "{}: number of gradients", case.name);
        for name in names {
            let expected = stored(&case.tensors, &format!("grad.{name}"));
            let found = found[name].clone().try_into_vec::<f32>().unwrap();
            let size = expected.iter().map(|x| x * x).sum::<f32>().sqrt();
            if size < 1e-5 {
                // Zero by symmetry: only rounding is left.
                assert_close(&format!("{} gradient of {name}", case.name), &found, &expected, 1e-5);
            } else {
                let error = relative(&found, &expected);
                assert!(error <= 1e-4, "{} gradient of {name}: relative error {error:e}", case.name);
            }
        }
    }
}

#[test]
fn shards_hold_the_same_weights() {
    for case in cases() {
        let sharded = PathBuf::from(format!("{}_sharded", case.folder.display()));
        if !sharded.is_dir() {
            continue;
        }
        let (whole, parts) = (WeightFiles::open(&case.folder).unwrap(), WeightFiles::open(&sharded).unwrap());
        let prompt = PackedBatch::new(&case.prompts()[..1]);
        assert!(whole.names().eq(parts.names()));
        let model = checkpoint::load(&sharded, &cpu(), FloatDType::F32).unwrap().model;
        assert_eq!(to_vec(model.logits(&prompt)), to_vec(case.load().logits(&prompt)), "{}", case.name);
    }
}

#[test]
fn greedy_texts() {
    use seed_model::generate::Decoding;
    use seed_model::{CacheLayout, GenerateOptions, generate};
    for case in cases() {
        let model = case.load();
        let all = case.prompts();
        for expected in case.expected["greedy"].as_array().unwrap() {
            let prompt = all[expected["prompt"].as_u64().unwrap() as usize].clone();
            let story = ids(&expected["new_ids"]);
            let options = GenerateOptions {
                decoding: Decoding::Greedy,
                max_tokens: story.len(),
                layout: CacheLayout::Paged { max_tokens: None },
                ..GenerateOptions::default()
            };
            let found = generate(&model, &[prompt], &options).unwrap().remove(0);
            assert_eq!(found.ids, story, "{} prompt {}", case.name, expected["prompt"]);
        }
    }
}
