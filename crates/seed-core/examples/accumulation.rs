//! Why the scope of a loss matters: one mini-batch in two unequal parts, by both scopes.
//!
//! `cargo run -p seed-core --example accumulation`

use burn::tensor::{Device, Tensor};
use seed_core::objective::LossScope;
use seed_core::{
    InputError, ObjectiveConfig, ObjectiveInputs, ObjectiveNormalizer, Scope, TokenRows, joint_objective,
};

fn main() -> Result<(), InputError> {
    // A part with many short rows, one with a single long row.
    let parts = [TokenRows::full(&[2, 2, 2]), TokenRows::full(&[12])];
    for &scope in LossScope::ALL {
        let config = ObjectiveConfig { scope, kl: None, entropy_coef: 0.0, ..ObjectiveConfig::grpo() };
        // First pass: count. Second pass: differentiate each part and add the gradients up.
        let mut counts = ObjectiveNormalizer::default();
        for rows in &parts {
            counts.add_part(&config, rows, None, None)?;
        }
        println!("{scope}");
        for rows in &parts {
            let device = Device::flex().autodiff();
            let logp = Tensor::<1>::full([rows.token_count()], -1.0, &device).require_grad();
            let old_logp = logp.clone().detach();
            let inputs = ObjectiveInputs {
                logp: logp.clone(),
                advantage: old_logp.ones_like(),
                old_logp,
                rows,
                ref_logp: None,
                entropy: None,
                teacher: None,
            };
            let gradients = joint_objective(&config, inputs, Scope::part_of(&counts))?.loss.backward();
            let weight = logp.grad(&gradients).expect("a gradient").abs().max().into_scalar::<f32>();
            println!(
                "  {:>2} tokens in {} rows: each weighs {weight:.4}",
                rows.token_count(),
                rows.row_count()
            );
        }
    }
    Ok(())
}
