//! Where reference data lies, and how numbers are compared.

use burn::tensor::{Device, FloatDType, Tensor};
use seed_model::checkpoint::WeightFiles;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// This package's folder.
pub(crate) fn package() -> PathBuf {
    // The running cargo's word first: the binary may come from a target folder that several clones share.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}

/// `SEED_SHARED/vectors/<part>`, which must exist.
#[track_caller]
pub(crate) fn vectors(part: &str) -> PathBuf {
    let shared =
        std::env::var_os("SEED_SHARED").map_or_else(|| package().join("../../../shared"), PathBuf::from);
    let path = shared.join("vectors").join(part);
    assert!(path.exists(), "{} is not there; set SEED_SHARED to the folder `shared`", path.display());
    path
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn cpu() -> Device {
    seed_model::device::select("cpu").unwrap()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

pub(crate) fn to_vec<const R: usize>(tensor: Tensor<R>) -> Vec<f32> {
    tensor.cast(FloatDType::F32).into_data().try_into_vec::<f32>().unwrap()
}

/// The values of a reference tensor.
pub(crate) fn stored(files: &WeightFiles, name: &str) -> Vec<f32> {
    let shape = files.shape(name).unwrap_or_else(|| panic!("reference has no `{name}`")).to_vec();
    files.tensor(name, &shape, FloatDType::F32).unwrap().try_into_vec::<f32>().unwrap()
}

#[track_caller]
pub(crate) fn assert_close(what: &str, found: &[f32], expected: &[f32], limit: f32) {
    assert_eq!(found.len(), expected.len(), "{what}: number of values");
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= limit, "{what}: largest difference {worst:e}, limit {limit:e}");
    assert!(found.iter().all(|x| x.is_finite()), "{what}: not finite");
}

/// Norm of the difference against the norm of what is expected.
pub(crate) fn relative(found: &[f32], expected: &[f32]) -> f32 {
    let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt() as f32;
    norm(&mut found.iter().zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied())
}

/// `SEED_ARTEFACTS/<part>`, which `cargo xtask fetch <what>` fills.
#[track_caller]
pub(crate) fn artefact(part: &str, what: &str) -> PathBuf {
    let root = std::env::var_os("SEED_ARTEFACTS")
        .map_or_else(|| package().join("../../target/artefacts"), PathBuf::from);
    let path = root.join(part);
    assert!(path.exists(), "{} is not there; run `cargo xtask fetch {what}`", path.display());
    path
}
