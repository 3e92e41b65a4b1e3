//! The schema: every key with its default and its meaning. The reference page is made from it.
//!
//! Defaults are those of the reference implementation on ALFWorld (`preset = "seed_code"`); a value that differs by
//! environment stands in the presets.

use super::key::{Key, choice, section};
use super::layers::Origin;
use std::collections::BTreeMap;
use toml::{Table, Value};

choice! {
    /// Named settings of the paper, the reference code, a baseline protocol, and our best practice.
    Preset {
        /// The reference implementation.
        SeedCode = "seed_code",
        /// What the paper writes, where it differs from its code.
        SeedPaper = "seed_paper",
        /// Our best practice: trajectories count once, mini-batch scope, no silent truncation.
        Corrected = "corrected",
        /// The protocol of the SDAR baselines.
        SdarBaseline = "sdar_baseline",
    }
}
choice! {
    /// What is trained; each is a set of keys that can also be set one by one.
    Method {
        /// GRPO + gated distillation of on-policy hindsight skills, after stage 1.
        Seed = "seed",
        /// SEED from the base model.
        SeedWithoutSft = "seed_without_sft",
        /// Stage 1, then the RL loss alone.
        SeedWithoutOpd = "seed_without_opd",
        /// SEED with skills from a static library instead of the policy's own.
        SeedWithoutOnPolicySkill = "seed_without_on_policy_skill",
        /// The RL loss alone, from the base model.
        Grpo = "grpo",
        /// GRPO with library skills in the prompt.
        SkillGrpo = "skill_grpo",
        /// The gated distillation alone, library skills.
        Opsd = "opsd",
        /// GRPO + ungated (β = 0) distillation, library skills.
        GrpoOpsd = "grpo_opsd",
        /// GRPO + gated distillation, library skills.
        Sdar = "sdar",
        /// GRPO + importance-weighted k3 towards the teacher, library skills.
        SkillSd = "skill_sd",
        /// GRPO with advantages scaled by the teacher, library skills.
        Rlsd = "rlsd",
        /// GRPO with step advantages from anchor states.
        Gigpo = "gigpo",
        /// GRPO with the teacher gap added to advantages, hindsight skills.
        Opid = "opid",
    }
}
choice! {
    /// An environment.
    EnvName {
        /// The embedded household world; needs no data.
        Household = "household",
        /// ALFWorld, text.
        Alfworld = "alfworld",
        /// WebShop, text.
        Webshop = "webshop",
        /// Multi-turn question answering with search.
        SearchQa = "search_qa",
        /// Sokoban.
        Sokoban = "sokoban",
        /// EZPoints.
        Ezpoints = "ezpoints",
        /// NumberLine.
        NumberLine = "number_line",
        /// Blackjack.
        Blackjack = "blackjack",
        /// Points24.
        Points24 = "points24",
    }
}
choice! {
    /// The rules of search-augmented question answering.
    SearchPreset {
        /// verl-agent's protocol with all its quirks.
        VerlAgent = "verl_agent",
        /// The same without its slips.
        Corrected = "corrected",
        /// Search-R1's growing transcript.
        SearchR1 = "search_r1",
    }
}
choice! {
    /// Number format of weights and activations.
    Dtype {
        /// 32-bit floats.
        F32 = "f32",
        /// bfloat16 with 32-bit master weights.
        Bf16 = "bf16",
    }
}
choice! {
    /// How an episode becomes rows.
    Layout {
        /// One row per environment step, with a history window.
        Step = "step",
        /// One row per episode: every turn appended, observations masked.
        Transcript = "transcript",
    }
}
choice! {
    /// What happens to a prompt over its budget.
    Truncation {
        /// Drop the oldest history items; an error if that does not help.
        DropHistory = "drop_history",
        /// Cut tokens from the left (the reference).
        Left = "left",
        /// An error.
        Error = "error",
    }
}
choice! {
    /// Whose weights write the skills.
    AnalyzerWeights {
        /// The actor's snapshot of this update.
        CurrentSnapshot = "current_snapshot",
        /// The model that stage 2 started from.
        FrozenSft = "frozen_sft",
        /// The annotator (`[annotator]`) instead of the policy.
        External = "external",
    }
}
choice! {
    /// How the steps of an episode are written for its analysis.
    StepWords {
        /// As the environment's prompt files say.
        Auto = "auto",
        /// Each step with its number, observation, response and validity.
        Full = "full",
        /// Observation and response alone: for tiny policies.
        Brief = "brief",
    }
}
choice! {
    /// Who annotates episodes in stage 1.
    AnnotatorKind {
        /// Our own rules: reads the trajectory, needs no network.
        Scripted = "scripted",
        /// Any server that speaks the OpenAI chat protocol.
        Openai = "openai",
    }
}
choice! {
    /// How stage-1 records are split into training and validation.
    SftSplit {
        /// Whole tasks stay on one side.
        Task = "task",
        /// Per record; the same task may stand on both sides (the reference).
        Record = "record",
    }
}
choice! {
    /// What happens to a record that is too long.
    OverLong {
        /// Stop.
        Error = "error",
        /// Leave it out and count it.
        Skip = "skip",
    }
}
choice! {
    /// Advantage estimator.
    Estimator {
        /// Reward minus the group's mean, over its spread.
        Group = "group",
        /// Leave-one-out mean.
        Rloo = "rloo",
        /// Group advantage plus anchor-state step advantage.
        Gigpo = "gigpo",
        /// Group advantage scaled by the teacher, token by token.
        Rlsd = "rlsd",
        /// Group advantage plus the weighted teacher gap.
        Opid = "opid",
    }
}
choice! {
    /// What counts once in a group's mean and spread.
    Across {
        /// Every row: long episodes weigh more (the reference).
        Rows = "rows",
        /// Every trajectory once.
        Trajectories = "trajectories",
    }
}
choice! {
    /// Where a row loses for a form that is wrong.
    Penalty {
        /// In its score, before the group is compared (the reference): a tied group blows it up.
        Score = "score",
        /// In its advantage, where it keeps its size.
        Advantage = "advantage",
    }
}
choice! {
    /// Which standard deviation.
    StdKind {
        /// Divides by n − 1.
        Unbiased = "unbiased",
        /// Divides by n.
        Population = "population",
    }
}
choice! {
    /// Policy loss.
    PolicyLoss {
        /// Clipped token ratio with dual clip.
        Ppo = "ppo",
        /// Clipped sequence ratio.
        Gspo = "gspo",
    }
}
choice! {
    /// Estimator of the divergence from the reference.
    KlKind {
        /// e^d − d − 1.
        K3 = "k3",
        /// d.
        K1 = "k1",
        /// d²/2.
        K2 = "k2",
        /// |d|.
        Abs = "abs",
    }
}
choice! {
    /// How token losses become one number.
    Aggregation {
        /// Mean over tokens.
        TokenMean = "token_mean",
        /// Mean over rows of sums.
        SeqMeanTokenSum = "seq_mean_token_sum",
        /// Mean over rows of row means.
        SeqMeanTokenMean = "seq_mean_token_mean",
        /// Sum over the padded width.
        SeqMeanTokenSumNorm = "seq_mean_token_sum_norm",
    }
}
choice! {
    /// Where the mean is taken.
    Scope {
        /// Per micro-batch, then averaged: depends on how rows fall (the reference).
        Microbatch = "microbatch",
        /// Over the mini-batch: micro-batches change nothing.
        Minibatch = "minibatch",
    }
}
choice! {
    /// Form of the distillation loss.
    OpdForm {
        /// g·(ℓT − ℓS).
        GatedGap = "gated_gap",
        /// −g·ℓS; the same gradient.
        GatedNll = "gated_nll",
        /// −Δ·ℓS with the old log-probability in Δ.
        Delta = "delta",
        /// −Δ·exp(ℓS − ℓold).
        Importance = "importance",
        /// λ·Δ with the old log-probability joins the advantage; no loss of its own (OPID).
        Advantage = "advantage",
        /// ρ·k3(ℓS, ℓT) (Skill-SD).
        K3 = "k3",
    }
}
choice! {
    /// The gate of the distillation loss.
    OpdGate {
        /// σ(βΔ).
        SigmoidGap = "sigmoid_gap",
        /// A constant, `opd.gate_constant`.
        Constant = "constant",
        /// σ(βH), H the entropy.
        Entropy = "entropy",
        /// Soft or of gap and entropy gates.
        SoftOr = "soft_or",
        /// 1 where Δ exceeds `opd.gate_threshold`.
        Hard = "hard",
    }
}
choice! {
    /// When teacher log-probabilities are computed.
    TeacherRefresh {
        /// Once an update, before its first optimiser step.
        PerStep = "per_step",
        /// Before every mini-batch, with the weights of that moment.
        PerMinibatch = "per_minibatch",
    }
}
choice! {
    /// The student log-probability in the gap.
    GateLogprob {
        /// The current forward pass, detached.
        Current = "current",
        /// The one from before the update.
        Old = "old",
    }
}
choice! {
    /// Denominator of the distillation loss.
    Normalizer {
        /// Tokens that have a teacher.
        OpdTokens = "opd_tokens",
        /// All response tokens.
        ResponseTokens = "response_tokens",
    }
}
choice! {
    /// Off-policy correction of the distillation loss.
    OpdImportance {
        /// None.
        None = "none",
        /// Times the detached ratio.
        PpoRatioDetached = "ppo_ratio_detached",
    }
}
choice! {
    /// Whose weights score the teacher's side.
    TeacherWeights {
        /// The actor's snapshot of this update.
        CurrentSnapshot = "current_snapshot",
        /// The model that stage 2 started from.
        Reference = "reference",
        /// A moving average of the actor (`opd.ema_decay`).
        Ema = "ema",
    }
}
choice! {
    /// Which tokens the distillation loss counts.
    OpdTokens {
        /// The whole response.
        All = "all",
        /// What stands inside the action tags, tags included.
        Action = "action",
        /// Everything but that.
        Reasoning = "reasoning",
    }
}
choice! {
    /// Where skills come from in stage 2.
    SkillSource {
        /// The analyzer reads each finished episode.
        Hindsight = "hindsight",
        /// A fixed library, looked up by the kind of task.
        Library = "library",
        /// No skills: no distillation.
        None = "none",
    }
}
choice! {
    /// What happens to a teacher prompt over its budget.
    Overflow {
        /// Drop history items; if that does not help, the row has no teacher.
        DropHistory = "drop_history",
        /// The row has no teacher.
        MaskRow = "mask_row",
        /// Cut tokens from the left (the reference).
        Left = "left",
    }
}
choice! {
    /// Rows that fill up the last mini-batch.
    Adjust {
        /// Rows of weight zero: nothing changes.
        Pad = "pad",
        /// Copies of random rows, which enter group statistics and train twice (the reference).
        Copy = "copy",
        /// Drop random rows.
        Delete = "delete",
    }
}
choice! {
    /// Course of the learning rate after warm-up.
    ScheduleKind {
        /// Stays at the peak.
        Constant = "constant",
        /// Half a cosine down to zero.
        Cosine = "cosine",
        /// A straight line down to zero.
        Linear = "linear",
    }
}

section! {
    /// The run as a whole (top-level keys).
    RunConfig "" {
        /// Named settings to start from.
        preset: Preset = Preset::SeedCode,
        /// What is trained.
        method: Method = Method::Seed,
        /// Name of the run's folder; empty: made of environment, method and seed.
        name: String = String::new(),
        /// Folder that holds the runs.
        runs_dir: String = "runs".into(),
        /// Seed of everything random in the run.
        seed: u64 = 0,
        /// `auto`, `cpu`, `cuda:0`, `wgpu`; several with commas, or `cuda:all`: one worker each.
        device: String = "auto".into(),
        /// Worker threads that share an update on one device; 0: one a core on the CPU, else one.
        workers: usize = 0,
    }
}
section! {
    /// The environment.
    EnvConfig "env." {
        /// Which environment.
        name: EnvName = EnvName::Household,
        /// Its data folder, for Sokoban a level file; empty: what the environment embeds, or its own variable (`ALFWORLD_DATA`).
        data: String = String::new(),
        /// Split that training tasks come from.
        train_split: String = "train".into(),
        /// Use only the first so many training tasks; 0: all.
        train_tasks: usize = 0,
        /// Folder of prompt files that stand in for the environment's own: `first.txt`, `history.txt`, `turn.txt`; in `analyzer/`
        /// and `skill/` those of analyses and skill blocks. Empty: the embedded ones.
        prompts: String = String::new(),
        /// Steps after which an episode is cut.
        max_steps: usize = 30,
        /// (observation, action) pairs shown in a step row's prompt.
        history: usize = 5,
        /// Size of generated houses, 0 (a corner of a room) to 1 (four rooms); household only.
        difficulty: f64 = 0.15,
        /// Rows of a room, walls included; Sokoban only.
        rows: usize = 6,
        /// Columns of a room, walls included; Sokoban only.
        columns: usize = 6,
        /// Boxes of a room; Sokoban only.
        boxes: usize = 1,
        /// Addresses of retrieval servers, comma-separated; empty: BM25 in this process over `corpus.jsonl` of `env.data` or over the embedded world; search_qa only.
        retriever: String = String::new(),
        /// Protocol and quirks; search_qa only.
        search: SearchPreset = SearchPreset::VerlAgent,
    }
}
section! {
    /// The policy.
    ModelConfig "model." {
        /// Folder in Hugging Face layout: config.json, safetensors, tokenizer.
        path: String = "data/tiny/base".into(),
        /// Number format.
        dtype: Dtype = Dtype::F32,
        /// Rank of a LoRA adapter on every projection, trained in place of the weights; 0: all weights are trained.
        lora_rank: usize = 0,
        /// The adapter's update is multiplied by this over the rank.
        lora_alpha: f64 = 32.0,
        /// Train the vision tower of a policy that sees; off, it is a constant (the reference).
        train_vision: bool = false,
        /// Recompute activations in the backward pass.
        gradient_checkpointing: bool = false,
    }
}
section! {
    /// Collecting episodes.
    RolloutConfig "rollout." {
        /// Tasks an update.
        tasks: usize = 16,
        /// Episodes of each task: the group.
        group: usize = 8,
        /// How an episode becomes rows.
        layout: Layout = Layout::Step,
        /// Divides logits before softmax, on every side.
        temperature: f64 = 1.0,
        /// Prompt budget of a step row.
        max_prompt_tokens: usize = 2048,
        /// Response budget of one step.
        max_response_tokens: usize = 512,
        /// Budget of a whole transcript row.
        max_transcript_tokens: usize = 4096,
        /// What happens to a prompt over its budget.
        truncation: Truncation = Truncation::Left,
        /// Sequences decoded together.
        concurrency: usize = 128,
        /// Thinking switch of chat templates that have one.
        enable_thinking: bool = false,
        /// An action without thinking tags is invalid.
        require_think: bool = true,
        /// Subtracted from a row's score or advantage (`adv.penalty`) when its action has not the required form.
        invalid_penalty: f64 = 0.1,
        /// Put library skills into the policy's own prompt (Skill-GRPO).
        skill_in_prompt: bool = false,
        /// Drop groups whose episodes all have the same reward and collect others.
        filter_groups: bool = false,
        /// Tries of `filter_groups` before everything is kept.
        filter_tries: usize = 10,
        /// Keep every n-th update's episodes on disk; 0: none.
        record_every: usize = 5,
        /// Train on these instead of playing: a file of recorded roll-outs, or a folder with one file an update.
        recorded: String = String::new(),
    }
}
section! {
    /// The hindsight analyzer in stage 2.
    AnalyzerConfig "analyzer." {
        /// Whose weights write the skills.
        weights: AnalyzerWeights = AnalyzerWeights::CurrentSnapshot,
        /// Completion budget.
        max_tokens: usize = 4096,
        /// Prompt budget.
        context_tokens: usize = 16384,
        /// Ask for a summary beside the skill.
        include_summary: bool = true,
        /// How the steps of an episode are written.
        steps: StepWords = StepWords::Auto,
        /// Analyse failures only, from the first update on.
        failed_only: bool = false,
        /// Analyse failures only after so many updates; 0: never.
        failed_only_after: usize = 0,
        /// Folder of a static skill library; empty: the embedded one.
        library: String = String::new(),
    }
}
section! {
    /// The annotator of stage 1 (and of `analyzer.weights = "external"`).
    AnnotatorConfig "annotator." {
        /// Who annotates.
        kind: AnnotatorKind = AnnotatorKind::Scripted,
        /// Address of the server, up to and with `/v1`.
        url: String = String::new(),
        /// Model name to ask for.
        model: String = String::new(),
        /// Name of the environment variable that holds the key; empty: no key.
        api_key_env: String = String::new(),
        /// Completion budget.
        max_tokens: usize = 4096,
        /// Sampling temperature.
        temperature: f64 = 0.0,
        /// Seconds until a request is given up.
        timeout_secs: usize = 120,
        /// Tries of a failed request.
        retries: usize = 5,
        /// Requests at the same time.
        concurrency: usize = 8,
        /// Seed sent to the server.
        seed: u64 = 2026,
    }
}
section! {
    /// Stage 1: supervised fine-tuning on hindsight skills.
    SftConfig "sft." {
        /// Run stage 1 before stage 2.
        enabled: bool = true,
        /// Tasks to play.
        tasks: usize = 180,
        /// Episodes of each task.
        rollouts: usize = 8,
        /// Sampling temperature of these episodes.
        temperature: f64 = 0.4,
        /// Passes over the records.
        epochs: usize = 3,
        /// Peak learning rate.
        lr: f64 = 5e-6,
        /// Course after warm-up.
        schedule: ScheduleKind = ScheduleKind::Cosine,
        /// Share of the steps that warm up.
        warmup_share: f64 = 0.1,
        /// AdamW β₁.
        beta1: f64 = 0.9,
        /// AdamW β₂.
        beta2: f64 = 0.95,
        /// Decoupled weight decay.
        weight_decay: f64 = 0.01,
        /// Largest global gradient norm; 0: no clipping.
        max_grad_norm: f64 = 1.0,
        /// Records a step.
        batch: usize = 8,
        /// Largest prompt plus response.
        max_tokens: usize = 8192,
        /// What happens to a longer record.
        over_long: OverLong = OverLong::Error,
        /// The policy's own episodes mixed in, per record: 1 is as many as there are records. They hold small models
        /// where they are while they learn to write skills.
        rehearsal: f64 = 0.0,
        /// Share of the records kept for validation.
        validation_share: f64 = 0.1,
        /// How records are split.
        split: SftSplit = SftSplit::Task,
        /// Share of parsed analyses that stage 2 needs to start.
        min_parse_rate: f64 = 0.5,
        /// Episodes analysed for that check.
        gate_episodes: usize = 64,
    }
}
section! {
    /// Advantages.
    AdvConfig "adv." {
        /// Estimator.
        estimator: Estimator = Estimator::Group,
        /// What counts once in a group.
        across: Across = Across::Rows,
        /// What `rollout.invalid_penalty` is subtracted from.
        penalty: Penalty = Penalty::Score,
        /// Which standard deviation.
        std: StdKind = StdKind::Unbiased,
        /// Divide by the standard deviation.
        std_norm: bool = true,
        /// A group with a smaller spread counts as tied.
        std_floor: f64 = 0.0,
        /// GiGPO: weight of the step advantage.
        step_weight: f64 = 1.0,
        /// GiGPO: discount of step returns.
        gamma: f64 = 0.95,
        /// OPID: weight of the teacher gap.
        opid_weight: f64 = 0.001,
        /// RLSD: share of the teacher at the start.
        rlsd_lambda: f64 = 0.5,
        /// RLSD: updates until that share is 0.
        rlsd_updates: usize = 100,
        /// RLSD: bound of the factor.
        rlsd_clip: f64 = 0.2,
    }
}
section! {
    /// The RL loss.
    LossConfig "loss." {
        /// Policy loss.
        policy: PolicyLoss = PolicyLoss::Ppo,
        /// Weight of the policy loss; 0 leaves distillation, KL and entropy (OPSD).
        pg_coef: f64 = 1.0,
        /// Lower clip ε.
        clip_low: f64 = 0.2,
        /// Upper clip ε.
        clip_high: f64 = 0.2,
        /// Dual clip c for negative advantages, above 1; 0: off.
        dual_clip: f64 = 3.0,
        /// Entropy bonus.
        entropy_coef: f64 = 0.001,
        /// Weight of the KL loss.
        kl_coef: f64 = 0.01,
        /// KL estimator.
        kl: KlKind = KlKind::K3,
        /// How token losses become one number.
        aggregation: Aggregation = Aggregation::TokenMean,
        /// Where the mean is taken.
        scope: Scope = Scope::Microbatch,
    }
}
section! {
    /// On-policy distillation of skills.
    OpdConfig "opd." {
        /// Where skills come from.
        skills: SkillSource = SkillSource::Hindsight,
        /// λ, weight of the distillation loss; 0: off.
        coef: f64 = 0.01,
        /// β, sharpness of the gate.
        beta: f64 = 5.0,
        /// Form of the loss.
        form: OpdForm = OpdForm::GatedGap,
        /// The gate.
        gate: OpdGate = OpdGate::SigmoidGap,
        /// Gate value of `gate = "constant"`.
        gate_constant: f64 = 0.5,
        /// Threshold of `gate = "hard"`.
        gate_threshold: f64 = 0.0,
        /// Bound on |Δ|; 0: none.
        delta_clip: f64 = 0.0,
        /// When teacher log-probabilities are computed.
        teacher_refresh: TeacherRefresh = TeacherRefresh::PerStep,
        /// The student log-probability in the gap.
        gate_logprob: GateLogprob = GateLogprob::Current,
        /// Denominator.
        normalizer: Normalizer = Normalizer::OpdTokens,
        /// Subtract the mean gate of a pass: less variance, same expectation at the start of an update.
        gate_center: bool = false,
        /// Off-policy correction.
        importance: OpdImportance = OpdImportance::None,
        /// Whose weights score the teacher's side.
        teacher_weights: TeacherWeights = TeacherWeights::CurrentSnapshot,
        /// Decay of `teacher_weights = "ema"` per update.
        ema_decay: f64 = 0.99,
        /// Which tokens count.
        tokens: OpdTokens = OpdTokens::All,
        /// Completed updates before the loss starts.
        start_after: usize = 0,
        /// Completed updates after which it stops; 0: never.
        stop_after: usize = 0,
        /// Longest teacher prompt beyond the prompt budget, for the skill.
        skill_tokens: usize = 512,
        /// What happens to a longer teacher prompt.
        overflow: Overflow = Overflow::Left,
    }
}
section! {
    /// How an update is cut into optimiser steps and passes.
    BatchConfig "batch." {
        /// Rows of one optimiser step; 0: all rows of the update.
        mini_rows: usize = 256,
        /// Tokens of one forward pass of one worker (at least one row).
        micro_tokens: usize = 16384,
        /// Passes over the rows of an update.
        epochs: usize = 1,
        /// Rows that fill up the last mini-batch.
        adjust: Adjust = Adjust::Copy,
    }
}
section! {
    /// The optimiser of stage 2 (AdamW).
    OptimConfig "optim." {
        /// Peak learning rate.
        lr: f64 = 1e-6,
        /// Course after warm-up.
        schedule: ScheduleKind = ScheduleKind::Constant,
        /// Share of the updates that warm up.
        warmup_share: f64 = 0.0,
        /// β₁.
        beta1: f64 = 0.9,
        /// β₂.
        beta2: f64 = 0.999,
        /// ε.
        epsilon: f64 = 1e-8,
        /// Decoupled weight decay.
        weight_decay: f64 = 0.01,
        /// Largest global gradient norm; 0: no clipping.
        max_grad_norm: f64 = 1.0,
    }
}
section! {
    /// Stage 2 as a whole.
    TrainConfig "train." {
        /// RL updates.
        updates: usize = 160,
    }
}
section! {
    /// Evaluation on fixed panels.
    EvalConfig "eval." {
        /// Splits, each a panel; the first is the headline.
        splits: Vec<String> = vec!["valid_unseen".into()],
        /// Tasks of each panel, from the start of the split; 0: all.
        games: usize = 128,
        /// Every n updates; 0: only before and after.
        every: usize = 5,
        /// Evaluate before the first update.
        before: bool = true,
        /// Sampling temperature; 0: greedy.
        temperature: f64 = 0.4,
        /// Episodes of each task.
        rollouts: usize = 1,
    }
}
section! {
    /// Checkpoints.
    CheckpointConfig "checkpoint." {
        /// Every n updates; 0: only the last.
        every: usize = 10,
        /// Newest checkpoints to keep, beside the best; 0: all.
        keep: usize = 3,
    }
}

macro_rules! config {
    ($($(#[doc = $doc:literal])* $field:ident: $ty:ident),* $(,)?) => {
        /// The whole configuration, typed.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Config { $($(#[doc = $doc])* pub $field: $ty),* }

        impl Config {
            /// Every key, section by section.
            pub fn keys() -> impl Iterator<Item = &'static Key> {
                [$($ty::KEYS),*].into_iter().flatten()
            }

            /// Builds the typed form of resolved values, each of which fits its key.
            pub(super) fn from_values(values: &BTreeMap<&'static str, (Value, Origin)>) -> Self {
                Self { $($field: section($ty::KEYS, values).try_into().expect("every value was checked")),* }
            }
        }
    };
}
config! {
    /// Top-level keys.
    run: RunConfig,
    /// `[env]`
    env: EnvConfig,
    /// `[model]`
    model: ModelConfig,
    /// `[rollout]`
    rollout: RolloutConfig,
    /// `[analyzer]`
    analyzer: AnalyzerConfig,
    /// `[annotator]`
    annotator: AnnotatorConfig,
    /// `[sft]`
    sft: SftConfig,
    /// `[adv]`
    adv: AdvConfig,
    /// `[loss]`
    loss: LossConfig,
    /// `[opd]`
    opd: OpdConfig,
    /// `[batch]`
    batch: BatchConfig,
    /// `[optim]`
    optim: OptimConfig,
    /// `[train]`
    train: TrainConfig,
    /// `[eval]`
    eval: EvalConfig,
    /// `[checkpoint]`
    checkpoint: CheckpointConfig,
}

fn section(keys: &[Key], values: &BTreeMap<&'static str, (Value, Origin)>) -> Table {
    keys.iter().map(|key| (key.name().to_string(), values[key.path].0.clone())).collect()
}

impl Config {
    /// The run's name: `name`, or one made of environment, method and seed.
    pub fn run_name(&self) -> String {
        if self.run.name.is_empty() {
            format!("{}-{}-seed{}", self.env.name, self.run.method, self.run.seed)
        } else {
            self.run.name.clone()
        }
    }
}
