//! The mesh: one piece of work split over N workers, its results taken in a fixed order.
//!
//! On the CPU the workers are threads over shared weights. Over several devices each worker has one, with a replica of the
//! weights on it; what it computes is brought to the first device, where sums are made and the optimiser steps. Work is
//! cut into parts by the caller, never by the number of workers, and parts are taken in their order, so that sums do not
//! depend on N, not even in their last bit where devices compute alike.

use burn::module::Module;
use burn::tensor::Device;
use seed_model::CausalLm;
use seed_model::device::is_cpu;
use seed_rollout::engine::Engine;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;

/// So many workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mesh {
    workers: usize,
    /// One a worker; empty where all share the weights of one device.
    devices: Vec<Device>,
}

impl Mesh {
    /// A mesh of `workers` threads; 0 means one a core.
    pub fn new(workers: usize) -> Self {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        Self { workers: if workers == 0 { cores() } else { workers }, devices: vec![] }
    }

    /// A mesh of one worker a device. With one device at most, of `workers` threads on it; 0 means one a core on the CPU,
    /// else one.
    pub fn over(devices: &[Device], workers: usize) -> Self {
        match devices {
            [] => Self::new(workers),
            [only] if is_cpu(only) => Self::new(workers),
            [_] => Self::new(workers.max(1)),
            several => Self { workers: several.len(), devices: several.to_vec() },
        }
    }

    /// How many workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The devices that have a worker each; empty where all workers share one device.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The model for each worker that has something to do in so many parts: on its device, with gradients where the
    /// original has them; shared weights where all are on one device.
    pub fn replicas(&self, model: &CausalLm, parts: usize) -> Vec<CausalLm> {
        let home = model.device();
        let on = |device: &Device| {
            if *device == home { model.clone() } else { model.clone().fork(device) }
        };
        let busy = self.workers.min(parts.max(1));
        match self.devices.as_slice() {
            [] => vec![model.clone(); busy],
            devices => devices[..busy].iter().map(on).collect(),
        }
    }

    /// Hands these weights to engines, one a worker.
    pub fn refresh(&self, engines: &mut [Engine], model: &CausalLm) {
        for (engine, replica) in engines.iter_mut().zip(self.replicas(model, self.workers)) {
            engine.set_model(replica);
        }
    }

    /// How many finished parts may wait for an earlier one. Results on devices are large: no more than one a worker.
    fn ahead(&self) -> usize {
        if self.devices.is_empty() { 2 * self.workers } else { self.workers }
    }

    /// Does `work(worker, part)` for every part, on all workers, and hands the results to `take` in the order of the parts,
    /// on the calling thread.
    ///
    /// At most `2 × workers` results wait at any time, `workers` over several devices, whatever the parts cost. The first error, of `work` or of
    /// `take`, stops the rest; with several, that of the earliest part is returned.
    ///
    /// # Errors
    /// The error of the earliest part that failed.
    pub fn ordered<T: Send, E: Send>(
        &self,
        parts: usize,
        work: impl Fn(usize, usize) -> Result<T, E> + Sync,
        mut take: impl FnMut(usize, T) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.workers == 1 || parts <= 1 {
            return (0..parts).try_for_each(|part| take(part, work(0, part)?));
        }
        let queue = Queue::new(parts, self.ahead());
        thread::scope(|scope| {
            // Nor a `take` that panics: the scope waits for the workers.
            let _stop = StopOnPanic(&queue);
            let (send, results) = mpsc::channel();
            for worker in 0..self.workers.min(parts) {
                let send = send.clone();
                let (queue, work) = (&queue, &work);
                scope.spawn(move || {
                    // A worker that panics must not leave the others waiting for its part.
                    let _stop = StopOnPanic(queue);
                    while let Some(part) = queue.next() {
                        if send.send((part, work(worker, part))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let mut waiting = BTreeMap::new();
            let mut expected = 0;
            for (part, result) in results {
                waiting.insert(part, result);
                while let Some(result) = waiting.remove(&expected) {
                    let taken = result.and_then(|value| take(expected, value));
                    if taken.is_err() {
                        queue.stop();
                        return taken;
                    }
                    expected += 1;
                    queue.taken();
                }
            }
            Ok(())
        })
    }

    /// As [`Mesh::ordered`], collecting the results of work that is the same for every worker.
    ///
    /// # Errors
    /// The error of the earliest part that failed.
    pub fn map<T: Send, E: Send>(
        &self,
        parts: usize,
        work: impl Fn(usize) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        self.map_by_worker(parts, |_, part| work(part))
    }

    /// As [`Mesh::ordered`], collecting the results.
    ///
    /// # Errors
    /// The error of the earliest part that failed.
    pub fn map_by_worker<T: Send, E: Send>(
        &self,
        parts: usize,
        work: impl Fn(usize, usize) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let mut all = Vec::with_capacity(parts);
        self.ordered(parts, work, |_, value| {
            all.push(value);
            Ok(())
        })?;
        Ok(all)
    }
}

/// Hands out parts in order, no further ahead of the taken ones than a limit.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    parts: usize,
    ahead: usize,
}

struct State {
    issued: usize,
    taken: usize,
    stopped: bool,
}

impl Queue {
    fn new(parts: usize, ahead: usize) -> Self {
        let state = Mutex::new(State { issued: 0, taken: 0, stopped: false });
        Self { state, changed: Condvar::new(), parts, ahead }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn next(&self) -> Option<usize> {
        let full = |s: &mut State| !s.stopped && s.issued < self.parts && s.issued >= s.taken + self.ahead;
        let waited = self.changed.wait_while(self.state(), full);
        let mut state = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.stopped || state.issued == self.parts {
            return None;
        }
        state.issued += 1;
        Some(state.issued - 1)
    }

    fn taken(&self) {
        self.state().taken += 1;
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

struct StopOnPanic<'a>(&'a Queue);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    proptest! {
        #[test]
        fn results_come_in_order_whatever_the_workers(workers in 1usize..6, parts in 0usize..40) {
            let work = |part: usize| {
                // Parts of very different cost.
                Ok::<_, ()>((0..(part * 7919) % 1500).fold(part as f32, |x, i| x + (i as f32).sin()))
            };
            let alone = Mesh::new(1).map(parts, work).unwrap();
            prop_assert_eq!(Mesh::new(workers).map(parts, work).unwrap(), alone);
        }

        #[test]
        fn the_earliest_error_wins(workers in 1usize..6, bad in 0usize..20) {
            let error = Mesh::new(workers).map(20, |part| if part >= bad { Err(part) } else { Ok(part) });
            prop_assert_eq!(error, Err(bad));
        }
    }

    #[test]
    fn a_panic_of_whoever_takes_wakes_the_workers() {
        let taken = std::panic::catch_unwind(|| {
            Mesh::new(2).ordered(50, |_, part| Ok::<_, ()>(part), |part, _| panic!("part {part}"))
        });
        assert!(taken.is_err());
    }

    #[test]
    fn few_results_wait_behind_a_slow_part() {
        let (done, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let gate = std::sync::Barrier::new(2);
        let first = Mesh::new(2);
        first
            .ordered(
                50,
                |_, part| {
                    if part == 0 {
                        gate.wait();
                    }
                    let ahead = done.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(ahead, Ordering::SeqCst);
                    // Part 3 is the last that may be handed out before part 0 is taken.
                    if part == 3 {
                        gate.wait();
                    }
                    Ok::<_, ()>(part)
                },
                |_, _| {
                    done.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                },
            )
            .unwrap();
        assert!(most.load(Ordering::SeqCst) <= 2 * 2 + 1);
    }
}
