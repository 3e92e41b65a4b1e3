//! NumPy's legacy generator.

use super::mt19937::Mt19937;

/// `numpy.random.RandomState(seed)`: the legacy generator, whose stream NumPy promises never to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumpyRandomState {
    generator: Mt19937,
}

impl NumpyRandomState {
    /// Seeds as `RandomState(seed)` does for an integer below 2³².
    pub fn new(seed: u32) -> Self {
        Self { generator: Mt19937::from_word(seed) }
    }

    /// A number in `0.0..1.0`: `random_sample()`, `rand()`.
    pub fn random_sample(&mut self) -> f64 {
        self.generator.next_f64()
    }

    /// A number in `0..=max` by masked rejection on 32-bit draws (64-bit ones above 2³² − 1).
    pub fn interval(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = u64::MAX >> max.leading_zeros();
        loop {
            let draw = if max <= u64::from(u32::MAX) {
                u64::from(self.generator.next_u32())
            } else {
                u64::from(self.generator.next_u32()) << 32 | u64::from(self.generator.next_u32())
            };
            if draw & mask <= max {
                return draw & mask;
            }
        }
    }

    /// A number in `low..high`: `randint(low, high)`. An empty range gives `low`.
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        let width = high.saturating_sub(low).max(1) as u64;
        low.wrapping_add(self.interval(width - 1) as i64)
    }

    /// Shuffles in place: `shuffle(list)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.interval(index as u64) as usize;
            items.swap(index, other);
        }
    }

    /// The numbers `0..count` in random order: `permutation(count)`.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        self.shuffle(&mut numbers);
        numbers
    }

    /// An index in `0..count`: `choice(count)`. A count of 0 gives 0.
    pub fn choice(&mut self, count: usize) -> usize {
        self.interval(count.saturating_sub(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::NumpyRandomState;

    #[test]
    fn numpy_values() {
        assert_eq!(NumpyRandomState::new(1234).random_sample(), 0.191_519_450_378_892_3);
        assert_eq!(NumpyRandomState::new(42).random_sample(), 0.374_540_118_847_362_5);
        let mut random = NumpyRandomState::new(0);
        let drawn: Vec<i64> = (0..10).map(|_| random.randint(0, 10)).collect();
        assert_eq!(drawn, [5, 0, 3, 3, 7, 9, 3, 5, 2, 4]);
        assert_eq!(NumpyRandomState::new(0).permutation(10), [2, 8, 4, 9, 1, 6, 7, 3, 0, 5]);
    }
}
