//! Trained weights of 1 MB: log-probabilities, perplexity and the story that the model is known for.

use crate::reference::*;
use burn::tensor::FloatDType;
use seed_model::generate::Decoding;
use seed_model::{GenerateOptions, PackedBatch, ScoreRow, Tokenizer, checkpoint, generate, score};

#[test]
fn both_forms_score_and_tell_the_story() {
    let reference = json(&vectors("stories260k/reference.json"));
    for form in ["llama", "qwen2"] {
        let folder = vectors("stories260k").join(form);
        let model = checkpoint::load(&folder, &cpu(), FloatDType::F32).unwrap().model;
        let tokenizer = Tokenizer::load(&folder).unwrap();
        for case in reference["encodings"].as_array().unwrap() {
            let expected = ids(&case["ids"]);
            assert_eq!(tokenizer.encode(case["text"].as_str().unwrap()).unwrap(), expected);
            assert_eq!(tokenizer.decode(&expected).unwrap(), case["decoded"]);
        }
        for (i, case) in reference["cases"].as_array().unwrap().iter().enumerate() {
            let what = format!("{form} case {i}");
            let input = ids(&case["input_ids"]);
            let row = ScoreRow::new(&input[..1], &input[1..]);
            let logp = to_vec(score(&model, &[row], 1.0, false).unwrap().logp);
            assert_close(&what, &logp, &floats(&case["logprobs"]), 2e-4);
            let logits = to_vec(model.logits(&PackedBatch::new(&[&input])));
            let vocab = model.config().vocab_size;
            assert_close(&what, &logits[logits.len() - vocab..], &floats(&case["last_logits"]), 2e-4);

            // One pass over the whole story: each token is the likeliest after those before it.
            let story = ids(&case["greedy_ids"]);
            let whole = [&input[..], &story].concat();
            let logits = to_vec(model.logits(&PackedBatch::new(&[&whole])));
            for (k, expected) in story.iter().enumerate() {
                let row = &logits[(input.len() + k - 1) * vocab..][..vocab];
                let best = (0..vocab).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
                assert_eq!(best as u32, *expected, "{what}, token {k}");
            }
            let options =
                GenerateOptions { decoding: Decoding::Greedy, max_tokens: story.len(), ..Default::default() };
            assert_eq!(
                generate(&model, std::slice::from_ref(&input), &options).unwrap()[0].ids,
                story,
                "{what}"
            );
            assert_eq!(tokenizer.decode_skipping_special(&whole).unwrap(), case["greedy_text"], "{what}");
        }
    }
}
