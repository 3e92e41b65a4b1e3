//! A stranger's first program: load a folder, score a text, teach the model a sentence through a LoRA adapter, save the adapter.
//!
//!     cargo run -p seed-model --example fine_tune -- MODEL_FOLDER OUT_FOLDER

use burn::module::Module;
use burn::tensor::FloatDType;
use seed_model::optim::{AdamW, AdamWOptions, clip_global_norm};
use seed_model::{
    Activations, Lora, ScoreBatch, ScoreRow, Tokenizer, checkpoint, device, loss_and_gradients, score,
};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, out] = args.as_slice() else {
        return Err("usage: fine_tune MODEL_FOLDER OUT_FOLDER".into());
    };
    // Autodiff makes parameters collect gradients; without it the model only scores and generates.
    let device = device::select("auto")?.autodiff();
    let base = checkpoint::load(folder, &device, FloatDType::F32)?.model;
    let tokenizer = Tokenizer::load(folder)?;

    let prompt = tokenizer.encode("The kettle is")?;
    let response = tokenizer.encode(" in the third drawer, behind the cups.")?;
    let rows = [ScoreRow::new(&prompt, &response)];
    let sum = |model: &seed_model::CausalLm| -> Result<f32, Box<dyn Error>> {
        Ok(score(model, &rows, 1.0, false)?.logp.sum().into_scalar::<f32>())
    };
    println!("log-probability before: {:.3}", sum(&base.valid())?);

    let lora = Lora::new(8, 16.0);
    let mut model = lora.attach(&base, 0)?;
    let mut optimiser = AdamW::new(AdamWOptions { weight_decay: 0.0, ..AdamWOptions::default() });
    let batch = ScoreBatch::new(&rows, model.config().vocab_size)?;
    for step in 1..=30 {
        let (loss, gradients) =
            loss_and_gradients(&model, &batch.packed, Activations::Keep, |hidden, head| {
                batch.scores(hidden, head, 1.0, false).logp.mean().neg()
            });
        let (gradients, norm) = clip_global_norm(&model, gradients, 1.0)?;
        model = optimiser.step(model, gradients, 5e-3);
        if step % 10 == 0 {
            println!("step {step}: loss {:.4}, gradient norm {norm:.3}", loss.into_scalar::<f32>());
        }
    }
    println!("log-probability after:  {:.3}", sum(&model.valid())?);
    lora.save(&model, out, folder)?;
    println!("adapter saved to {out}");
    Ok(())
}
