//! How hidden states become a vector: from the folder, or from the caller.

use super::EncoderError;
use serde_json::Value;
use std::path::Path;

/// Which hidden states make the vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens, special ones included.
    Mean,
    /// The first token, `[CLS]`.
    Cls,
}

/// What the caller wants otherwise than the folder says; `None` leaves it to the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncoderOptions {
    /// Pooling.
    pub pooling: Option<Pooling>,
    /// Whether vectors get length 1.
    pub normalize: Option<bool>,
    /// Put in front of each query.
    pub query_prefix: Option<String>,
    /// Put in front of each passage.
    pub passage_prefix: Option<String>,
    /// Longest text in tokens, special ones included; longer texts are cut.
    pub max_tokens: Option<usize>,
}

impl EncoderOptions {
    /// The E5 family: mean, length 1, `query: ` and `passage: ` in front.
    pub fn e5() -> Self {
        Self {
            pooling: Some(Pooling::Mean),
            normalize: Some(true),
            query_prefix: Some("query: ".into()),
            passage_prefix: Some("passage: ".into()),
            max_tokens: None,
        }
    }

    /// The BGE family (English): first token, length 1, an instruction in front of queries only.
    pub fn bge() -> Self {
        Self {
            pooling: Some(Pooling::Cls),
            normalize: Some(true),
            query_prefix: Some("Represent this sentence for searching relevant passages: ".into()),
            passage_prefix: Some(String::new()),
            max_tokens: None,
        }
    }
}

/// How an encoder makes a vector of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recipe {
    /// Which hidden states.
    pub pooling: Pooling,
    /// Whether vectors get length 1.
    pub normalize: bool,
    /// In front of each query; empty where neither side gives one.
    pub query_prefix: String,
    /// In front of each passage; empty where neither side gives one.
    pub passage_prefix: String,
    /// Longest text in tokens, special ones included.
    pub max_tokens: usize,
    /// Texts are lower-cased before the tokenizer sees them.
    pub lower_case: bool,
}

impl Recipe {
    /// Options first, then the files of sentence-transformers, then, for the length alone, the model's positions.
    pub(super) fn resolve(
        folder: &Path,
        options: &EncoderOptions,
        positions: usize,
    ) -> Result<Self, EncoderError> {
        let published = Published::read(folder)?;
        let unset = |what, option| EncoderError::Unset { folder: folder.to_path_buf(), what, option };
        let pooling = options.pooling.or(published.pooling);
        let normalize = options.normalize.or(published.normalize);
        let prefix = |option: &Option<String>, published: Option<String>| {
            option.clone().or(published).unwrap_or_default()
        };
        Ok(Self {
            pooling: pooling.ok_or_else(|| unset("pooling", "pooling"))?,
            normalize: normalize.ok_or_else(|| unset("normalisation", "normalize"))?,
            query_prefix: prefix(&options.query_prefix, published.query_prefix),
            passage_prefix: prefix(&options.passage_prefix, published.passage_prefix),
            max_tokens: options.max_tokens.or(published.max_tokens).unwrap_or(positions),
            lower_case: published.lower_case,
        })
    }

    /// The vector of a text from its hidden states `[tokens, width]`, into `out` `[width]`.
    pub(super) fn pool(&self, hidden: &[f32], out: &mut [f32]) {
        let width = out.len();
        match self.pooling {
            Pooling::Cls => out.copy_from_slice(&hidden[..width]),
            Pooling::Mean => {
                out.fill(0.0);
                for row in hidden.chunks_exact(width) {
                    out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                }
                let count = (hidden.len() / width) as f32;
                out.iter_mut().for_each(|x| *x /= count);
            }
        }
        if self.normalize {
            let norm = out.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32;
            if norm > 0.0 {
                out.iter_mut().for_each(|x| *x /= norm);
            }
        }
    }
}

/// What a folder of sentence-transformers says.
#[derive(Default)]
struct Published {
    pooling: Option<Pooling>,
    normalize: Option<bool>,
    query_prefix: Option<String>,
    passage_prefix: Option<String>,
    max_tokens: Option<usize>,
    lower_case: bool,
}

impl Published {
    fn read(folder: &Path) -> Result<Self, EncoderError> {
        let mut found = Self::default();
        if let Some(modules) = read(&folder.join("modules.json"))? {
            found.read_modules(folder, &modules)?;
        }
        if let Some(sentence) = read(&folder.join("sentence_bert_config.json"))? {
            found.max_tokens = sentence["max_seq_length"].as_u64().map(|n| n as usize);
            found.lower_case = sentence["do_lower_case"] == true;
        }
        if let Some(library) = read(&folder.join("config_sentence_transformers.json"))? {
            let prompt = |names: &[&str]| {
                names.iter().find_map(|name| library["prompts"][*name].as_str().map(str::to_owned))
            };
            found.query_prefix = prompt(&["query"]);
            found.passage_prefix = prompt(&["document", "passage", "corpus"]);
        }
        Ok(found)
    }

    /// The steps behind the network: pooling, perhaps normalisation, nothing else.
    fn read_modules(&mut self, folder: &Path, modules: &Value) -> Result<(), EncoderError> {
        let path = folder.join("modules.json");
        let content = |reason: String| EncoderError::Content { path: path.clone(), reason };
        let steps = modules.as_array().ok_or_else(|| content("needed: a list of modules".into()))?;
        self.normalize = Some(false);
        for step in steps {
            let kind = step["type"].as_str().unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Normalize" => self.normalize = Some(true),
                "Pooling" => {
                    let path = folder.join(step["path"].as_str().unwrap_or("1_Pooling")).join("config.json");
                    let config = read(&path)?.ok_or_else(|| EncoderError::Content {
                        path: path.clone(),
                        reason: "the file is missing, but `modules.json` names its folder".into(),
                    })?;
                    let pooling = pooling(&config)
                        .map_err(|reason| EncoderError::Content { path: path.clone(), reason })?;
                    self.pooling = Some(pooling);
                }
                _ => {
                    return Err(content(format!(
                        "module {} is not supported; supported: Transformer, Pooling, Normalize",
                        step["type"]
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The one way of pooling that a configuration switches on, in both generations of keys.
fn pooling(config: &Value) -> Result<Pooling, String> {
    let mut on: Vec<&str> = config["pooling_mode"].as_str().into_iter().collect();
    if let (true, Some(map)) = (on.is_empty(), config.as_object()) {
        let flags = map.iter().filter(|(_, value)| **value == Value::Bool(true));
        on.extend(flags.filter_map(|(key, _)| key.strip_prefix("pooling_mode_")));
    }
    if config["include_prompt"] == false {
        return Err("`include_prompt` is false, which is not supported: prefixes are part of the text".into());
    }
    match on.as_slice() {
        ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::Cls),
        other => Err(format!("pooling {other:?} is not supported; supported: exactly one of mean, cls")),
    }
}

/// A JSON file; `None` where there is none.
fn read(path: &Path) -> Result<Option<Value>, EncoderError> {
    match crate::tokenizer::read_json(path) {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(EncoderError::Content { path: path.to_path_buf(), reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pooling_reads_both_generations_and_refuses_the_rest() {
        for (config, expected) in [
            (json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}), Ok(Pooling::Mean)),
            (json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}), Ok(Pooling::Cls)),
            (json!({"pooling_mode": "cls", "embedding_dimension": 8}), Ok(Pooling::Cls)),
            (json!({"pooling_mode_max_tokens": true}), Err("[\"max_tokens\"]")),
            (json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}), Err("exactly one")),
            (json!({"pooling_mode": "mean", "include_prompt": false}), Err("include_prompt")),
        ] {
            match (pooling(&config), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{config}"),
                (Err(found), Err(part)) => assert!(found.contains(part), "{config}: {found}"),
                (found, _) => panic!("{config}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_folder_that_says_nothing_needs_options() {
        let folder = tempfile::tempdir().unwrap();
        let error = Recipe::resolve(folder.path(), &EncoderOptions::default(), 512).unwrap_err();
        assert!(error.to_string().contains("set `EncoderOptions::pooling`"), "{error}");
        let recipe = Recipe::resolve(folder.path(), &EncoderOptions::bge(), 512).unwrap();
        assert_eq!((recipe.pooling, recipe.normalize, recipe.max_tokens), (Pooling::Cls, true, 512));
        assert!(recipe.passage_prefix.is_empty() && recipe.query_prefix.ends_with("passages: "));
    }

    #[test]
    fn vectors_are_pooled_and_get_length_one() {
        let mut recipe = Recipe::resolve(Path::new("nowhere"), &EncoderOptions::e5(), 512).unwrap();
        let mut out = [0.0; 2];
        recipe.pool(&[3.0, 0.0, 3.0, 8.0], &mut out);
        assert_eq!(out, [0.6, 0.8]);
        recipe.pooling = Pooling::Cls;
        recipe.normalize = false;
        recipe.pool(&[3.0, 0.0, 3.0, 8.0], &mut out);
        assert_eq!(out, [3.0, 0.0]);
    }
}
