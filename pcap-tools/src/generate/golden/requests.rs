//! Requests that do not follow from the ones before them.

use roce_codec::ib::{Opcode, Operation, Psn};

use super::script::{Active, Passive, Script};

/// A message of three packets with one of them changed; it is refused.
fn spoilt(
    s: &mut Script,
    operation: Operation,
    at: usize,
    change: impl FnOnce(super::script::Draft) -> super::script::Draft,
) {
    let mut message = s.message(Active, operation, 3000);
    message[at] = change(message[at].clone());
    let refused = message[at].builder.bth.psn;
    s.put_all(&message);
    let nak = s.nak(Passive, 0x61, refused, 1);
    s.put(&nak);
}

traces! {
    "uc-amid-rc", "a UC packet where the next of RC belongs", [QpService Fail 2, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 1, |d| d.opcode(Opcode::UC_SEND_MIDDLE));
    "ud-amid-rc", "a datagram where the next of RC belongs", [QpService Fail 2, RcPsnGap Unknown 3, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 1, |d| d.opcode(Opcode::UD_SEND_ONLY));
    "first-twice", "a First where a Middle belongs", [RcMessageOrder Fail 2, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 1, |d| d.opcode(Opcode::RC_SEND_FIRST));
    "last-then-last", "a Last where a Middle belongs, and another behind it", [RcMessageOrder Fail 3, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 1, |d| d.opcode(Opcode::RC_SEND_LAST));
    "middle-first", "a message that starts with a Middle", [RcMessageOrder Fail 1, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 0, |d| d.opcode(Opcode::RC_SEND_MIDDLE));
    "only-amid-message", "an Only where a Middle belongs", [RcMessageOrder Fail 2, RcMessageOrder Fail 3, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 1, |d| d.opcode(Opcode::RC_SEND_ONLY));
    "write-goes-on-as-send", "a SEND Middle in a WRITE", [RcMessageOrder Fail 2, RcMessageOrder Fail 3, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Write, 1, |d| d.opcode(Opcode::RC_SEND_MIDDLE));
    "message-unfinished", "a message that never ends, and the next", [RcMessageOrder Fail 3, RcRefused Unknown 4],
        |s| {
            let message = s.message(Active, Operation::Send, 3000);
            s.put_all(&message[..2]);
            let psn = message[2].builder.bth.psn;
            s.set_psn(Active, psn);
            let next = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&next);
            let nak = s.nak(Passive, 0x61, psn, 2);
            s.put(&nak);
        };
    "dma-length-too-large", "a WRITE that promises one byte more than it carries", [RcWriteLength Fail 3, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Write, 0, |d| d.with(|b| if let Some(reth) = &mut b.ext.reth { reth.dma_len += 1 }));
    "dma-length-too-small", "a WRITE that carries more than it promises", [RcWriteLength Fail 1, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Write, 0, |d| d.with(|b| if let Some(reth) = &mut b.ext.reth { reth.dma_len = 1024 }));
    "dma-length-of-only", "a WRITE of one packet with another length than it carries", [RcWriteLength Fail 1, RcRefused Unknown 2],
        |s| {
            let write = s.message(Active, Operation::Write, 64).remove(0);
            let write = write.with(|b| if let Some(reth) = &mut b.ext.reth { reth.dma_len = 60 });
            s.put(&write);
            let nak = s.nak(Passive, 0x61, write.builder.bth.psn, 1);
            s.put(&nak);
        };
    "another-mtu", "a First of another path MTU than the connection's", [PayloadMtu Fail 1, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 0, |d| d.len(512));
    "last-above-mtu", "a Last longer than the path MTU", [PayloadMtu Fail 3, RcRefused Unknown 4],
        |s| spoilt(s, Operation::Send, 2, |d| d.len(1028));
    "retransmission-changed", "what is sent again is longer than it was", [RcPsnGap Unknown 1, RcRetransmission Fail 5],
        |s| {
            let [lost, first, second] = [(); 3].map(|()| s.request(Active, Opcode::RC_SEND_ONLY, 64));
            s.put(&first);
            s.put(&second);
            let nak = s.nak(Passive, 0x60, lost.builder.bth.psn, 3);
            s.put(&nak);
            s.put_all(&[lost, first.len(68), second]);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "psn-jump", "a PSN far ahead, as of another connection", [],
        |s| {
            s.set_psn(Active, Psn::new(0x12_3456));
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
        };
}
