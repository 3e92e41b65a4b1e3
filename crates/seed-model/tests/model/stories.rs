//! Trained weights of 1 MB: log-probabilities, perplexity and the story that the model is known for.

use crate::reference::*;
use burn::tensor::FloatDType;
use seed_model::generate::Decoding;
use seed_model::{GenerateOptions, PackedBatch, ScoreRow, Tokenizer, checkpoint, generate, score};

/// e to the mean surprise.
fn perplexity(logp: &[f32]) -> f64 {
    (-logp.iter().map(|x| f64::from(*x)).sum::<f64>() / logp.len() as f64).exp()
}

#[test]
fn perplexity_is_the_reference_s_alone_packed_and_along_the_stories() {
    let reference = json(&vectors("stories260k/reference.json"));
    let cases = reference["cases"].as_array().unwrap();
    let expected = perplexity(&cases.iter().flat_map(|case| floats(&case["logprobs"])).collect::<Vec<_>>());
    let inputs: Vec<Vec<u32>> = cases.iter().map(|case| ids(&case["input_ids"])).collect();
    for form in ["llama", "qwen2"] {
        let model =
            checkpoint::load(vectors("stories260k").join(form), &cpu(), FloatDType::F32).unwrap().model;
        let rows: Vec<ScoreRow> = inputs.iter().map(|ids| ScoreRow::new(&ids[..1], &ids[1..])).collect();
        let found = perplexity(&to_vec(score(&model, &rows, 1.0, false).unwrap().logp));
        println!("{form}: perplexity {found:.5} over {} openings, reference {expected:.5}", rows.len());
        assert!((found - expected).abs() < 1e-3, "{form}: {found}, not {expected}");
        let whole: Vec<Vec<u32>> = cases
            .iter()
            .zip(&inputs)
            .map(|(case, input)| [&input[..], &ids(&case["greedy_ids"])].concat())
            .collect();
        let rows: Vec<ScoreRow> = whole
            .iter()
            .zip(&inputs)
            .map(|(ids, input)| ScoreRow::new(&ids[..input.len()], &ids[input.len()..]))
            .collect();
        let told = perplexity(&to_vec(score(&model, &rows, 1.0, false).unwrap().logp));
        println!("{form}: perplexity {told:.5} of its own greedy stories");
        // The likeliest token each time: far below what the openings cost, and no more than one of 512 at random.
        assert!(told > 1.0 && told < expected, "{form}: {told}");
    }
}

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
