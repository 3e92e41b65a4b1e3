//! Which tasks an update plays.

use crate::streams::{shuffle, stream};
use seed_envs::Task;
use seed_rollout::collect::GroupPlan;
use seed_rollout::sampler::{Purpose, StreamKey};

/// The tasks of training in a new random order every pass; a function of the update alone, so that nothing has to be
/// remembered for a resume.
#[derive(Debug, Clone)]
pub struct TaskOrder<'a> {
    tasks: &'a [Task],
    run_seed: u64,
    purpose: &'static str,
}

impl<'a> TaskOrder<'a> {
    /// An order over `tasks`; different purposes give different orders.
    pub fn new(tasks: &'a [Task], run_seed: u64, purpose: &'static str) -> Self {
        Self { tasks, run_seed, purpose }
    }

    /// The groups of update `update` (from 0): `count` tasks, those of the pass in order, then those of the next pass.
    ///
    /// `attempt` counts repeated collections of one update (`rollout.filter_groups`), which play other tasks.
    pub fn groups(&self, update: u64, attempt: u64, count: usize) -> Vec<GroupPlan> {
        let all = self.tasks.len();
        if all == 0 {
            return vec![];
        }
        let mut pass = (u64::MAX, vec![]);
        (0..count)
            .map(|index| {
                let place = update as usize * count + index;
                let number = (place / all) as u64;
                if pass.0 != number {
                    let mut order: Vec<usize> = (0..all).collect();
                    shuffle(&mut order, &mut stream(self.run_seed, self.purpose, &[attempt, number]));
                    pass = (number, order);
                }
                let task = self.tasks[pass.1[place % all]].clone();
                let key = StreamKey {
                    update: update + (attempt << 32),
                    group: index as u64,
                    ..StreamKey::new(self.run_seed, Purpose::Environment)
                };
                GroupPlan { task, seed: key.seed() }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(count: usize) -> Vec<Task> {
        (0..count).map(|i| Task { id: format!("t{i}"), split: "train".into(), kind: "k".into() }).collect()
    }

    #[test]
    fn each_pass_plays_every_task_once() {
        let tasks = tasks(10);
        let order = TaskOrder::new(&tasks, 3, "tasks");
        let mut ids: Vec<String> =
            (0..5).flat_map(|update| order.groups(update, 0, 4)).map(|group| group.task.id).collect();
        let second = ids.split_off(10);
        assert_ne!(ids, second);
        for mut pass in [ids, second] {
            pass.sort();
            let mut all: Vec<String> = tasks.iter().map(|t| t.id.clone()).collect();
            all.sort();
            assert_eq!(pass, all);
        }
        assert_eq!(order.groups(2, 0, 4), order.groups(2, 0, 4));
        assert_ne!(order.groups(2, 0, 4), order.groups(2, 1, 4));
    }
}
