//! Faults that one packet shows by itself.

use roce_codec::ib::{Deth, Opcode, Operation, QKey, Qpn};
use roce_codec::net::Ip;

use super::super::handshake::Step;
use super::script::{Active, Draft, Passive, Script};

/// A SEND of 61 bytes, which takes three pad bytes.
fn padded(s: &mut Script) -> Draft {
    s.request(Active, Opcode::RC_SEND_ONLY, 61)
}

fn send(s: &mut Script) -> Draft {
    s.request(Active, Opcode::RC_SEND_ONLY, 64)
}

/// Puts it, and the acknowledgement that answers it.
fn answered(s: &mut Script, draft: &Draft) {
    s.put(draft);
    let ack = s.ack(Passive);
    s.put(&ack);
}

/// A datagram of another queue pair.
fn datagram(s: &mut Script, opcode: Opcode) -> Draft {
    let psn = s.psn(Passive);
    s.draft(Active, opcode, psn, 64).bth(|bth| bth.dest_qp = Qpn::new(0x9999))
}

fn set_flags(draft: Draft, flags: u16) -> Draft {
    let len = draft.payload.len();
    let draft = draft.with(|builder| {
        if let Ip::V4(ip) = &mut builder.ip {
            ip.flags_fragment = flags;
        }
    });
    draft.len(len)
}

traces! {
    "udp-length-too-large", "the UDP length is 4 more than the IP length allows", [IpUdpLength Fail 1, RoceIcrc Unknown 1],
        |s| { let d = s.ack(Passive).with(|b| b.udp.length += 4); s.put(&d); };
    "ip-length-too-small", "the IP length is 4 less than the UDP length calls for", [IpUdpLength Fail 1, RoceIcrc Unknown 1],
        |s| {
            let d = s.ack(Passive).with(|b| if let Ip::V4(ip) = &mut b.ip { ip.total_len -= 4 });
            s.put(&d);
        };
    "headers-missing", "an opcode whose headers do not fit the packet", [RoceLength Fail 1, RoceIcrc Unknown 1],
        |s| { let d = s.ack(Passive); s.put_changed(&d, |l3| l3[28] = Opcode::RC_COMPARE_SWAP.0); };
    "no-room-for-icrc", "a datagram that ends with its BTH", [RoceLength Fail 1, RoceIcrc Unknown 1],
        |s| {
            let d = s.ack(Passive);
            s.put_changed(&d, |l3| { l3.truncate(40); l3[3] = 40; l3[25] = 20; });
        };
    "fragment", "the first fragment of a packet", [IpFragment Fail 1, RoceIcrc Unknown 1],
        |s| { let d = set_flags(s.ack(Passive), 0x2000); s.put(&d); };
    "ipv4-options", "an IPv4 header of six words", [Ipv4Options Fail 1, RoceIcrc Unknown 1],
        |s| {
            let d = s.ack(Passive);
            s.put_changed(&d, |l3| {
                l3[0] = 0x46;
                l3[3] += 4;
                l3.splice(20..20, [1; 4]);
            });
        };
    "may-be-fragmented", "the don't-fragment flag is not set", [Ipv4Df Fail 1],
        |s| { let d = set_flags(send(s), 0); answered(s, &d); };
    "header-version", "a transport header version of 1", [BthVersion Fail 1],
        |s| { let d = send(s).bth(|bth| bth.version = 1); answered(s, &d); };
    "resv6", "reserved bits beside FECN and BECN are set", [BthReserved Fail 1],
        |s| { let d = send(s).bth(|bth| bth.resv6 = 0x15); answered(s, &d); };
    "resv7", "reserved bits beside the acknowledge request are set", [BthReserved Fail 1],
        |s| { let d = send(s).bth(|bth| bth.resv7 = 0x40); answered(s, &d); };
    "pad-missing", "61 bytes of payload and no pad", [BthPad Fail 1],
        |s| {
            let d = padded(s).with(|b| {
                b.bth.pad_count = 0;
                b.udp.length -= 3;
                if let Ip::V4(ip) = &mut b.ip {
                    ip.total_len -= 3;
                    ip.checksum = ip.computed_checksum();
                }
            });
            answered(s, &d);
        };
    "pad-bytes", "pad bytes that are not zero", [BthPadBytes Fail 1],
        |s| { let d = padded(s).with(|b| b.pad = [1, 2, 3]); answered(s, &d); };
    "reserved-opcode", "an opcode of RC without a meaning", [BthOpcode Fail 1],
        |s| { let d = send(s).opcode(Opcode(0x15)); s.put(&d); };
    "native-cnp", "the congestion notification of native InfiniBand", [BthOpcode Fail 1],
        |s| { let d = datagram(s, Opcode::IB_CNP); s.put(&d); };
    "manufacturer-opcode", "an opcode left to manufacturers: it cannot be told", [BthOpcode Unknown 1],
        |s| { let d = datagram(s, Opcode(0xc5)); s.put(&d); };
    "ackreq-on-ud", "a datagram that asks for an acknowledgement", [BthAckReq Fail 1],
        |s| { let d = datagram(s, Opcode::UD_SEND_ONLY).bth(|bth| bth.ack_req = true); s.put(&d); };
    "ackreq-on-uc", "a UC SEND that asks for an acknowledgement", [BthAckReq Fail 1],
        |s| { let d = datagram(s, Opcode::UC_SEND_ONLY).bth(|bth| bth.ack_req = true); s.put(&d); };
    "ack-with-payload", "an acknowledgement of four bytes", [PayloadLength Fail 2],
        |s| { let d = send(s); s.put(&d); let a = s.ack(Passive).len(4); s.put(&a); };
    "read-request-with-payload", "a READ request that carries data", [PayloadLength Fail 1],
        |s| { let d = s.read(Active, 64).len(64); s.put(&d); let a = s.read_answers(Passive, d.builder.bth.psn, 64); s.put_all(&a); };
    "middle-not-mtu", "a Middle of 1000 bytes", [PayloadLength Fail 2, PayloadMtu Fail 2, RcRefused Unknown 4],
        |s| {
            let mut m = s.message(Active, Operation::Send, 3000);
            m[1] = m[1].clone().len(1000);
            s.put_all(&m);
            let a = s.nak(Passive, 0x61, m[1].builder.bth.psn, 1);
            s.put(&a);
        };
    "empty-last", "a Last without payload", [PayloadLength Fail 2, RcRefused Unknown 3],
        |s| {
            let mut m = s.message(Active, Operation::Send, 2048);
            m[1] = m[1].clone().len(0);
            s.put_all(&m);
            let a = s.nak(Passive, 0x61, m[1].builder.bth.psn, 1);
            s.put(&a);
        };
    "only-above-4096", "an Only longer than the largest path MTU", [PayloadLength Fail 1, PayloadMtu Fail 1, RcRefused Unknown 2],
        |s| { let d = send(s).len(4100); s.put(&d); let a = s.nak(Passive, 0x61, d.builder.bth.psn, 1); s.put(&a); };
    "atomic-write-of-4", "an ATOMIC WRITE of four bytes", [PayloadLength Fail 1, RcRefused Unknown 2],
        |s| { let d = s.request(Active, Opcode::RC_ATOMIC_WRITE, 4); s.put(&d); let a = s.nak(Passive, 0x61, d.builder.bth.psn, 1); s.put(&a); };
    "message-above-2-31", "a READ of 2^31 + 1 bytes", [RethDmaLen Fail 1],
        |s| {
            let d = s.read(Active, 64).with(|b| if let Some(reth) = &mut b.ext.reth { reth.dma_len = 0x8000_0001 });
            s.put(&d);
        };
    "reserved-syndrome", "an answer whose syndrome is reserved", [AethSyndrome Fail 2],
        |s| { let d = send(s); s.put(&d); let a = s.ack(Passive).aeth(0x45, 0); s.put(&a); };
    "reserved-nak", "a NAK code without a meaning", [AethSyndrome Fail 2],
        |s| { let d = send(s); s.put(&d); let a = s.nak(Passive, 0x6a, d.builder.bth.psn, 1); s.put(&a); };
    "nak-in-read-response", "a READ response that is a NAK", [AethSyndrome Fail 2],
        |s| {
            let d = s.read(Active, 64);
            s.put(&d);
            for a in s.read_answers(Passive, d.builder.bth.psn, 64) { s.put(&a.aeth(0x62, 0)); }
        };
    "mad-q-key", "a MAD with another Q_Key than queue pair 1's", [MadQp1 Fail 1],
        |s| {
            let d = s.mad(Step::Rtu, Active).with(|b| b.ext.deth = Some(Deth { qkey: QKey(1), resv8: 0, src_qp: Qpn::GSI }));
            s.put(&d);
        };
    "mad-source-qp", "a MAD from another queue pair than 1", [MadQp1 Fail 1],
        |s| {
            let d = s.mad(Step::Rtu, Active).with(|b| b.ext.deth = Some(Deth { qkey: QKey::GSI, resv8: 0, src_qp: Qpn::new(9) }));
            s.put(&d);
        };
    "mad-length", "a MAD of 252 bytes", [MadQp1 Fail 1],
        |s| { let d = s.mad(Step::Rtu, Active).len(252); s.put(&d); };
    "mad-version", "a MAD of base version 2", [MadQp1 Fail 1],
        |s| { let mut d = s.mad(Step::Rtu, Active); d.payload[0] = 2; s.put(&d); };
    "rc-to-qp1", "an RC SEND to queue pair 1", [MadQp1 Fail 1],
        |s| { let d = s.mad(Step::Rtu, Active).opcode(Opcode::RC_SEND_ONLY); s.put(&d); };
}
