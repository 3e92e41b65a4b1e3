//! The whole signal of one SEED update on invented numbers: rewards → advantages → joint loss → gradient.
//!
//! `cargo run -p seed-core --example grpo_opd`

use burn::tensor::{Device, Tensor};
use seed_core::advantage::{GroupAdvantage, group_advantage, invalid_action_penalty};
use seed_core::diagnostics::group_diagnostics;
use seed_core::{InputError, ObjectiveConfig, ObjectiveInputs, Scope, Teacher, TokenRows, joint_objective};

fn main() -> Result<(), InputError> {
    // Two episodes of one task: the first has two steps and succeeds, the second has one step with an invalid action.
    let rewards = [1.0, 1.0, 0.0];
    let scores = invalid_action_penalty(&rewards, &[true, true, false], 0.1)?;
    let tasks = ["boil the egg"; 3];
    let advantages =
        group_advantage(&scores, &tasks, &["first", "first", "second"], &GroupAdvantage::grpo())?;
    println!("row advantages  {advantages:.3?}");

    // What the model said about the sampled tokens of the three steps: 4, 3 and 2 of them, packed.
    let device = Device::flex().autodiff();
    let rows = TokenRows::full(&[4, 3, 2]);
    let logp = Tensor::<1>::from_floats([-0.4, -1.3, -2.2, -0.1, -0.9, -0.1, -3.0, -0.6, -0.6], &device)
        .require_grad();
    let old_logp = logp.clone().detach();
    let with_skill =
        Tensor::<1>::from_floats([-0.2, -1.9, -2.2, -0.1, -1.0, -0.1, -1.2, -0.5, -0.7], &device);

    let output = joint_objective(
        &ObjectiveConfig::seed(),
        ObjectiveInputs {
            logp: logp.clone(),
            old_logp: old_logp.clone(),
            advantage: rows.tensor(&rows.spread(&advantages)?, &old_logp),
            rows: &rows,
            ref_logp: Some(old_logp.clone()),
            entropy: Some(old_logp.ones_like()),
            // The second episode's skill could not be parsed.
            teacher: Some(Teacher {
                logp: with_skill,
                row_mask: Some(&[true, true, false]),
                token_mask: None,
            }),
        },
        Scope::whole_batch(),
    )?;
    let gradients = output.loss.backward();
    let by_logp = logp.grad(&gradients).expect("the loss depends on the log-probabilities");
    println!("gradient        {:.4?}", by_logp.try_into_vec_as::<f32>().expect("a vector of numbers"));

    let mut metrics = output.diagnostics.read();
    metrics.merge(&group_diagnostics(&rewards, &scores, &tasks)?.metrics());
    for (name, value) in metrics.iter() {
        println!("{name:<24} {value:.4}");
    }
    Ok(())
}
