//! Answers that do not fit what was asked.

use roce_codec::ib::{Aeth, Msn, Opcode, Operation, Psn, Syndrome};

use super::script::{Active, Draft, Passive, Script};

/// A READ of 3000 bytes whose answers are changed.
fn read(s: &mut Script, change: impl FnOnce(&mut Vec<Draft>)) {
    let read = s.read(Active, 3000);
    s.put(&read);
    let mut answers = s.read_answers(Passive, read.builder.bth.psn, 3000);
    change(&mut answers);
    s.put_all(&answers);
}

/// An answer to a SEND, changed.
fn answer(s: &mut Script, change: impl FnOnce(Draft) -> Draft) {
    let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
    s.put(&send);
    let ack = change(s.ack(Passive));
    s.put(&ack);
}

fn headed(draft: Draft, opcode: Opcode) -> Draft {
    let aeth = Aeth { syndrome: Syndrome::ACK, msn: Msn::new(12) };
    draft.with(|builder| builder.ext.aeth = Some(aeth)).opcode(opcode)
}

traces! {
    "ack-never-sent", "an acknowledgement of what was never sent", [RcAckPsn Fail 2],
        |s| {
            answer(s, |ack| ack.bth(|bth| bth.psn = bth.psn.add(1000)));
            s.sends(Active, 20);
        };
    "ghost-ack", "an acknowledgement of what was acknowledged long ago: requesters ignore it", [],
        |s| {
            let ack = s.ack(Passive).bth(|bth| bth.psn = bth.psn.sub(5));
            s.put(&ack.aeth(0x1f, 0_u32.wrapping_sub(5)));
            s.sends(Active, 3);
        };
    "ack-twice", "one acknowledgement, and again: requesters ignore it", [],
        |s| {
            answer(s, |ack| ack);
            let ack = s.ack(Passive);
            s.put(&ack);
            s.sends(Active, 3);
        };
    "msn-back", "an MSN smaller than the one before", [RcMsn Fail 2],
        |s| { answer(s, |ack| ack.aeth(0x1f, 0_u32.wrapping_sub(4))); s.sends(Active, 2); };
    "msn-leap", "an MSN a thousand messages ahead", [RcMsn Fail 2],
        |s| { answer(s, |ack| ack.aeth(0x1f, 1000)); s.sends(Active, 2); };
    "nak-twice", "two NAKs for one gap, with nothing sent again in between", [RcPsnGap Unknown 1, RcNakRepeat Fail 4],
        |s| {
            let [lost, next, third] = [(); 3].map(|()| s.request(Active, Opcode::RC_SEND_ONLY, 64));
            s.put(&next);
            let nak = s.nak(Passive, 0x60, lost.builder.bth.psn, 3);
            s.put(&nak);
            s.put(&third);
            let nak = s.nak(Passive, 0x60, lost.builder.bth.psn, 3);
            s.put(&nak);
            s.put_all(&[lost, next, third]);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "read-answer-first-twice", "a First in the midst of a READ's answers", [RcReadOrder Fail 3],
        |s| read(s, |a| a[1] = headed(a[1].clone(), Opcode::RC_RDMA_READ_RESPONSE_FIRST));
    "read-answer-starts-with-middle", "a Middle in front of a READ's answers", [RcReadOrder Unknown 2],
        |s| read(s, |a| a[0] = a[0].clone().opcode(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE));
    "read-answer-ends-early", "a Last before everything was answered", [RcReadResponse Fail 3, RcReadOrder Fail 4],
        |s| read(s, |a| a[1] = headed(a[1].clone(), Opcode::RC_RDMA_READ_RESPONSE_LAST));
    "read-answer-short", "the last answer four bytes short", [RcReadResponse Fail 4],
        |s| read(s, |a| a[2] = a[2].clone().len(948));
    "read-answer-long", "a READ of 3000 bytes answered by 3004", [RcReadResponse Fail 4],
        |s| read(s, |a| a[2] = a[2].clone().len(956));
    "send-answered-as-read", "a SEND answered by a READ response", [RcReadResponse Fail 2],
        |s| answer(s, |ack| ack.opcode(Opcode::RC_RDMA_READ_RESPONSE_ONLY));
    "send-answered-as-atomic", "a SEND answered by an ATOMIC acknowledge", [RcAtomicAck Fail 2],
        |s| answer(s, |ack| ack.opcode(Opcode::RC_ATOMIC_ACKNOWLEDGE));
    "atomic-answer-rnr", "an ATOMIC acknowledge that is an RNR NAK", [AethSyndrome Fail 2],
        |s| {
            let atomic = s.request(Active, Opcode::RC_FETCH_ADD, 0);
            s.put(&atomic);
            let answer = s.draft(Passive, Opcode::RC_ATOMIC_ACKNOWLEDGE, atomic.builder.bth.psn, 0);
            s.put(&answer.aeth(0x2c, 0_u32.wrapping_sub(1)));
        };
    "read-answer-never-asked", "a READ response far beyond what was asked for", [RcAckPsn Fail 2],
        |s| {
            let psn: Psn = s.psn(Active).add(500);
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
            let stray = s.draft(Passive, Opcode::RC_RDMA_READ_RESPONSE_ONLY, psn, 64);
            s.put(&stray);
            s.sends(Active, 20);
        };
    "write-answered", "a WRITE of three packets acknowledged as it should be", [],
        |s| {
            let write = s.message(Active, Operation::Write, 3000);
            s.put_all(&write);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
}
