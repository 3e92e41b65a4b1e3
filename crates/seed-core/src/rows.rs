//! The layout of a batch: packed tokens, the row each belongs to, and which of them count.

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};

use crate::error::{InputError, same_length};

/// The rows of a batch and which of their tokens count.
///
/// A batch of tokens is one `Tensor<1>`: row after row, without padding. A padded rectangle `[rows, width]` is the special case
/// in which every row has `width` tokens and the mask says which are real; `rectangle.reshape([-1])` is then its packed form
/// (see [`TokenRows::rectangle`]). The layout lives on the host, so counting needs no transfer from the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRows {
    lengths: Vec<usize>,
    counted: Vec<bool>,
    width: usize,
}

impl TokenRows {
    /// Rows of the given lengths; `counted` has one entry per token, in packed order.
    ///
    /// Rows of length zero are allowed.
    pub fn packed(lengths: &[usize], counted: &[bool]) -> Result<Self, InputError> {
        // Saturating: lengths that overflow cannot match any slice.
        let tokens = lengths.iter().fold(0usize, |sum, &length| sum.saturating_add(length));
        same_length("counted", counted.len(), tokens, "token")?;
        Ok(Self {
            lengths: lengths.to_vec(),
            counted: counted.to_vec(),
            width: lengths.iter().copied().max().unwrap_or(0),
        })
    }

    /// Rows of the given lengths in which every token counts.
    pub fn full(lengths: &[usize]) -> Self {
        Self {
            lengths: lengths.to_vec(),
            counted: vec![true; lengths.iter().sum()],
            width: lengths.iter().copied().max().unwrap_or(0),
        }
    }

    /// The layout of a padded rectangle `[rows, width]` whose mask holds 1 where a token counts and 0 elsewhere.
    ///
    /// Reads the mask from its device. Pass the token tensors as `tensor.reshape([-1])`.
    pub fn rectangle(mask: &Tensor<2>) -> Result<Self, InputError> {
        let [rows, width] = mask.dims();
        let values = mask.try_to_vec_as::<f32>().expect("the device delivers the mask it was given");
        let mut counted = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            if value != 0.0 && value != 1.0 {
                return Err(InputError::MaskValue { what: "mask", index, found: f64::from(value) });
            }
            counted.push(value == 1.0);
        }
        Ok(Self { lengths: vec![width; rows], counted, width })
    }

    /// Replaces the padded width, the divisor of [`Aggregation::SeqMeanTokenSumNorm`](crate::Aggregation), by a fixed one.
    ///
    /// Without this call it is the longest row for packed rows and the width of the tensor for a rectangle.
    pub fn with_width(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// The same layout, counting only tokens of rows whose entry is true.
    pub fn keep_rows(&self, row_mask: &[bool]) -> Result<Self, InputError> {
        same_length("row_mask", row_mask.len(), self.row_count(), "row")?;
        let mut kept = self.clone();
        for (range, &keep) in self.ranges().zip(row_mask) {
            if !keep {
                kept.counted[range].fill(false);
            }
        }
        Ok(kept)
    }

    /// The same layout, counting only tokens whose entry is true.
    pub fn keep_tokens(&self, token_mask: &[bool]) -> Result<Self, InputError> {
        same_length("token_mask", token_mask.len(), self.token_count(), "token")?;
        let mut kept = self.clone();
        for (counted, &keep) in kept.counted.iter_mut().zip(token_mask) {
            *counted &= keep;
        }
        Ok(kept)
    }

    /// Number of rows, empty ones included.
    pub fn row_count(&self) -> usize {
        self.lengths.len()
    }

    /// Number of tokens, masked ones included: the length of every token tensor that goes with this layout.
    pub fn token_count(&self) -> usize {
        self.counted.len()
    }

    /// Number of tokens that count.
    pub fn counted_tokens(&self) -> usize {
        self.counted.iter().filter(|&&counted| counted).count()
    }

    /// Tokens per row, masked ones included.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// One entry per token: does it count?
    pub fn counted(&self) -> &[bool] {
        &self.counted
    }

    /// The padded width (see [`TokenRows::with_width`]).
    pub fn width(&self) -> usize {
        self.width
    }

    /// The token range of each row.
    pub fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut start = 0;
        self.lengths.iter().map(move |length| {
            let range = start..start + length;
            start = range.end;
            range
        })
    }

    /// Number of counted tokens in each row.
    pub fn counted_per_row(&self) -> Vec<usize> {
        self.ranges().map(|range| self.counted[range].iter().filter(|&&counted| counted).count()).collect()
    }

    /// One value per row, repeated for its tokens; 0 at masked places.
    pub fn spread(&self, per_row: &[f64]) -> Result<Vec<f64>, InputError> {
        same_length("per_row", per_row.len(), self.row_count(), "row")?;
        let mut tokens = vec![0.0; self.token_count()];
        for (range, &value) in self.ranges().zip(per_row) {
            for index in range {
                if self.counted[index] {
                    tokens[index] = value;
                }
            }
        }
        Ok(tokens)
    }

    /// Host values as a constant tensor on the device and in the precision of `like`.
    pub fn tensor(&self, values: &[f64], like: &Tensor<1>) -> Tensor<1> {
        constant(values, &like.device().inner(), like.dtype())
    }

    /// The row of each token, for the few operations that need an index.
    pub(crate) fn row_index(&self) -> Vec<i64> {
        self.lengths
            .iter()
            .enumerate()
            .flat_map(|(row, &length)| std::iter::repeat_n(row as i64, length))
            .collect()
    }

    /// The mask on the device of `like`, ready to clean token tensors.
    pub(crate) fn cleaner(&self, like: &Tensor<1>) -> Cleaner {
        let device = like.device().inner();
        let skip = self.counted.iter().any(|counted| !counted).then(|| {
            let skip: Vec<bool> = self.counted.iter().map(|counted| !counted).collect();
            Tensor::<1, Bool>::from_data(TensorData::new(skip, [self.token_count()]), &device)
        });
        Cleaner { skip, device, dtype: like.dtype(), tokens: self.token_count() }
    }
}

/// Log-ratios above this are treated as this: their exponential stays finite in single precision and is far outside every bound.
pub(crate) const LOG_RATIO_LIMIT: f64 = 80.0;

/// Host values as a tensor outside autodiff.
pub(crate) fn constant(values: &[f64], device: &Device, dtype: DType) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), (device, dtype))
}

/// Losses are computed in single precision or better, whatever the weights of the model are stored in.
pub(crate) fn loss_precision(x: Tensor<1>) -> Tensor<1> {
    match x.dtype() {
        DType::F32 | DType::F64 => x,
        _ => x.cast(DType::F32),
    }
}

/// Replaces masked places of token tensors by zero, before anything is computed from them.
///
/// The gradient of the replacement is exactly zero there, even when the incoming gradient is NaN.
#[derive(Debug, Clone)]
pub(crate) struct Cleaner {
    skip: Option<Tensor<1, Bool>>,
    pub(crate) device: Device,
    pub(crate) dtype: DType,
    tokens: usize,
}

impl Cleaner {
    /// A tensor that carries gradient.
    pub(crate) fn keep(&self, what: &'static str, x: Tensor<1>) -> Result<Tensor<1>, InputError> {
        same_length(what, x.dims()[0], self.tokens, "token")?;
        let x = if x.dtype() == self.dtype { x } else { x.cast(self.dtype) };
        Ok(self.mask(x))
    }

    /// A tensor that is a constant for the gradient.
    pub(crate) fn constant(&self, what: &'static str, x: Tensor<1>) -> Result<Tensor<1>, InputError> {
        self.keep(what, x.inner())
    }

    /// Zero at masked places.
    pub(crate) fn mask(&self, x: Tensor<1>) -> Tensor<1> {
        match &self.skip {
            Some(skip) => x.mask_fill(skip.clone(), 0.0),
            None => x,
        }
    }

    /// 1 where a condition holds and the token counts.
    pub(crate) fn indicator(&self, condition: Tensor<1, Bool>) -> Tensor<1> {
        self.mask(condition.float().cast(self.dtype))
    }
}
