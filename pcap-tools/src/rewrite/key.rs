//! The key that masked addresses follow from: SipHash-2-4, by Aumasson and Bernstein, written out
//! since the standard library promises no hash that stays the same from release to release.

/// A key: the same one masks the same addresses alike, whenever and wherever.
#[derive(Debug, Clone, Copy)]
pub struct Key([u64; 2]);

impl Key {
    /// From a text of any length.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let half = |number| Self([number, 0]).hash(text.as_bytes());
        Self([half(1), half(2)])
    }

    /// One that nobody knows, made anew each time.
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self([0, 1].map(|number: u8| RandomState::new().hash_one(number)))
    }

    /// A number that looks random to whoever does not have the key.
    pub(super) fn hash(self, message: &[u8]) -> u64 {
        let [k0, k1] = self.0;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let (words, rest) = message.as_chunks::<8>();
        for word in words {
            absorb(&mut v, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        let [length, ..] = message.len().to_le_bytes();
        last[7] = length;
        absorb(&mut v, u64::from_le_bytes(last));
        v[2] ^= 0xff;
        for _ in 0..4 {
            round(&mut v);
        }
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn absorb(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the paper's appendix: key 00 to 0f, message 00 to 0e.
    #[test]
    fn the_published_value() {
        let key = Key([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(key.hash(&message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn texts_make_keys() {
        let hash = |text| Key::of_text(text).hash(b"x");
        assert_eq!(hash("secret"), hash("secret"));
        assert_ne!(hash("secret"), hash("Secret"));
    }
}
