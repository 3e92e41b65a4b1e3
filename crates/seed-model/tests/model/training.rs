//! Ten reference steps, and what surrounds them: state on disk, accumulation, recomputation, threads, averages, bf16.

use crate::reference::*;
use crate::tiny::{Case, cases};
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor};
use seed_model::optim::{
    AdamW, AdamWOptions, ClipError, Ema, GradientAccumulator, ParameterGroup, clip_global_norm,
    named_gradients, sum_gradients,
};
use seed_model::{
    Activations, CausalLm, PackedBatch, ScoreBatch, ScoreRow, checkpoint, loss_and_gradients, score,
};

fn options(case: &Case) -> (AdamWOptions, f64, f64) {
    let settings = &case.expected["adamw"];
    let number = |key: &str| settings[key].as_f64().unwrap();
    let betas = settings["betas"].as_array().unwrap();
    let betas = (betas[0].as_f64().unwrap(), betas[1].as_f64().unwrap());
    let options = AdamWOptions { betas, eps: number("eps"), weight_decay: number("weight_decay") };
    (options, number("lr"), number("clip_grad_norm"))
}

fn gradients(case: &Case, model: &CausalLm) -> (f32, GradientsParams) {
    let loss = case.loss(model);
    let gradients = GradientsParams::from_grads(loss.backward(), model);
    (to_vec(loss)[0], gradients)
}

fn first_case() -> Case {
    cases().remove(0)
}

#[test]
fn ten_steps_of_adamw() {
    for case in cases() {
        let (options, lr, clip) = options(&case);
        let expected = &case.expected["adamw"];
        let mut model = case.load().train();
        let mut optimiser = AdamW::new(options);
        let losses = floats(&expected["losses"]);
        for (step, norm_expected) in floats(&expected["grad_norms_before_clip"]).into_iter().enumerate() {
            let (loss, gradients) = gradients(&case, &model);
            assert_close(
                &format!("{} loss before step {step}", case.name),
                &[loss],
                &losses[step..=step],
                2e-4,
            );
            let (gradients, norm) = clip_global_norm(&model, gradients, clip).unwrap();
            let error = (norm as f32 - norm_expected).abs() / norm_expected;
            assert!(error < 1e-3, "{} norm before step {step}: {norm} against {norm_expected}", case.name);
            model = optimiser.step(model, gradients, lr);
        }
        let last = expected["final_loss"].as_f64().unwrap() as f32;
        assert_close(&format!("{} final loss", case.name), &to_vec(case.loss(&model)), &[last], 2e-4);
    }
}

#[test]
fn a_restored_optimiser_continues_bit_for_bit() {
    let case = first_case();
    let (options, lr, _) = options(&case);
    let device = cpu();
    let folder = tempfile::tempdir().unwrap();
    let run = |stop: bool, dtype: FloatDType| {
        let mut model = checkpoint::load(&case.folder, &device, dtype).unwrap().model.train();
        let mut optimiser = AdamW::new(options);
        for step in 0..6 {
            if stop && step == 3 {
                let file = folder.path().join("optimiser.safetensors");
                optimiser.save(&file).unwrap();
                checkpoint::save(&model, folder.path(), &checkpoint::SaveOptions::default()).unwrap();
                optimiser = AdamW::load(&file, options, &device).unwrap();
                model = checkpoint::load(folder.path(), &device, dtype).unwrap().model.train();
            }
            let (_, gradients) = gradients(&case, &model);
            model = optimiser.step(model, gradients, lr);
        }
        to_vec(model.logits(&PackedBatch::new(&case.prompts()[..1])))
    };
    for dtype in [FloatDType::F32, FloatDType::BF16] {
        assert_eq!(run(true, dtype), run(false, dtype), "{dtype:?}");
    }
}

#[test]
fn accumulated_rows_and_worker_threads_give_the_gradients_of_the_batch() {
    let case = first_case();
    let model = case.load().train();
    let rows = case.train_rows();
    let part = |row: &(Vec<u32>, Vec<i64>)| {
        let score_row = ScoreRow::new(&row.0[..1], &row.0[1..]);
        let loss = score(&model, &[score_row], 1.0, false).unwrap().logp.sum().neg();
        GradientsParams::from_grads(loss.backward(), &model)
    };
    let all: Vec<ScoreRow> = rows.iter().map(|(row, _)| ScoreRow::new(&row[..1], &row[1..])).collect();
    let whole = score(&model, &all, 1.0, false).unwrap().logp.sum().neg();
    let whole = named_gradients(&model, &GradientsParams::from_grads(whole.backward(), &model));

    let mut sum = GradientAccumulator::new();
    rows.iter().for_each(|row| sum.add(&model, part(row), 1.0));
    assert_eq!(sum.len(), rows.len());
    let accumulated = named_gradients(&model, &sum.take().unwrap());
    assert!(sum.is_empty() && sum.take().is_none());

    let threaded = || {
        let parts = std::thread::scope(|scope| {
            let workers: Vec<_> = rows.iter().map(|row| scope.spawn(|| part(row))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        named_gradients(&model, &sum_gradients(&model, parts))
    };
    let (first, second) = (threaded(), threaded());
    for (name, expected) in &whole {
        let expected = expected.as_slice::<f32>().unwrap();
        let size = expected.iter().fold(0f32, |m, x| m.max(x.abs())).max(1.0);
        for found in [&accumulated, &first] {
            assert_close(name, found[name].as_slice().unwrap(), expected, 1e-5 * size);
        }
        assert_eq!(first[name], second[name], "threads sum in a fixed order");
    }
}

#[test]
fn recomputed_activations_give_the_same_gradients() {
    for case in cases() {
        let model = case.load().train();
        let rows = case.train_rows();
        let rows: Vec<ScoreRow> = rows.iter().map(|(row, _)| ScoreRow::new(&row[..1], &row[1..])).collect();
        let batch = ScoreBatch::new(&rows, model.config().vocab_size).unwrap();
        let run = |activations| {
            let (loss, gradients) = loss_and_gradients(&model, &batch.packed, activations, |hidden, head| {
                batch.scores(hidden, head, 1.0, false).logp.mean().neg()
            });
            (to_vec(loss)[0], named_gradients(&model, &gradients))
        };
        let (kept, recomputed) = (run(Activations::Keep), run(Activations::Recompute));
        assert!((kept.0 - recomputed.0).abs() < 1e-6);
        assert_eq!(kept.1.len(), recomputed.1.len(), "{}", case.name);
        for (name, expected) in &kept.1 {
            assert_close(name, recomputed.1[name].as_slice().unwrap(), expected.as_slice().unwrap(), 1e-5);
        }
    }
}

#[test]
fn a_snapshot_keeps_its_weights_and_an_average_follows() {
    let case = first_case();
    let model = case.load().train();
    let snapshot = model.valid();
    let prompt = PackedBatch::new(&case.prompts()[..1]);
    let before = to_vec(snapshot.logits(&prompt));
    let mut ema = Ema::new(&model, 0.75);
    let norm = |model: &CausalLm| to_vec(model.model.norm.weight.val());
    let old = norm(&model);
    let (_, gradients) = gradients(&case, &model);
    let model = AdamW::new(AdamWOptions::default()).step(model, gradients, 1e-2);
    assert_eq!(to_vec(snapshot.logits(&prompt)), before);
    assert_ne!(to_vec(model.logits(&prompt)), before);
    ema.update(&model);
    let expected: Vec<f32> = old.iter().zip(norm(&model)).map(|(a, b)| 0.75 * a + 0.25 * b).collect();
    assert_close("average", &norm(ema.model()), &expected, 1e-6);
}

#[test]
fn groups_freeze_and_spare_from_decay() {
    let case = first_case();
    let model = case.load().train();
    let frozen =
        ParameterGroup { name_contains: vec!["embed_tokens".into()], lr_scale: 0.0, weight_decay: 0.0 };
    let mut optimiser = AdamW::new(AdamWOptions { weight_decay: 10.0, ..AdamWOptions::default() })
        .with_groups([frozen, ParameterGroup::no_decay()]);
    let (_, gradients) = gradients(&case, &model);
    let stepped = optimiser.step(model.clone(), gradients, 1e-3);
    let embedding = |model: &CausalLm| to_vec(model.model.embed_tokens.weight.val());
    assert_eq!(embedding(&stepped), embedding(&model));
    // Without decay a first step moves each value by the learning rate at most.
    let norm = |model: &CausalLm| to_vec(model.model.norm.weight.val());
    assert_close("norm", &norm(&stepped), &norm(&model), 1.001e-3);
    let matrix = |model: &CausalLm| to_vec(model.model.layers[0].mlp.up_proj.weight.val());
    let moved = relative(&matrix(&stepped), &matrix(&model));
    assert!(moved > 9e-3, "decay of 10 at 1e-3 moves by 1 in 100: {moved}");
}

#[test]
fn a_gradient_that_is_not_finite_is_named() {
    let case = first_case();
    let model = case.load().train();
    let (_, mut gradients) = gradients(&case, &model);
    let id = model.model.norm.weight.id;
    let bad = gradients.remove::<1>(id).unwrap() * f32::NAN;
    gradients.register(id, bad);
    let error = clip_global_norm(&model, gradients, 1.0).unwrap_err();
    assert_eq!(error, ClipError::NotFinite { name: "model.norm.weight".into() });
}

#[test]
fn small_updates_reach_bf16_weights() {
    let case = first_case();
    let load = |dtype| checkpoint::load(&case.folder, &cpu(), dtype).unwrap().model.train();
    let run = |mut model: CausalLm| {
        let mut optimiser = AdamW::new(AdamWOptions { weight_decay: 0.0, ..AdamWOptions::default() });
        let start = to_vec(case.loss(&model))[0];
        for _ in 0..20 {
            let (_, gradients) = gradients(&case, &model);
            model = optimiser.step(model, gradients, 1e-5);
        }
        start - to_vec(case.loss(&model))[0]
    };
    let (wide, narrow) = (run(load(FloatDType::F32)), run(load(FloatDType::BF16)));
    // Without master weights nearly every update is rounded away; with them only the forward pass is rounded.
    assert!(wide > 0.0 && narrow > 0.3 * wide, "loss falls by {wide} in f32, by {narrow} in bf16");
}

#[test]
fn bf16_arithmetic_stays_near() {
    for case in cases() {
        let model = checkpoint::load(&case.folder, &cpu(), FloatDType::BF16).unwrap().model;
        for (k, prompt) in case.prompts().iter().enumerate() {
            let logits = to_vec(model.logits(&PackedBatch::new(&[prompt])));
            let expected = stored(&case.tensors, &format!("prompt{k}.logits"));
            assert_close(&format!("{} prompt {k}", case.name), &logits, &expected, 0.5);
        }
    }
}

#[test]
fn a_fresh_model_learns_a_sentence() {
    use seed_model::{Family, ModelConfig};
    for family in [Family::Qwen2, Family::Qwen3, Family::Llama] {
        let config = ModelConfig::new(family, 32, 16, 32, 2, (4, 2, 4));
        let mut model = CausalLm::init(&config, 1, &cpu().autodiff());
        let text: Vec<u32> = (0..24).map(|i| (i * i + 3) % 31).collect();
        let row = ScoreRow::new(&text[..1], &text[1..]);
        let loss =
            |model: &CausalLm| -> Tensor<1> { score(model, &[row], 1.0, false).unwrap().logp.mean().neg() };
        let mut optimiser = AdamW::new(AdamWOptions::default());
        for _ in 0..150 {
            let gradients = GradientsParams::from_grads(loss(&model).backward(), &model);
            model = optimiser.step(model, gradients, 2e-2);
        }
        let last = to_vec(loss(&model))[0];
        assert!(last < 0.1, "{family:?}: loss {last}");
    }
}
