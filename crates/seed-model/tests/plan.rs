//! The plan against what a process really allocates. Alone in its binary: it counts every byte.
#![allow(unsafe_code)]

use burn::module::Module;
use seed_model::optim::{AdamW, AdamWOptions, GradientAccumulator};
use seed_model::plan::{Trained, Workload, plan};
use seed_model::{
    Activations, CausalLm, Family, ModelConfig, ScoreBatch, ScoreRow, device, loss_and_gradients,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator unchanged; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Peak of `work` above what was there before, in bytes.
fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (result, (PEAK.load(Relaxed) - before) as u64)
}

#[test]
fn planned_bytes_are_near_measured_peaks() {
    let mut report = Vec::new();
    for (family, hidden, layers, recompute) in [
        (Family::Qwen2, 128, 4, false),
        (Family::Qwen3, 128, 4, true),
        (Family::Llama, 256, 6, false),
        (Family::Llama, 256, 6, true),
    ] {
        let config = ModelConfig::new(family, 2048, hidden, 3 * hidden, layers, (8, 2, hidden / 8));
        let (rows, prompt, response) = (4, 192, 64);
        let workload = Workload { recompute, ..Workload::new(rows, prompt, response) };
        let expected = plan(&config, &workload).bytes;
        let device = device::select("cpu").unwrap().autodiff();

        let (model, weights) = peak(|| CausalLm::init(&config, 1, &device));
        // Fresh weights are drawn on the host, one tensor at a time.
        let slack = (2048 * hidden * 8) as u64;
        assert!(
            weights >= expected.weights && weights < expected.weights + slack,
            "weights: {weights} {expected:?}"
        );

        let ids: Vec<u32> = (0..256).collect();
        let row = ScoreRow::new(&ids[..prompt], &ids[prompt..]);
        let batch = ScoreBatch::new(&vec![row; rows], config.vocab_size).unwrap();
        let activations = if recompute { Activations::Recompute } else { Activations::Keep };
        let ((_, gradients), step) = peak(|| {
            loss_and_gradients(&model, &batch.packed, activations, |hidden, head| {
                batch.scores(hidden, head, 1.0, false).logp.mean().neg()
            })
        });
        let planned = expected.training() - expected.weights - expected.optimiser;
        let ratio = planned as f64 / step as f64;
        report.push(format!("{family:?} {hidden}x{layers} recompute {recompute}: planned {planned}, measured {step}, ratio {ratio:.2}"));

        let several = Workload { accumulate: true, ..workload.clone() };
        let expected_sum = plan(&config, &several).bytes;
        let (sum, step) = peak(|| {
            let mut sum = GradientAccumulator::new();
            for _ in 0..2 {
                let (_, gradients) =
                    loss_and_gradients(&model, &batch.packed, activations, |hidden, head| {
                        batch.scores(hidden, head, 1.0, false).logp.mean().neg()
                    });
                sum.add(&model, gradients, 1.0);
            }
            sum.take()
        });
        drop(sum);
        let planned = expected_sum.training() - expected_sum.weights - expected_sum.optimiser;
        let ratio = planned as f64 / step as f64;
        report.push(format!("  two passes: planned {planned}, measured {step}, ratio {ratio:.2}"));

        let before = NOW.load(Relaxed);
        let mut optimiser = AdamW::new(AdamWOptions::default());
        let model = optimiser.step(model, gradients, 1e-3);
        // The gradients are gone, the state has come.
        let state = (NOW.load(Relaxed) as i64 - before as i64 + expected.gradients as i64) as f64;
        assert!((state / expected.optimiser as f64 - 1.0).abs() < 0.05, "optimiser: {state} {expected:?}");

        let scoring = Workload { trained: Trained::Nothing, ..workload };
        let expected = plan(&config, &scoring).bytes.activations;
        let constant = model.valid();
        let (_, forward) = peak(|| {
            let hidden = constant.hidden(&batch.packed);
            batch.scores(hidden, constant.lm_head(), 1.0, false).logp.into_data()
        });
        let ratio = expected as f64 / forward as f64;
        report.push(format!("  scoring: planned {expected}, measured {forward}, ratio {ratio:.2}"));
    }
    println!("{}", report.join("\n"));
    for line in &report {
        let ratio: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((0.8..1.25).contains(&ratio), "plan and measurement disagree:\n{}", report.join("\n"));
    }
}
