//! The `seed` command: train, sft, eval, rollout, replay, report, play.

fn main() {}
