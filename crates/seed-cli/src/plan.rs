//! `seed plan`: what a run would cost, before anything is loaded.

use crate::config::Selection;
use crate::failure::Failure;
use clap::Args;
use seed_model::plan::{Plan, Trained, Workload, plan};
use seed_model::{ConfigError, Lora, ModelConfig};
use seed_trainer::config::{Config, Dtype, Layout, TeacherWeights};
use seed_trainer::mesh::Mesh;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run configurations (`.toml`, later ones win) and at most one model: its folder or `config.json`, in place of `model.path`
    #[arg(value_name = "CONFIG")]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Rows of a forward and backward pass; without it, what fits `batch.micro_tokens`
    #[arg(long)]
    rows: Option<usize>,
    /// Tokens of a row before its response
    #[arg(long, value_name = "TOKENS")]
    prompt: Option<usize>,
    /// Tokens of a row that are scored
    #[arg(long, value_name = "TOKENS")]
    response: Option<usize>,
    /// Plan for an adapter of this rank in place of all weights
    #[arg(long, value_name = "RANK")]
    lora: Option<usize>,
    /// Keep block inputs only and compute the rest again
    #[arg(long)]
    recompute: bool,
    /// bf16 weights and activations, f32 master weights
    #[arg(long)]
    bf16: bool,
    /// Devices that share the rows of a pass
    #[arg(long, value_name = "N", default_value_t = 1)]
    devices: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (files, mut models): (Vec<_>, Vec<_>) =
        arguments.sources.iter().cloned().partition(|path| path.extension().is_some_and(|e| e == "toml"));
    if models.len() > 1 {
        let names: Vec<String> = models.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(Failure::usage(format!("one model at a time, found {}", names.join(" and "))));
    }
    let selection = Selection {
        config: files.into_iter().chain(arguments.selection.config.iter().cloned()).collect(),
        set: arguments.selection.set.clone(),
    };
    let resolved = selection.resolve()?;
    let config = resolved.config();
    let source = models.pop().unwrap_or_else(|| PathBuf::from(&config.model.path));
    let model = ModelConfig::read(&source).map_err(|error| {
        let told = in_full(&error);
        // What cannot be read names its file, a wrong key does not.
        let named = matches!(error, ConfigError::Read { .. } | ConfigError::Json { .. });
        Failure::usage(if named { told } else { format!("{}: {told}", source.display()) })
    })?;
    let workload = workload(config, arguments)?;
    print!("{}", describe(&source, &model, &workload, &plan(&model, &workload)));
    Ok(())
}

/// An error with its causes in one line.
fn in_full(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The largest pass of a run, its workers, and what it generates at the same time.
fn workload(config: &Config, arguments: &Arguments) -> Result<Workload, Failure> {
    let rollout = &config.rollout;
    let (prompt, response) = match rollout.layout {
        Layout::Step => (rollout.max_prompt_tokens, rollout.max_response_tokens),
        // All of a transcript may be sampled, but for its first prompt.
        Layout::Transcript => {
            let prompt = rollout.max_prompt_tokens.min(rollout.max_transcript_tokens);
            (prompt, rollout.max_transcript_tokens - prompt)
        }
    };
    let (prompt, response) = (arguments.prompt.unwrap_or(prompt), arguments.response.unwrap_or(response));
    let fitting = (config.batch.micro_tokens / (prompt + response).max(1)).max(1);
    let rows = arguments.rows.unwrap_or(fitting);
    for (name, value) in [("rows", rows), ("prompt", prompt), ("devices", arguments.devices)] {
        if value == 0 {
            return Err(Failure::usage(format!("`--{name}` is 0, expected at least 1")));
        }
    }
    let workers = Mesh::new(config.run.workers).workers();
    let steps = config.batch.mini_rows;
    let rank = arguments.lora.unwrap_or(config.model.lora_rank);
    let bf16 = arguments.bf16 || config.model.dtype == Dtype::Bf16;
    // The model that stage 2 started from shares no weight with the actor after the first optimiser step.
    let reference = config.loss.kl_coef > 0.0 || config.opd.teacher_weights == TeacherWeights::Reference;
    let average = config.opd.teacher_weights == TeacherWeights::Ema;
    Ok(Workload {
        passes: workers,
        accumulate: steps == 0 || steps > rows,
        copies: usize::from(reference) + usize::from(average),
        trained: if rank == 0 {
            Trained::Full
        } else {
            Trained::Adapter(Lora::new(rank, config.model.lora_alpha))
        },
        weight_bytes: if bf16 { 2 } else { 4 },
        recompute: arguments.recompute || config.model.gradient_checkpointing,
        sequences: rollout.concurrency,
        devices: arguments.devices,
        ..Workload::new(rows, prompt, response)
    })
}

fn describe(source: &Path, model: &ModelConfig, workload: &Workload, plan: &Plan) -> String {
    let Workload { rows, passes, prompt_tokens: prompt, response_tokens: response, .. } = workload;
    let family = model.model_type.model_type();
    let (layers, hidden) = (model.num_hidden_layers, model.hidden_size);
    let what = match &workload.trained {
        Trained::Nothing => "nothing".to_owned(),
        Trained::Full => "all weights".to_owned(),
        Trained::Adapter(lora) => format!("an adapter of rank {}", lora.rank),
    };
    let number = if workload.weight_bytes == 2 { "bf16" } else { "f32" };
    let devices = match workload.devices {
        1 => "one device".to_owned(),
        count => format!("{count} devices"),
    };
    let again = if workload.recompute { ", activations computed again" } else { "" };
    format!(
        "model           {} ({family}, {layers} blocks of width {hidden})\n\
         trained         {what} in {number}{again}\n\
         row             {prompt} prompt + {response} response tokens\n\
         pass            {rows} rows = {} tokens; {passes} at a time; {devices}\n\
         generation      {} sequences at a time\n\
         {plan}\n",
        source.display(),
        rows * (prompt + response),
        workload.sequences,
    )
}
