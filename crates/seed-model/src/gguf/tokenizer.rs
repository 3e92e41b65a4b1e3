//! The tokenizer in the metadata, in the form of `tokenizer.json`.

use super::GgufError;
use super::file::{GgufFile, MetadataValue};
use crate::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

/// Numbers in `tokenizer.ggml.token_type`.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The tokenizer, and a `tokenizer_config.json` for it.
pub(super) fn build(file: &GgufFile) -> Result<(Tokenizer, Value), GgufError> {
    let model = file.text("tokenizer.ggml.model")?;
    if model != "gpt2" {
        let (what, found) = ("metadata key `tokenizer.ggml.model`".to_owned(), model.to_owned());
        return Err(GgufError::Unsupported { what, found, supported: "gpt2 (byte-level BPE)" });
    }
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let pre_tokenizer = match file.get("tokenizer.ggml.pre").and_then(MetadataValue::text).unwrap_or("gpt-2")
    {
        "gpt-2" | "default" => byte_level.clone(),
        "smollm" => {
            json!({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, byte_level]})
        }
        other => {
            let (what, found) = ("metadata key `tokenizer.ggml.pre`".to_owned(), other.to_owned());
            return Err(GgufError::Unsupported { what, found, supported: "gpt-2, default, smollm" });
        }
    };
    let texts = |key: &str| -> Result<Vec<&str>, GgufError> {
        let items = file.get(key).and_then(MetadataValue::list);
        let items = items.and_then(|items| items.iter().map(MetadataValue::text).collect::<Option<Vec<_>>>());
        items.ok_or_else(|| file.wrong(key, "a list of texts"))
    };
    let tokens = texts("tokenizer.ggml.tokens")?;
    let merges = texts("tokenizer.ggml.merges")?;
    let kinds = file.get("tokenizer.ggml.token_type").and_then(MetadataValue::list).unwrap_or_default();
    let added: Vec<Value> = kinds
        .iter()
        .zip(&tokens)
        .enumerate()
        .filter_map(|(id, (kind, token))| {
            let kind = kind.integer().filter(|kind| [CONTROL, USER_DEFINED].contains(kind))?;
            Some(json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind == CONTROL,
            }))
        })
        .collect();
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), json!(id))).collect();
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    });

    let token = |key: &str| {
        let id = file.get(&format!("tokenizer.ggml.{key}_token_id")).and_then(MetadataValue::integer)?;
        tokens.get(usize::try_from(id).ok()?).map(|token| (*token).to_owned())
    };
    let flag = matches!(file.get("tokenizer.ggml.add_bos_token"), Some(MetadataValue::Flag(true)));
    let mut config = json!({
        "add_bos_token": flag, "add_prefix_space": false, "clean_up_tokenization_spaces": false,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    for (name, key) in
        [("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("pad_token", "padding")]
    {
        if let Some(token) = token(key) {
            config[name] = json!(token);
        }
    }
    if let Some(template) = file.get("tokenizer.chat_template").and_then(MetadataValue::text) {
        config["chat_template"] = json!(template);
    }
    let bytes =
        serde_json::to_vec(&json).map_err(|error| GgufError::Tokenizer { reason: error.to_string() })?;
    let tokenizer = Tokenizer::from_json(bytes, config.clone(), Vec::new())
        .map_err(|reason| GgufError::Tokenizer { reason })?;
    Ok((tokenizer, config))
}
