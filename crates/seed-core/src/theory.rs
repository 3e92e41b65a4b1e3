//! What the gated distillation does in expectation, at one context: the results of the paper's appendix A as numbers.
//!
//! These work on one vocabulary at a time and are meant for diagnostics and tests.

use crate::error::{InputError, finite, same_length, setting};

/// The expected OPD update at one context; vectors have one entry per token of the vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedUpdate {
    /// The policy p = softmax(student logits).
    pub policy: Vec<f64>,
    /// Gate w(v) = σ(β (log p_T(v) − log p(v))) of every candidate token.
    pub gate: Vec<f64>,
    /// w̄, the expectation of w under p.
    pub gate_mean: f64,
    /// Var_p(w): zero exactly when the update is.
    pub gate_variance: f64,
    /// Skill-reweighted target q = p w / w̄.
    pub target: Vec<f64>,
    /// w − w̄: positive where the update promotes a token, negative where it demotes one.
    pub relative_credit: Vec<f64>,
    /// Expectation under p of the gradient of −w(v) log p(v) on the logits: −p (w − w̄) = w̄ (p − q).
    pub gradient: Vec<f64>,
    /// Euclidean norm of `gradient`.
    pub gradient_norm: f64,
    /// β/4 · max |log p_T − log p|, which bounds |w − ½| (Proposition 3).
    pub gate_deviation_bound: f64,
}

/// The expected OPD update from the logits of both branches.
pub fn opd_expected_update(
    student_logits: &[f64],
    teacher_logits: &[f64],
    beta: f64,
) -> Result<ExpectedUpdate, InputError> {
    same_length("teacher_logits", teacher_logits.len(), student_logits.len(), "token of the vocabulary")?;
    setting("student_logits", 0.0, !student_logits.is_empty(), "at least one entry")?;
    finite("student_logits", student_logits)?;
    finite("teacher_logits", teacher_logits)?;
    setting("beta", beta, beta >= 0.0 && beta.is_finite(), "a number >= 0")?;
    let student = log_softmax(student_logits);
    let gaps: Vec<f64> = log_softmax(teacher_logits).iter().zip(&student).map(|(t, s)| t - s).collect();
    let policy: Vec<f64> = student.iter().map(|logp| logp.exp()).collect();
    let gate: Vec<f64> = gaps.iter().map(|gap| sigmoid(beta * gap)).collect();
    let expect = |f: &dyn Fn(usize) -> f64| (0..policy.len()).map(|v| policy[v] * f(v)).sum::<f64>();
    let gate_mean = expect(&|v| gate[v]);
    let relative_credit: Vec<f64> = gate.iter().map(|w| w - gate_mean).collect();
    let gate_variance = expect(&|v| relative_credit[v].powi(2));
    // Gates that all underflow are constant: nothing is reweighted.
    let target =
        policy.iter().zip(&gate).map(|(p, w)| if gate_mean > 0.0 { p * w / gate_mean } else { *p }).collect();
    let gradient: Vec<f64> = policy.iter().zip(&relative_credit).map(|(p, credit)| -p * credit).collect();
    let gradient_norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    let gate_deviation_bound = gate_deviation_bound(beta, &gaps);
    Ok(ExpectedUpdate {
        policy,
        gate,
        gate_mean,
        gate_variance,
        target,
        relative_credit,
        gradient,
        gradient_norm,
        gate_deviation_bound,
    })
}

/// β/4 · max |Δ|: no gate of these gaps is further than this from ½.
pub fn gate_deviation_bound(beta: f64, gaps: &[f64]) -> f64 {
    beta / 4.0 * gaps.iter().fold(0.0, |largest: f64, gap| largest.max(gap.abs()))
}

/// Bound on the gradient error that a stale skill causes: score-norm bound · β/4 · mean |Δ_fresh − Δ_stale|.
///
/// `score_norm_bound` bounds the norm of ∇ log π of a single token. No gaps give 0.
pub fn stale_skill_bound(
    score_norm_bound: f64,
    beta: f64,
    fresh_gaps: &[f64],
    stale_gaps: &[f64],
) -> Result<f64, InputError> {
    same_length("stale_gaps", stale_gaps.len(), fresh_gaps.len(), "token")?;
    finite("fresh_gaps", fresh_gaps)?;
    finite("stale_gaps", stale_gaps)?;
    if fresh_gaps.is_empty() {
        return Ok(0.0);
    }
    let distance: f64 = fresh_gaps.iter().zip(stale_gaps).map(|(fresh, stale)| (fresh - stale).abs()).sum();
    Ok(score_norm_bound * beta / 4.0 * distance / fresh_gaps.len() as f64)
}

/// σ(x), without overflow on either side.
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = largest + logits.iter().map(|z| (z - largest).exp()).sum::<f64>().ln();
    logits.iter().map(|z| z - log_sum).collect()
}
