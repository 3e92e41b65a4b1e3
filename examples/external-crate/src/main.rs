//! A five-token bandit trained by the joint objective of `seed-core`, in a project that knows nothing else of SEED.
//!
//! Token 3 earns the reward. A teacher who has been told so gives it more probability; the policy has not.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};
use seed_core::advantage::{GroupAdvantage, group_advantage};
use seed_core::{InputError, ObjectiveConfig, ObjectiveInputs, Scope, Teacher, TokenRows, joint_objective};

const GOOD: usize = 3;

fn main() -> Result<(), InputError> {
    let device = Device::flex().autodiff();
    let mut logits = Tensor::<1>::zeros([5], &device);
    let teacher_logits = Tensor::<1>::from_floats([0.0, 0.0, 0.0, 2.0, 0.0], &device);
    // Every token is sampled once a step: five rows of one token, one group.
    let sampled = Tensor::<1, Int>::arange(0..5, &device.clone().inner());
    let rows = TokenRows::full(&[1; 5]);
    let rewards: Vec<f64> = (0..5).map(|token| f64::from(u8::from(token == GOOD))).collect();
    let advantages = group_advantage(&rewards, &[0; 5], &[0, 1, 2, 3, 4], &GroupAdvantage::grpo())?;

    let pick = |logits: Tensor<1>| log_softmax(logits, 0).select(0, sampled.clone());
    let probability = |logits: &Tensor<1>| {
        pick(logits.clone()).exp().try_into_vec_as::<f32>().expect("a vector of numbers")[GOOD]
    };
    let before = probability(&logits);
    for _ in 0..50 {
        let leaf = logits.clone().detach().require_grad();
        let logp = pick(leaf.clone());
        let old_logp = logp.clone().detach();
        let output = joint_objective(
            &ObjectiveConfig::seed(),
            ObjectiveInputs {
                logp,
                advantage: rows.tensor(&rows.spread(&advantages)?, &old_logp),
                rows: &rows,
                ref_logp: Some(old_logp.clone()),
                entropy: Some(old_logp.zeros_like()),
                old_logp,
                teacher: Some(Teacher {
                    logp: pick(teacher_logits.clone()),
                    row_mask: None,
                    token_mask: None,
                }),
            },
            Scope::whole_batch(),
        )?;
        let gradients = output.loss.backward();
        let gradient = leaf.grad(&gradients).expect("the loss depends on the logits");
        logits = logits - Tensor::from_inner(gradient) * 0.5;
    }
    println!("probability of the good token: {before:.3} -> {:.3}", probability(&logits));
    Ok(())
}
