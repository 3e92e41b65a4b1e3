//! `seed plan`: what a run would cost, before anything is loaded.

use crate::config::Selection;
use crate::failure::Failure;
use clap::Args;
use seed_model::plan::{Plan, Trained, Workload, plan};
use seed_model::{ConfigError, Lora, ModelConfig};
use seed_trainer::config::Config;
use seed_trainer::mesh::Mesh;
use seed_trainer::workload::{accumulates, rows_of_a_pass};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run configurations (`.toml`, later ones win) and at most one model: its folder or `config.json`, in place of `model.path`
    #[arg(value_name = "CONFIG")]
    sources: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Rows of a forward and backward pass, over all devices; without it, what fits `batch.micro_tokens` on each
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
    /// Devices with a pass each; without it, as many as `device` names
    #[arg(long, value_name = "N")]
    devices: Option<usize>,
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

/// What the configuration asks for, but for what the command line says.
fn workload(config: &Config, arguments: &Arguments) -> Result<Workload, Failure> {
    let (devices, passes) = devices(config, arguments)?;
    let configured = seed_trainer::workload::workload(config, devices, passes);
    let prompt = arguments.prompt.unwrap_or(configured.prompt_tokens);
    let response = arguments.response.unwrap_or(configured.response_tokens);
    let rows = arguments.rows.unwrap_or(rows_of_a_pass(config, prompt + response) * devices);
    for (name, value) in [("devices", devices), ("rows", rows), ("prompt", prompt)] {
        if value == 0 {
            return Err(Failure::usage(format!("`--{name}` is 0, expected at least 1")));
        }
    }
    Ok(Workload {
        rows,
        prompt_tokens: prompt,
        response_tokens: response,
        accumulate: accumulates(config, rows.div_ceil(devices)),
        trained: match arguments.lora {
            None => configured.trained,
            Some(0) => Trained::Full,
            Some(rank) => Trained::Adapter(Lora::new(rank, config.model.lora_alpha)),
        },
        weight_bytes: if arguments.bf16 { 2 } else { configured.weight_bytes },
        recompute: arguments.recompute || configured.recompute,
        ..configured
    })
}

/// How many devices, and passes at a time on each. What `device` names need not be in this machine; `auto` is planned as the
/// CPU.
fn devices(config: &Config, arguments: &Arguments) -> Result<(usize, usize), Failure> {
    let (named, workers) = (config.run.device.as_str(), config.run.workers);
    let devices = match (arguments.devices, named) {
        (Some(devices), _) => devices,
        (None, "cuda:all") => {
            return Err(Failure::usage("`device` is `cuda:all`: say how many with `--devices`".into()));
        }
        (None, list) if list.split(',').any(|one| one.trim().is_empty()) => {
            let found = format!(
                "`device` is `{list}`, which names no device in some place; separate devices with one comma"
            );
            return Err(Failure::usage(found));
        }
        (None, list) => list.split(',').count(),
    };
    let on_cpu = named.starts_with("cpu") || named == "auto";
    let passes = match (devices, on_cpu) {
        (0 | 1, true) => Mesh::new(workers).workers(),
        (0 | 1, false) => workers.max(1),
        _ => 1,
    };
    Ok((devices, passes))
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
