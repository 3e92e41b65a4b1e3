//! Every metric with its meaning; `docs/metrics.md` is made from this list.

/// One metric, or a family of metrics with named places in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name; `{place}` stands for one path part.
    pub name: &'static str,
    /// What it is, with its unit.
    pub meaning: &'static str,
    /// What a healthy run shows; empty where there is no rule.
    pub healthy: &'static str,
}

const fn m(name: &'static str, meaning: &'static str, healthy: &'static str) -> Metric {
    Metric { name, meaning, healthy }
}

/// The whole list, group by group.
pub const METRICS: &[Metric] = &[
    m("episode/success", "share of training episodes that reached the goal", "rises"),
    m("episode/reward", "mean episode reward", "rises"),
    m("episode/length", "mean steps of an episode", "falls with success"),
    m(
        "episode/valid_action_ratio",
        "share of steps whose action had the required form",
        "→ 1 in 10–20 updates",
    ),
    m("episode/truncated_ratio", "share of episodes cut by the step limit or the token budget", "falls"),
    m(
        "episode/dead_end_ratio",
        "share of episodes that ended where the goal was out of reach; where the environment can tell (Sokoban)",
        "falls",
    ),
    m("episode/success/{kind}", "the same success for one kind of task", ""),
    m(
        "group/tied_ratio",
        "share of groups whose episodes all have the same reward: no signal for the RL loss",
        "< 0.8",
    ),
    m("group/penalty_only_ratio", "share of groups whose spread comes from penalties alone", "near 0"),
    m("group/dropped", "groups dropped by `rollout.filter_groups`", ""),
    m("rollout/rows", "rows of the update", ""),
    m("rollout/tokens", "tokens of the update, prompts and responses", ""),
    m("rollout/response_tokens", "sampled tokens of the update", ""),
    m("rollout/response_length", "mean sampled tokens of a row", "no growth without success"),
    m("rollout/response_cut_ratio", "share of steps whose response hit its token limit", "near 0"),
    m("rollout/prompt_cut", "prompts that lost something to the budget", "0"),
    m(
        "rollout/logprob_diff_max",
        "largest |engine − trainer| log-probability of a sampled token",
        "< 1e-4 in f32",
    ),
    m("rollout/logprob_diff_mean", "mean of the same", "< 1e-5 in f32; alarm above 0.01"),
    m("skill/requests", "episodes given to the analyzer", ""),
    m("skill/parse_rate", "share of analyses that gave a usable skill", "> 0.9 after stage 1"),
    m("skill/tokens", "mean tokens of an analysis", ""),
    m("skill/words", "mean words of a skill", ""),
    m("skill/distinct_ratio", "distinct skills over skills", "not near 0"),
    m("skill/repetition", "share of repeated word pairs inside a skill", "near 0"),
    m("skill/grounding", "share of named objects and actions of a skill that occur in its episode", "near 1"),
    m(
        "skill/lift_real",
        "mean teacher gap with the episode's own skill, nats, over up to 16 episodes",
        "> lift_shuffled",
    ),
    m("skill/lift_shuffled", "the same with another episode's skill", ""),
    m("skill/lift_empty", "the same with an empty skill", "near 0"),
    m("skill/overflow", "rows without a teacher since the teacher prompt was too long", "0"),
    m("actor/loss", "the joint loss", ""),
    m("actor/pg_loss", "policy loss", "around 0; says little"),
    m("actor/pg_clipfrac", "share of tokens whose upper clip is active", "< 0.2"),
    m("actor/pg_clipfrac_lower", "share of tokens whose dual clip is active", "near 0"),
    m("actor/ppo_kl", "mean ℓ_old − ℓ", "near 0"),
    m("actor/ratio_max_first", "largest |ratio − 1| at the first mini-batch", "< 1e-4 in f32"),
    m("actor/kl_loss", "KL to the reference, by the chosen estimator", "slow growth, < 0.3"),
    m("actor/entropy", "mean entropy of the policy at response tokens, nats", "falls without collapsing"),
    m("actor/grad_norm", "gradient norm before clipping, mean over the optimiser steps", "no spikes"),
    m("actor/lr", "learning rate", ""),
    m("actor/optimizer_steps", "optimiser steps of the update", ""),
    m("opd/loss", "distillation loss; may be negative", "falls, then settles"),
    m("opd/coef", "its weight now", ""),
    m("opd/gate_mean", "mean gate; 0.5: the skill changed nothing", "near 0.5, moving slowly"),
    m("opd/gate_variance", "variance of the gate: the strength of the signal", "> 0"),
    m("opd/gate_active_ratio", "share of counted tokens whose gate is above 0.5", "not stuck at 0 or 1"),
    m("opd/teacher_gap_mean", "mean ℓT − ℓS, nats", "small; very negative: skill outside the template"),
    m("opd/active_token_ratio", "share of response tokens that have a teacher", "near the parse rate"),
    m("advantage/mean", "mean advantage over rows", "near 0"),
    m("advantage/abs_mean", "mean |advantage| over rows", "> 0"),
    m("advantage/max", "largest advantage", ""),
    m("advantage/min", "smallest advantage", ""),
    m("sft/loss", "stage 1: mean negative log-likelihood of response tokens, training records", "falls"),
    m("sft/validation_loss", "the same on validation records", "falls"),
    m("sft/grad_norm", "stage 1: gradient norm before clipping", ""),
    m("sft/lr", "stage 1: learning rate", ""),
    m("sft/records", "stage 1: training records", ""),
    m("sft/rejected", "stage 1: annotations that were rejected", "few"),
    m("sft/over_long", "stage 1: records left out since they are too long", "0"),
    m("sft/parse_rate_before", "stage 1: parse rate of the analyzer before training", ""),
    m("sft/parse_rate", "stage 1: parse rate after training", "above `sft.min_parse_rate`"),
    m("eval/{split}/success", "success over the panel's episodes", "rises"),
    m("eval/{split}/success_by_kind", "unweighted mean over kinds of task", "rises"),
    m("eval/{split}/reward", "mean episode reward on the panel", ""),
    m("eval/{split}/score", "mean score in the environment's own unit", ""),
    m("eval/{split}/length", "mean steps on the panel", "falls"),
    m("eval/{split}/valid_action_ratio", "share of valid steps on the panel", "→ 1"),
    m("eval/{split}/games", "episodes of the panel", ""),
    m("eval/{split}/success/{kind}", "success of one kind of task", ""),
    m("time/rollout", "seconds of collecting episodes", ""),
    m("time/analysis", "seconds of writing skills", "SEED over GRPO ≤ 1.25 in all"),
    m("time/old_logprob", "seconds of the trainer's own log-probabilities", ""),
    m("time/reference", "seconds of reference log-probabilities", ""),
    m("time/teacher", "seconds of teacher log-probabilities", ""),
    m("time/update", "seconds of forward, backward and optimiser", ""),
    m("time/eval", "seconds of evaluation", ""),
    m("time/checkpoint", "seconds of writing a checkpoint", ""),
    m("time/step", "seconds of the whole update", ""),
    m("perf/tokens_per_second", "tokens of the update over its seconds", ""),
    m("perf/decode_tokens_per_second", "sampled tokens over the seconds of collecting", ""),
    m("perf/memory_mib", "resident memory of the process, MiB", "flat"),
];

/// The registered metric that a name belongs to.
pub fn definition(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| {
        let mut pattern = metric.name.split('/');
        let mut parts = name.split('/');
        loop {
            match (pattern.next(), parts.next()) {
                (None, None) => return true,
                (Some(p), Some(n)) if p == n || (p.starts_with('{') && !n.is_empty()) => {}
                _ => return false,
            }
        }
    })
}
