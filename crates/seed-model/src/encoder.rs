//! BERT-family sentence encoders (MiniLM, E5, BGE): texts in, vectors out, for dense retrieval.
//!
//! [`TextEncoder::load`] reads a Hugging Face folder: `config.json`, `tokenizer.json` and safetensors, and, where the folder is one
//! of sentence-transformers, its pooling, normalisation, prompts and length. What a folder does not say, [`EncoderOptions`] must:
//! nothing is guessed. Texts are packed by length, never padded; a text's vector does not depend on its company.
//!
//! Inference only: weights are constants.

mod bert;
mod config;
mod options;

pub use bert::{Bert, BertLayer};
pub use config::EncoderConfig;
pub use options::{EncoderOptions, Pooling, Recipe};

use crate::batch::PackedBatch;
use crate::checkpoint::{CheckpointError, WeightFiles};
use crate::config::ConfigError;
use burn::tensor::{Device, FloatDType};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// Why an encoder cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// The weights cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A configuration file cannot be used.
    #[error("{path}: the configuration cannot be used")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ConfigError,
    },
    /// A file has content that cannot be used.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Neither the folder nor the options say how.
    #[error(
        "{folder}: no `modules.json` says the {what}; set `EncoderOptions::{option}` (E5: mean, BGE: cls, both normalised)"
    )]
    Unset {
        /// The folder.
        folder: PathBuf,
        /// `pooling` or `normalisation`.
        what: &'static str,
        /// The field to set.
        option: &'static str,
    },
    /// More tokens than the model has positions for, or too few for the special tokens.
    #[error(
        "texts of at most {found} tokens are asked for, needed: {least} to {most} (`max_position_embeddings`)"
    )]
    MaxTokens {
        /// The value given.
        found: usize,
        /// Special tokens and one more.
        least: usize,
        /// Positions of the model.
        most: usize,
    },
    /// The tokenizer refused a text.
    #[error("text {index} cannot be tokenised: {reason}")]
    Tokenise {
        /// Index of the text.
        index: usize,
        /// What the library says.
        reason: String,
    },
    /// The tokenizer knows ids that the model has no row for.
    #[error(
        "text {index}: id {found} is outside the model's vocabulary of {vocab_size}; the tokenizer belongs to another model"
    )]
    UnknownId {
        /// Index of the text.
        index: usize,
        /// The id.
        found: u32,
        /// Rows of the embedding.
        vocab_size: usize,
    },
}

/// Vectors of some texts, row after row in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    width: usize,
    values: Vec<f32>,
}

impl Embeddings {
    /// Numbers of one vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One vector.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// All vectors in their order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    /// All numbers, `[texts, width]` row-major.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All numbers, owned.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}

/// Most tokens in one forward pass; a longer text still goes through, alone.
const BATCH_TOKENS: usize = 4096;

/// A sentence encoder with its tokenizer and its recipe.
#[derive(Debug)]
pub struct TextEncoder {
    bert: Bert,
    tokenizer: tokenizers::Tokenizer,
    recipe: Recipe,
}

impl TextEncoder {
    /// Loads a Hugging Face folder onto `device`, with weights and activations in `dtype`.
    ///
    /// `options` win over what the folder says. Give a device without autodiff: an encoder collects no gradients.
    ///
    /// # Errors
    /// [`EncoderError`]: a file that is missing or cannot be used, an option that is not supported, a tensor that is missing, left
    /// over or of another shape, or a recipe that neither side gives.
    pub fn load(
        folder: impl AsRef<Path>,
        options: &EncoderOptions,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Self, EncoderError> {
        let folder = folder.as_ref();
        let config = EncoderConfig::read(folder)?;
        let path = folder.join("tokenizer.json");
        let mut tokenizer = tokenizers::Tokenizer::from_file(&path)
            .map_err(|error| EncoderError::Content { path: path.clone(), reason: error.to_string() })?;
        let special = special_tokens(&tokenizer);
        let recipe = Recipe::resolve(folder, options, config.max_position_embeddings)?;
        let (least, most) = (special + 1, config.max_position_embeddings);
        if !(least..=most).contains(&recipe.max_tokens) {
            return Err(EncoderError::MaxTokens { found: recipe.max_tokens, least, most });
        }
        // The file stores the settings of whoever saved it, padding to a fixed length among them.
        tokenizer.with_padding(None);
        let truncation = tokenizers::TruncationParams { max_length: recipe.max_tokens, ..Default::default() };
        tokenizer
            .with_truncation(Some(truncation))
            .map_err(|error| EncoderError::Content { path, reason: error.to_string() })?;
        let files = WeightFiles::open(folder)?;
        let bert = Bert::load(&config, &files, &device.clone().inner(), dtype)?;
        Ok(Self { bert, tokenizer, recipe })
    }

    /// Vectors of search queries, the query prefix in front of each.
    ///
    /// # Errors
    /// [`EncoderError`] for a text that the tokenizer refuses.
    pub fn encode_queries<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Result<Embeddings, EncoderError> {
        self.encode_after(&self.recipe.query_prefix, texts)
    }

    /// Vectors of passages, the passage prefix in front of each.
    ///
    /// # Errors
    /// [`EncoderError`] for a text that the tokenizer refuses.
    pub fn encode_passages<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Result<Embeddings, EncoderError> {
        self.encode_after(&self.recipe.passage_prefix, texts)
    }

    /// Vectors of texts as they are, without a prefix.
    ///
    /// # Errors
    /// [`EncoderError`] for a text that the tokenizer refuses.
    pub fn encode<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Result<Embeddings, EncoderError> {
        self.encode_after("", texts)
    }

    /// Ids of each text, special tokens included, cut at [`Recipe::max_tokens`].
    ///
    /// # Errors
    /// [`EncoderError`] for a text that the tokenizer refuses.
    pub fn tokens<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Result<Vec<Vec<u32>>, EncoderError> {
        self.tokens_after("", texts)
    }

    /// What the vectors are made by.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The network without tokenizer and pooling.
    pub fn bert(&self) -> &Bert {
        &self.bert
    }

    /// Numbers of a vector.
    pub fn width(&self) -> usize {
        self.bert.config().hidden_size
    }

    fn encode_after<T: AsRef<str> + Sync>(
        &self,
        prefix: &str,
        texts: &[T],
    ) -> Result<Embeddings, EncoderError> {
        let width = self.width();
        let ids = self.tokens_after(prefix, texts)?;
        let mut values = vec![0.0; texts.len() * width];
        // Longest first: rows of similar length share a pass, and memory peaks at once.
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(ids[*i].len()));
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = rest.iter().take_while(|i| {
                tokens += ids[**i].len();
                tokens <= BATCH_TOKENS
            });
            let (batch, later) = rest.split_at(fits.count().max(1));
            rest = later;
            let packed = PackedBatch::new(&batch.iter().map(|i| ids[*i].as_slice()).collect::<Vec<_>>());
            let hidden = self.bert.forward(&packed).cast(FloatDType::F32).into_data();
            let hidden = hidden.as_slice::<f32>().expect("cast to f32");
            let mut start = 0;
            for (i, length) in batch.iter().zip(&packed.lengths) {
                let rows = &hidden[start * width..(start + length) * width];
                self.recipe.pool(rows, &mut values[i * width..(i + 1) * width]);
                start += length;
            }
        }
        Ok(Embeddings { width, values })
    }

    fn tokens_after<T: AsRef<str> + Sync>(
        &self,
        prefix: &str,
        texts: &[T],
    ) -> Result<Vec<Vec<u32>>, EncoderError> {
        let vocab_size = self.bert.config().vocab_size;
        let one = |(index, text): (usize, &T)| {
            let text = format!("{prefix}{}", text.as_ref());
            let text = if self.recipe.lower_case { text.to_lowercase() } else { text };
            let encoding = self
                .tokenizer
                .encode_fast(text, true)
                .map_err(|error| EncoderError::Tokenise { index, reason: error.to_string() })?;
            let ids = encoding.get_ids().to_vec();
            match ids.iter().find(|id| **id as usize >= vocab_size) {
                Some(&found) => Err(EncoderError::UnknownId { index, found, vocab_size }),
                None => Ok(ids),
            }
        };
        texts.par_iter().enumerate().map(one).collect()
    }
}

/// Tokens that the tokenizer puts around a text.
fn special_tokens(tokenizer: &tokenizers::Tokenizer) -> usize {
    use tokenizers::PostProcessor;
    tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false))
}
