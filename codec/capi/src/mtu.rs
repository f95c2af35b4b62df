//! The path MTU.

use roce_codec::ib::PathMtu;

/// Bytes of the path MTU that `code` stands for: 1 to 5 are 256 to 4096. 0 for any other.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub extern "C" fn roce_mtu_bytes(code: u8) -> u32 {
    PathMtu::from_code(code).map_or(0, PathMtu::bytes)
}

/// Packets that a message of `len` bytes takes at the path MTU that `code` stands for: at least
/// one. 0 if there is no such code.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_mtu_packets(code: u8, len: u32) -> u32 {
    PathMtu::from_code(code).map_or(0, |mtu| mtu.packets(len))
}

/// The code of the largest path MTU whose packets fit an IP packet of `ip_mtu` bytes, whatever
/// headers they carry; 0 if none does.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_mtu_largest_within(ip_mtu: usize) -> u8 {
    PathMtu::largest_within(ip_mtu).map_or(0, PathMtu::code)
}
