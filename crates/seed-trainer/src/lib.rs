//! The SEED trainer: configuration, hindsight-skill SFT, the GRPO+OPD step, checkpoints, metrics, evaluation.
