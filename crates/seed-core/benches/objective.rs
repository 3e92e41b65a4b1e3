//! Cost of the joint objective, forward and backward, by number of tokens. Run by `cargo xtask bench core`.

use burn::tensor::{DType, Device, Distribution, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use seed_core::{ObjectiveConfig, ObjectiveInputs, Scope, Teacher, TokenRows, joint_objective};
use std::hint::black_box;

const ROW_LENGTH: usize = 256;

fn joint(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("joint_objective");
    group.sample_size(20);
    for tokens in [4 << 10, 64 << 10, 1 << 20] {
        let inner = Device::flex();
        inner.seed(1);
        let device = inner.autodiff();
        let uniform = |low: f64, high: f64| {
            Tensor::<1>::random([tokens], Distribution::Uniform(low, high), (&device, DType::F32))
        };
        // One row in eight has no skill, one token in sixteen does not count.
        let counted: Vec<bool> = (0..tokens).map(|token| token % 16 != 0).collect();
        let rows =
            TokenRows::packed(&vec![ROW_LENGTH; tokens / ROW_LENGTH], &counted).expect("lengths add up");
        let row_mask: Vec<bool> = (0..rows.row_count()).map(|row| row % 8 != 0).collect();
        let logp = uniform(-5.0, 0.0);
        let old_logp = logp.clone() + uniform(-0.3, 0.3);
        let (ref_logp, teacher_logp) = (uniform(-5.0, 0.0), uniform(-5.0, 0.0));
        let (entropy, advantage) = (uniform(0.0, 2.0), uniform(-1.0, 1.0));
        let config = ObjectiveConfig::seed();
        let run = |backward: bool| {
            let logp = logp.clone().detach().require_grad();
            let output = joint_objective(
                &config,
                ObjectiveInputs {
                    logp: logp.clone(),
                    old_logp: old_logp.clone(),
                    advantage: advantage.clone(),
                    rows: &rows,
                    ref_logp: Some(ref_logp.clone()),
                    entropy: Some(entropy.clone()),
                    teacher: Some(Teacher {
                        logp: teacher_logp.clone(),
                        row_mask: Some(&row_mask),
                        token_mask: None,
                    }),
                },
                Scope::whole_batch(),
            )
            .expect("the inputs fit together");
            if backward {
                let gradients = output.loss.backward();
                black_box(logp.grad(&gradients));
            }
            black_box(output.diagnostics.read())
        };
        group.throughput(Throughput::Elements(tokens as u64));
        group.bench_function(BenchmarkId::new("forward", tokens), |bencher| bencher.iter(|| run(false)));
        group.bench_function(BenchmarkId::new("forward_backward", tokens), |bencher| {
            bencher.iter(|| run(true))
        });
    }
    group.finish();
}

criterion_group!(benches, joint);
criterion_main!(benches);
