//! Wrong ICRCs: damage, and each known mistake of a sender. They are the last packets of their
//! traces, so that nothing follows from them.

use roce_codec::ib::Opcode;
use roce_codec::{Crc, Crc32};

use super::script::{Active, Draft, Passive, Script};

/// Offsets of what counts as ones, from the IPv4 header on.
const VARIANT: [usize; 7] = [1, 8, 10, 11, 26, 27, 32];
/// IPv4, UDP, BTH.
const HEADERS: usize = 40;

/// A SEND of 61 bytes, which takes three pad bytes.
fn last(s: &mut Script) -> Draft {
    s.request(Active, Opcode::RC_SEND_ONLY, 61)
}

/// What is covered, with the variant fields set to `value`.
fn covered(l3: &[u8], value: u8) -> Vec<u8> {
    let mut covered = l3[..l3.len() - 4].to_vec();
    for at in VARIANT {
        covered[at] = value;
    }
    covered
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    for part in parts {
        crc.update(part);
    }
    crc.finish()
}

const ONES: &[u8] = &[0xff; 8];

/// The last packet with the ICRC that `wrong` makes of it, from the IPv4 header on.
fn mistaken(s: &mut Script, wrong: impl FnOnce(&[u8]) -> [u8; 4]) {
    let draft = last(s);
    s.put_changed(&draft, |l3| {
        let icrc = wrong(l3);
        let end = l3.len() - 4;
        l3[end..].copy_from_slice(&icrc);
    });
}

traces! {
    "icrc-damaged", "a payload byte changed on the way: the responder drops it, and it is sent again", [RoceIcrc Fail 1, RcPsnGap Unknown 2],
        |s| {
            let lost = last(s);
            s.put_changed(&lost, |l3| l3[60] ^= 0x10);
            let next = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&next);
            let nak = s.nak(Passive, 0x60, lost.builder.bth.psn, 2);
            s.put(&nak);
            s.put_all(&[lost, next]);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "icrc-address-rewritten", "a box changed the destination address without a new ICRC", [RoceIcrc Fail 1],
        |s| { let d = last(s); s.put_changed(&d, |l3| l3[19] ^= 3); };
    "icrc-psn-rewritten", "a box changed the PSN without a new ICRC", [RoceIcrc Fail 1],
        |s| { let d = last(s); s.put_changed(&d, |l3| l3[39] ^= 1); };
    "icrc-not-filled", "captured before the hardware filled it in", [RoceIcrc Unknown 1],
        |s| mistaken(s, |_| [0; 4]);
    "icrc-pad-left-out", "the pad bytes left out, as Linux rxe did until 2019", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| { let c = covered(l3, 0xff); crc(&[ONES, &c[..c.len() - 3]]).to_le_bytes() });
    "icrc-big-endian", "stored most significant byte first", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[ONES, &covered(l3, 0xff)]).to_be_bytes());
    "icrc-not-inverted", "the complement at the end is missing", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| (!crc(&[ONES, &covered(l3, 0xff)])).to_le_bytes());
    "icrc-ones-left-out", "the eight bytes of ones left out", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[&covered(l3, 0xff)]).to_le_bytes());
    "icrc-zeroes-for-ones", "eight bytes of zeroes for the eight bytes of ones", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[&[0; 8], &covered(l3, 0xff)]).to_le_bytes());
    "icrc-nothing-masked", "no field set to ones", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[ONES, &l3[..l3.len() - 4]]).to_le_bytes());
    "icrc-masked-with-zeroes", "the variant fields set to zeroes", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[ONES, &covered(l3, 0)]).to_le_bytes());
    "icrc-ttl-not-masked", "the time to live not set to ones", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| { let mut c = covered(l3, 0xff); c[8] = l3[8]; crc(&[ONES, &c]).to_le_bytes() });
    "icrc-starts-at-bth", "the network headers left out", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[ONES, &covered(l3, 0xff)[HEADERS - 12..]]).to_le_bytes());
    "icrc-payload-left-out", "payload and pad left out", [RoceIcrc Fail 1],
        |s| mistaken(s, |l3| crc(&[ONES, &covered(l3, 0xff)[..HEADERS]]).to_le_bytes());
    "icrc-headers-twice", "a FLUSH of Linux rxe, which covers BTH, FETH and RETH twice", [RoceIcrc Fail 1],
        |s| {
            let flush = s.request(Active, Opcode::RC_FLUSH, 0);
            s.put_changed(&flush, |l3| {
                let end = l3.len() - 4;
                let icrc = crc(&[ONES, &covered(l3, 0xff), &l3[HEADERS - 12..end]]);
                l3[end..].copy_from_slice(&icrc.to_le_bytes());
            });
            let answer = s.draft(Passive, Opcode::RC_RDMA_READ_RESPONSE_ONLY, flush.builder.bth.psn, 0);
            s.put(&answer);
        };
}
