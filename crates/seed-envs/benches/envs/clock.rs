//! Time and memory that this program itself used.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Seconds of processor time that this thread has used, so that other work on the machine does not count; seconds on
/// the clock where the system does not tell. The packages beside are timed the same way.
pub(crate) fn processor_seconds() -> f64 {
    let used = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = used.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// How often `work` counts up in a second of processor time: it is called until a second is used up.
///
/// Reading the clock costs microseconds; it is read about once a millisecond.
pub(crate) fn per_second(mut work: impl FnMut(usize) -> usize) -> f64 {
    let start = processor_seconds();
    let (mut round, mut count, mut rounds, mut last) = (0, 0, 1, 0.0);
    loop {
        for _ in 0..rounds {
            count += work(round);
            round += 1;
        }
        let used = processor_seconds() - start;
        if used > 1.0 {
            return count as f64 / used;
        }
        if used - last < 0.001 {
            rounds *= 2;
        }
        last = used;
    }
}

fn status(key: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

/// Resident memory of this process in bytes, where the system tells it.
pub(crate) fn resident() -> Option<usize> {
    status("VmRSS:")
}

/// The most memory that was resident so far.
pub(crate) fn peak_resident() -> Option<usize> {
    status("VmHWM:")
}
