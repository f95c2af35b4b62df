//! What connections agree on, and what is then done; queue pairs' keys, limits and ports.

use roce_codec::cm::{CommunicationId, MAD_LEN, Message, Rej, RejReason, RejectedMessage};
use roce_codec::ib::{Deth, Opcode, PKey, QKey, Qpn};

use super::super::handshake::Step;
use super::script::{Active, Passive, Script};

/// The syndrome of an ACK when two receives are left: codes 0 to 4 are the number itself.
const TWO_CREDITS: u8 = 2;

fn step(s: &mut Script, step: Step, from: super::super::planned::Side) {
    let mad = s.mad(step, from);
    s.put(&mad);
    s.wait_us(200);
}

traces! {
    "disconnect", "a connection ends as it should", [],
        |s| { step(s, Step::Dreq, Active); step(s, Step::Drep, Passive); };
    "req-twice", "a REQ comes again, since its answer took too long", [],
        |s| {
            s.reconnect(false);
            step(s, Step::Req, Active);
            step(s, Step::Req, Active);
            step(s, Step::Rep, Passive);
            step(s, Step::Rtu, Active);
            s.sends(Active, 2);
        };
    "rejected", "a REQ is rejected, by a REJ that does not name it", [CmOrder Unknown 2],
        |s| {
            s.reconnect(false);
            step(s, Step::Req, Active);
            let mut mad = [0; MAD_LEN];
            let rej = Message::Rej(Rej {
                local_comm_id: CommunicationId(0),
                rejected: RejectedMessage::Req,
                reason: RejReason::INVALID_SERVICE_ID,
                ..Rej::default()
            });
            let _ = rej.emit(1, &mut mad);
            let mut draft = s.mad(Step::Rep, Passive);
            draft.payload = mad.to_vec();
            s.put(&draft);
        };
    "rep-without-req", "a REP for what nobody asked", [CmOrder Unknown 1],
        |s| { s.reconnect(false); step(s, Step::Rep, Passive); };
    "rtu-without-rep", "an RTU before the REP", [CmOrder Unknown 2],
        |s| { s.reconnect(false); step(s, Step::Req, Active); step(s, Step::Rtu, Active); };
    "no-rtu", "the RTU is lost: the first request stands for it", [],
        |s| { s.reconnect(false); step(s, Step::Req, Active); step(s, Step::Rep, Passive); s.sends(Active, 2); };
    "dreq-unanswered", "a DREQ comes three times, and nobody answers", [],
        |s| for _ in 0..3 { step(s, Step::Dreq, Active); };
    "psn-not-agreed", "the first request has another PSN than the REP states", [CmPsn Unknown 4],
        |s| {
            s.reconnect(false);
            step(s, Step::Req, Active);
            step(s, Step::Rep, Passive);
            step(s, Step::Rtu, Active);
            let psn = s.psn(Active).add(7);
            s.set_psn(Active, psn);
            s.sends(Active, 2);
        };
    "cm-attribute-unknown", "a message to the connection manager that it has not", [CmMad Fail 1],
        |s| {
            s.reconnect(false);
            let mut mad = s.mad(Step::Req, Active);
            // The lower byte of the attribute.
            mad.payload[17] = 0x77;
            s.put(&mad);
        };
    "qpn-not-agreed", "the first request goes to another queue pair than the REP states", [CmQpn Fail 4],
        |s| {
            s.reconnect(false);
            step(s, Step::Req, Active);
            step(s, Step::Rep, Passive);
            step(s, Step::Rtu, Active);
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&send.bth(|bth| bth.dest_qp = Qpn::new(0x7777)));
        };
    "traffic-after-disconnect", "requests on a connection that has ended", [],
        |s| { step(s, Step::Dreq, Active); step(s, Step::Drep, Passive); s.sends(Active, 2); };
    "qpn-reused", "the queue pairs serve a new connection, with new PSNs", [],
        |s| {
            step(s, Step::Dreq, Active);
            step(s, Step::Drep, Passive);
            s.reconnect(true);
            step(s, Step::Req, Active);
            step(s, Step::Rep, Passive);
            step(s, Step::Rtu, Active);
            s.sends(Active, 3);
        };
    "read-limit", "three READs at once where two were agreed", [RcReadLimit Unknown 3],
        |s| {
            let reads = [(); 3].map(|()| s.read(Active, 64));
            s.put_all(&reads);
            for read in reads {
                let answers = s.read_answers(Passive, read.builder.bth.psn, 64);
                s.put_all(&answers);
            }
        };
    "credits-overrun", "two SENDs beyond the receives that the responder states, on a connection that heeds credits", [RcCredit Fail 9],
        |s| {
            s.credits = true;
            s.reconnect(false);
            step(s, Step::Req, Active);
            step(s, Step::Rep, Passive);
            step(s, Step::Rtu, Active);
            let first = s.request(Active, Opcode::RC_SEND_ONLY, 64);
            s.put(&first);
            let ack = s.ack(Passive).aeth(TWO_CREDITS, 0);
            s.put(&ack);
            let sends = [(); 4].map(|()| s.request(Active, Opcode::RC_SEND_ONLY, 64));
            s.put_all(&sends);
            // Longer than the clocks of two mirrors differ.
            s.wait_us(100);
            for (undone, send) in (0..4).rev().zip(&sends) {
                let ack = s.draft(Passive, Opcode::RC_ACKNOWLEDGE, send.builder.bth.psn, 0);
                s.put(&ack.aeth(TWO_CREDITS, 0_u32.wrapping_sub(undone)));
            }
        };
    "p-key-changed", "a request with another P_Key than its connection has", [PkeyMatch Fail 1],
        |s| {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 64).bth(|bth| bth.pkey = PKey(0x8001));
            s.put(&send);
            s.sends(Active, 2);
        };
    "q-key-changed", "datagrams to one queue pair with two Q_Keys", [QkeyMatch Unknown 3],
        |s| {
            for qkey in [0x1111_1111, 0x1111_1111, 0x2222_2222] {
                let psn = s.psn(Active);
                let datagram = s.draft(Active, Opcode::UD_SEND_ONLY, psn, 64);
                let datagram = datagram.with(|builder| {
                    builder.bth.dest_qp = Qpn::new(0x9999);
                    let src_qp = Qpn::new(0x8888);
                    builder.ext.deth = Some(Deth { qkey: QKey(qkey), resv8: 0, src_qp });
                });
                s.put(&datagram);
            }
        };
    "source-port-hops", "a connection whose UDP source port changes with every packet", [UdpSrcPort Unknown 1],
        |s| {
            for hop in 1..9 {
                let send = s.request(Active, Opcode::RC_SEND_ONLY, 64);
                s.put(&send.with(|builder| builder.udp.src_port ^= hop));
                let ack = s.ack(Passive);
                s.put(&ack);
            }
        };
}
