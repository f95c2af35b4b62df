//! The classic BPF program that keeps everything but RoCEv2 from an AF_PACKET socket.

use std::ffi::c_ushort;
use std::io;
use std::os::fd::BorrowedFd;

use libc::sock_filter;

use crate::sys;

/// Instruction classes and modes of classic BPF (linux/bpf_common.h).
mod op {
    pub(super) const LD_B_ABS: u16 = 0x30;
    pub(super) const LD_H_ABS: u16 = 0x28;
    pub(super) const LD_B_IND: u16 = 0x50;
    pub(super) const LD_H_IND: u16 = 0x48;
    pub(super) const LDX_IMM: u16 = 0x01;
    pub(super) const AND: u16 = 0x54;
    pub(super) const LSH: u16 = 0x64;
    pub(super) const ADD_X: u16 = 0x0c;
    pub(super) const TAX: u16 = 0x07;
    pub(super) const JA: u16 = 0x05;
    pub(super) const JEQ: u16 = 0x15;
    pub(super) const JGT: u16 = 0x25;
    pub(super) const JSET: u16 = 0x45;
    pub(super) const RET: u16 = 0x06;
}

/// Where the kernel keeps the packet type (PACKET_HOST, ...) for a filter to load:
/// SKF_AD_OFF + SKF_AD_PKTTYPE, the offset being negative.
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
/// PACKET_HOST 0, _BROADCAST 1 and _MULTICAST 2 are for us; _OTHERHOST, _OUTGOING and others not.
const PACKET_MULTICAST: u32 = 2;
/// More than any frame, so that nothing is cut.
const WHOLE_FRAME: u32 = 0x4_0000;

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// The instruction at `at`, which goes on at `yes` or at `no`, both further down.
const fn branch(at: u8, code: u16, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code, jt: yes - at - 1, jf: no - at - 1, k }
}

/// The instruction that passes the frame, and the one that drops it.
const PASS: u8 = 25;
const DROP: u8 = 26;

/// Passes unfragmented IPv4 and IPv6 UDP to port 4791, with or without one VLAN tag in the frame
/// (the kernel has taken the outermost tag out of it by then), that came in for this host.
/// X is 4 behind a tag, else 0.
const ROCE: [sock_filter; 27] = [
    /* 00 */ statement(op::LD_B_ABS, PACKET_TYPE),
    /* 01 */ branch(1, op::JGT, PACKET_MULTICAST, DROP, 2),
    /* 02 */ statement(op::LDX_IMM, 0),
    /* 03 */ statement(op::LD_H_ABS, 12),
    /* 04 */ branch(4, op::JEQ, 0x8100, 6, 5),
    /* 05 */ branch(5, op::JEQ, 0x88a8, 6, 8),
    /* 06 */ statement(op::LDX_IMM, 4),
    /* 07 */ statement(op::LD_H_ABS, 16),
    /* 08 */ branch(8, op::JEQ, 0x0800, 14, 9),
    /* 09 */ branch(9, op::JEQ, 0x86dd, 10, DROP),
    // IPv6: the next header, then the port.
    /* 10 */ statement(op::LD_B_IND, 14 + 6),
    /* 11 */ branch(11, op::JEQ, 17, 12, DROP),
    /* 12 */ statement(op::LD_H_IND, 14 + 40 + 2),
    /* 13 */ statement(op::JA, 24 - 13 - 1),
    // IPv4: the protocol, no fragment, then the port behind the options.
    /* 14 */
    statement(op::LD_B_IND, 14 + 9),
    /* 15 */ branch(15, op::JEQ, 17, 16, DROP),
    /* 16 */ statement(op::LD_H_IND, 14 + 6),
    /* 17 */ branch(17, op::JSET, 0x3fff, DROP, 18),
    /* 18 */ statement(op::LD_B_IND, 14),
    /* 19 */ statement(op::AND, 0x0f),
    /* 20 */ statement(op::LSH, 2),
    /* 21 */ statement(op::ADD_X, 0),
    /* 22 */ statement(op::TAX, 0),
    /* 23 */ statement(op::LD_H_IND, 14 + 2),
    /* 24 */ branch(24, op::JEQ, 4791, PASS, DROP),
    /* 25 */ statement(op::RET, WHOLE_FRAME),
    /* 26 */ statement(op::RET, 0),
];

/// Passes nothing.
const NOTHING: [sock_filter; 1] = [statement(op::RET, 0)];

/// Lets only RoCEv2 frames for this host through to `socket`.
pub(super) fn attach_roce(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach(socket, &ROCE)
}

/// Lets nothing through to `socket`, which then holds no memory.
pub(super) fn attach_nothing(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach(socket, &NOTHING)
}

fn attach(socket: BorrowedFd<'_>, filter: &'static [sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: c_ushort::try_from(filter.len()).unwrap_or(0),
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program points at `len` instructions of static life, which the kernel copies
    // and does not write.
    unsafe { sys::set_option_pointing(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Whether the kernel, running the filter, lets `frame` through whole.
    ///
    /// A filter works on any socket; one of a local pair shows what it does without privilege.
    fn passes(frame: &[u8]) -> bool {
        let (from, to) = UnixDatagram::pair().expect("a pair");
        attach_roce(to.as_fd()).expect("the kernel takes the filter");
        to.set_nonblocking(true).expect("set");
        // A filter that drops makes this end's send fail; that is the answer as well.
        let _ = from.send(frame);
        let mut got = vec![0; 10_000];
        to.recv(&mut got).is_ok_and(|length| got[..length] == *frame)
    }

    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn ipv4(ihl: u8, fragment: u16, protocol: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(ihl) * 4];
        packet[0] = 0x40 | ihl;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet.extend([0xc0, 0x00]);
        packet.extend(port.to_be_bytes());
        packet.extend([0; 28]);
        packet
    }

    fn ipv6(next_header: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = next_header;
        packet.extend([0xc0, 0x00]);
        packet.extend(port.to_be_bytes());
        packet.extend([0; 28]);
        packet
    }

    fn framed(tags: &[u8], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        [&MACS, tags, &ethertype.to_be_bytes(), packet].concat()
    }

    #[test]
    fn roce_passes_tagged_or_not() {
        for tags in [&[][..], &[0x81, 0, 0x60, 5], &[0x88, 0xa8, 0, 7]] {
            for ihl in 5..=15 {
                assert!(passes(&framed(tags, 0x0800, &ipv4(ihl, 0, 17, 4791))), "{tags:?} {ihl}");
            }
            // "Don't fragment" is set in every RoCE packet.
            assert!(passes(&framed(tags, 0x0800, &ipv4(5, 0x4000, 17, 4791))));
            assert!(passes(&framed(tags, 0x86dd, &ipv6(17, 4791))));
        }
        let mut long = framed(&[], 0x0800, &ipv4(5, 0, 17, 4791));
        long.resize(4300, 0x5a);
        assert!(passes(&long));
    }

    #[test]
    fn nothing_else_passes() {
        for (ethertype, packet, what) in [
            (0x0800, ipv4(5, 0, 17, 4790), "another port"),
            (0x0800, ipv4(5, 0, 6, 4791), "TCP"),
            (0x0800, ipv4(5, 0x2000, 17, 4791), "the first fragment"),
            (0x0800, ipv4(5, 0x0001, 17, 4791), "a later fragment"),
            (0x86dd, ipv6(17, 4792), "another port"),
            (0x86dd, ipv6(44, 4791), "an IPv6 fragment"),
            (0x0806, ipv4(5, 0, 17, 4791), "ARP"),
            (0x8915, ipv4(5, 0, 17, 4791), "RoCEv1"),
        ] {
            assert!(!passes(&framed(&[], ethertype, &packet)), "{what}");
            assert!(!passes(&framed(&[0x81, 0, 0, 1], ethertype, &packet)), "tagged: {what}");
        }
    }

    #[test]
    fn a_frame_cut_before_the_port_does_not_pass() {
        for (ethertype, packet, port_at) in
            [(0x0800, ipv4(5, 0, 17, 4791), 36), (0x86dd, ipv6(17, 4791), 56)]
        {
            let frame = framed(&[], ethertype, &packet);
            for length in 1..frame.len() {
                assert_eq!(passes(&frame[..length]), length >= port_at + 2, "{length}");
            }
        }
    }

    #[test]
    fn the_other_filter_passes_nothing() {
        let (from, to) = UnixDatagram::pair().expect("a pair");
        attach_nothing(to.as_fd()).expect("the kernel takes the filter");
        to.set_nonblocking(true).expect("set");
        let _ = from.send(&framed(&[], 0x0800, &ipv4(5, 0, 17, 4791)));
        assert!(to.recv(&mut [0; 64]).is_err());
    }
}
