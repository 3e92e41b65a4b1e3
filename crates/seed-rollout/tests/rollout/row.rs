use proptest::prelude::*;
use seed_envs::Task;
use seed_rollout::row::{EpisodeFacts, Finish, Row, RowBuilder, RowError, TokenSignals};

pub(crate) fn facts() -> EpisodeFacts {
    let task = Task { id: "train/tidy/1".into(), split: "train".into(), kind: "tidy".into() };
    EpisodeFacts { group: 2, trajectory: 17, episode_return: 10.0, steps: 2, won: true, task }
}

/// Two turns with an observation between them.
pub(crate) fn two_turns() -> Row {
    let mut row = RowBuilder::new(vec![1, 2, 3], 0, 0);
    row.push_sampled(0, &[10, 11], &[-0.5, -1.25], Finish::End);
    row.settle(0.0, true);
    row.push_context(&vec![20, 21, 22].into(), 0);
    assert_eq!(row.context().ids, [1, 2, 3, 10, 11, 20, 21, 22]);
    row.push_sampled(1, &[12], &[-2.0], Finish::Length);
    row.settle(10.0, false);
    row.finish(&facts())
}

#[test]
fn mask_and_log_probabilities_grow_with_the_ids() {
    let row = two_turns();
    assert_eq!(row.response_ids, [10, 11, 20, 21, 22, 12]);
    assert_eq!(row.response_mask, [true, true, false, false, false, true]);
    assert_eq!(row.logp, [-0.5, -1.25, 0.0, 0.0, 0.0, -2.0]);
    assert_eq!((row.sampled(), row.len(), row.invalid_turns()), (3, 9, 1));
    assert_eq!((row.reward, row.valid, row.step), (10.0, false, 0));
    assert_eq!(row.check(Some(23)), Ok(()));
}

#[test]
fn a_row_survives_json_to_the_bit() {
    let mut row = two_turns();
    row.logp[0] = -f32::MIN_POSITIVE;
    row.logp[1] = -0.1;
    row.signals = Some(TokenSignals {
        teacher_logp: vec![-0.4, -0.1, 0.0, 0.0, 0.0, -1.0],
        gap: vec![0.1; 6],
        gate: vec![0.5; 6],
    });
    let text = serde_json::to_string(&row).unwrap();
    assert!(text.contains(r#""response_mask":"110001""#), "{text}");
    assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
}

#[test]
fn broken_rows_are_named() {
    let broken = |change: fn(&mut Row)| {
        let mut row = two_turns();
        change(&mut row);
        row.check(Some(23)).unwrap_err()
    };
    assert_eq!(
        broken(|row| row.logp.truncate(2)),
        RowError::Length { column: "logp", found: 2, expected: 6 }
    );
    assert_eq!(broken(|row| row.response_mask[2] = true), RowError::Mask { position: 2 });
    assert_eq!(broken(|row| row.prompt_ids.clear()), RowError::Empty { what: "prompt_ids" });
    assert_eq!(broken(|row| row.response_ids[5] = 23), RowError::Id { position: 8, id: 23, vocabulary: 23 });
    assert!(matches!(broken(|row| row.logp[0] = f32::NAN), RowError::Logp { position: 0, .. }));
    assert!(matches!(broken(|row| row.logp[0] = 0.5), RowError::Logp { position: 0, .. }));
    assert!(matches!(broken(|row| row.logp[3] = -0.5), RowError::Logp { position: 3, sampled: false, .. }));
    assert!(matches!(broken(|row| row.turns[1].start = 1), RowError::Turn { index: 1, .. }));
    assert!(matches!(broken(|row| row.turns[1].end = 9), RowError::Turn { index: 1, .. }));
    assert!(matches!(broken(|row| row.signals = Some(TokenSignals::default())), RowError::Length { .. }));
}

proptest! {
    /// Whatever is appended in whatever order: the mask covers exactly what was sampled.
    #[test]
    fn the_mask_covers_exactly_what_was_sampled(
        pieces in proptest::collection::vec((any::<bool>(), 1usize..6), 1..20),
    ) {
        let mut row = RowBuilder::new(vec![0], 0, 0);
        let mut expected = Vec::new();
        row.push_sampled(0, &[5], &[-1.0], Finish::End);
        expected.push(true);
        for (step, (sampled, count)) in pieces.into_iter().enumerate() {
            if sampled {
                row.push_sampled(step, &vec![7; count], &vec![-1.0; count], Finish::End);
            } else {
                row.push_context(&vec![8; count].into(), 0);
            }
            expected.resize(expected.len() + count, sampled);
        }
        let row = row.finish(&facts());
        prop_assert_eq!(&row.response_mask, &expected);
        prop_assert_eq!(row.sampled(), expected.iter().filter(|&&on| on).count());
        prop_assert_eq!(row.check(None), Ok(()));
    }
}
