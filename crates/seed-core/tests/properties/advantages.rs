//! Advantages on slices.

use crate::batch::{all_close, batches, close, config, orders, within};
use proptest::prelude::*;
use seed_core::advantage::{
    Across, GigpoConfig, GigpoRows, GroupAdvantage, OpidAdvantage, RlsdConfig, SkillGap, SkillRouting, Std,
    gigpo_advantage, gigpo_advantage_with, group_advantage, invalid_action_penalty, opid_advantage,
    rloo_advantage, rlsd_advantage, step_returns,
};
use seed_core::diagnostics::group_diagnostics;
use seed_core::{InputError, Schedule};

/// Rows: score, group, trajectory inside the group, step reward, observation.
#[derive(Debug, Clone)]
struct Rows {
    score: Vec<f64>,
    group: Vec<u8>,
    trajectory: Vec<(u8, u8)>,
    reward: Vec<f64>,
    anchor: Vec<u8>,
}

fn rows() -> impl Strategy<Value = Rows> {
    prop::collection::vec((0u8..4, 0u8..4, -3.0f64..3.0, 0u8..3), 1..24).prop_map(|rows| {
        // The score belongs to the trajectory, the reward to the row.
        let score = |group: u8, trajectory: u8| f64::from((group * 7 + trajectory * 13) % 11);
        Rows {
            score: rows.iter().map(|row| score(row.0, row.1)).collect(),
            group: rows.iter().map(|row| row.0).collect(),
            trajectory: rows.iter().map(|row| (row.0, row.1)).collect(),
            reward: rows.iter().map(|row| row.2).collect(),
            anchor: rows.iter().map(|row| row.3).collect(),
        }
    })
}

fn switches() -> impl Strategy<Value = GroupAdvantage> {
    (prop::sample::select(Across::ALL), prop::sample::select(Std::ALL), any::<bool>()).prop_map(
        |(across, std, std_norm)| GroupAdvantage { across, std, std_norm, ..GroupAdvantage::grpo() },
    )
}

fn advantage(scores: &[f64], rows: &Rows, config: &GroupAdvantage) -> Vec<f64> {
    group_advantage(scores, &rows.group, &rows.trajectory, config).unwrap()
}

/// Rows of each group.
fn members(rows: &Rows) -> Vec<Vec<usize>> {
    (0..4u8)
        .map(|group| (0..rows.group.len()).filter(|&row| rows.group[row] == group).collect::<Vec<_>>())
        .filter(|members| !members.is_empty())
        .collect()
}

fn gigpo_rows(rows: &Rows) -> GigpoRows<'_, u8, (u8, u8), u8> {
    GigpoRows {
        step_reward: &rows.reward,
        episode_score: &rows.score,
        groups: &rows.group,
        trajectories: &rows.trajectory,
        anchors: &rows.anchor,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn group_advantages_over_rows_sum_to_zero(rows in rows(), noise in prop::collection::vec(-1.0f64..1.0, 24)) {
        let scores: Vec<f64> = rows.score.iter().zip(&noise).map(|(score, noise)| score + noise).collect();
        let found = advantage(&scores, &rows, &GroupAdvantage::grpo());
        for group in members(&rows).iter().filter(|group| group.len() > 1) {
            let sum: f64 = group.iter().map(|&row| found[row]).sum();
            prop_assert!(sum.abs() < 1e-9, "{sum}");
        }
    }

    #[test]
    fn group_advantage_ignores_a_shift_of_all_rewards(rows in rows(), config in switches(), shift in -50.0f64..50.0) {
        let shifted: Vec<f64> = rows.score.iter().map(|score| score + shift).collect();
        let (before, after) = (advantage(&rows.score, &rows, &config), advantage(&shifted, &rows, &config));
        let alone: Vec<bool> = statistic_is_single(&rows, config.across);
        for row in 0..before.len() {
            prop_assert!(alone[row] || within(after[row], before[row], 1e-6), "{} {}", after[row], before[row]);
        }
    }

    #[test]
    fn normalised_group_advantage_ignores_the_scale(rows in rows(), config in switches(), scale in 0.5f64..20.0) {
        let config = GroupAdvantage { std_norm: true, ..config };
        let scaled: Vec<f64> = rows.score.iter().map(|score| score * scale).collect();
        let (before, after) = (advantage(&rows.score, &rows, &config), advantage(&scaled, &rows, &config));
        let alone = statistic_is_single(&rows, config.across);
        for row in 0..before.len() {
            // ε is the only thing that remembers the scale.
            prop_assert!(alone[row] || within(after[row], before[row], 1e-5));
        }
    }

    #[test]
    fn dr_grpo_is_linear_in_the_scale(rows in rows(), config in switches(), scale in -20.0f64..20.0) {
        let config = GroupAdvantage { std_norm: false, ..config };
        let scaled: Vec<f64> = rows.score.iter().map(|score| score * scale).collect();
        let expected: Vec<f64> = advantage(&rows.score, &rows, &config).iter().map(|a| a * scale).collect();
        prop_assert!(all_close(&advantage(&scaled, &rows, &config), &expected));
    }

    #[test]
    fn group_advantage_follows_a_permutation_of_rows(
        (rows, order) in rows().prop_flat_map(|rows| { let n = rows.score.len(); (Just(rows), orders(n)) }),
        std in prop::sample::select(Std::ALL),
    ) {
        // Over trajectories the score of one trajectory is the same in all its rows here, so order does not matter either.
        for &across in Across::ALL {
            let config = GroupAdvantage { across, std, ..GroupAdvantage::grpo() };
            let before = advantage(&rows.score, &rows, &config);
            let pick = |values: &[f64]| order.iter().map(|&row| values[row]).collect::<Vec<_>>();
            let shuffled = Rows {
                score: pick(&rows.score),
                group: order.iter().map(|&row| rows.group[row]).collect(),
                trajectory: order.iter().map(|&row| rows.trajectory[row]).collect(),
                reward: pick(&rows.reward),
                anchor: order.iter().map(|&row| rows.anchor[row]).collect(),
            };
            prop_assert!(all_close(&advantage(&shuffled.score, &shuffled, &config), &pick(&before)));
        }
    }

    #[test]
    fn labels_are_arbitrary(rows in rows(), config in switches()) {
        let groups: Vec<String> = rows.group.iter().map(|group| format!("task {}", 9 - group)).collect();
        let trajectories: Vec<String> = rows.trajectory.iter().map(|t| format!("{t:?}")).collect();
        let renamed = group_advantage(&rows.score, &groups, &trajectories, &config).unwrap();
        prop_assert_eq!(renamed, advantage(&rows.score, &rows, &config));
    }

    #[test]
    fn groups_do_not_influence_each_other(rows in rows(), config in switches(), other in -9.0f64..9.0) {
        let before = advantage(&rows.score, &rows, &config);
        let changed: Vec<f64> = rows.score.iter().zip(&rows.group)
            .map(|(&score, &group)| if group == rows.group[0] { score } else { score * other + 1.0 }).collect();
        let after = advantage(&changed, &rows, &config);
        for row in (0..before.len()).filter(|&row| rows.group[row] == rows.group[0]) {
            prop_assert_eq!(after[row], before[row]);
        }
    }

    #[test]
    fn tied_groups_get_exactly_zero(rows in rows(), config in switches(), score in -30.0f64..30.0) {
        let found = advantage(&vec![score; rows.score.len()], &rows, &config);
        let alone = statistic_is_single(&rows, config.across);
        for row in 0..found.len() {
            let expected = if !alone[row] { 0.0 } else if config.std_norm { score / (1.0 + 1e-6) } else { score };
            prop_assert_eq!(found[row], expected);
        }
    }

    #[test]
    fn better_rows_get_more_credit_and_the_best_no_less_than_zero(rows in rows(), config in switches()) {
        let found = advantage(&rows.score, &rows, &config);
        let alone = statistic_is_single(&rows, config.across);
        for group in members(&rows) {
            for (&a, &b) in group.iter().zip(group.iter().skip(1)) {
                prop_assert!((found[a] - found[b]) * (rows.score[a] - rows.score[b]) >= 0.0);
            }
            let best = *group.iter().max_by(|&&a, &&b| rows.score[a].total_cmp(&rows.score[b])).unwrap();
            prop_assert!(alone[best] || found[best] >= 0.0);
        }
    }

    #[test]
    fn population_and_unbiased_std_differ_by_the_known_factor(rows in rows()) {
        let unbiased = advantage(&rows.score, &rows, &GroupAdvantage { eps: 1e-300, ..GroupAdvantage::grpo() });
        let population = advantage(
            &rows.score, &rows, &GroupAdvantage { std: Std::Population, eps: 1e-300, ..GroupAdvantage::grpo() },
        );
        for group in members(&rows).iter().filter(|group| group.len() > 1) {
            let n = group.len() as f64;
            for &row in group {
                prop_assert!(close(population[row], unbiased[row] * (n / (n - 1.0)).sqrt()));
            }
        }
    }

    #[test]
    fn a_floor_bounds_the_blow_up(rows in rows(), config in switches(), floor in 0.01f64..10.0) {
        let centred = advantage(&rows.score, &rows, &GroupAdvantage { std_norm: false, ..config });
        let found = advantage(&rows.score, &rows, &GroupAdvantage { std_norm: true, std_floor: floor, ..config });
        for row in 0..found.len() {
            prop_assert!(found[row].abs() <= centred[row].abs() / floor + 1e-12);
        }
    }

    #[test]
    fn rows_and_trajectories_agree_when_every_row_is_its_own(rows in rows(), config in switches()) {
        let own: Vec<usize> = (0..rows.score.len()).collect();
        let over = |across| {
            group_advantage(&rows.score, &rows.group, &own, &GroupAdvantage { across, ..config }).unwrap()
        };
        prop_assert_eq!(over(Across::Rows), over(Across::Trajectories));
    }

    #[test]
    fn long_trajectories_do_not_weigh_more_over_trajectories(rows in rows(), std in prop::sample::select(Std::ALL)) {
        let config = GroupAdvantage { across: Across::Trajectories, std, ..GroupAdvantage::grpo() };
        let before = advantage(&rows.score, &rows, &config);
        let mut longer = rows.clone();
        for _ in 0..5 {
            longer.score.push(rows.score[0]);
            longer.group.push(rows.group[0]);
            longer.trajectory.push(rows.trajectory[0]);
        }
        let after = advantage(&longer.score, &longer, &config);
        prop_assert!(all_close(&after[..before.len()], &before));
    }

    #[test]
    fn rloo_is_the_distance_to_the_mean_of_the_others(rows in rows()) {
        let found = rloo_advantage(&rows.score, &rows.group, &rows.trajectory, Across::Rows).unwrap();
        for group in members(&rows) {
            for &row in &group {
                let others: Vec<f64> = group.iter().filter(|&&o| o != row).map(|&o| rows.score[o]).collect();
                let mean = if others.is_empty() { 0.0 } else { others.iter().sum::<f64>() / others.len() as f64 };
                prop_assert!(close(found[row], rows.score[row] - mean));
            }
        }
    }

    #[test]
    fn penalties_touch_invalid_rows_only(
        (rewards, valid) in prop::collection::vec((-5.0f64..5.0, any::<bool>()), 0..12)
            .prop_map(|rows| rows.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()),
        coef in 0.0f64..1.0,
    ) {
        let found = invalid_action_penalty(&rewards, &valid, coef).unwrap();
        for row in 0..rewards.len() {
            let expected = if valid[row] { rewards[row] } else { rewards[row] - coef };
            prop_assert_eq!(found[row], expected);
        }
    }

    #[test]
    fn step_returns_satisfy_their_recursion(rows in rows(), gamma in 0.0f64..=1.0) {
        let found = step_returns(&rows.reward, &rows.trajectory, gamma).unwrap();
        for row in 0..found.len() {
            let next = (row + 1..found.len()).find(|&later| rows.trajectory[later] == rows.trajectory[row]);
            let expected = rows.reward[row] + gamma * next.map_or(0.0, |next| found[next]);
            prop_assert!(close(found[row], expected));
        }
    }

    #[test]
    fn step_advantages_sum_to_zero_in_their_place(rows in rows(), std_norm in any::<bool>()) {
        let found = gigpo_advantage(&gigpo_rows(&rows), &GigpoConfig { std_norm, ..GigpoConfig::default() }).unwrap();
        for place in 0..found.anchor_group.len() {
            let members: Vec<usize> =
                (0..found.anchor_group.len()).filter(|&row| found.anchor_group[row] == place).collect();
            let sum: f64 = members.iter().map(|&row| found.step_advantage[row]).sum();
            prop_assert!(sum.abs() < 1e-9);
            if let [alone] = members[..] {
                prop_assert_eq!(found.step_advantage[alone], 0.0);
            }
            prop_assert!(members.windows(2).all(|pair| rows.group[pair[0]] == rows.group[pair[1]]
                && rows.anchor[pair[0]] == rows.anchor[pair[1]]));
        }
    }

    #[test]
    fn gigpo_without_step_weight_is_grpo(rows in rows(), std_norm in any::<bool>()) {
        let config = GigpoConfig { std_norm, step_weight: 0.0, ..GigpoConfig::default() };
        let found = gigpo_advantage(&gigpo_rows(&rows), &config).unwrap();
        let grpo = advantage(&rows.score, &rows, &GroupAdvantage { std_norm, ..GroupAdvantage::grpo() });
        prop_assert_eq!(found.advantage, grpo);
    }

    #[test]
    fn clustering_by_equality_is_exact_grouping(rows in rows()) {
        let config = GigpoConfig::default();
        let exact = gigpo_advantage(&gigpo_rows(&rows), &config).unwrap();
        prop_assert_eq!(gigpo_advantage_with(&gigpo_rows(&rows), &config, |a, b| a == b).unwrap(), exact);
    }

    #[test]
    fn rlsd_changes_the_size_but_never_the_sign(
        batch in batches(), lambda in 0.0f64..=1.0, clip_eps in 0.0f64..=1.0, scale in -2.0f64..2.0,
    ) {
        let rows = batch.rows();
        let sequence: Vec<f64> = (0..rows.row_count()).map(|row| scale * (row as f64 - 1.0)).collect();
        let config = RlsdConfig { lambda, clip_eps };
        let found = rlsd_advantage(&sequence, &batch.old_logp, &batch.teacher_logp, &rows, None, &config).unwrap();
        for (row, range) in rows.ranges().enumerate() {
            for token in range {
                let (a, base) = (found.advantage[token], sequence[row]);
                if rows.counted()[token] {
                    prop_assert!(a * base >= 0.0);
                    prop_assert!((a - base).abs() <= base.abs() * lambda * clip_eps + 1e-12);
                } else {
                    prop_assert_eq!(a, 0.0);
                }
            }
        }
    }

    #[test]
    fn rlsd_without_weight_or_without_a_gap_is_uniform(batch in batches(), lambda in 0.0f64..=1.0) {
        let rows = batch.rows();
        let sequence: Vec<f64> = (0..rows.row_count()).map(|row| row as f64 - 1.5).collect();
        let uniform = rows.spread(&sequence).unwrap();
        let run = |teacher: &[f64], teacher_rows: Option<&[bool]>, lambda| {
            let config = RlsdConfig { lambda, clip_eps: 0.2 };
            rlsd_advantage(&sequence, &batch.old_logp, teacher, &rows, teacher_rows, &config).unwrap().advantage
        };
        prop_assert!(all_close(&run(&batch.teacher_logp, None, 0.0), &uniform));
        prop_assert!(all_close(&run(&batch.old_logp, None, lambda), &uniform));
        let nobody = vec![false; rows.row_count()];
        prop_assert!(all_close(&run(&batch.teacher_logp, Some(&nobody), lambda), &uniform));
    }

    #[test]
    fn opid_adds_weighted_gaps_on_rows_with_a_skill(batch in batches(), weight in 0.0f64..1.0) {
        let rows = batch.rows();
        let base: Vec<f64> = (0..rows.row_count()).map(|row| row as f64 - 1.5).collect();
        let config = OpidAdvantage { episode_weight: weight, ..OpidAdvantage::default() };
        let skill = SkillGap { teacher_logp: &batch.teacher_logp, row_mask: &batch.row_mask };
        let found = opid_advantage(&base, &batch.old_logp, Some(skill), None, &rows, &config).unwrap();
        for (row, range) in rows.ranges().enumerate() {
            for token in range {
                let gap = if batch.row_mask[row] { batch.teacher_logp[token] - batch.old_logp[token] } else { 0.0 };
                let expected = if rows.counted()[token] { base[row] + weight * gap } else { 0.0 };
                prop_assert!(close(found[token], expected));
            }
        }
    }

    #[test]
    fn step_skills_come_first_where_routing_says_so(batch in batches()) {
        let rows = batch.rows();
        let base = vec![0.0; rows.row_count()];
        let everywhere = vec![true; rows.row_count()];
        let config = OpidAdvantage {
            episode_weight: 1.0, step_weight: 1.0, routing: SkillRouting::StepPriority, ..OpidAdvantage::default()
        };
        let episode = SkillGap { teacher_logp: &batch.teacher_logp, row_mask: &everywhere };
        let step = SkillGap { teacher_logp: &batch.ref_logp, row_mask: &batch.row_mask };
        let found = opid_advantage(&base, &batch.old_logp, Some(episode), Some(step), &rows, &config).unwrap();
        for (row, range) in rows.ranges().enumerate() {
            for token in range.filter(|&token| rows.counted()[token]) {
                let teacher = if batch.row_mask[row] { batch.ref_logp[token] } else { batch.teacher_logp[token] };
                prop_assert!(close(found[token], teacher - batch.old_logp[token]));
            }
        }
    }

    #[test]
    fn group_diagnostics_count_each_group_once(rows in rows(), valid in prop::collection::vec(any::<bool>(), 24)) {
        let count = rows.score.len();
        let scores = invalid_action_penalty(&rows.score, &valid[..count], 0.1).unwrap();
        let found = group_diagnostics(&rows.score, &scores, &rows.group).unwrap();
        prop_assert!(found.tied + found.penalty_only <= found.groups);
        let clean = group_diagnostics(&rows.score, &rows.score, &rows.group).unwrap();
        prop_assert_eq!(clean.penalty_only, 0);
        // Penalties of different rows may cancel a spread, but never create a group.
        prop_assert_eq!(clean.groups, found.groups);
        let metrics = found.metrics();
        prop_assert_eq!(metrics.get("group/tied_ratio").unwrap(), found.tied as f64 / found.groups as f64);
    }

    #[test]
    fn a_warm_down_falls_from_one_to_zero(steps in 1u64..200, step in 0u64..400) {
        let schedule = Schedule::WarmDown { steps };
        let factor = schedule.factor(step);
        prop_assert!((0.0..=1.0).contains(&factor));
        prop_assert!(schedule.factor(step + 1) <= factor);
        prop_assert_eq!((schedule.factor(0), schedule.factor(steps)), (1.0, 0.0));
    }

    #[test]
    fn a_window_is_open_from_its_start_until_its_stop(start in 0u64..50, length in 1u64..50, step in 0u64..150) {
        let window = Schedule::Window { start_after: start, stop_after: Some(start + length) };
        let expected = if step >= start && step < start + length { 1.0 } else { 0.0 };
        prop_assert_eq!(window.factor(step), expected);
    }

    #[test]
    fn scores_that_are_not_finite_are_named(rows in rows(), bad in prop::sample::select(vec![f64::NAN, f64::INFINITY])) {
        let mut scores = rows.score.clone();
        let last = scores.len() - 1;
        scores[last] = bad;
        let found = group_advantage(&scores, &rows.group, &rows.trajectory, &GroupAdvantage::grpo());
        prop_assert!(matches!(found, Err(InputError::NotFinite { index, .. }) if index == last), "{found:?}");
    }
}

/// Is the row's group one that has a single value in its statistics?
fn statistic_is_single(rows: &Rows, across: Across) -> Vec<bool> {
    (0..rows.group.len())
        .map(|row| {
            let group = (0..rows.group.len()).filter(|&other| rows.group[other] == rows.group[row]);
            match across {
                Across::Rows => group.count() == 1,
                Across::Trajectories => {
                    group.map(|other| rows.trajectory[other]).collect::<std::collections::BTreeSet<_>>().len()
                        == 1
                }
            }
        })
        .collect()
}
