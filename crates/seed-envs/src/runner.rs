//! Many environments stepped in parallel, each episode as long as it is.

use crate::environment::{EnvError, Environment, Observation, Step, Suite, Task};
use rayon::prelude::*;

/// A set of environments that are reset and stepped together, over rayon's threads.
///
/// Episodes are ragged: each slot has its own length, a finished one waits (and costs nothing) until it is given
/// its next task. Results come in the order of the slots, whatever thread computed them.
///
/// ```
/// # use seed_envs::{EnvError, Environment, Observation, Step, Suite, Task, runner::Runner};
/// # fn play(suite: &dyn Suite) -> Result<(), EnvError> {
/// let tasks = suite.tasks("train")?;
/// let mut runner = Runner::new(suite, 2);
/// runner.reset(&[(0, &tasks[0], 7), (1, &tasks[1], 7)]);
/// while !runner.running().is_empty() {
///     let actions: Vec<(usize, String)> = runner.running().into_iter().map(|slot| (slot, "look".into())).collect();
///     for (slot, step) in runner.step(&actions) {
///         println!("{slot}: {}", step?.observation.text);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Runner {
    slots: Vec<Slot>,
}

struct Slot {
    environment: Box<dyn Environment>,
    running: bool,
    steps: usize,
}

impl Runner {
    /// `count` environments of a suite.
    pub fn new(suite: &dyn Suite, count: usize) -> Self {
        let slot = || Slot { environment: suite.environment(), running: false, steps: 0 };
        Self { slots: (0..count).map(|_| slot()).collect() }
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no slot at all.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots whose episode goes on, ascending.
    pub fn running(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot].running).collect()
    }

    /// How many steps the present episode of a slot has had.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn steps(&self, slot: usize) -> usize {
        self.slots[slot].steps
    }

    /// Starts episodes: slot, task and seed. A slot whose reset fails stays idle.
    ///
    /// # Panics
    /// When a slot does not exist or is named twice.
    pub fn reset(&mut self, episodes: &[(usize, &Task, u64)]) -> Vec<(usize, Result<Observation, EnvError>)> {
        let jobs: Vec<(usize, (&Task, u64))> =
            episodes.iter().map(|&(slot, task, seed)| (slot, (task, seed))).collect();
        self.each(&jobs, |slot, (task, seed)| {
            let observation = slot.environment.reset(task, *seed);
            (slot.running, slot.steps) = (observation.is_ok(), 0);
            observation
        })
    }

    /// Carries out one action in each of the named slots. A slot whose episode is over answers with its last step
    /// again; one that was never reset, or whose reset failed, with [`EnvError::NotReset`].
    ///
    /// # Panics
    /// When a slot does not exist or is named twice.
    pub fn step(&mut self, actions: &[(usize, String)]) -> Vec<(usize, Result<Step, EnvError>)> {
        self.each(actions, |slot, action| {
            let step = slot.environment.step(action);
            slot.steps += usize::from(slot.running);
            slot.running &= step.as_ref().is_ok_and(|step| !step.is_last());
            step
        })
    }

    fn each<J: Sync, R: Send>(
        &mut self,
        jobs: &[(usize, J)],
        work: impl Fn(&mut Slot, &J) -> R + Sync,
    ) -> Vec<(usize, R)> {
        let mut slots: Vec<Option<&mut Slot>> = self.slots.iter_mut().map(Some).collect();
        let mut paired: Vec<(usize, &mut Slot, &J)> = jobs
            .iter()
            .map(|(number, job)| {
                let slot = slots[*number].take().unwrap_or_else(|| panic!("slot {number} is named twice"));
                (*number, slot, job)
            })
            .collect();
        // A step takes microseconds: small pieces would cost more than they bring.
        paired.par_iter_mut().with_min_len(4).map(|(number, slot, job)| (*number, work(slot, job))).collect()
    }
}
