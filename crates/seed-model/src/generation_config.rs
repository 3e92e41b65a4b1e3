//! `generation_config.json`: how a published model is meant to be sampled.

use crate::checkpoint::CheckpointError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// Sampling defaults of a published model. Training never samples with them: truncated sampling has other log-probabilities.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GenerationConfig {
    /// Beginning-of-text id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos_token_id: Option<u32>,
    /// Ids that end a response; one or a list in the file.
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub eos_token_id: Vec<u32>,
    /// Padding id; nothing here pads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad_token_id: Option<u32>,
    /// Sample (true) or take the likeliest token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub do_sample: Option<bool>,
    /// Divides logits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Keep the likeliest `top_k` tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Keep the smallest set of tokens with this probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Everything else in the file, written back as it is.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl GenerationConfig {
    /// Reads `generation_config.json` in `folder`; `None` where there is none.
    ///
    /// # Errors
    /// [`CheckpointError`] when the file cannot be read or has a value of another type.
    pub fn read(folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = folder.join("generation_config.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CheckpointError::Read { path, source }),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| CheckpointError::Json { path, reason: error.to_string() })
    }
}

mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Ids {
        One(u32),
        Many(Vec<u32>),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u32>, D::Error> {
        Ok(match Option::<Ids>::deserialize(input)? {
            None => Vec::new(),
            Some(Ids::One(id)) => vec![id],
            Some(Ids::Many(ids)) => ids,
        })
    }

    pub(super) fn serialize<S: Serializer>(ids: &[u32], output: S) -> Result<S::Ok, S::Error> {
        match ids {
            [id] => Ids::One(*id).serialize(output),
            ids => Ids::Many(ids.to_vec()).serialize(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_or_several_and_other_keys_survive() {
        for text in [
            r#"{"bos_token_id":1,"eos_token_id":2}"#,
            r#"{"eos_token_id":[482,480],"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.8,"repetition_penalty":1.05}"#,
        ] {
            let config: GenerationConfig = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&config).unwrap(), text);
        }
    }
}
