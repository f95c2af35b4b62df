//! A captured packet with other numbers in it, and the ICRC made anew.

use std::net::IpAddr;

use roce_codec::ib::{Psn, Qpn, RKey};
use roce_codec::icrc::{ICRC_LEN, IcrcVerdict};
use roce_codec::net::{Ethernet, Ip};
use roce_codec::{Crc, EmitError, Frame};

/// What a packet is given instead of what it has. What is `None` stays.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    pub(super) ethernet: Option<Ethernet>,
    pub(super) src: Option<IpAddr>,
    pub(super) dst: Option<IpAddr>,
    pub(super) dest_qp: Option<Qpn>,
    pub(super) psn: Option<Psn>,
    pub(super) rkey: Option<RKey>,
    pub(super) va: Option<u64>,
    /// The key that a SEND takes away.
    pub(super) invalidate: Option<RKey>,
    /// A packet whose ICRC was wrong gets one that is wrong in the same bits.
    pub(super) keep_wrong: bool,
}

/// Writes the packet with these changes into `out`.
///
/// # Errors
/// [`EmitError`]: addresses of another family than the packet's are not put in.
pub(super) fn emit(
    frame: &Frame<'_>,
    changes: &Changes,
    out: &mut Vec<u8>,
) -> Result<(), EmitError> {
    let mut builder = frame.to_builder();
    builder.ethernet = changes.ethernet;
    match &mut builder.ip {
        Ip::V4(ip) => {
            if let Some(IpAddr::V4(src)) = changes.src {
                ip.src = src;
            }
            if let Some(IpAddr::V4(dst)) = changes.dst {
                ip.dst = dst;
            }
            ip.checksum = ip.computed_checksum();
        }
        Ip::V6(ip) => {
            if let Some(IpAddr::V6(src)) = changes.src {
                ip.src = src;
            }
            if let Some(IpAddr::V6(dst)) = changes.dst {
                ip.dst = dst;
            }
        }
    }
    if changes.src.is_some() || changes.dst.is_some() {
        // It covered the addresses; RoCEv2 needs none.
        builder.udp.checksum = 0;
    }
    builder.bth.dest_qp = changes.dest_qp.unwrap_or(builder.bth.dest_qp);
    builder.bth.psn = changes.psn.unwrap_or(builder.bth.psn);
    if let Some(reth) = &mut builder.ext.reth {
        reth.rkey = changes.rkey.unwrap_or(reth.rkey);
        reth.va = changes.va.unwrap_or(reth.va);
    }
    if let Some(eth) = &mut builder.ext.atomic_eth {
        eth.rkey = changes.rkey.unwrap_or(eth.rkey);
        eth.va = changes.va.unwrap_or(eth.va);
    }
    if let Some(ieth) = &mut builder.ext.ieth {
        ieth.0 = changes.invalidate.unwrap_or(ieth.0);
    }
    let needed = builder.header_len() + frame.payload_len() + 3 + ICRC_LEN;
    out.clear();
    out.resize(needed, 0);
    let len = builder.emit::<Crc>(frame.payload(), out)?;
    out.truncate(len);
    if changes.keep_wrong
        && let IcrcVerdict::Invalid { expected, found } = frame.verify_icrc()
        && let Some(at) = len.checked_sub(ICRC_LEN)
    {
        let wrong = expected.iter().zip(found).map(|(one, other)| one ^ other);
        for (byte, flip) in out.iter_mut().skip(at).zip(wrong) {
            *byte ^= flip;
        }
    }
    Ok(())
}
