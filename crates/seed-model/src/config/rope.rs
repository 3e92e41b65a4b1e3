//! Rotary frequencies: plain, and scaled for longer texts than the model was first made for.
//!
//! Scaling is that of the published families: `linear`, `yarn` (Qwen2.5, Qwen3) and `llama3`. `dynamic` is refused: its frequencies
//! depend on the longest row of a batch, and here a row never depends on its company.

use super::{ConfigError, Keys, invalid, unsupported};
use serde_json::{Map, Value, json};
use std::f64::consts::TAU;

/// How rotary frequencies are stretched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// All frequencies divided by `factor`.
    Linear {
        /// How many times longer.
        factor: f64,
    },
    /// Fast pairs keep their frequency, slow ones are divided by `factor`, with a ramp between; the angles' cosines and sines are
    /// scaled (arXiv 2309.00071).
    Yarn {
        /// How many times longer.
        factor: f64,
        /// Positions that the model was made for before stretching.
        original_max_position_embeddings: usize,
        /// Factor on cosines and sines; `None`: `0.1 ln(factor) + 1`, or by `mscale`.
        attention_factor: Option<f64>,
        /// Turns over the original length from which on a pair is fast.
        beta_fast: f64,
        /// Turns over the original length below which a pair is slow.
        beta_slow: f64,
        /// Weights of the logarithm in numerator and denominator of the attention factor, where both are given.
        mscale: Option<(f64, f64)>,
        /// Whether the ends of the ramp are rounded outwards to whole pairs.
        truncate: bool,
    },
    /// Pairs with long waves are divided by `factor`, those with short ones kept, with a ramp between (Llama 3.1).
    Llama3 {
        /// How many times longer.
        factor: f64,
        /// Original length over the shortest wave that is divided whole.
        low_freq_factor: f64,
        /// Original length over the longest wave that is kept.
        high_freq_factor: f64,
        /// Positions that the model was made for before stretching.
        original_max_position_embeddings: usize,
    },
}

/// The turning speed of each pair.
#[derive(Debug, Clone, PartialEq)]
pub struct RotaryFrequencies {
    /// Radians a position, `head_dim / 2` of them.
    pub radians: Vec<f64>,
    /// Factor on all cosines and sines.
    pub attention_factor: f64,
}

impl RotaryFrequencies {
    /// Frequencies of heads of `head_dim`: pair `i` turns by `theta^(-2i / head_dim)` a position, then scaled.
    pub fn new(head_dim: usize, theta: f64, scaling: Option<RopeScaling>) -> Self {
        let pairs = head_dim / 2;
        let mut radians: Vec<f64> =
            (0..pairs).map(|i| theta.powf(-2.0 * i as f64 / head_dim as f64)).collect();
        let mut scale = 1.0;
        match scaling {
            None => {}
            Some(RopeScaling::Linear { factor }) => radians.iter_mut().for_each(|f| *f /= factor),
            Some(RopeScaling::Yarn {
                factor,
                original_max_position_embeddings: original,
                attention_factor,
                beta_fast,
                beta_slow,
                mscale,
                truncate,
            }) => {
                // The pair that makes so many turns over the original length.
                let pair = |turns: f64| {
                    head_dim as f64 * (original as f64 / (turns * TAU)).ln() / (2.0 * theta.ln())
                };
                let (mut low, mut high) = (pair(beta_fast), pair(beta_slow));
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, mut high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
                if low == high {
                    high += 0.001;
                }
                for (i, f) in radians.iter_mut().enumerate() {
                    let slow = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    *f = *f / factor * slow + *f * (1.0 - slow);
                }
                let of = |weight: f64| if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 };
                scale = attention_factor.unwrap_or_else(|| match mscale {
                    Some((one, all)) => of(one) / of(all),
                    None => of(1.0),
                });
            }
            Some(RopeScaling::Llama3 {
                factor,
                low_freq_factor: low,
                high_freq_factor: high,
                original_max_position_embeddings: original,
            }) => {
                for f in &mut radians {
                    let waves = original as f64 * *f / TAU;
                    if waves < low {
                        *f /= factor;
                    } else if waves <= high {
                        let kept = (waves - low) / (high - low);
                        *f = (1.0 - kept) * *f / factor + kept * *f;
                    }
                }
            }
        }
        Self { radians, attention_factor: scale }
    }
}

impl RopeScaling {
    /// `rope_scaling` in the published form.
    pub(super) fn to_json(self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        match self {
            Self::Linear { factor } => {
                put("rope_type", json!("linear"));
                put("factor", json!(factor));
            }
            Self::Yarn {
                factor,
                original_max_position_embeddings,
                attention_factor,
                beta_fast,
                beta_slow,
                mscale,
                truncate,
            } => {
                put("rope_type", json!("yarn"));
                put("factor", json!(factor));
                put("original_max_position_embeddings", json!(original_max_position_embeddings));
                put("beta_fast", json!(beta_fast));
                put("beta_slow", json!(beta_slow));
                if let Some(attention_factor) = attention_factor {
                    put("attention_factor", json!(attention_factor));
                }
                if let Some((one, all)) = mscale {
                    put("mscale", json!(one));
                    put("mscale_all_dim", json!(all));
                }
                if !truncate {
                    put("truncate", json!(false));
                }
            }
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
                put("rope_type", json!("llama3"));
                put("factor", json!(factor));
                put("low_freq_factor", json!(low_freq_factor));
                put("high_freq_factor", json!(high_freq_factor));
                put("original_max_position_embeddings", json!(original_max_position_embeddings));
            }
        }
        Value::Object(map)
    }
}

/// `rope_theta` and the scaling, from either generation of keys; takes `rope_theta`, leaves the objects. The three axes of a model
/// that sees (`mrope`) are read elsewhere, and are not stretched.
pub(super) fn read(
    keys: &mut Keys,
    max_position_embeddings: usize,
    sees: bool,
) -> Result<(f64, Option<RopeScaling>), ConfigError> {
    let found = ["rope_parameters", "rope_scaling"]
        .into_iter()
        .find_map(|key| Some((key, keys.0.get(key).filter(|value| !value.is_null())?.clone())));
    // 10,000 is what the format means by an absent key.
    let outer = keys.positive("rope_theta")?;
    let Some((key, value)) = found else { return Ok((outer.unwrap_or(1e4), None)) };
    let Value::Object(map) = &value else { return Err(invalid(key, &value, "an object or null")) };
    if map.values().any(Value::is_object) {
        return Err(unsupported(key, &value, "one setting for all layers"));
    }
    let number = |name: &str| -> Result<Option<f64>, ConfigError> {
        let Some(value) = map.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
        let number = value.as_f64().filter(|v| v.is_finite() && *v > 0.0);
        number.map(Some).ok_or_else(|| invalid(&format!("{key}.{name}"), value, "a positive number"))
    };
    let needed = |name: &str| {
        number(name)?.ok_or_else(|| invalid(&format!("{key}.{name}"), &Value::Null, "a positive number"))
    };
    if number("partial_rotary_factor")?.is_some_and(|part| part != 1.0) {
        return Err(unsupported(key, &value, "a partial_rotary_factor of 1"));
    }
    let theta = number("rope_theta")?.or(outer).unwrap_or(1e4);
    // Where the length before stretching stands outside of the object, it wins, as in the library.
    let original = || -> Result<usize, ConfigError> {
        let outside = keys.0.get("original_max_position_embeddings").and_then(Value::as_f64);
        let length = outside.or(number("original_max_position_embeddings")?);
        Ok(length.map_or(max_position_embeddings, |length| length as usize))
    };
    let kind = map.get("rope_type").or_else(|| map.get("type")).and_then(Value::as_str).unwrap_or("default");
    let scaling = match kind {
        "default" => None,
        "mrope" if sees => None,
        _ if sees => {
            return Err(unsupported(key, &value, "type \"mrope\" or \"default\" for a model that sees"));
        }
        "linear" => Some(RopeScaling::Linear { factor: needed("factor")? }),
        "yarn" => {
            let original = original()?;
            let stretched = max_position_embeddings as f64 / original as f64;
            Some(RopeScaling::Yarn {
                factor: number("factor")?.unwrap_or(stretched),
                original_max_position_embeddings: original,
                attention_factor: number("attention_factor")?,
                beta_fast: number("beta_fast")?.unwrap_or(32.0),
                beta_slow: number("beta_slow")?.unwrap_or(1.0),
                mscale: number("mscale")?.zip(number("mscale_all_dim")?),
                truncate: map.get("truncate").and_then(Value::as_bool).unwrap_or(true),
            })
        }
        "llama3" => {
            let (low, high) = (needed("low_freq_factor")?, needed("high_freq_factor")?);
            if high <= low {
                return Err(invalid(
                    &format!("{key}.high_freq_factor"),
                    &json!(high),
                    "above low_freq_factor",
                ));
            }
            Some(RopeScaling::Llama3 {
                factor: needed("factor")?,
                low_freq_factor: low,
                high_freq_factor: high,
                original_max_position_embeddings: original()?,
            })
        }
        _ => {
            let supported = "null, or type \"default\", \"linear\", \"yarn\" or \"llama3\"";
            return Err(unsupported(key, &value, supported));
        }
    };
    Ok((theta, scaling))
}
