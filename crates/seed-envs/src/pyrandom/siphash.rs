//! CPython's hash of a text: SipHash-1-3 under a key that the environment variable `PYTHONHASHSEED` decides.

/// `hash(text)` of CPython 3.11 and later, started with `PYTHONHASHSEED=hash_seed`.
///
/// The text must be ASCII or Latin-1 in its narrow form, which for ASCII is its bytes; other texts are hashed by their
/// UTF-8 bytes, which CPython does not do.
pub fn string_hash(text: &str, hash_seed: u32) -> i64 {
    if text.is_empty() {
        return 0;
    }
    let hash = siphash13(text.as_bytes(), keys(hash_seed)) as i64;
    // −1 marks an error inside CPython.
    if hash == -1 { -2 } else { hash }
}

/// The two keys: zero for seed 0, else the first 16 of the bytes that a linear congruential generator gives.
fn keys(hash_seed: u32) -> [u64; 2] {
    if hash_seed == 0 {
        return [0, 0];
    }
    let mut x = hash_seed;
    [(); 2].map(|()| {
        (0..8).fold(0, |key, byte| {
            x = x.wrapping_mul(214_013).wrapping_add(2_531_011);
            key | u64::from(x >> 16 & 0xff) << (8 * byte)
        })
    })
}

/// SipHash with one round a word and three at the end (Aumasson and Bernstein, 2012).
fn siphash13(bytes: &[u8], [k0, k1]: [u64; 2]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let word = |chunk: &[u8]| {
        chunk.iter().enumerate().fold(0, |word, (place, &byte)| word | u64::from(byte) << (8 * place))
    };
    let chunks = bytes.chunks_exact(8);
    let last = word(chunks.remainder()) | (bytes.len() as u64) << 56;
    for m in chunks.map(word).chain([last]) {
        v[3] ^= m;
        round(&mut v);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::string_hash;

    #[test]
    fn cpython_values() {
        // Printed by CPython 3.11 with the hash seeds 0, 1, 10000 and 4294967295.
        for (text, hash_seed, hash) in VALUES {
            assert_eq!(string_hash(text, hash_seed), hash, "{text:?} under {hash_seed}");
        }
    }

    const VALUES: [(&str, u32, i64); 10] = [
        ("0", 0, 5_313_149_338_359_954_478),
        ("12345678", 0, 3_785_724_242_978_802_311),
        ("a text of more than two words", 0, -4_251_312_230_572_954_982),
        ("0", 1, -8_730_965_283_136_228_465),
        ("12345678", 1, 500_036_314_421_443_289),
        ("a text of more than two words", 1, -360_352_382_029_433_193),
        ("0", 10000, 5_403_999_242_948_917_794),
        ("12345678", 10000, 4_643_131_024_599_933_684),
        ("a text of more than two words", 10000, 774_696_789_240_476_802),
        ("0", 4294967295, -7_823_853_590_095_853_671),
    ];
}
