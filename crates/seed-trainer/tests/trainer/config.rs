//! Layers, origins, messages, presets.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use seed_trainer::config::*;
use std::path::Path;

/// The message of a configuration that must be refused, with its hint.
#[track_caller]
fn refused(text: &str, sets: &[&str], expected: Expect) {
    let layers = Layers::new().text(Path::new("runs/alf.toml"), text).and_then(|l| l.set(sets));
    let error = layers.and_then(Layers::resolve).expect_err("this configuration must be refused");
    let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
    expected.assert_eq(&format!("{error}{hint}"));
}

fn resolve(text: &str, sets: &[&str]) -> Resolved {
    Layers::new().text(Path::new("a.toml"), text).unwrap().set(sets).unwrap().resolve().unwrap()
}

#[test]
fn an_unknown_key_names_file_line_and_neighbour() {
    refused(
        "seed = 1\n\n[opd]\nbta = 5\n",
        &[],
        expect![[r#"
        unknown key `opd.bta` (runs/alf.toml:4)
        hint: did you mean `opd.beta`? `seed config keys opd` lists them"#]],
    );
}

#[test]
fn a_right_name_in_the_wrong_section_is_found() {
    refused(
        "",
        &["loss.micro_tokens=5"],
        expect![[r#"
        unknown key `loss.micro_tokens` (`--set` number 1)
        hint: did you mean `batch.micro_tokens`? `seed config keys loss` lists them"#]],
    );
}

#[test]
fn a_word_far_from_every_key_gets_no_guess() {
    refused(
        "[zzz]\nqqqqq = 1\n",
        &[],
        expect![[r#"
        unknown key `zzz.qqqqq` (runs/alf.toml:2)
        hint: `seed config keys` lists them"#]],
    );
}

#[test]
fn a_wrong_kind_says_what_is_taken() {
    refused(
        "[opd]\nform = \"gated\"\n",
        &[],
        expect![[r#"
        `opd.form` is "gated", expected "gated_gap" | "gated_nll" | "delta" | "importance" | "advantage" | "k3" (runs/alf.toml:2)
        hint: `seed config keys opd.form` says what it means"#]],
    );
    refused(
        "",
        &["rollout.group=many"],
        expect![[r#"
        `rollout.group` is "many", expected whole number (`--set` number 1)
        hint: `seed config keys rollout.group` says what it means"#]],
    );
    refused(
        "seed = -1",
        &[],
        expect![[r#"
        `seed` is -1, expected whole number (runs/alf.toml:1)
        hint: `seed config keys seed` says what it means"#]],
    );
}

#[test]
fn broken_toml_names_the_line() {
    refused("seed = 1\n[opd\nbeta = 5\n", &[], expect!["runs/alf.toml:2: unclosed table, expected `]`"]);
}

#[test]
fn a_set_without_a_value() {
    refused(
        "",
        &["seed=1", "opd.beta"],
        expect!["`opd.beta` sets nothing, expected `section.key=value` (`--set` number 2)"],
    );
}

#[test]
fn every_broken_rule_is_reported_at_once() {
    refused(
        "[loss]\ndual_clip = 0.5\n[rollout]\ngroup = 1\n",
        &["opd.skills=none"],
        expect![[r#"
        `loss.dual_clip`: is 0.5; set more than 1, or 0 for off (runs/alf.toml:2)
        `rollout.group`: is 1: a group of one has no baseline; set at least 2 (runs/alf.toml:4)
        `opd.skills`: is `none`, but the loss or the advantage needs a teacher; set `hindsight` or `library`, or `opd.coef = 0` (`--set` number 1)"#]],
    );
}

#[test]
fn later_layers_win_and_every_value_keeps_its_origin() {
    let layers = Layers::new()
        .text(Path::new("a.toml"), "preset = \"corrected\"\n[opd]\nbeta = 1\ncoef = 0.5\n[optim]\nlr = 1\n")
        .unwrap()
        .variables([("SEED__OPD__BETA".into(), "2".into()), ("SEED_SHARED".into(), "x".into())])
        .unwrap()
        .set(["opd.coef=0.25"])
        .unwrap();
    let resolved = layers.resolve().unwrap();
    let origin = |key: &str| {
        let (value, origin) = resolved.get(key).unwrap();
        format!("{value} {origin}")
    };
    expect![[r#"
        2 environment variable `SEED__OPD__BETA`
        0.25 `--set` number 1
        "minibatch" preset `corrected` for `household`
        1 a.toml:6
        0.999 default"#]]
    .assert_eq(&["opd.beta", "opd.coef", "loss.scope", "optim.lr", "optim.beta2"].map(origin).join("\n"));
    assert_eq!(resolved.config().opd.beta, 2.0);
    assert_eq!(resolved.config().optim.lr, 1.0);
}

#[test]
fn a_text_that_looks_like_a_number_stays_a_text() {
    assert_eq!(resolve("", &["name=17"]).config().run.name, "17");
    assert_eq!(resolve("", &["eval.splits=[\"a\", \"b\"]"]).config().eval.splits, ["a", "b"]);
}

#[test]
fn presets_follow_the_specification_table() {
    let value = |preset: &str, env: &str, key: &str| {
        let sets = [format!("preset={preset}"), format!("env.name={env}")];
        let resolved = Layers::new().set(sets).unwrap().resolve().unwrap();
        resolved.get(key).unwrap().0.to_string()
    };
    // algorithms §10, columns seed_code, seed_paper, corrected.
    let table = [
        ("adv.across", "alfworld", [r#""rows""#, r#""trajectories""#, r#""trajectories""#]),
        ("adv.std", "alfworld", [r#""unbiased""#, r#""population""#, r#""unbiased""#]),
        ("adv.std_norm", "alfworld", ["true", "true", "true"]),
        ("adv.std_norm", "webshop", ["false", "true", "false"]),
        ("adv.std_floor", "alfworld", ["0.0", "0.0", "0.001"]),
        ("opd.teacher_refresh", "alfworld", [r#""per_step""#, r#""per_minibatch""#, r#""per_step""#]),
        ("opd.gate_logprob", "alfworld", [r#""current""#; 3]),
        ("opd.normalizer", "alfworld", [r#""opd_tokens""#; 3]),
        ("loss.scope", "alfworld", [r#""microbatch""#, r#""minibatch""#, r#""minibatch""#]),
        ("train.updates", "alfworld", ["160", "150", "150"]),
        ("train.updates", "ezpoints", ["100", "100", "100"]),
        ("loss.entropy_coef", "alfworld", ["0.001", "0.001", "0.001"]),
        ("loss.entropy_coef", "search_qa", ["0.0", "0.0", "0.0"]),
        ("sft.split", "alfworld", [r#""record""#, r#""record""#, r#""task""#]),
        ("env.max_steps", "alfworld", ["30"; 3]),
        ("env.history", "webshop", ["2"; 3]),
        ("loss.kl_coef", "search_qa", ["0.001"; 3]),
    ];
    for (key, env, expected) in table {
        let found = ["seed_code", "seed_paper", "corrected"].map(|preset| value(preset, env, key));
        assert_eq!(found, expected, "{key} for {env}");
    }
    assert_eq!(value("corrected", "alfworld", "batch.adjust"), r#""pad""#);
    assert_eq!(value("seed_code", "alfworld", "batch.adjust"), r#""copy""#);
    // The baselines were run with 50 steps and history 2.
    assert_eq!(value("sdar_baseline", "alfworld", "env.max_steps"), "50");
    assert_eq!(value("sdar_baseline", "alfworld", "env.history"), "2");
    assert_eq!(value("sdar_baseline", "alfworld", "opd.skills"), r#""library""#);
}

#[test]
fn several_devices_have_one_worker_each() {
    for device in ["cpu,cpu", "cuda:all"] {
        let sets = [format!("device={device}"), "workers=3".to_owned()];
        let error = Layers::new().set(sets).unwrap().resolve().unwrap_err().to_string();
        assert!(error.contains("workers") && error.contains("is 3"), "{error}");
    }
    Layers::new().set(["device=cpu,cpu"]).unwrap().resolve().unwrap();
}

#[test]
fn every_preset_and_method_is_valid_for_every_environment() {
    for preset in Preset::ALL {
        for method in Method::ALL {
            for env in EnvName::ALL {
                let sets =
                    [format!("preset={preset}"), format!("method={method}"), format!("env.name={env}")];
                let layers = Layers::new().set(&sets).unwrap().set(["annotator.kind=scripted"]).unwrap();
                layers.resolve().unwrap_or_else(|error| panic!("{sets:?}: {error}"));
            }
        }
    }
}

#[test]
fn a_method_that_was_asked_for_beats_the_one_of_the_preset() {
    let config = resolve("preset = \"sdar_baseline\"\nmethod = \"grpo\"", &[]).config().clone();
    assert_eq!(config.run.method, Method::Grpo);
    assert_eq!(config.opd.coef, 0.0);
    let config = resolve("preset = \"sdar_baseline\"", &[]).config().clone();
    assert_eq!((config.run.method, config.opd.skills), (Method::Sdar, SkillSource::Library));
}

#[test]
fn the_resolved_file_reads_back_to_the_same_values() {
    let resolved =
        resolve("preset = \"corrected\"\n[env]\nname = \"webshop\"\n", &["optim.lr=3e-4", "name=a \"b\""]);
    let again = Layers::new().text(Path::new("config.toml"), &resolved.to_toml()).unwrap().resolve().unwrap();
    assert!(again.differences(&resolved).is_empty());
    assert!(resolved.to_toml().contains("lr = 0.0003  # `--set` number 1\n"));
}

#[test]
fn the_reference_page_is_up_to_date() {
    let page = crate::policy::workspace().join("docs/configuration.md");
    crate::files::generated_part(&page, "keys", &seed_trainer::reference::configuration_keys());
    crate::files::generated_part(&page, "presets", &seed_trainer::reference::presets());
}

proptest! {
    /// Whatever stands in a file: a message or a configuration, never a panic.
    #[test]
    fn no_text_makes_it_panic(text in "[a-z_.=\\[\\]\"'0-9 \n#{},-]{0,80}") {
        let _ = Layers::new().text(Path::new("x"), &text).and_then(Layers::resolve);
    }

    #[test]
    fn numbers_survive_the_round_trip(lr in 1e-12f64..1.0, seed in 0u64..u64::MAX / 2) {
        let resolved = Layers::new().set([format!("optim.lr={lr:e}"), format!("seed={seed}")]).unwrap().resolve().unwrap();
        let again = Layers::new().text(Path::new("c"), &resolved.to_toml()).unwrap().resolve().unwrap();
        prop_assert_eq!(again.config().optim.lr, lr);
        prop_assert_eq!(again.config().run.seed, seed);
    }
}
