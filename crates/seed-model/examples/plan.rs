//! What a model would cost: `cargo run -p seed-model --example plan -- FOLDER [ROWS PROMPT_TOKENS RESPONSE_TOKENS [key=value…]]`
//!
//! Keys: `lora=RANK`, `bytes=2` (bf16), `recompute=true`, `devices=N`, `sequences=N`. Reads `config.json` only.

use seed_model::plan::{Trained, Workload, plan};
use seed_model::{Lora, ModelConfig};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let (settings, places): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.contains('='));
    let (folder, shape) = match places.as_slice() {
        [folder] => (folder, [8, 512, 128]),
        [folder, rows, prompt, response] => (folder, [rows.parse()?, prompt.parse()?, response.parse()?]),
        _ => return Err("usage: plan FOLDER [ROWS PROMPT_TOKENS RESPONSE_TOKENS [key=value…]]".into()),
    };
    let mut workload = Workload::new(shape[0], shape[1], shape[2]);
    for setting in &settings {
        match setting.split_once('=') {
            Some(("lora", rank)) => {
                let rank: usize = rank.parse()?;
                workload.trained = Trained::Adapter(Lora::new(rank, 2.0 * rank as f64));
            }
            Some(("bytes", bytes)) => workload.weight_bytes = bytes.parse()?,
            Some(("recompute", yes)) => workload.recompute = yes.parse()?,
            Some(("devices", count)) => workload.devices = count.parse()?,
            Some(("sequences", count)) => workload.sequences = count.parse()?,
            _ => {
                return Err(format!(
                    "unknown setting `{setting}`; known: lora, bytes, recompute, devices, sequences"
                )
                .into());
            }
        }
    }
    println!("{}", plan(&ModelConfig::read(folder)?, &workload));
    Ok(())
}
