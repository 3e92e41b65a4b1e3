//! Aggregations, normalisers, layouts, integer plumbing.

use crate::batch::{aggregations, all_close, batches, close, config, host, scalar, tensor};
use proptest::prelude::*;
use seed_core::aggregate::{aggregate_over, token_weights};
use seed_core::batch::{position_ids, response_mask, row_adjustment};
use seed_core::{Aggregation, InputError, Normalizer, TokenRows, aggregate};

/// The definitions, spelled out.
fn slow(values: &[f64], rows: &TokenRows, aggregation: Aggregation) -> f64 {
    let per_row: Vec<Vec<f64>> = rows
        .ranges()
        .map(|range| range.filter(|&token| rows.counted()[token]).map(|token| values[token]).collect())
        .collect();
    let total: f64 = per_row.iter().flatten().sum();
    let mean = |sum: f64, count: usize| if count == 0 { 0.0 } else { sum / count as f64 };
    match aggregation {
        Aggregation::TokenMean => mean(total, per_row.iter().flatten().count()),
        Aggregation::SeqMeanTokenSum => mean(total, per_row.len()),
        Aggregation::SeqMeanTokenMean => {
            let filled: Vec<f64> = per_row
                .iter()
                .filter(|row| !row.is_empty())
                .map(|row| row.iter().sum::<f64>() / row.len() as f64)
                .collect();
            mean(filled.iter().sum(), filled.len())
        }
        Aggregation::SeqMeanTokenSumNorm => mean(total, rows.width()),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn aggregate_agrees_with_its_definition(batch in batches(), aggregation in aggregations()) {
        let rows = batch.rows();
        let found = scalar(aggregate(tensor(&batch.logp), &rows, aggregation).unwrap());
        prop_assert!(close(found, slow(&batch.logp, &rows, aggregation)));
    }

    #[test]
    fn token_weights_are_the_gradient(batch in batches(), aggregation in aggregations()) {
        let rows = batch.rows();
        let values = tensor(&batch.logp).require_grad();
        let gradients = aggregate(values.clone(), &rows, aggregation).unwrap().backward();
        let weights = token_weights(aggregation, &rows, &rows, &Normalizer::of(&rows)).unwrap();
        prop_assert!(all_close(&host(values.grad(&gradients).unwrap()), &weights));
    }

    #[test]
    fn means_of_a_constant_are_that_constant(batch in batches(), value in -5.0f64..5.0) {
        let rows = batch.rows();
        for aggregation in [Aggregation::TokenMean, Aggregation::SeqMeanTokenMean] {
            let found = scalar(aggregate(tensor(&vec![value; rows.token_count()]), &rows, aggregation).unwrap());
            let expected = if rows.counted_tokens() == 0 { 0.0 } else { value };
            prop_assert!(close(found, expected));
        }
    }

    #[test]
    fn parts_of_a_mini_batch_add_up_to_the_whole(
        batch in batches(), aggregation in aggregations(), cut in 0usize..6,
    ) {
        let rows = batch.rows();
        let cut = cut.min(rows.row_count());
        let parts = [batch.part(0..cut), batch.part(cut..rows.row_count())];
        let mut counts = Normalizer::default();
        parts.iter().for_each(|part| counts.merge(&Normalizer::of(&part.rows())));
        let sum: f64 = parts
            .iter()
            .map(|part| scalar(aggregate_over(tensor(&part.logp), &part.rows(), aggregation, &counts).unwrap()))
            .sum();
        prop_assert!(close(sum, slow(&batch.logp, &rows, aggregation)));
    }

    #[test]
    fn packing_equals_padding(batch in batches(), aggregation in aggregations(), junk in -9e9f64..9e9) {
        let width = batch.rows().width();
        let padded = batch.rectangle(width, junk);
        let found = scalar(aggregate(tensor(&padded.logp), &padded.rows(), aggregation).unwrap());
        prop_assert!(close(found, slow(&batch.logp, &batch.rows(), aggregation)));
    }

    #[test]
    fn a_rectangle_mask_is_read_from_its_tensor(batch in batches(), junk in -9.0f64..9.0) {
        let width = batch.rows().width();
        prop_assume!(width > 0);
        let padded = batch.rectangle(width, junk);
        let mask: Vec<f64> = padded.counted.iter().map(|&counted| f64::from(u8::from(counted))).collect();
        let found = TokenRows::rectangle(&tensor(&mask).reshape([padded.lengths.len(), width])).unwrap();
        prop_assert_eq!(found, padded.rows());
    }

    #[test]
    fn masks_hold_zero_and_one_only(value in prop_oneof![0.001f64..0.999, 1.001f64..9.0, Just(f64::NAN)]) {
        let mask = tensor(&[1.0, 0.0, value, 1.0]).reshape([2, 2]);
        let found = TokenRows::rectangle(&mask);
        prop_assert!(matches!(found, Err(InputError::MaskValue { index: 2, .. })), "{found:?}");
    }

    #[test]
    fn wrong_lengths_are_errors(batch in batches(), extra in 1usize..3) {
        let rows = batch.rows();
        let long = vec![0.0; rows.token_count() + extra];
        let found = aggregate(tensor(&long), &rows, Aggregation::TokenMean);
        prop_assert!(matches!(found, Err(InputError::Length { .. })), "{found:?}");
        prop_assert!(rows.keep_rows(&vec![true; rows.row_count() + extra]).is_err());
        prop_assert!(TokenRows::packed(&[1], &vec![true; 1 + extra]).is_err());
    }

    #[test]
    fn switch_names_round_trip(aggregation in aggregations()) {
        prop_assert_eq!(aggregation.to_string().parse::<Aggregation>().unwrap(), aggregation);
        let message = format!("{aggregation}x").parse::<Aggregation>().unwrap_err().to_string();
        prop_assert!(message.contains("token-mean"), "{message}");
    }

    #[test]
    fn response_masks_end_with_the_first_end_token(
        response in prop::collection::vec(0u32..6, 0..12), end in prop::collection::vec(0u32..6, 0..3),
    ) {
        let mask = response_mask(&response, &end);
        prop_assert_eq!(mask.len(), response.len());
        for (index, &counts) in mask.iter().enumerate() {
            prop_assert_eq!(counts, response[..index].iter().all(|token| !end.contains(token)));
        }
    }

    #[test]
    fn positions_rise_by_one_over_attended_tokens(attended in prop::collection::vec(any::<bool>(), 0..20)) {
        let positions = position_ids(&attended);
        let of_attended: Vec<usize> =
            (0..attended.len()).filter(|&index| attended[index]).map(|index| positions[index]).collect();
        prop_assert_eq!(of_attended, (0..attended.iter().filter(|&&a| a).count()).collect::<Vec<_>>());
    }

    #[test]
    fn adjusted_row_counts_divide_by_every_chunk(
        rows in 0usize..5000, chunks in prop::collection::vec(1usize..40, 0..4),
    ) {
        let found = row_adjustment(rows, &chunks).unwrap();
        for chunk in chunks {
            prop_assert_eq!(found.divisor % chunk, 0);
        }
        prop_assert_eq!((rows + found.rows_to_add) % found.divisor, 0);
        prop_assert_eq!((rows - found.rows_to_drop) % found.divisor, 0);
        prop_assert!(found.rows_to_add < found.divisor && found.rows_to_drop < found.divisor);
    }
}
