//! Named methods with the numbers of their authors, under the presets in which public references differ.

use crate::advantage::{Across, GigpoConfig, GroupAdvantage, OpidAdvantage, RlsdConfig, Std};
use crate::aggregate::Aggregation;
use crate::distill::{Gate, OpdConfig, OpdForm, OpdNormalizer};
use crate::objective::{KlTerm, LossScope, ObjectiveConfig, OpdTerm, PolicyRatio};
use crate::policy_loss::ClipConfig;
use crate::schedule::Schedule;
use crate::switch::switch;

switch! {
    /// A method: SEED, its ablation, its baselines.
    Method ("method") {
        /// Group-relative policy optimisation, the RL part of everything below.
        Grpo = "grpo",
        /// Distillation alone: the policy loss has coefficient 0, entropy and divergence stay.
        Opsd = "opsd",
        /// GRPO plus distillation with a constant gate of ½.
        GrpoOpsd = "grpo_opsd",
        /// GRPO plus gated distillation; its teacher reads a static skill.
        Sdar = "sdar",
        /// GRPO plus a ratio-weighted k3 towards the teacher.
        SkillSd = "skill_sd",
        /// GRPO with token advantages resized by the teacher.
        Rlsd = "rlsd",
        /// GRPO with a step advantage among rows in the same place.
        Gigpo = "gigpo",
        /// GRPO with the skill's gap added to the advantage.
        Opid = "opid",
        /// GRPO plus gated distillation; its teacher reads a skill written in hindsight by the policy itself.
        Seed = "seed",
        /// SEED without its distillation.
        SeedWithoutOpd = "seed_without_opd",
    }
}

switch! {
    /// Where public references differ.
    Preset ("preset") {
        /// The authors' code: statistics over rows, means inside micro-batches. The default.
        SeedCode = "seed_code",
        /// The paper's text: trajectories, population standard deviation, whole mini-batches.
        SeedPaper = "seed_paper",
        /// The code of SDAR, whose objective agrees with `seed_code`.
        SdarBaseline = "sdar_baseline",
        /// The trainer that all of these grew from, whose objective agrees with `seed_code`.
        VerlAgent = "verl_agent",
        /// Our best practice: trajectories, a floor under the standard deviation, whole mini-batches.
        Corrected = "corrected",
    }
}

/// How the rows of a method get their advantages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AdvantageEstimator {
    /// [`group_advantage`](crate::advantage::group_advantage()).
    Group(GroupAdvantage),
    /// [`rloo_advantage`](crate::advantage::rloo_advantage()).
    Rloo(Across),
    /// [`gigpo_advantage`](crate::advantage::gigpo_advantage()).
    Gigpo(GigpoConfig),
}

/// What happens to row advantages on their way to tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TokenCredit {
    /// Every token of a row gets the row's advantage.
    Uniform,
    /// [`rlsd_advantage`](crate::advantage::rlsd_advantage()), its λ scheduled.
    Rlsd {
        /// Settings at step 0.
        config: RlsdConfig,
        /// Factor of λ.
        schedule: Schedule,
    },
    /// [`opid_advantage`](crate::advantage::opid_advantage()).
    Opid(OpidAdvantage),
}

/// A complete training signal: from rewards to the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// Rewards → row advantages.
    pub estimator: AdvantageEstimator,
    /// Row advantages → token advantages.
    pub credit: TokenCredit,
    /// Subtracted from the score of a row with an invalid action.
    pub invalid_action_coef: f64,
    /// Token advantages → loss.
    pub objective: ObjectiveConfig,
    /// Factor of λ over the run.
    pub opd_schedule: Schedule,
}

impl Recipe {
    /// A method under a preset.
    pub fn new(method: Method, preset: Preset) -> Self {
        let group = match preset {
            Preset::SeedCode | Preset::SdarBaseline | Preset::VerlAgent => GroupAdvantage::grpo(),
            Preset::SeedPaper => GroupAdvantage {
                across: Across::Trajectories,
                std: Std::Population,
                ..GroupAdvantage::grpo()
            },
            Preset::Corrected => {
                GroupAdvantage { across: Across::Trajectories, std_floor: 1e-3, ..GroupAdvantage::grpo() }
            }
        };
        let scope = match preset {
            Preset::SeedPaper | Preset::Corrected => LossScope::Minibatch,
            _ => LossScope::Microbatch,
        };
        let objective = ObjectiveConfig { scope, ..ObjectiveConfig::of(method) };
        let (estimator, credit) = match method {
            Method::Gigpo => {
                let config = GigpoConfig {
                    across: group.across,
                    std: group.std,
                    std_norm: group.std_norm,
                    ..GigpoConfig::default()
                };
                (AdvantageEstimator::Gigpo(config), TokenCredit::Uniform)
            }
            Method::Rlsd => {
                let credit = TokenCredit::Rlsd {
                    config: RlsdConfig::default(),
                    schedule: Schedule::WarmDown { steps: 100 },
                };
                (AdvantageEstimator::Group(group), credit)
            }
            Method::Opid => (AdvantageEstimator::Group(group), TokenCredit::Opid(OpidAdvantage::default())),
            _ => (AdvantageEstimator::Group(group), TokenCredit::Uniform),
        };
        Self { estimator, credit, invalid_action_coef: 0.1, objective, opd_schedule: Schedule::Always }
    }
}

impl ObjectiveConfig {
    /// The objective of a method, with the reference's micro-batch scope.
    pub fn of(method: Method) -> Self {
        let grpo = Self::grpo();
        match method {
            Method::Grpo | Method::Rlsd | Method::Gigpo | Method::Opid | Method::SeedWithoutOpd => grpo,
            Method::Opsd => Self { pg_coef: 0.0, opd: Some(OpdTerm::default()), ..grpo },
            Method::GrpoOpsd => {
                let config = OpdConfig { gate: Gate::Constant { value: 0.5 }, ..OpdConfig::default() };
                Self { opd: Some(OpdTerm { coef: 0.01, config }), ..grpo }
            }
            Method::Sdar | Method::Seed => Self { opd: Some(OpdTerm::default()), ..grpo },
            Method::SkillSd => {
                let config = OpdConfig {
                    form: OpdForm::K3,
                    normalizer: OpdNormalizer::ResponseTokens,
                    ..OpdConfig::default()
                };
                Self { opd: Some(OpdTerm { coef: 0.001, config }), ..grpo }
            }
        }
    }

    /// GRPO: clip 0.2 / 0.2 with dual clip 3, k3 with coefficient 0.01, entropy 0.001, token mean.
    pub fn grpo() -> Self {
        Self {
            pg_coef: 1.0,
            ratio: PolicyRatio::Token,
            clip: ClipConfig::default(),
            entropy_coef: 0.001,
            kl: Some(KlTerm::default()),
            opd: None,
            aggregation: Aggregation::TokenMean,
            scope: LossScope::Microbatch,
        }
    }

    /// OPSD: λ = 0.01, β = 5, no policy loss.
    pub fn opsd() -> Self {
        Self::of(Method::Opsd)
    }

    /// GRPO + OPSD: gate ½, λ = 0.01.
    pub fn grpo_opsd() -> Self {
        Self::of(Method::GrpoOpsd)
    }

    /// SDAR: λ = 0.01, β = 5.
    pub fn sdar() -> Self {
        Self::of(Method::Sdar)
    }

    /// Skill-SD: λ = 0.001, over all response tokens.
    pub fn skill_sd() -> Self {
        Self::of(Method::SkillSd)
    }

    /// RLSD: GRPO on resized token advantages.
    pub fn rlsd() -> Self {
        Self::of(Method::Rlsd)
    }

    /// GiGPO: GRPO on step-aware advantages.
    pub fn gigpo() -> Self {
        Self::of(Method::Gigpo)
    }

    /// OPID: GRPO on advantages with the skill's gap.
    pub fn opid() -> Self {
        Self::of(Method::Opid)
    }

    /// SEED: λ = 0.01, β = 5.
    pub fn seed() -> Self {
        Self::of(Method::Seed)
    }

    /// SEED without distillation.
    pub fn seed_without_opd() -> Self {
        Self::of(Method::SeedWithoutOpd)
    }
}
