//! Pacing: bytes a second, held to by the nanosecond.
//!
//! A token bucket in integers and injected time. A bucket counts in billionths of a byte, so that a
//! nanosecond at any rate of whole bytes a second is a whole number: nothing is rounded away, and a
//! rate holds over any time. It knows nothing of what is paced.

use crate::time::Instant;

/// What a packet costs beside its payload: its headers, about.
pub(crate) const PACKET_BYTES: u32 = 64;

/// The least burst: a packet of the largest path MTU, or it could never go.
const LEAST_BURST: u32 = 4096 + PACKET_BYTES;

/// Tokens a byte.
const PER_BYTE: u64 = 1_000_000_000;

/// How fast bytes may go.
///
/// In any time of `t` seconds, at most `burst + bytes_per_second · t` bytes go. A packet counts as
/// its payload and 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rate {
    /// Bytes a second; 0 for no limit.
    pub bytes_per_second: u64,
    /// Bytes that may go at once after a pause; at least a packet of path MTU 4096. To keep up with
    /// the rate, it must cover what the rate brings between two calls of the poll loop.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self { bytes_per_second: 0, burst: 0 };

    /// So many bytes a second, and what they bring in 100 µs at once.
    #[must_use]
    pub fn bytes_per_second(bytes_per_second: u64) -> Self {
        let burst = u32::try_from(bytes_per_second / 10_000).unwrap_or(u32::MAX);
        Self { bytes_per_second, burst }
    }

    const fn is_unlimited(self) -> bool {
        self.bytes_per_second == 0
    }

    /// Tokens in a full bucket: below 2⁶².
    fn capacity(self) -> u64 {
        u64::from(self.burst.max(LEAST_BURST)) * PER_BYTE
    }
}

/// A bucket of tokens that fills at a [`Rate`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    rate: Rate,
    tokens: u64,
    /// When it held that many.
    at: Instant,
}

impl Bucket {
    /// Without a limit.
    pub(crate) const EMPTY: Self = Self { rate: Rate::UNLIMITED, tokens: 0, at: Instant::ZERO };

    /// A full one.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: rate.capacity(), at: now }
    }

    /// Goes on at another rate with the tokens there are; a bucket that had no limit is full.
    pub(crate) fn set_rate(&mut self, rate: Rate, now: Instant) {
        if self.rate.is_unlimited() {
            *self = Self::new(rate, now);
            return;
        }
        self.fill(now);
        self.rate = rate;
        self.tokens = self.tokens.min(rate.capacity());
    }

    fn fill(&mut self, now: Instant) {
        let brought = now.ns_since(self.at).saturating_mul(self.rate.bytes_per_second);
        self.tokens = self.tokens.saturating_add(brought).min(self.rate.capacity());
        self.at = self.at.max(now);
    }

    /// Takes a packet's tokens if there are enough; otherwise says when there will be.
    pub(crate) fn take(&mut self, now: Instant, payload: u32) -> Result<(), Instant> {
        if self.rate.is_unlimited() {
            return Ok(());
        }
        self.fill(now);
        let cost = u64::from(payload.saturating_add(PACKET_BYTES)).saturating_mul(PER_BYTE);
        match self.tokens.checked_sub(cost) {
            Some(left) => {
                self.tokens = left;
                Ok(())
            }
            None => {
                let missing = cost - self.tokens;
                Err(self.at.add_ns(missing.div_ceil(self.rate.bytes_per_second)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut bucket = Bucket::EMPTY;
        for _ in 0..1_000_000 {
            assert_eq!(bucket.take(Instant::ZERO, u32::MAX), Ok(()));
        }
    }

    /// 936 + 64 bytes are a thousand: at 1 GB/s, one a microsecond, to the nanosecond.
    #[test]
    fn a_packet_goes_at_its_nanosecond() {
        let rate = Rate { bytes_per_second: SECOND, burst: 10_000 };
        let mut bucket = Bucket::new(rate, Instant(5));
        for _ in 0..10 {
            assert_eq!(bucket.take(Instant(5), 936), Ok(()));
        }
        assert_eq!(bucket.take(Instant(5), 936), Err(Instant(1005)));
        assert_eq!(bucket.take(Instant(1004), 936), Err(Instant(1005)));
        assert_eq!(bucket.take(Instant(1005), 936), Ok(()));
        assert_eq!(bucket.take(Instant(1005), 936), Err(Instant(2005)));
    }

    /// At rates that do not divide a second: what goes in an hour is the rate's, to the byte.
    #[test]
    fn nothing_is_rounded_away() {
        for bytes_per_second in [7, 333, 999_983, 1_234_567_891, 12_500_000_001] {
            let rate = Rate { bytes_per_second, burst: 0 };
            let mut bucket = Bucket::new(rate, Instant::ZERO);
            let mut now = Instant::ZERO;
            let mut sent = 0u64;
            for _ in 0..20_000 {
                match bucket.take(now, 36) {
                    Ok(()) => sent += 100,
                    Err(at) => {
                        assert!(at > now);
                        now = at;
                    }
                }
            }
            let brought = u128::from(now.0) * u128::from(bytes_per_second) / u128::from(SECOND);
            let allowed = u64::try_from(brought).unwrap() + u64::from(LEAST_BURST);
            assert!(sent <= allowed, "{bytes_per_second}: {sent} of {allowed}");
            assert!(sent + 200 > allowed, "{bytes_per_second}: {sent} of {allowed}");
        }
    }

    #[test]
    fn a_pause_brings_a_burst_and_no_more() {
        let rate = Rate { bytes_per_second: 1_000_000, burst: 5000 };
        let mut bucket = Bucket::new(rate, Instant::ZERO);
        for now in [Instant(1 << 40), Instant(u64::MAX)] {
            let sent = (0..100).take_while(|_| bucket.take(now, 936).is_ok()).count();
            assert_eq!(sent, 5);
        }
    }

    /// What was brought before a change was brought at the old rate.
    #[test]
    fn a_rate_changes_from_now_on() {
        let rate = Rate { bytes_per_second: 1_000_000, burst: 5000 };
        let mut bucket = Bucket::new(rate, Instant::ZERO);
        for _ in 0..5 {
            assert_eq!(bucket.take(Instant::ZERO, 936), Ok(()));
        }
        let double = Rate { bytes_per_second: 2_000_000, ..rate };
        bucket.set_rate(double, Instant(500_000));
        assert_eq!(bucket.take(Instant(500_000), 936), Err(Instant(750_000)));
        bucket.set_rate(Rate::UNLIMITED, Instant(500_000));
        assert_eq!(bucket.take(Instant(500_000), 4096), Ok(()));
        bucket.set_rate(rate, Instant(600_000));
        assert_eq!(bucket.take(Instant(600_000), 4096), Ok(()), "full");
    }
}
