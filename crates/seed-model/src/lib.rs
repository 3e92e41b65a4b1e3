//! Qwen2, Qwen3, Llama-shaped and Qwen2.5-VL models in burn: Hugging Face folders in and out, scoring, generation, training;
//! and BERT-family sentence encoders ([`encoder`]).
//!
//! Rows of tokens are packed, never padded ([`PackedBatch`]); hidden states are `[tokens, hidden]`; weights keep the layout and
//! the names of published files. The device is always explicit ([`device::select`]).

mod assemble;
mod batch;
mod cache;
mod causal_lm;
mod chat_template;
pub mod checkpoint;
mod config;
pub mod decoder;
pub mod device;
pub mod encoder;
pub mod generate;
mod generation_config;
pub mod gguf;
mod init;
pub mod lora;
pub mod ops;
pub mod optim;
pub mod plan;
mod recompute;
mod score;
mod tokenizer;
pub mod vision;

pub use batch::PackedBatch;
pub use cache::{CacheError, CacheLayout, KvCache, SlotId};
pub use causal_lm::{CausalLm, TensorSource};
pub use chat_template::{
    ChatTemplate, IMAGE, Message, Part, RenderOptions, TemplateError, without_place_holders,
};
pub use checkpoint::LoadedModel;
pub use config::{ConfigError, Family, ModelConfig, RopeScaling, RotaryFrequencies, VisionConfig};
pub use encoder::{Embeddings, EncoderOptions, TextEncoder};
pub use generate::{GenerateError, GenerateOptions, Generation, generate, generate_from};
pub use generation_config::GenerationConfig;
pub use lora::Lora;
pub use recompute::{Activations, loss_and_gradients, try_loss_and_gradients};
pub use score::{ScoreBatch, ScoreError, ScoreRow, Scores, score};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use vision::{ImageProcessor, Picture, PlacedPicture, Prompt, RgbImage};
