//! Losses and refusals, and how the two ends get over them or do not.

use roce_codec::ib::{Opcode, Operation};

use super::script::{Active, Draft, Passive, Script};

/// The timeout that the handshake states: 4.096 µs · 2¹⁸ is above a second; requesters wait one
/// to four of it.
const TIMEOUT_US: u64 = 1_200_000;

/// RNR timer code 12: 0.64 ms.
const RNR: u8 = 0x2c;
const RNR_WAIT_US: u64 = 640;

fn three(s: &mut Script) -> [Draft; 3] {
    [(); 3].map(|()| s.request(Active, Opcode::RC_SEND_ONLY, 64))
}

/// A request refused for good: the queue pairs fall silent.
fn refused(s: &mut Script, syndrome: u8, request: Opcode) {
    let request = s.request(Active, request, 0);
    s.put(&request);
    let nak = s.nak(Passive, syndrome, request.builder.bth.psn, 1);
    s.put(&nak);
}

/// A READ of three answers, of which only those come; `wait_us` later it comes again from the second
/// answer on, its address moved by `moved` bytes, and is answered.
fn read_sent_again(s: &mut Script, come: &[usize], wait_us: u64, moved: u64) {
    let read = s.read(Active, 3000);
    s.put(&read);
    let psn = read.builder.bth.psn;
    let answers = s.read_answers(Passive, psn, 3000);
    for at in come {
        s.put(&answers[*at]);
    }
    s.wait_us(wait_us);
    let again = read.with(|builder| {
        builder.bth.psn = psn.add(1);
        if let Some(reth) = &mut builder.ext.reth {
            reth.va += moved;
            reth.dma_len -= 1024;
        }
    });
    s.put(&again);
    let answers = s.read_answers(Passive, psn.add(1), 1976);
    s.put_all(&answers);
}

traces! {
    "psn-gap-nak", "a request is lost before the tap; a sequence NAK asks for it, and the sender goes back", [RcPsnGap Unknown 2],
        |s| {
            let [first, lost, third] = three(s);
            s.put(&first);
            s.put(&third);
            let nak = s.nak(Passive, 0x60, lost.builder.bth.psn, 2);
            s.put(&nak);
            s.put_all(&[lost, third]);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "loss-behind-tap", "a request is lost behind the tap, which shows the NAK and no gap", [],
        |s| {
            let [first, lost, third] = three(s);
            s.put_all(&[first, lost.clone(), third.clone()]);
            let nak = s.nak(Passive, 0x60, lost.builder.bth.psn, 2);
            s.put(&nak);
            s.put_all(&[lost, third]);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "loss-in-message", "the Middle of a SEND is lost, and the rest of it sent again", [RcPsnGap Unknown 2],
        |s| {
            let message = s.message(Active, Operation::Send, 3000);
            s.put(&message[0]);
            s.put(&message[2]);
            let nak = s.nak(Passive, 0x60, message[1].builder.bth.psn, 1);
            s.put(&nak);
            s.put_all(&message[1..]);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "lost-request-timeout", "the last request is lost behind the tap: nobody asks for it, the timer does", [],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
            s.wait_us(TIMEOUT_US);
            s.put(&send);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "lost-ack", "an acknowledgement is lost before the tap: the request comes again, and is acknowledged", [],
        |s| {
            let [first, second, third] = three(s);
            s.put_all(&[first, second, third.clone()]);
            s.wait_us(TIMEOUT_US);
            s.put(&third);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "lost-read-answer", "a READ's answer is lost: the READ comes again from there", [RcPsnGap Unknown 3],
        |s| read_sent_again(s, &[0, 2], 0, 1024);
    "rnr-retry", "no receive is posted: an RNR NAK, the wait it asks for, and the request again", [RcRnr Unknown 2],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
            let nak = s.nak(Passive, RNR, send.builder.bth.psn, 1);
            s.put(&nak);
            s.wait_us(RNR_WAIT_US + 50);
            s.put(&send);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "rnr-exhausted", "no receive is ever posted: after eight RNR NAKs the sender gives up", [RcRnr Unknown 2, RcRnr Unknown 4, RcRnr Unknown 6, RcRnr Unknown 8, RcRnr Unknown 10, RcRnr Unknown 12, RcRnr Unknown 14, RcRnr Unknown 16],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            for _ in 0..8 {
                s.put(&send);
                let nak = s.nak(Passive, RNR, send.builder.bth.psn, 1);
                s.put(&nak);
                s.wait_us(RNR_WAIT_US + 50);
            }
        };
    "retry-exhausted", "nobody answers: seven retransmissions, each after its timeout, then silence", [],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            for _ in 0..8 {
                s.put(&send);
                s.wait_us(TIMEOUT_US);
            }
        };
    "rnr-too-soon", "the request comes again before the RNR timer has run out", [RcRnr Unknown 2, RcRnrTimer Fail 3],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
            let nak = s.nak(Passive, RNR, send.builder.bth.psn, 1);
            s.put(&nak);
            s.wait_us(20);
            s.put(&send);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "timeout-too-soon", "the request comes again long before its timeout, and nobody asked", [RcRetryTime Unknown 2],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
            s.wait_us(30);
            s.put(&send);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "refused-invalid-request", "a request is refused: invalid (0x61)", [RcRefused Unknown 2],
        |s| refused(s, 0x61, Opcode::RC_RDMA_WRITE_ONLY);
    "refused-access", "a request is refused: remote access error (0x62)", [RcRefused Unknown 2],
        |s| refused(s, 0x62, Opcode::RC_RDMA_WRITE_ONLY);
    "refused-atomic-access", "an atomic is refused, by an acknowledgement and not by an ATOMIC one", [RcRefused Unknown 2],
        |s| refused(s, 0x62, Opcode::RC_FETCH_ADD);
    "refused-operational", "a request is refused: remote operational error (0x63)", [RcRefused Unknown 2],
        |s| refused(s, 0x63, Opcode::RC_SEND_ONLY);
    "refused-rd-request", "a request of RC is refused by a code of RD (0x64)", [RcRefused Unknown 2],
        |s| refused(s, 0x64, Opcode::RC_SEND_ONLY);
    "traffic-after-fatal-nak", "the responder goes on as if it had not refused a request for good", [RcRefused Unknown 2, RcAfterNak Fail 4, RcAfterNak Fail 6, RcAfterNak Fail 8],
        |s| { refused(s, 0x62, Opcode::RC_RDMA_WRITE_ONLY); s.sends(Active, 3); };
    "mirror-copies", "every packet twice, as merged mirrors show them", [RcPsnDuplicate Unknown 2],
        |s| for _ in 0..3 {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put_mirrored(&send);
            let ack = s.ack(Passive);
            s.put_mirrored(&ack);
        };
    "acked-and-sent-again", "a request comes again though its acknowledgement passed the tap", [RcTimeout Unknown 3],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send);
            let ack = s.ack(Passive);
            s.put(&ack);
            s.wait_us(TIMEOUT_US);
            s.put(&send);
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "too-many-retries", "a request comes nine times more, where seven retries were agreed", [RcRetryCount Unknown 9],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            for _ in 0..10 {
                s.put(&send);
                s.wait_us(TIMEOUT_US);
            }
        };
    "rnr-to-read", "an RNR NAK to a READ, which needs no receive", [RcRnrOperation Unknown 2, RcRnr Unknown 2],
        |s| {
            let read = s.read(Active, 64);
            s.put(&read);
            let psn = read.builder.bth.psn;
            let nak = s.nak(Passive, RNR, psn, 1);
            s.put(&nak);
            s.wait_us(RNR_WAIT_US + 50);
            s.put(&read);
            let answers = s.read_answers(Passive, psn, 64);
            s.put_all(&answers);
        };
    "read-retry-wrong", "a READ that comes again asks for other bytes than were missing", [RcReadRetry Fail 3],
        |s| read_sent_again(s, &[0], TIMEOUT_US, 512);
}
