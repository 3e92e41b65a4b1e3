//! Loads a Hugging Face folder (or a GGUF file), saves it as another folder, and writes the logits of one prompt beside it, so that
//! `scripts/check_transformers.py` can compare.
//!
//!     cargo run -p seed-model --example resave -- SOURCE OUT [--shard-bytes N]

use burn::tensor::FloatDType;
use safetensors::tensor::{Dtype, TensorView};
use seed_model::checkpoint::{self, SaveOptions};
use seed_model::{ChatTemplate, PackedBatch, Tokenizer, device, gguf};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (source, out, shard) = match args.as_slice() {
        [source, out] => (source, out, None),
        [source, out, flag, bytes] if flag == "--shard-bytes" => (source, out, Some(bytes.parse()?)),
        _ => return Err("usage: resave SOURCE OUT [--shard-bytes N]".into()),
    };
    let (source, out) = (Path::new(source), Path::new(out));
    let cpu = device::select("cpu")?;
    let (model, tokenizer, generation_config) = if source.is_dir() {
        let loaded = checkpoint::load(source, &cpu, FloatDType::F32)?;
        (loaded.model, Tokenizer::load(source)?, loaded.generation_config)
    } else {
        let loaded = gguf::load(source, &cpu, FloatDType::F32)?;
        (loaded.model, loaded.tokenizer, Some(loaded.generation_config))
    };
    let mut options = SaveOptions { generation_config, ..SaveOptions::default() };
    options.max_shard_bytes = shard.unwrap_or(options.max_shard_bytes);
    checkpoint::save(&model, out, &options)?;
    tokenizer.save(out)?;
    if source.is_dir() && source.join("chat_template.jinja").exists() {
        std::fs::write(out.join("chat_template.jinja"), ChatTemplate::load(source)?.source())?;
    }

    let ids: Vec<u32> = (0..24).map(|i| (i * 37 + 5) % model.config().vocab_size as u32).collect();
    let logits = model.logits(&PackedBatch::new(&[&ids])).into_data();
    let ids: Vec<u8> = ids.iter().flat_map(|id| (*id as i32).to_le_bytes()).collect();
    let views = [
        ("ids", TensorView::new(Dtype::I32, vec![24], &ids)?),
        ("logits", TensorView::new(Dtype::F32, logits.shape().to_vec(), logits.as_bytes())?),
    ];
    safetensors::serialize_to_file(views, None, &out.join("logits.safetensors"))?;
    println!("saved {}", out.display());
    Ok(())
}
