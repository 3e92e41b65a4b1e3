//! A real chat model from its GGUF file, which `cargo xtask fetch smollm2` gets.

use crate::reference::*;
use burn::tensor::FloatDType;
use seed_model::{Message, PackedBatch, RenderOptions, ScoreRow, checkpoint, gguf, score};

#[test]
fn the_imported_model_agrees_with_its_reference() {
    let path = artefact("smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2");
    let reference = json(&vectors("smollm2_135m/reference.json"));
    let loaded = gguf::load(&path, &cpu(), FloatDType::F32).unwrap();
    for case in reference["encodings"].as_array().unwrap() {
        let expected = ids(&case["ids"]);
        assert_eq!(loaded.tokenizer.encode(case["text"].as_str().unwrap()).unwrap(), expected);
        assert_eq!(loaded.tokenizer.decode(&expected).unwrap(), case["decoded"]);
    }
    let template = loaded.chat_template.as_ref().unwrap();
    let vocab = loaded.model.config().vocab_size;
    let mut worst = 0f32;
    for case in reference["cases"].as_array().unwrap() {
        let messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
        let rendered = template.render(&messages, &RenderOptions::prompt()).unwrap();
        assert_eq!(rendered, case["rendered"]);
        let input = ids(&case["input_ids"]);
        assert_eq!(loaded.tokenizer.encode(&rendered).unwrap(), input);
        let row = ScoreRow::new(&input[..1], &input[1..]);
        let logp = to_vec(score(&loaded.model, &[row], 1.0, false).unwrap().logp);
        let expected = floats(&case["logprobs"]);
        assert_close(&case["name"].to_string(), &logp, &expected, 5e-3);
        worst = logp.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(worst, f32::max);

        let story = ids(&case["greedy_ids"]);
        let whole = [&input[..], &story].concat();
        let logits = to_vec(loaded.model.logits(&PackedBatch::new(&[&whole])));
        for (k, expected) in story.iter().enumerate() {
            let row = &logits[(input.len() + k - 1) * vocab..][..vocab];
            let best = row.iter().copied().fold(f32::MIN, f32::max);
            // Rounding may swap two tokens that are nearly as likely, and then the texts part.
            assert!(best - row[*expected as usize] < 0.02, "{} token {k}", case["name"]);
        }
    }
    println!("largest difference of log-probabilities: {worst:e}");

    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(&loaded.model, folder.path(), &checkpoint::SaveOptions::default()).unwrap();
    let again = checkpoint::load(folder.path(), &cpu(), FloatDType::F32).unwrap().model;
    let prompt = PackedBatch::new(&[[1u32, 2, 3]]);
    assert_eq!(to_vec(again.logits(&prompt)), to_vec(loaded.model.logits(&prompt)));
}
