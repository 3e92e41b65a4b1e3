//! Losses and advantages for language-model agents: GRPO, GiGPO, GSPO, RLSD and skill distillation (SEED's OPD), on burn tensors.
