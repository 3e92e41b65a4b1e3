//! What each preset and each method sets. Only differences from the built-in defaults stand here.

use super::schema::{EnvName, Method, Preset};
use toml::Value;

/// A key and the value a layer gives it.
pub(super) type Override = (&'static str, Value);

fn set(path: &'static str, value: impl Into<Value>) -> Override {
    (path, value.into())
}

fn text(path: &'static str, value: &str) -> Override {
    (path, Value::String(value.into()))
}

/// What `preset` sets for an environment (algorithms §2.9 and §10).
pub(super) fn overrides(preset: Preset, env: EnvName) -> Vec<Override> {
    let mut all = environment(env);
    match preset {
        Preset::SeedCode => {}
        Preset::SeedPaper => {
            all.extend([
                text("adv.across", "trajectories"),
                text("adv.std", "population"),
                set("adv.std_norm", true),
                text("opd.teacher_refresh", "per_minibatch"),
                text("loss.scope", "minibatch"),
            ]);
            if !is_card_game(env) {
                all.push(set("train.updates", 150));
            }
        }
        Preset::Corrected => {
            all.extend([
                text("adv.across", "trajectories"),
                set("adv.std_floor", 1e-3),
                text("adv.penalty", "advantage"),
                text("loss.scope", "minibatch"),
                text("batch.adjust", "pad"),
                text("rollout.truncation", "drop_history"),
                text("opd.overflow", "drop_history"),
                text("sft.split", "task"),
            ]);
            if !is_card_game(env) {
                all.push(set("train.updates", 150));
            }
            if env == EnvName::SearchQa {
                all.push(text("env.search", "corrected"));
            }
        }
        Preset::SdarBaseline => {
            all.extend([
                text("method", "sdar"),
                set("sft.enabled", false),
                text("rollout.truncation", "error"),
                set("train.updates", 150),
            ]);
            match env {
                EnvName::Alfworld | EnvName::Household => {
                    all.extend([set("env.max_steps", 50), set("env.history", 2)])
                }
                EnvName::SearchQa => {
                    all.extend([
                        text("rollout.truncation", "left"),
                        set("loss.entropy_coef", 0.001),
                        set("batch.mini_rows", 256),
                        set("eval.temperature", 0.0),
                    ]);
                }
                EnvName::Webshop | EnvName::Sokoban => {}
                EnvName::Ezpoints | EnvName::NumberLine | EnvName::Blackjack | EnvName::Points24 => {}
            }
        }
    }
    // The reference splits stage-1 records one by one.
    if matches!(preset, Preset::SeedCode | Preset::SeedPaper) {
        all.push(text("sft.split", "record"));
    }
    all
}

fn is_card_game(env: EnvName) -> bool {
    matches!(env, EnvName::Ezpoints | EnvName::NumberLine | EnvName::Blackjack | EnvName::Points24)
}

/// What the reference's launch files set for an environment.
fn environment(env: EnvName) -> Vec<Override> {
    match env {
        // Its prompts are bare and its responses are commands: there is nothing to think in.
        EnvName::Household => vec![set("rollout.require_think", false)],
        EnvName::Alfworld => {
            vec![("eval.splits", Value::Array(vec!["valid_unseen".into(), "valid_seen".into()]))]
        }
        EnvName::Webshop => vec![
            set("adv.std_norm", false),
            set("env.max_steps", 15),
            set("env.history", 2),
            set("rollout.max_prompt_tokens", 4096),
            set("batch.mini_rows", 64),
            set("sft.max_tokens", 12288),
            ("eval.splits", Value::Array(vec!["test".into()])),
        ],
        EnvName::SearchQa => vec![
            set("env.max_steps", 4),
            set("env.history", 4),
            set("rollout.tasks", 128),
            set("rollout.max_prompt_tokens", 4096),
            set("rollout.invalid_penalty", 0.01),
            set("rollout.require_think", false),
            set("loss.kl_coef", 0.001),
            set("loss.entropy_coef", 0.0),
            set("batch.mini_rows", 512),
            set("optim.warmup_share", 0.1),
            set("train.updates", 150),
            set("eval.every", 0),
            set("sft.max_tokens", 12288),
            ("eval.splits", Value::Array(vec!["test".into()])),
        ],
        EnvName::Sokoban => vec![
            set("env.max_steps", 15),
            set("env.history", 0),
            set("rollout.tasks", 32),
            set("rollout.max_prompt_tokens", 1024),
            text("rollout.truncation", "error"),
            set("batch.mini_rows", 64),
            set("train.updates", 150),
            set("analyzer.context_tokens", 24576),
            set("analyzer.max_tokens", 2048),
            set("sft.temperature", 1.0),
            set("sft.lr", 2e-6),
            set("sft.max_tokens", 4096),
            ("eval.splits", Value::Array(vec!["valid".into()])),
        ],
        // The reference sets EZPoints alone; its siblings differ in the length of an episode.
        EnvName::Ezpoints | EnvName::NumberLine | EnvName::Blackjack | EnvName::Points24 => vec![
            set(
                "env.max_steps",
                match env {
                    EnvName::Ezpoints => 8,
                    EnvName::Points24 => 24,
                    _ => 10,
                },
            ),
            set("env.history", 0),
            set("rollout.max_prompt_tokens", 1024),
            text("rollout.truncation", "error"),
            set("rollout.require_think", false),
            set("batch.mini_rows", 128),
            set("train.updates", 100),
            set("analyzer.max_tokens", 2048),
            set("sft.temperature", 1.0),
            set("sft.lr", 2e-6),
            set("sft.max_tokens", 4096),
            ("eval.splits", Value::Array(vec!["valid".into()])),
        ],
    }
}

/// What `method` stands for (algorithms §3).
pub(super) fn method_overrides(method: Method) -> Vec<Override> {
    let from_library = || [set("sft.enabled", false), text("opd.skills", "library")];
    let mut all = vec![];
    match method {
        Method::Seed => {}
        Method::SeedWithoutSft => all.push(set("sft.enabled", false)),
        Method::SeedWithoutOpd => all.extend([text("opd.skills", "none"), set("opd.coef", 0.0)]),
        Method::SeedWithoutOnPolicySkill => all.push(text("opd.skills", "library")),
        Method::Grpo => {
            all.extend([set("sft.enabled", false), text("opd.skills", "none"), set("opd.coef", 0.0)]);
        }
        Method::SkillGrpo => all.extend([
            set("sft.enabled", false),
            text("opd.skills", "none"),
            set("opd.coef", 0.0),
            set("rollout.skill_in_prompt", true),
        ]),
        Method::Opsd => {
            all.extend(from_library());
            all.push(set("loss.pg_coef", 0.0));
        }
        Method::GrpoOpsd => {
            all.extend(from_library());
            all.push(set("opd.beta", 0.0));
        }
        Method::Sdar => all.extend(from_library()),
        Method::SkillSd => {
            all.extend(from_library());
            all.extend([
                text("opd.form", "k3"),
                set("opd.coef", 0.001),
                text("opd.normalizer", "response_tokens"),
            ]);
        }
        Method::Rlsd => {
            all.extend(from_library());
            all.extend([text("adv.estimator", "rlsd"), set("opd.coef", 0.0)]);
        }
        Method::Gigpo => all.extend([
            set("sft.enabled", false),
            text("opd.skills", "none"),
            set("opd.coef", 0.0),
            text("adv.estimator", "gigpo"),
        ]),
        Method::Opid => all.extend([
            set("sft.enabled", false),
            text("analyzer.weights", "external"),
            text("adv.estimator", "opid"),
            set("opd.coef", 0.0),
        ]),
    }
    all
}
