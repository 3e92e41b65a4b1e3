//! The Mersenne Twister of Matsumoto and Nishimura (1998), with both of its seeding functions.

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// The generator MT19937: 19,937 bits of state, 32 bits a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mt19937 {
    words: [u32; WORDS],
    next: usize,
}

impl Mt19937 {
    /// Seeds with one word (`init_genrand` of the reference code).
    pub fn from_word(seed: u32) -> Self {
        let mut words = [0; WORDS];
        words[0] = seed;
        for index in 1..WORDS {
            let before = words[index - 1];
            words[index] = 1_812_433_253u32.wrapping_mul(before ^ before >> 30).wrapping_add(index as u32);
        }
        Self { words, next: WORDS }
    }

    /// Seeds with many words (`init_by_array` of the reference code). An empty key counts as `[0]`.
    pub fn from_key(key: &[u32]) -> Self {
        let key = if key.is_empty() { &[0] } else { key };
        let mut words = Self::from_word(19_650_218).words;
        let mut index = 1;
        let wrap = |words: &mut [u32; WORDS], index: &mut usize| {
            *index += 1;
            if *index == WORDS {
                words[0] = words[WORDS - 1];
                *index = 1;
            }
        };
        for round in 0..WORDS.max(key.len()) {
            let place = round % key.len();
            let before = words[index - 1];
            words[index] = (words[index] ^ (before ^ before >> 30).wrapping_mul(1_664_525))
                .wrapping_add(key[place])
                .wrapping_add(place as u32);
            wrap(&mut words, &mut index);
        }
        for _ in 1..WORDS {
            let before = words[index - 1];
            words[index] = (words[index] ^ (before ^ before >> 30).wrapping_mul(1_566_083_941))
                .wrapping_sub(index as u32);
            wrap(&mut words, &mut index);
        }
        words[0] = 1 << 31;
        Self { words, next: WORDS }
    }

    /// The next 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    /// A number in `0.0..1.0` with 53 random bits, from two draws.
    pub fn next_f64(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    fn twist(&mut self) {
        for index in 0..WORDS {
            let joined = self.words[index] & 1 << 31 | self.words[(index + 1) % WORDS] & !(1 << 31);
            let mixed = joined >> 1 ^ if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[index] = self.words[(index + SHIFT) % WORDS] ^ mixed;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Mt19937;

    #[test]
    fn reference_values() {
        // Of the C++ standard, [rand.predef]: the 10000th draw with the default seed.
        let mut generator = Mt19937::from_word(5489);
        assert_eq!((0..10_000).map(|_| generator.next_u32()).last(), Some(4_123_659_995));
        // First values of the authors' `mt19937ar.out`.
        let mut generator = Mt19937::from_key(&[0x123, 0x234, 0x345, 0x456]);
        let first: Vec<u32> = (0..4).map(|_| generator.next_u32()).collect();
        assert_eq!(first, [1_067_595_299, 955_945_823, 477_289_528, 4_107_218_783]);
    }
}
