//! CPython's module `random`.

use super::mt19937::Mt19937;
use sha2::{Digest, Sha512};

/// `random.Random`: the generator behind Python's module `random`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonRandom {
    generator: Mt19937,
}

impl PythonRandom {
    /// Seeds as `random.seed(number)` does; the sign does not count.
    pub fn from_int(seed: i128) -> Self {
        let mut digits = Vec::new();
        let mut rest = seed.unsigned_abs();
        while rest > 0 {
            digits.push(rest as u32);
            rest >>= 32;
        }
        Self { generator: Mt19937::from_key(&digits) }
    }

    /// Seeds as `random.seed(text)` does (version 2, the default): with the text and its SHA-512.
    #[expect(clippy::should_implement_trait, reason = "nothing is parsed: any text is a seed")]
    pub fn from_str(seed: &str) -> Self {
        Self::from_bytes(seed.as_bytes())
    }

    /// Seeds as `random.seed(bytes)` does (version 2, the default).
    pub fn from_bytes(seed: &[u8]) -> Self {
        let number = [seed, &Sha512::digest(seed)[..]].concat();
        // A big-endian number, cut into 32-bit digits from its low end.
        let mut digits: Vec<u32> = number
            .rchunks(4)
            .map(|chunk| chunk.iter().fold(0, |digit, &byte| digit << 8 | u32::from(byte)))
            .collect();
        while digits.len() > 1 && digits.last() == Some(&0) {
            digits.pop();
        }
        Self { generator: Mt19937::from_key(&digits) }
    }

    /// A number in `0.0..1.0`: `random()`.
    pub fn random(&mut self) -> f64 {
        self.generator.next_f64()
    }

    /// A number of `bits` random bits, at most 64: `getrandbits(bits)`.
    pub fn getrandbits(&mut self, bits: u32) -> u64 {
        let bits = bits.min(64);
        let mut draw =
            |bits: u32| if bits == 0 { 0 } else { u64::from(self.generator.next_u32() >> (32 - bits)) };
        if bits <= 32 {
            draw(bits)
        } else {
            let low = draw(32);
            draw(bits - 32) << 32 | low
        }
    }

    /// A number in `0..count`: what `randrange`, `choice` and `shuffle` draw with. A count of 0 gives 0.
    pub fn below(&mut self, count: u64) -> u64 {
        if count == 0 {
            return 0;
        }
        let bits = u64::BITS - count.leading_zeros();
        loop {
            let draw = self.getrandbits(bits);
            if draw < count {
                return draw;
            }
        }
    }

    /// A number in `start..stop`: `randrange(start, stop)`; `None` for an empty range, where Python raises.
    pub fn randrange(&mut self, start: i64, stop: i64) -> Option<i64> {
        let width = stop.checked_sub(start).filter(|&width| width > 0)?;
        Some(start + self.below(width as u64) as i64)
    }

    /// A number in `low..=high`: `randint(low, high)`; `None` for an empty range, where Python raises.
    pub fn randint(&mut self, low: i64, high: i64) -> Option<i64> {
        self.randrange(low, high.checked_add(1)?)
    }

    /// One of the items: `choice(items)`; `None` for no items, where Python raises.
    pub fn choice<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        let index = self.below(items.len() as u64) as usize;
        items.get(index)
    }

    /// `count` items with replacement: `choices(items, k=count)`.
    pub fn choices<'i, T>(&mut self, items: &'i [T], count: usize) -> Vec<&'i T> {
        let length = items.len() as f64;
        (0..count).filter_map(|_| items.get((self.random() * length).floor() as usize)).collect()
    }

    /// `count` items with replacement and weights: `choices(items, weights, k=count)`.
    ///
    /// Weights beyond the items are ignored; a total that is not positive gives no items, where Python raises.
    pub fn weighted_choices<'i, T>(&mut self, items: &'i [T], weights: &[f64], count: usize) -> Vec<&'i T> {
        let sums: Vec<f64> = weights
            .iter()
            .take(items.len())
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let total = sums.last().copied().unwrap_or_default();
        if total <= 0.0 || !total.is_finite() || sums.len() < items.len() {
            return Vec::new();
        }
        let last = items.len() - 1;
        (0..count)
            .map(|_| {
                let draw = self.random() * total;
                &items[sums[..last].partition_point(|&sum| sum <= draw)]
            })
            .collect()
    }

    /// Shuffles in place: `shuffle(list)`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.below(index as u64 + 1) as usize;
            items.swap(index, other);
        }
    }

    /// `count` different items: `sample(items, count)`; `None` when there are too few, where Python raises.
    pub fn sample<'i, T>(&mut self, items: &'i [T], count: usize) -> Option<Vec<&'i T>> {
        let length = items.len();
        if count > length {
            return None;
        }
        // The size at which Python changes from a pool to a set of what was drawn.
        let mut small = 21;
        if count > 5 {
            let power = ((count as f64 * 3.0).ln() / 4f64.ln()).ceil() as u32;
            small += 4usize.saturating_pow(power);
        }
        if length <= small {
            let mut pool: Vec<&T> = items.iter().collect();
            let drawn = (0..count).map(|index| {
                let place = self.below((length - index) as u64) as usize;
                let item = pool[place];
                pool[place] = pool[length - index - 1];
                item
            });
            return Some(drawn.collect());
        }
        let mut drawn = std::collections::HashSet::with_capacity(count);
        let indices = (0..count).map(|_| {
            loop {
                let index = self.below(length as u64) as usize;
                if drawn.insert(index) {
                    return &items[index];
                }
            }
        });
        Some(indices.collect())
    }

    /// A number between `low` and `high`: `uniform(low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }
}

#[cfg(test)]
mod tests {
    use super::PythonRandom;

    // All expected values were printed by CPython 3.11.
    #[test]
    fn cpython_values() {
        let mut random = PythonRandom::from_int(0);
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [3626764237, 1654615998, 3255389356]
        );
        let mut random = PythonRandom::from_int(1);
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [577090037, 2444712010, 3639700191]
        );
        let mut random = PythonRandom::from_int(-5);
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [2675342405, 1097127993, 3185950873]
        );
        let mut random = PythonRandom::from_int(3747459299);
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [3618544128, 4240459175, 2494496458]
        );
        let mut random = PythonRandom::from_int(1099511627783);
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [2635837658, 3209733218, 3500038837]
        );
        let mut random = PythonRandom::from_int(18446744073709551619);
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [3921169615, 2134766284, 3962962676]
        );
        let mut random = PythonRandom::from_str("");
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [4124137760, 1951988028, 2557274880]
        );
        let mut random = PythonRandom::from_str("seed");
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [593719038, 252944290, 1016658430]
        );
        let mut random = PythonRandom::from_str("a longer seed text ü");
        assert_eq!(
            [random.getrandbits(32), random.getrandbits(32), random.getrandbits(32)],
            [2436653273, 907642980, 711214907]
        );
        let mut random = PythonRandom::from_int(42);
        assert_eq!(random.random(), 0.6394267984578837);
        assert_eq!(random.uniform(-2.0, 3.5), -1.862440846275332);
        assert_eq!(random.getrandbits(7), 35);
        assert_eq!(random.getrandbits(45), 7852252019600);
        assert_eq!(random.randrange(-10, 1000), Some(132));
        assert_eq!(random.randint(1, 6), Some(6));
        assert_eq!(random.choice(&[10, 20, 30]), Some(&10));
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(random.choices(&items, 4), [676, 892, 86, 421].iter().collect::<Vec<_>>());
        assert_eq!(
            random.weighted_choices(&[1, 2, 3], &[0.5, 0.0, 2.5], 6),
            [1, 3, 3, 1, 3, 3].iter().collect::<Vec<_>>()
        );
        let mut deck: Vec<u32> = (0..12).collect();
        random.shuffle(&mut deck);
        assert_eq!(deck, [5, 2, 11, 9, 1, 0, 10, 4, 7, 3, 6, 8]);
        assert_eq!(random.sample(&items, 5), Some([159, 220, 980, 781, 344].iter().collect()));
        assert_eq!(random.sample(&items[..30], 8), Some([3, 2, 12, 29, 11, 25, 19, 8].iter().collect()));
        assert_eq!(random.sample(&items, 7), Some([826, 44, 747, 470, 549, 127, 996].iter().collect()));
        assert_eq!(random.sample(&items[..3], 4), None);
        assert_eq!(random.randrange(3, 3), None);
        assert_eq!(random.random(), 0.9222953720281599);
    }
}
