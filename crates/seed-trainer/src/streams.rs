//! Named random streams: every draw of a run comes from (run seed, purpose, indices), never from a shared state.
//!
//! Nothing random has to be saved in a checkpoint: a stream is made anew from its name.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The seed of a stream, e.g. `derive(7, "rollout", &[update, group, episode])`.
pub fn derive(run_seed: u64, purpose: &str, indices: &[u64]) -> u64 {
    let bytes = digest(run_seed, purpose, indices);
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The generator of a stream.
pub fn stream(run_seed: u64, purpose: &str, indices: &[u64]) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(digest(run_seed, purpose, indices))
}

/// Puts items into a random order (Fisher–Yates, from the end).
pub fn shuffle<T>(items: &mut [T], rng: &mut ChaCha8Rng) {
    for end in (1..items.len()).rev() {
        items.swap(end, below(rng, end as u64 + 1) as usize);
    }
}

/// A whole number below `bound`, without bias.
pub fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    let limit = u64::MAX - u64::MAX % bound;
    loop {
        let drawn = rng.next_u64();
        if drawn < limit {
            return drawn % bound;
        }
    }
}

fn digest(run_seed: u64, purpose: &str, indices: &[u64]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(run_seed.to_le_bytes());
    hash.update((purpose.len() as u64).to_le_bytes());
    hash.update(purpose.as_bytes());
    for index in indices {
        hash.update(index.to_le_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_name_counts() {
        let all = [
            derive(0, "a", &[]),
            derive(1, "a", &[]),
            derive(0, "b", &[]),
            derive(0, "a", &[0]),
            derive(0, "a", &[0, 1]),
            derive(0, "a", &[1, 0]),
        ];
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|y| x != y));
        }
        assert_eq!(derive(3, "a", &[2]), derive(3, "a", &[2]));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..50).collect();
        shuffle(&mut items, &mut stream(1, "test", &[]));
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
