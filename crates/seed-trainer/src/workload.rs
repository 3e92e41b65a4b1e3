//! What a configured run asks of a machine, in the terms of [`seed_model::plan`].

use crate::config::{Config, Dtype, Layout, TeacherWeights};
use seed_model::Lora;
use seed_model::plan::{Trained, Workload};

/// The largest passes of a run, and what it generates at the same time, on so many devices with so many passes at a time on each.
pub fn workload(config: &Config, devices: usize, passes: usize) -> Workload {
    let rollout = &config.rollout;
    let (prompt, response) = match rollout.layout {
        Layout::Step => (rollout.max_prompt_tokens, rollout.max_response_tokens),
        // All of a transcript may be sampled, but for its first prompt.
        Layout::Transcript => {
            let prompt = rollout.max_prompt_tokens.min(rollout.max_transcript_tokens);
            (prompt, rollout.max_transcript_tokens - prompt)
        }
    };
    let rows = rows_of_a_pass(config, prompt + response);
    // The model that stage 2 started from shares no weight with the actor after the first optimiser step.
    let reference = config.loss.kl_coef > 0.0 || config.opd.teacher_weights == TeacherWeights::Reference;
    let average = config.opd.teacher_weights == TeacherWeights::Ema;
    Workload {
        passes,
        accumulate: accumulates(config, rows),
        copies: usize::from(reference) + usize::from(average),
        trained: match config.model.lora_rank {
            0 => Trained::Full,
            rank => Trained::Adapter(Lora::new(rank, config.model.lora_alpha)),
        },
        weight_bytes: if config.model.dtype == Dtype::Bf16 { 2 } else { 4 },
        recompute: config.model.gradient_checkpointing,
        sequences: rollout.concurrency,
        devices,
        ..Workload::new(rows * devices, prompt, response)
    }
}

/// Rows of so many tokens that fit into one pass on one device, at least one.
pub fn rows_of_a_pass(config: &Config, row_tokens: usize) -> usize {
    (config.batch.micro_tokens / row_tokens.max(1)).max(1)
}

/// Whether an optimiser step takes several passes of so many rows.
pub fn accumulates(config: &Config, rows: usize) -> bool {
    config.batch.mini_rows == 0 || config.batch.mini_rows > rows
}
