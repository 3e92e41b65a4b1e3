//! Rows of the embedding matrix.

use burn::tensor::Tensor;

/// `table[ids]`: `table` is `[V, H]`; returns `[T, H]`. The gradient of a row is the sum over its tokens, in their order.
///
/// # Panics
/// When an id is not below `V`.
pub fn embedding(table: Tensor<2>, ids: &[u32]) -> Tensor<2> {
    let rows = table.dims()[0];
    if let Some(id) = ids.iter().find(|id| **id as usize >= rows) {
        panic!("id {id} in a table of {rows} rows");
    }
    #[cfg(feature = "cpu")]
    if super::on_cpu(&table) && !ids.is_empty() {
        return super::fused::embedding(table, ids);
    }
    super::portable::embedding(table, ids)
}
