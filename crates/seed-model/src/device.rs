//! Which device a computation runs on: always explicit, never guessed by a tensor.

use burn::tensor::Device;

/// Why a device cannot be used; one line that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The text is not of the form that [`select`] or [`select_all`] reads.
    #[error(
        "unknown device `{found}`; write `auto`, `cpu`, `cuda:INDEX`, `wgpu[:INDEX]`, several with commas, or `cuda:all` alone"
    )]
    Unknown {
        /// The text given.
        found: String,
    },
    /// The backend was not compiled into this binary.
    #[error("device `{device}` needs a build with `--features {feature}`; this binary has: {compiled}")]
    NotCompiled {
        /// The text given.
        device: String,
        /// The cargo feature that adds the backend.
        feature: &'static str,
        /// Backends that are there.
        compiled: String,
    },
    /// The backend is there, the device is not.
    #[error("device `{device}` is not there: {reason}")]
    NotFound {
        /// The text given.
        device: String,
        /// How many devices there are, or why the driver cannot be loaded.
        reason: String,
    },
}

/// Backends compiled into this binary, in the order in which `auto` tries them.
pub fn compiled_backends() -> &'static [&'static str] {
    &[
        #[cfg(feature = "cuda")]
        "cuda",
        #[cfg(feature = "wgpu")]
        "wgpu",
        #[cfg(feature = "cpu")]
        "cpu",
    ]
}

/// The device that `spec` names: `auto`, `cpu`, `cuda:0` or `wgpu`, optionally with an index.
///
/// `auto` takes the first CUDA device, else the first wgpu device, else the CPU, among what is compiled in and present.
/// The result has no autodiff; call `.autodiff()` on it for training.
///
/// # Errors
/// [`DeviceError`] when the text is unknown, the backend is not compiled in, or no such device exists.
pub fn select(spec: &str) -> Result<Device, DeviceError> {
    let (kind, index) = match spec.split_once(':') {
        None => (spec, None),
        Some((kind, index)) => {
            let index =
                index.parse::<usize>().map_err(|_| DeviceError::Unknown { found: spec.to_owned() })?;
            (kind, Some(index))
        }
    };
    match kind {
        "auto" if index.is_none() => auto(),
        "cpu" if index.is_none_or(|index| index == 0) => cpu(spec),
        "cuda" => cuda(spec, index.unwrap_or(0)),
        "wgpu" => wgpu(spec, index),
        _ => Err(DeviceError::Unknown { found: spec.to_owned() }),
    }
}

/// The devices that `spec` names: what [`select`] reads, several separated by commas, or `cuda:all`.
///
/// A device may be named twice; it then has two workers.
///
/// # Errors
/// [`DeviceError`] for the first that cannot be used.
pub fn select_all(spec: &str) -> Result<Vec<Device>, DeviceError> {
    match spec {
        "cuda:all" => all_cuda(spec),
        list => list.split(',').map(|one| select(one.trim())).collect(),
    }
}

/// Whether this is the CPU, whose memory all threads share.
pub fn is_cpu(device: &Device) -> bool {
    cpu("cpu").is_ok_and(|cpu| cpu == device.clone().inner())
}

fn auto() -> Result<Device, DeviceError> {
    let mut last =
        DeviceError::NotCompiled { device: "auto".into(), feature: "cpu", compiled: "none".into() };
    for &backend in compiled_backends() {
        match select(backend) {
            Ok(device) => return Ok(device),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(not(all(feature = "cpu", feature = "cuda", feature = "wgpu")))]
fn not_compiled(device: &str, feature: &'static str) -> DeviceError {
    let compiled = compiled_backends();
    let compiled = if compiled.is_empty() { "none".to_owned() } else { compiled.join(", ") };
    DeviceError::NotCompiled { device: device.to_owned(), feature, compiled }
}

#[cfg(feature = "cpu")]
fn cpu(_spec: &str) -> Result<Device, DeviceError> {
    Ok(Device::flex())
}

#[cfg(not(feature = "cpu"))]
fn cpu(spec: &str) -> Result<Device, DeviceError> {
    Err(not_compiled(spec, "cpu"))
}

/// Runs `count`, a question to a driver, without the panic message that a missing driver causes.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn ask_driver<T: Send + 'static>(device: &str, question: fn() -> T) -> Result<T, DeviceError> {
    // Driver libraries are loaded on the first question; burn panics where one is missing.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answer = std::thread::spawn(question).join();
    std::panic::set_hook(hook);
    answer.map_err(|_| DeviceError::NotFound {
        device: device.to_owned(),
        reason: "its driver cannot be loaded; use `cpu`, or install the driver".to_owned(),
    })
}

#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn found_only(device: &str, count: usize) -> DeviceError {
    let reason = format!("the driver reports {count} device(s); indices start at 0");
    DeviceError::NotFound { device: device.to_owned(), reason }
}

#[cfg(feature = "cuda")]
fn cuda(spec: &str, index: usize) -> Result<Device, DeviceError> {
    use burn::tensor::DeviceType;
    let count = ask_driver(spec, || Device::enumerate(DeviceType::Cuda).len())?;
    if index >= count {
        return Err(found_only(spec, count));
    }
    Ok(Device::cuda(index))
}

#[cfg(feature = "cuda")]
fn all_cuda(spec: &str) -> Result<Vec<Device>, DeviceError> {
    use burn::tensor::DeviceType;
    match ask_driver(spec, || Device::enumerate(DeviceType::Cuda).len())? {
        0 => Err(found_only(spec, 0)),
        count => Ok((0..count).map(Device::cuda).collect()),
    }
}

#[cfg(not(feature = "cuda"))]
fn all_cuda(spec: &str) -> Result<Vec<Device>, DeviceError> {
    Err(not_compiled(spec, "cuda"))
}

#[cfg(not(feature = "cuda"))]
fn cuda(spec: &str, _index: usize) -> Result<Device, DeviceError> {
    Err(not_compiled(spec, "cuda"))
}

#[cfg(feature = "wgpu")]
fn wgpu(spec: &str, index: Option<usize>) -> Result<Device, DeviceError> {
    use burn::tensor::DeviceType;
    let devices = ask_driver(spec, || Device::enumerate(DeviceType::Wgpu).into_vec())?;
    let count = devices.len();
    devices.into_iter().nth(index.unwrap_or(0)).ok_or_else(|| found_only(spec, count))
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(spec: &str, _index: Option<usize>) -> Result<Device, DeviceError> {
    Err(not_compiled(spec, "wgpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_texts_say_what_is_known() {
        for text in ["gpu", "cpu:1", "cuda:x", "auto:0", ""] {
            let message = select(text).unwrap_err().to_string();
            assert!(message.contains("`auto`, `cpu`"), "{text}: {message}");
        }
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn the_cpu_is_always_there_and_auto_finds_a_device() {
        assert_eq!(select("cpu").unwrap(), Device::flex());
        assert!(select("auto").is_ok());
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_backend_that_is_not_compiled_names_its_feature() {
        let message = select("cuda:0").unwrap_err().to_string();
        assert_eq!(message, "device `cuda:0` needs a build with `--features cuda`; this binary has: cpu");
    }
}
