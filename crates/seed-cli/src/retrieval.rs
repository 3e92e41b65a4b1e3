//! The encoder of dense retrieval: from `seed-model` to the small trait of `seed-envs`.

use crate::failure::Failure;
use burn::tensor::FloatDType;
use clap::{Args, ValueEnum};
use seed_envs::search_qa::retriever::dense::QueryEncoder;
use seed_model::encoder::{EncoderOptions, TextEncoder};
use std::path::PathBuf;

/// A family of encoders, where the folder does not say how its vectors are made.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Family {
    /// Mean of the tokens, length 1, `query: ` and `passage: ` in front
    E5,
    /// First token, length 1, an instruction in front of queries
    Bge,
}

#[derive(Args)]
pub(crate) struct DenseArguments {
    /// The encoder: a Hugging Face folder of the BERT family
    #[arg(long, value_name = "FOLDER")]
    encoder: Option<PathBuf>,
    /// Pooling, norm and prefixes of a family, where the encoder's folder does not say them
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Longest text in tokens; what the folder says if left out
    #[arg(long)]
    max_tokens: Option<usize>,
}

/// A text encoder as the searches want it.
pub(crate) struct Encoder {
    encoder: TextEncoder,
    folder: PathBuf,
}

impl Encoder {
    /// Where it was loaded from.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The vectors of passages.
    pub(crate) fn passages(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let vectors = self.encoder.encode_passages(texts).map_err(|error| error.to_string())?;
        Ok(vectors.rows().map(<[f32]>::to_vec).collect())
    }
}

impl QueryEncoder for Encoder {
    fn dims(&self) -> usize {
        self.encoder.width()
    }

    fn encode(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let vectors = self.encoder.encode_queries(queries).map_err(|error| error.to_string())?;
        Ok(vectors.rows().map(<[f32]>::to_vec).collect())
    }
}

/// Loads the encoder onto the processor.
pub(crate) fn load_encoder(arguments: &DenseArguments) -> Result<Encoder, Failure> {
    let folder = arguments.encoder.clone();
    let folder = folder.ok_or_else(|| Failure::usage("vectors need an encoder: give --encoder".into()))?;
    let family = match arguments.family {
        Some(Family::E5) => EncoderOptions::e5(),
        Some(Family::Bge) => EncoderOptions::bge(),
        None => EncoderOptions::default(),
    };
    let options = EncoderOptions { max_tokens: arguments.max_tokens, ..family };
    let device = seed_model::device::select("cpu").map_err(|error| Failure::usage(error.to_string()))?;
    let encoder = TextEncoder::load(&folder, &options, &device, FloatDType::F32)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Encoder { encoder, folder })
}
