//! NumPy's newer generator: `numpy.random.default_rng`, which `gymnasium` seeds its environments with.

/// `numpy.random.default_rng(seed)`: PCG64 (O'Neill, 2014; XSL-RR 128/64) seeded through a `SeedSequence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumpyGenerator {
    state: u128,
    increment: u128,
    /// The upper half of a 64-bit output whose lower half was handed out.
    half: Option<u32>,
}

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

impl NumpyGenerator {
    /// Seeds as `default_rng(seed)` does.
    pub fn new(seed: u64) -> Self {
        let [state_high, state_low, stream_high, stream_low] = seed_words(seed);
        let join = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let mut random = Self { state: 0, increment: join(stream_high, stream_low) << 1 | 1, half: None };
        random.advance();
        random.state = random.state.wrapping_add(join(state_high, state_low));
        random.advance();
        random
    }

    fn advance(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.advance();
        ((self.state >> 64) as u64 ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    /// The next 32 random bits: the lower half of an output, then its upper half.
    pub fn next_u32(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let word = self.next_u64();
            self.half = Some((word >> 32) as u32);
            word as u32
        })
    }

    /// A number in `0.0..1.0`: `random()`.
    pub fn random(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// An index in `0..count`, as `integers(count)` and `choice(count)` draw it (Lemire's method); no draw below 2.
    pub fn below(&mut self, count: u32) -> u32 {
        if count < 2 {
            return 0;
        }
        let mut product = u64::from(self.next_u32()) * u64::from(count);
        if (product as u32) < count {
            let threshold = count.wrapping_neg() % count;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(count);
            }
        }
        (product >> 32) as u32
    }

    /// One of the items: `choice(items)`; `None` for no items, where NumPy raises.
    pub fn choice<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        let index = self.below(u32::try_from(items.len()).unwrap_or(u32::MAX));
        items.get(index as usize)
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_words(seed: u64) -> [u64; 4] {
    const SHIFT: u32 = 16;
    // Zero is one word, a number beyond 32 bits two; the rest of the pool is filled with zeros, which is the same.
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut hash = 0x43b0_d7e5u32;
    let mut mix_in = |value: u32| {
        let mut value = value ^ hash;
        hash = hash.wrapping_mul(0x931e_8875);
        value = value.wrapping_mul(hash);
        value ^ value >> SHIFT
    };
    let mut pool = entropy.map(&mut mix_in);
    for source in 0..4 {
        for target in 0..4 {
            if source != target {
                let mixed = mix_in(pool[source]);
                let value =
                    pool[target].wrapping_mul(0xca01_f9dd).wrapping_sub(mixed.wrapping_mul(0x4973_f715));
                pool[target] = value ^ value >> SHIFT;
            }
        }
    }
    let mut hash = 0x8b51_f9ddu32;
    let mut words = [0u64; 4];
    for place in 0..8 {
        let mut value = pool[place % 4] ^ hash;
        hash = hash.wrapping_mul(0x58f3_8ded);
        value = value.wrapping_mul(hash);
        value ^= value >> SHIFT;
        words[place / 2] |= u64::from(value) << (32 * (place % 2));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::NumpyGenerator;

    // All expected values were printed by NumPy 1.26.4.
    #[test]
    fn numpy_values() {
        for (seed, first, bounded, cards, last) in [
            (0, 0.6369616873214543, [6, 1, 0, 0, 0, 0, 16], [3, 10, 9, 10], 0.6066357757671799),
            (1, 0.5118216247002567, [9, 3, 0, 0, 0, 1, 948], [4, 5, 10, 6], 0.8277025938204418),
            (123456789, 0.02771273928251694, [7, 3, 1, 3, 0, 0, 624], [2, 10, 3, 10], 0.8417058359864552),
            (4294967295, 0.2519435680449965, [9, 0, 2, 1, 0, 0, 618], [10, 10, 2, 4], 0.5204656682547232),
            (
                1099511627781,
                0.004739459374490829,
                [5, 1, 2, 2, 0, 1, 151],
                [1, 6, 10, 10],
                0.36119499827535184,
            ),
        ] {
            let mut random = NumpyGenerator::new(seed);
            assert_eq!(random.random(), first, "seed {seed}");
            assert_eq!([13, 4, 3, 4, 1, 2, 1000].map(|count| random.below(count)), bounded, "seed {seed}");
            let deck = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10];
            assert_eq!([(); 4].map(|()| *random.choice(&deck).expect("a card")), cards, "seed {seed}");
            assert_eq!(random.random(), last, "seed {seed}");
        }
    }
}
