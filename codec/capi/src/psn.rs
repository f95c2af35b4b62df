//! Packet sequence numbers: 24 bits that wrap, compared only by distance. Bits above are dropped.

use roce_codec::ib::Psn;

/// The PSN `count` packets after `psn`.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub extern "C" fn roce_psn_add(psn: u32, count: u32) -> u32 {
    Psn::new(psn).add(count).get()
}

/// The PSN `count` packets before `psn`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_psn_sub(psn: u32, count: u32) -> u32 {
    Psn::new(psn).sub(count).get()
}

/// How far `psn` lies after `other`: -8388608 to 8388607, negative when before. The one way to
/// compare PSNs: 0 comes after 0xFFFFFF.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_psn_distance(psn: u32, other: u32) -> i32 {
    Psn::new(psn).distance_from(Psn::new(other))
}

/// 1 if `psn` lies from `first` to `last`, both included, else 0.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_psn_within(psn: u32, first: u32, last: u32) -> u8 {
    Psn::new(psn).is_within(Psn::new(first), Psn::new(last)).into()
}
