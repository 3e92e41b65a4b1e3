//! One case of the file: typed access to its inputs, and comparison with everything that it expects.

use burn::tensor::{DType, Device, Tensor, TensorData};
use seed_core::TokenRows;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Where tensors are made.
pub(crate) struct Environment {
    pub(crate) device: Device,
    pub(crate) dtype: DType,
}

impl Environment {
    pub(crate) fn new(dtype: DType) -> Self {
        Self { device: Device::flex().autodiff(), dtype }
    }

    pub(crate) fn tensor<const D: usize>(&self, values: Vec<f64>, shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values, shape), (&self.device, self.dtype))
    }

    pub(crate) fn tokens(&self, values: Vec<f64>) -> Tensor<1> {
        let count = values.len();
        self.tensor(values, [count])
    }
}

pub(crate) struct Case<'a> {
    value: &'a Value,
    relative: f64,
    absolute: f64,
    /// Paths below `expected` and `grad` that nobody has compared yet.
    unread: RefCell<BTreeSet<String>>,
    /// Inputs and settings that nobody has asked for yet.
    unused: RefCell<BTreeSet<String>>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(file: &'a Value, index: usize, dtype: DType) -> Result<Self, String> {
        let value = &file["cases"][index];
        let precision = if dtype == DType::F64 { "float64" } else { "float32" };
        let tolerance = |what: &str| {
            let key = format!("{precision}_{what}");
            value["tolerance"][&key]
                .as_f64()
                .or_else(|| file["tolerance"][&key].as_f64())
                .ok_or_else(|| format!("no tolerance `{key}` in the file"))
        };
        let mut unread = BTreeSet::new();
        for section in ["expected", "grad"] {
            collect_paths(&value[section], section.to_owned(), &mut unread);
        }
        let unused = ["inputs", "config"]
            .into_iter()
            .flat_map(|section| value[section].as_object().into_iter().flatten())
            .map(|(name, _)| name.clone())
            .collect();
        Ok(Self {
            value,
            relative: tolerance("rel")?,
            absolute: tolerance("abs")?,
            unread: RefCell::new(unread),
            unused: RefCell::new(unused),
        })
    }

    pub(crate) fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    fn used(&self, section: &str, name: &str) -> Option<&'a Value> {
        self.unused.borrow_mut().remove(name);
        self.value[section].get(name)
    }

    pub(crate) fn input(&self, name: &str) -> Result<&'a Value, String> {
        self.used("inputs", name).ok_or_else(|| format!("the case has no input `{name}`"))
    }

    pub(crate) fn optional_input(&self, name: &str) -> Option<&'a Value> {
        self.used("inputs", name).filter(|value| !value.is_null())
    }

    pub(crate) fn config(&self, name: &str) -> Result<&'a Value, String> {
        self.used("config", name).ok_or_else(|| format!("the case has no setting `{name}`"))
    }

    pub(crate) fn optional_config(&self, name: &str) -> Option<&'a Value> {
        self.used("config", name).filter(|value| !value.is_null())
    }

    pub(crate) fn number(&self, name: &str) -> Result<f64, String> {
        self.config(name)?.as_f64().ok_or_else(|| format!("setting `{name}` is not a number"))
    }

    pub(crate) fn count(&self, name: &str) -> Result<usize, String> {
        self.config(name)?
            .as_u64()
            .map(|n| n as usize)
            .ok_or_else(|| format!("setting `{name}` is not a count"))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        self.config(name)?.as_bool().ok_or_else(|| format!("setting `{name}` is not a truth value"))
    }

    /// A setting that names a value of one of the crate's switches.
    pub(crate) fn switch<S: std::str::FromStr<Err = seed_core::InputError>>(
        &self,
        name: &str,
    ) -> Result<S, String> {
        let text = self.config(name)?.as_str().ok_or_else(|| format!("setting `{name}` is not a name"))?;
        text.parse().map_err(|error: seed_core::InputError| error.to_string())
    }

    /// A switch that a case may leave to its default.
    pub(crate) fn switch_or<S: std::str::FromStr<Err = seed_core::InputError>>(
        &self,
        name: &str,
        default: S,
    ) -> Result<S, String> {
        self.optional_config(name).map_or(Ok(default), |_| self.switch(name))
    }

    /// A number that a case may leave to its default; `null` is the default, too.
    pub(crate) fn number_or(&self, name: &str, default: f64) -> Result<f64, String> {
        self.optional_config(name).map_or(Ok(default), |_| self.number(name))
    }

    /// A number that may be absent or `null`.
    pub(crate) fn optional_number(&self, name: &str) -> Result<Option<f64>, String> {
        self.optional_config(name).map(|_| self.number(name)).transpose()
    }

    /// The names below an expectation, e.g. the aggregations.
    pub(crate) fn expected_names(&self, path: &str) -> Vec<String> {
        self.value
            .pointer(&format!("/{path}"))
            .and_then(Value::as_object)
            .map_or_else(Vec::new, |object| object.keys().cloned().collect())
    }

    /// Compares numbers, in row-major order, with those at `path` (e.g. `expected/loss`), if the case has that path.
    pub(crate) fn check(&self, path: &str, found: &[f64]) -> Result<(), String> {
        let Some(expected) = self.value.pointer(&format!("/{path}")) else { return Ok(()) };
        self.unread.borrow_mut().remove(path);
        let expected = numbers(expected);
        if expected.len() != found.len() {
            return Err(format!("{path}: {} numbers, expected {}", found.len(), expected.len()));
        }
        for (index, (x, y)) in found.iter().zip(&expected).enumerate() {
            let distance = (x - y).abs();
            if distance.is_nan() || distance > self.absolute + self.relative * y.abs() {
                return Err(format!("{path}[{index}]: {x:e}, expected {y:e} (off by {distance:e})"));
            }
        }
        Ok(())
    }

    /// Compares exact values.
    pub(crate) fn check_exact(&self, path: &str, found: &[usize]) -> Result<(), String> {
        let Some(expected) = self.value.pointer(&format!("/{path}")) else { return Ok(()) };
        self.unread.borrow_mut().remove(path);
        let expected = numbers(expected);
        if expected.iter().copied().eq(found.iter().map(|&x| x as f64)) {
            Ok(())
        } else {
            Err(format!("{path}: {found:?}, expected {expected:?}"))
        }
    }

    /// Compares a partition: labels are arbitrary, only which positions share one matters.
    pub(crate) fn check_partition(&self, path: &str, found: &[usize]) -> Result<(), String> {
        let Some(expected) = self.value.pointer(&format!("/{path}")) else { return Ok(()) };
        self.unread.borrow_mut().remove(path);
        let expected = labels(expected);
        let first = |position: usize| expected.iter().position(|label| *label == expected[position]);
        let ours = |position: usize| found.iter().position(|label| *label == found[position]);
        if expected.len() == found.len() && (0..found.len()).all(|position| first(position) == ours(position))
        {
            Ok(())
        } else {
            Err(format!("{path}: {found:?}, expected the partition {expected:?}"))
        }
    }

    pub(crate) fn tensor(&self, path: &str, found: Tensor<1>) -> Result<(), String> {
        self.check(path, &host(found))
    }

    /// Fails when the case expects something that was not compared, or sets something that was not used.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let unused = self.unused.borrow();
        if !unused.is_empty() {
            return Err(format!("inputs or settings never used: {unused:?}"));
        }
        let unread = self.unread.borrow();
        if unread.is_empty() { Ok(()) } else { Err(format!("expectations never compared: {unread:?}")) }
    }
}

/// Leaves are arrays and scalars; objects are walked.
fn collect_paths(value: &Value, path: String, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                collect_paths(value, format!("{path}/{name}"), into);
            }
        }
        Value::Null => {}
        _ => {
            into.insert(path);
        }
    }
}

/// All numbers of a nested array, in order; truth values count as 0 and 1.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Bool(flag) => vec![f64::from(u8::from(*flag))],
        Value::String(word) => vec![word.parse().unwrap_or(f64::NAN)],
        _ => vec![value.as_f64().unwrap_or(f64::NAN)],
    }
}

pub(crate) fn flags(value: &Value) -> Vec<bool> {
    numbers(value).into_iter().map(|x| x != 0.0).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|x| x as u32).collect()
}

/// Labels of any JSON type.
pub(crate) fn labels(value: &Value) -> Vec<String> {
    value.as_array().map_or_else(Vec::new, |items| items.iter().map(Value::to_string).collect())
}

pub(crate) fn items(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("expected an array, found {value}"))
}

/// Length along one dimension of a nested array.
pub(crate) fn extent(value: &Value, dimension: usize) -> usize {
    match value.as_array() {
        Some(items) if dimension == 0 => items.len(),
        Some(items) => items.first().map_or(0, |first| extent(first, dimension - 1)),
        None => 0,
    }
}

/// A rectangle mask as the crate reads it from a tensor.
pub(crate) fn rectangle(mask: &Value, environment: &Environment) -> Result<TokenRows, String> {
    let shape = [extent(mask, 0), extent(mask, 1)];
    TokenRows::rectangle(&environment.tensor(numbers(mask), shape)).map_err(|error| error.to_string())
}

pub(crate) fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.try_into_vec_as::<f64>().expect("the tensor can be read")
}

/// The gradient of `loss` with respect to a leaf; zeros when it takes no part.
pub(crate) fn gradient<const D: usize>(loss: Tensor<1>, leaf: &Tensor<D>) -> Vec<f64> {
    let gradients = loss.backward();
    leaf.grad(&gradients).map_or_else(|| vec![0.0; leaf.shape().num_elements()], host)
}
