//! One function per kind of case.

use crate::case::{Case, Environment, extent, flags, gradient, host, ids, items, labels, numbers, rectangle};
use crate::logits::{entropy, selected_logprob};
use burn::tensor::Tensor;
use seed_core::advantage::{
    Across, GigpoConfig, GigpoRows, GroupAdvantage, OpidAdvantage, RlsdConfig, SkillGap, SkillRouting,
    gigpo_advantage, group_advantage, invalid_action_penalty, opid_advantage, rloo_advantage, rlsd_advantage,
};
use seed_core::aggregate::{aggregate_over, token_weights};
use seed_core::batch::{position_ids, response_mask, row_adjustment};
use seed_core::distill::{
    Gate, OpdConfig, OpdForm, OpdInputs, OpdNormalizer, OpdOutput, SkillSdCaps, opd_loss,
};
use seed_core::kl::{KlConfig, kl_tokens};
use seed_core::objective::{KlTerm, OpdTerm};
use seed_core::policy_loss::{ClipConfig, clipped_policy_loss, gspo_policy_loss};
use seed_core::sft::{sft_loss, shifted_loss_mask};
use seed_core::theory::opd_expected_update;
use seed_core::{
    Aggregation, InputError, Normalizer, ObjectiveConfig, ObjectiveInputs, Schedule, Scope, Teacher,
    TokenRows, aggregate, joint_objective,
};

type Outcome = Result<(), String>;

fn text(error: InputError) -> String {
    error.to_string()
}

/// Kinds without a tensor are computed in double precision only.
pub(crate) fn works_on_slices(kind: &str) -> bool {
    matches!(
        kind,
        "group_advantage"
            | "rloo_advantage"
            | "invalid_action_penalty"
            | "gigpo_advantage"
            | "opd_expected_update"
            | "opid_advantage"
            | "rlsd_advantage"
            | "rlsd_lambda_schedule"
            | "response_mask"
            | "position_ids"
            | "batch_adjust"
    )
}

pub(crate) fn run(case: &Case<'_>, environment: &Environment) -> Outcome {
    match case.kind() {
        "group_advantage" => group(case),
        "rloo_advantage" => rloo(case),
        "invalid_action_penalty" => penalty(case),
        "gigpo_advantage" => gigpo(case),
        "policy_loss" => policy(case, environment),
        "gspo_loss" => gspo(case, environment),
        "kl" => kl(case, environment),
        "aggregate" => aggregations(case, environment),
        "aggregate_microbatches" => microbatches(case, environment),
        "selected_logprob" => selected(case, environment),
        "entropy" => entropies(case, environment),
        "opd_loss" => opd(case, environment),
        "opd_from_logits" => opd_from_logits(case, environment),
        "opd_expected_update" => expected_update(case),
        "opid_loss" => opid(case, environment),
        "opid_advantage" => opid_advantages(case),
        "skill_sd_loss" => skill_sd(case, environment),
        "rlsd_advantage" => rlsd(case),
        "rlsd_lambda_schedule" => rlsd_schedule(case),
        "joint_loss" => joint(case, environment),
        "sft_loss" => sft(case, environment),
        "response_mask" => response_masks(case),
        "position_ids" => positions(case),
        "batch_adjust" => adjust(case),
        unknown => Err(format!("unknown kind `{unknown}`")),
    }?;
    case.finish()
}

fn tokens(case: &Case<'_>, environment: &Environment, name: &str) -> Result<Tensor<1>, String> {
    Ok(environment.tokens(numbers(case.input(name)?)))
}

fn leaf(case: &Case<'_>, environment: &Environment, name: &str) -> Result<Tensor<1>, String> {
    Ok(tokens(case, environment, name)?.require_grad())
}

fn rows(case: &Case<'_>, environment: &Environment) -> Result<TokenRows, String> {
    rectangle(case.input("mask")?, environment)
}

/// `[rows][tokens][vocabulary]` as a leaf `[tokens, vocabulary]`.
fn logits(case: &Case<'_>, environment: &Environment, name: &str) -> Result<Tensor<2>, String> {
    let value = case.input(name)?;
    let vocabulary = extent(value, 2);
    let values = numbers(value);
    let shape = [values.len() / vocabulary.max(1), vocabulary];
    Ok(environment.tensor(values, shape).require_grad())
}

fn group(case: &Case<'_>) -> Outcome {
    let config = GroupAdvantage {
        across: case.switch("statistics_across")?,
        std: case.switch("std")?,
        std_norm: case.flag("std_norm")?,
        eps: case.number("eps")?,
        std_floor: case.number_or("std_floor", 0.0)?,
    };
    let (groups, trajectories) = (labels(case.input("uid")?), labels(case.input("traj_uid")?));
    let found =
        group_advantage(&numbers(case.input("row_score")?), &groups, &trajectories, &config).map_err(text)?;
    case.check("expected/advantage", &found)
}

fn rloo(case: &Case<'_>) -> Outcome {
    let (groups, trajectories) = (labels(case.input("uid")?), labels(case.input("traj_uid")?));
    let scores = numbers(case.input("row_score")?);
    let found =
        rloo_advantage(&scores, &groups, &trajectories, case.switch_or("statistics_across", Across::Rows)?)
            .map_err(text)?;
    case.check("expected/advantage", &found)
}

fn penalty(case: &Case<'_>) -> Outcome {
    let rewards = numbers(case.input("episode_reward")?);
    let valid = flags(case.input("is_action_valid")?);
    case.check(
        "expected/row_score",
        &invalid_action_penalty(&rewards, &valid, case.number("coef")?).map_err(text)?,
    )
}

fn gigpo(case: &Case<'_>) -> Outcome {
    let config = GigpoConfig {
        gamma: case.number("gamma")?,
        step_weight: case.number("step_advantage_w")?,
        std_norm: match case.config("mode")?.as_str() {
            Some("mean_norm") => false,
            Some("mean_std_norm") => true,
            other => return Err(format!("unknown mode {other:?}")),
        },
        std: case.switch("std")?,
        eps: case.number("eps")?,
        across: case.switch_or("statistics_across", Across::Rows)?,
    };
    let (step_reward, episode_score) =
        (numbers(case.input("step_reward")?), numbers(case.input("episode_score")?));
    let (groups, trajectories) = (labels(case.input("uid")?), labels(case.input("traj_uid")?));
    let anchors = labels(case.input("anchor_obs")?);
    let found = gigpo_advantage(
        &GigpoRows {
            step_reward: &step_reward,
            episode_score: &episode_score,
            groups: &groups,
            trajectories: &trajectories,
            anchors: &anchors,
        },
        &config,
    )
    .map_err(text)?;
    case.check("expected/step_return", &found.step_return)?;
    case.check_partition("expected/anchor_group", &found.anchor_group)?;
    case.check("expected/episode_advantage", &found.episode_advantage)?;
    case.check("expected/step_advantage", &found.step_advantage)?;
    case.check("expected/advantage", &found.advantage)
}

fn clip(case: &Case<'_>) -> Result<ClipConfig, String> {
    Ok(ClipConfig {
        low: case.number("clip_low")?,
        high: case.number("clip_high")?,
        dual: case.optional_number("dual_clip_c")?,
    })
}

fn token_mean(values: Tensor<1>, rows: &TokenRows) -> Result<Vec<f64>, String> {
    Ok(host(aggregate(values, rows, Aggregation::TokenMean).map_err(text)?))
}

fn policy(case: &Case<'_>, environment: &Environment) -> Outcome {
    let rows = rows(case, environment)?;
    let compute = || -> Result<_, String> {
        let logp = leaf(case, environment, "logp")?;
        let found = clipped_policy_loss(
            logp.clone(),
            tokens(case, environment, "old_logp")?,
            tokens(case, environment, "advantage")?,
            &rows,
            &clip(case)?,
        )
        .map_err(text)?;
        Ok((logp, found))
    };
    let (_, found) = compute()?;
    case.tensor("expected/ratio", found.ratio)?;
    case.tensor("expected/token_loss", found.loss)?;
    case.check("expected/pg_clipfrac", &token_mean(found.clipped, &rows)?)?;
    case.check("expected/pg_clipfrac_lower", &token_mean(found.clipped_lower, &rows)?)?;
    case.check("expected/ppo_kl", &token_mean(found.approx_kl, &rows)?)?;
    for name in case.expected_names("expected/loss") {
        let aggregation: Aggregation = name.parse().map_err(text)?;
        let (logp, found) = compute()?;
        let loss = aggregate(found.loss, &rows, aggregation).map_err(text)?;
        case.tensor(&format!("expected/loss/{name}"), loss.clone())?;
        case.check(&format!("grad/logp/{name}"), &gradient(loss, &logp))?;
    }
    Ok(())
}

fn gspo(case: &Case<'_>, environment: &Environment) -> Outcome {
    let rows = rows(case, environment)?;
    let logp = leaf(case, environment, "logp")?;
    let (found, sequence_ratio) = gspo_policy_loss(
        logp.clone(),
        tokens(case, environment, "old_logp")?,
        tokens(case, environment, "advantage")?,
        &rows,
        &clip(case)?,
    )
    .map_err(text)?;
    case.tensor("expected/sequence_ratio", sequence_ratio)?;
    case.check("expected/pg_clipfrac", &token_mean(found.clipped, &rows)?)?;
    let aggregation = case.switch_or("agg", Aggregation::SeqMeanTokenMean)?;
    let loss = aggregate(found.loss, &rows, aggregation).map_err(text)?;
    case.tensor("expected/loss", loss.clone())?;
    case.check("grad/logp", &gradient(loss, &logp))
}

fn kl(case: &Case<'_>, environment: &Environment) -> Outcome {
    let rows = rows(case, environment)?;
    let bounds = match case.optional_config("k3_clamp").map(numbers).as_deref() {
        Some(&[low, high]) => (low, high),
        Some(other) => return Err(format!("`k3_clamp` is {other:?}, expected two bounds")),
        None => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let aggregation: Aggregation = case.switch("agg")?;
    for name in case.expected_names("expected") {
        let config = KlConfig { estimator: name.parse().map_err(text)?, k3_clamp: bounds };
        let logp = leaf(case, environment, "logp")?;
        let found =
            kl_tokens(logp.clone(), tokens(case, environment, "ref_logp")?, &rows, &config).map_err(text)?;
        case.tensor(&format!("expected/{name}/token"), found.clone())?;
        let loss = aggregate(found, &rows, aggregation).map_err(text)?;
        case.tensor(&format!("expected/{name}/token_mean"), loss.clone())?;
        case.check(&format!("grad/logp/{name}"), &gradient(loss, &logp))?;
    }
    Ok(())
}

fn aggregations(case: &Case<'_>, environment: &Environment) -> Outcome {
    let rows = rows(case, environment)?;
    for name in case.expected_names("expected") {
        let aggregation: Aggregation = name.parse().map_err(text)?;
        let values = leaf(case, environment, "token_loss")?;
        let loss = aggregate(values.clone(), &rows, aggregation).map_err(text)?;
        case.tensor(&format!("expected/{name}"), loss.clone())?;
        case.check(&format!("grad/{name}"), &gradient(loss, &values))?;
        let weights = token_weights(aggregation, &rows, &rows, &Normalizer::of(&rows)).map_err(text)?;
        case.check(&format!("grad/{name}"), &weights)?;
    }
    Ok(())
}

fn microbatches(case: &Case<'_>, environment: &Environment) -> Outcome {
    let (mask, values) = (items(case.input("mask")?)?, items(case.input("token_loss")?)?);
    let (size, accumulation) = (case.count("micro_batch_rows")?, case.count("gradient_accumulation")?);
    let parts: Vec<(Vec<f64>, TokenRows)> = mask
        .chunks(size)
        .zip(values.chunks(size))
        .map(|(mask, values)| {
            let mask = serde_json::Value::from(mask.to_vec());
            Ok((values.iter().flat_map(numbers).collect(), rectangle(&mask, environment)?))
        })
        .collect::<Result<_, String>>()?;
    let mut whole = Normalizer::default();
    for (_, rows) in &parts {
        whole.merge(&Normalizer::of(rows));
    }
    let mut means = Vec::new();
    let mut global = 0.0;
    let (mut weights_of_means, mut weights_global) = (Vec::new(), Vec::new());
    for (values, rows) in &parts {
        let leaf = environment.tokens(values.clone()).require_grad();
        let mean = aggregate(leaf.clone(), rows, Aggregation::TokenMean).map_err(text)?;
        means.extend(host(mean.clone()));
        weights_of_means.extend(gradient(mean * (accumulation as f64).recip(), &leaf));
        let leaf = environment.tokens(values.clone()).require_grad();
        let share = aggregate_over(leaf.clone(), rows, Aggregation::TokenMean, &whole).map_err(text)?;
        global += host(share.clone())[0];
        weights_global.extend(gradient(share, &leaf));
    }
    case.check("expected/per_microbatch_mean", &means)?;
    case.check("expected/mean_of_microbatch_means", &[means.iter().sum::<f64>() / accumulation as f64])?;
    case.check("expected/global_token_mean", &[global])?;
    case.check("expected/token_weight_mean_of_means", &weights_of_means)?;
    case.check("expected/token_weight_global", &weights_global)
}

fn selected(case: &Case<'_>, environment: &Environment) -> Outcome {
    let logits = logits(case, environment, "logits")?;
    let logp = selected_logprob(logits.clone(), &ids(case.input("tokens")?), case.number("temperature")?);
    case.tensor("expected/logp", logp.clone())?;
    let rows = TokenRows::full(&[logp.dims()[0]]);
    let upstream = rows.tensor(&numbers(case.input("upstream")?), &logp);
    let sum = (logp * upstream).sum();
    case.tensor("expected/weighted_sum", sum.clone())?;
    case.check("grad/logits", &gradient(sum, &logits))
}

fn entropies(case: &Case<'_>, environment: &Environment) -> Outcome {
    let logits = logits(case, environment, "logits")?;
    let found = entropy(logits.clone());
    case.tensor("expected/token_entropy", found.clone())?;
    let mean = aggregate(found, &rows(case, environment)?, case.switch("agg")?).map_err(text)?;
    case.tensor("expected/token_mean", mean.clone())?;
    case.check("grad/logits", &gradient(mean, &logits))
}

/// The switches that every form shares, where a case sets them.
fn opd_switches(case: &Case<'_>) -> Result<OpdConfig, String> {
    let default = OpdConfig::default();
    Ok(OpdConfig {
        form: case.switch_or("form", default.form)?,
        delta_clip: case.optional_number("delta_clip")?,
        gate_logprob: case.switch_or("gate_logprob", default.gate_logprob)?,
        normalizer: case.switch_or("normalizer", default.normalizer)?,
        importance: case.switch_or("importance", default.importance)?,
        gate_center: case
            .optional_config("gate_center")
            .and_then(serde_json::Value::as_bool)
            .unwrap_or(false),
        ..default
    })
}

fn opd_config(case: &Case<'_>) -> Result<OpdConfig, String> {
    Ok(OpdConfig { gate: Gate::SigmoidGap { beta: case.number("beta")? }, ..opd_switches(case)? })
}

/// Runs a distillation loss on `logp`, reading everything else from the case.
fn distill(
    case: &Case<'_>,
    environment: &Environment,
    logp: Tensor<1>,
    teacher_logp: Tensor<1>,
    config: &OpdConfig,
) -> Result<OpdOutput, String> {
    let rows = rows(case, environment)?;
    let row_mask = case.optional_input("row_mask").map(flags);
    let token_mask = case.optional_input("token_mask").map(flags);
    let old_logp = case.optional_input("old_logp").map(|old_logp| environment.tokens(numbers(old_logp)));
    let inputs = OpdInputs {
        logp,
        teacher_logp,
        old_logp,
        entropy: None,
        rows: &rows,
        row_mask: row_mask.as_deref(),
        token_mask: token_mask.as_deref(),
    };
    opd_loss(inputs, config, case.switch("agg")?).map_err(text)
}

fn opd(case: &Case<'_>, environment: &Environment) -> Outcome {
    let logp = leaf(case, environment, "logp")?;
    let teacher = leaf(case, environment, "teacher_logp")?;
    let found = distill(case, environment, logp.clone(), teacher.clone(), &opd_config(case)?)?;
    case.tensor("expected/gap", found.gap)?;
    case.tensor("expected/gate", found.weight)?;
    case.tensor("expected/loss", found.loss.clone())?;
    let metrics = found.diagnostics.read();
    for (ours, theirs) in [
        ("opd/active_token_ratio", "opd_active_token_ratio"),
        ("opd/gate_mean", "opd_gate_mean"),
        ("opd/gate_active_ratio", "opd_gate_active_ratio"),
        ("opd/gap_mean", "opd_teacher_gap_mean"),
    ] {
        let value = metrics.get(ours).ok_or_else(|| format!("no metric `{ours}`"))?;
        case.check(&format!("expected/{theirs}"), &[value])?;
    }
    let gradients = found.loss.backward();
    if teacher.grad(&gradients).is_some_and(|gradient| host(gradient).iter().any(|&x| x != 0.0)) {
        return Err("the teacher carries gradient".to_owned());
    }
    case.check("grad/logp", &host(logp.grad(&gradients).ok_or("no gradient for `logp`")?))
}

fn opd_from_logits(case: &Case<'_>, environment: &Environment) -> Outcome {
    let sampled = ids(case.input("tokens")?);
    let student = logits(case, environment, "student_logits")?;
    let teacher = logits(case, environment, "teacher_logits")?;
    let temperature = case.number_or("temperature", 1.0)?;
    let logp = selected_logprob(student.clone(), &sampled, temperature);
    let teacher_logp = selected_logprob(teacher.clone(), &sampled, temperature);
    case.tensor("expected/logp", logp.clone())?;
    case.tensor("expected/teacher_logp", teacher_logp.clone())?;
    let found = distill(case, environment, logp, teacher_logp, &opd_config(case)?)?;
    case.tensor("expected/gate", found.weight)?;
    case.tensor("expected/loss", found.loss.clone())?;
    let gradients = found.loss.backward();
    let zeros = vec![0.0; teacher.shape().num_elements()];
    case.check("grad/teacher_logits", &teacher.grad(&gradients).map_or(zeros, host))?;
    case.check("grad/student_logits", &host(student.grad(&gradients).ok_or("no gradient for the student")?))
}

fn expected_update(case: &Case<'_>) -> Outcome {
    let (student, teacher) = (numbers(case.input("student_logits")?), numbers(case.input("teacher_logits")?));
    let found = opd_expected_update(&student, &teacher, case.number("beta")?).map_err(text)?;
    case.check("expected/pi", &found.policy)?;
    case.check("expected/gate", &found.gate)?;
    case.check("expected/gate_mean", &[found.gate_mean])?;
    case.check("expected/gate_variance", &[found.gate_variance])?;
    case.check("expected/target", &found.target)?;
    case.check("expected/relative_credit", &found.relative_credit)?;
    case.check("expected/expected_grad_logits", &found.gradient)?;
    case.check("expected/grad_l2", &[found.gradient_norm])?;
    case.check("expected/gate_abs_deviation_bound", &[found.gate_deviation_bound])
}

fn opid(case: &Case<'_>, environment: &Environment) -> Outcome {
    let config = OpdConfig {
        form: match case.switch("weight_mode")? {
            form @ (OpdForm::Delta | OpdForm::Importance) => form,
            other => return Err(format!("`{other}` is no form of OPID's loss")),
        },
        delta_clip: case.optional_number("clip")?,
        ..opd_switches(case)?
    };
    let logp = leaf(case, environment, "logp")?;
    let found =
        distill(case, environment, logp.clone(), tokens(case, environment, "teacher_logp")?, &config)?;
    case.tensor("expected/weight", found.weight)?;
    case.tensor("expected/loss", found.loss.clone())?;
    case.check("grad/logp", &gradient(found.loss, &logp))
}

fn skill_sd(case: &Case<'_>, environment: &Environment) -> Outcome {
    let config = OpdConfig {
        form: OpdForm::K3,
        // Skill-SD averages over all response tokens.
        normalizer: case.switch_or("normalizer", OpdNormalizer::ResponseTokens)?,
        skill_sd_caps: SkillSdCaps {
            log_ratio: case.number("log_ratio_cap")?,
            gap: case.number("neg_gap_cap")?,
        },
        ..OpdConfig::default()
    };
    let logp = leaf(case, environment, "logp")?;
    let found =
        distill(case, environment, logp.clone(), tokens(case, environment, "teacher_logp")?, &config)?;
    case.tensor("expected/token_loss", found.token_loss)?;
    case.tensor("expected/loss", found.loss.clone())?;
    case.check("grad/logp", &gradient(found.loss, &logp))
}

/// A rectangle mask on the host.
fn host_rows(case: &Case<'_>) -> Result<TokenRows, String> {
    let mask = case.input("mask")?;
    TokenRows::packed(&vec![extent(mask, 1); extent(mask, 0)], &flags(mask)).map_err(text)
}

fn opid_advantages(case: &Case<'_>) -> Outcome {
    let config = OpidAdvantage {
        episode_weight: case.number("episode_w")?,
        step_weight: case.number("step_w")?,
        normalize: case.flag("normalize")?,
        clip: case.optional_number("clip")?,
        routing: case.switch_or("routing", SkillRouting::Additive)?,
    };
    let (episode_logp, step_logp) =
        (numbers(case.input("episode_teacher_logp")?), numbers(case.input("step_teacher_logp")?));
    let (episode_rows, step_rows) =
        (flags(case.input("episode_row_mask")?), flags(case.input("step_row_mask")?));
    let found = opid_advantage(
        &numbers(case.input("episode_advantage")?),
        &numbers(case.input("old_logp")?),
        Some(SkillGap { teacher_logp: &episode_logp, row_mask: &episode_rows }),
        Some(SkillGap { teacher_logp: &step_logp, row_mask: &step_rows }),
        &host_rows(case)?,
        &config,
    )
    .map_err(text)?;
    case.check("expected/advantage", &found)
}

fn rlsd(case: &Case<'_>) -> Outcome {
    let config = RlsdConfig { lambda: case.number("lambda")?, clip_eps: case.number("clip_eps")? };
    let found = rlsd_advantage(
        &numbers(case.input("sequence_advantage")?),
        &numbers(case.input("old_logp")?),
        &numbers(case.input("teacher_logp")?),
        &host_rows(case)?,
        case.optional_input("row_mask").map(flags).as_deref(),
        &config,
    )
    .map_err(text)?;
    case.check("expected/token_weight", &found.token_weight)?;
    case.check("expected/advantage", &found.advantage)
}

fn rlsd_schedule(case: &Case<'_>) -> Outcome {
    let schedule = Schedule::WarmDown { steps: case.count("warmdown_steps")? as u64 };
    let lambda0 = case.number("lambda0")?;
    let found: Vec<f64> =
        numbers(case.input("step")?).into_iter().map(|step| lambda0 * schedule.factor(step as u64)).collect();
    case.check("expected/lambda", &found)
}

fn joint(case: &Case<'_>, environment: &Environment) -> Outcome {
    let config = ObjectiveConfig {
        clip: clip(case)?,
        entropy_coef: case.number("entropy_coef")?,
        kl: Some(KlTerm { coef: case.number("kl_coef")?, config: KlConfig::new(case.switch("kl")?) }),
        opd: Some(OpdTerm {
            coef: case.number("opd_coef")?,
            config: OpdConfig {
                gate: Gate::SigmoidGap { beta: case.number("beta")? },
                normalizer: case.switch("opd_normalizer")?,
                ..OpdConfig::default()
            },
        }),
        aggregation: case.switch("agg")?,
        ..ObjectiveConfig::seed()
    };
    let rows = rows(case, environment)?;
    let row_mask = case.optional_input("row_mask").map(flags);
    let token_mask = case.optional_input("token_mask").map(flags);
    let logits = logits(case, environment, "logits")?;
    let found = joint_objective(
        &config,
        ObjectiveInputs {
            logp: selected_logprob(logits.clone(), &ids(case.input("tokens")?), 1.0),
            old_logp: tokens(case, environment, "old_logp")?,
            advantage: tokens(case, environment, "advantage")?,
            rows: &rows,
            ref_logp: Some(tokens(case, environment, "ref_logp")?),
            entropy: Some(entropy(logits.clone())),
            teacher: Some(Teacher {
                logp: tokens(case, environment, "teacher_logp")?,
                row_mask: row_mask.as_deref(),
                token_mask: token_mask.as_deref(),
            }),
        },
        Scope::whole_batch(),
    )
    .map_err(text)?;
    let metrics = found.diagnostics.read();
    for (ours, theirs) in [
        ("loss", "loss"),
        ("pg/loss", "pg_loss"),
        ("kl/loss", "kl_loss"),
        ("entropy", "entropy"),
        ("opd/loss", "opd_loss"),
        ("pg/clip_fraction", "pg_clipfrac"),
        ("pg/clip_fraction_lower", "pg_clipfrac_lower"),
        ("pg/approx_kl", "ppo_kl"),
        ("opd/active_token_ratio", "opd_active_token_ratio"),
        ("opd/gate_mean", "opd_gate_mean"),
        ("opd/gate_active_ratio", "opd_gate_active_ratio"),
        ("opd/gap_mean", "opd_teacher_gap_mean"),
    ] {
        let value = metrics.get(ours).ok_or_else(|| format!("no metric `{ours}`"))?;
        case.check(&format!("expected/{theirs}"), &[value])?;
    }
    case.tensor("expected/loss", found.loss.clone())?;
    case.check("grad/logits", &gradient(found.loss, &logits))
}

fn sft(case: &Case<'_>, environment: &Environment) -> Outcome {
    let value = case.input("logits")?;
    let input_ids = ids(case.input("input_ids")?);
    let prompt = case.input("prompt_len")?.as_u64().ok_or("`prompt_len` is no count")? as usize;
    let [length, vocabulary] = [extent(value, 0), extent(value, 1)];
    let logits = environment.tensor(numbers(value), [length, vocabulary]).require_grad();
    let mask = shifted_loss_mask(length, prompt);
    case.check_exact(
        "expected/shifted_loss_mask",
        &mask.iter().map(|&m| usize::from(m)).collect::<Vec<_>>(),
    )?;
    // The last position predicts nothing: it gets any target and does not count.
    let targets: Vec<u32> = input_ids.iter().skip(1).copied().chain([0]).collect();
    let counted: Vec<bool> = mask.into_iter().chain([false]).collect();
    let rows = TokenRows::packed(&[length], &counted).map_err(text)?;
    let logp = selected_logprob(logits.clone(), &targets, 1.0);
    let loss = sft_loss(logp, &rows, None).map_err(text)?;
    case.tensor("expected/loss", loss.clone())?;
    case.check("grad/logits", &gradient(loss, &logits))
}

fn response_masks(case: &Case<'_>) -> Outcome {
    let end = ids(case.input("eos_ids")?);
    let found: Vec<usize> = items(case.input("response_ids")?)?
        .iter()
        .flat_map(|response| response_mask(&ids(response), &end))
        .map(usize::from)
        .collect();
    case.check_exact("expected/mask", &found)
}

fn positions(case: &Case<'_>) -> Outcome {
    let found: Vec<usize> =
        items(case.input("attention_mask")?)?.iter().flat_map(|mask| position_ids(&flags(mask))).collect();
    case.check_exact("expected/position_ids", &found)
}

fn adjust(case: &Case<'_>) -> Outcome {
    let input = |name: &str| {
        case.input(name)?.as_u64().map(|n| n as usize).ok_or_else(|| format!("input `{name}` is no count"))
    };
    let world = input("world_size")?;
    let chunks =
        [input("ref_micro")? * world, input("rollout_micro")? * world, input("actor_micro")? * world];
    let found = row_adjustment(input("rows")?, &chunks).map_err(text)?;
    case.check_exact("expected/divisor", &[found.divisor])?;
    case.check_exact("expected/rows_to_add", &[found.rows_to_add])?;
    case.check_exact("expected/rows_to_drop", &[found.rows_to_drop])
}
