//! What every received packet goes through before anything it says is believed.

use roce_codec::ib::{OpcodeClass, Operation, Qpn, Service};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{Ipv4, Ipv6, Udp};
use roce_codec::{Crc, Crc32, Frame, ParseError, Start};

use crate::backing::Backing;
use crate::counters::{DropReason, HwCounter};
use crate::engine::Engine;
use crate::qp::QpSlot;
use crate::time::Instant;

/// Frames whose queue pairs are looked at before the first of them is executed.
const BATCH: usize = 32;

/// A received frame.
#[derive(Debug, Clone, Copy)]
pub struct Rx<'a> {
    /// The frame in one or two pieces, all headers in the first.
    pub segments: [&'a [u8]; 2],
    /// The layer it starts with.
    pub start: Start,
    /// Whether a NIC has checked the ICRC already.
    pub icrc_verified: bool,
}

impl Engine<'_> {
    /// Takes received frames, in order. Answers wait for [`Engine::poll_transmit`]: those of one
    /// burst are coalesced.
    pub fn handle_burst<B: Backing>(&mut self, now: Instant, burst: &[Rx<'_>], backing: &B) {
        self.handle_burst_with::<Crc, B>(now, burst, backing);
    }

    /// As [`handle_burst`](Self::handle_burst), with the CRC kernel of your choice: a chip's own
    /// unit, or a small table where [`Crc`]'s 16 KiB are too many.
    pub fn handle_burst_with<C: Crc32, B: Backing>(
        &mut self,
        now: Instant,
        burst: &[Rx<'_>],
        backing: &B,
    ) {
        self.advance(now);
        for batch in burst.chunks(BATCH) {
            self.touch(batch);
            for rx in batch {
                self.counters.received += 1;
                // A frame is used where it has been parsed: to keep the frames of a batch until all
                // have been checked costs more than checking one.
                let handled =
                    check_frame::<C>(rx).and_then(|frame| self.handle_frame(&frame, backing));
                match handled {
                    Ok(()) => self.counters.acted_on += 1,
                    Err(reason) => {
                        if reason == DropReason::BadIcrc {
                            self.counters.count(HwCounter::RxIcrcEncapsulated);
                        }
                        self.counters.drop(reason);
                    }
                }
            }
        }
    }

    /// Reads a little of each queue pair that the frames seem to be for, so that the memory of all
    /// is on its way while the first is served: among a million queue pairs, none is in a cache.
    fn touch(&self, batch: &[Rx<'_>]) {
        if batch.len() == 1 {
            return;
        }
        // Packets of one message come in a row.
        let slots = || {
            let mut last = None;
            let slots = batch.iter().filter_map(likely_dest_qp).map(|qpn| self.slot_of(qpn));
            slots.filter(move |slot| last.replace(*slot) != Some(*slot))
        };
        let mut touched = false;
        for slot in slots() {
            touched ^= self.qps.get(slot).is_some_and(QpSlot::touch) ^ self.ready.touch(slot);
        }
        // Where these are, the queue pairs say: the first of them have come meanwhile.
        for slot in slots() {
            touched ^= self.touch_replay(slot);
        }
        core::hint::black_box(touched);
    }

    /// One whole packet: for which queue pair, from whom, and for which of its halves.
    fn handle_frame<B: Backing>(
        &mut self,
        frame: &Frame<'_>,
        backing: &B,
    ) -> Result<(), DropReason> {
        let bth = frame.bth();
        let info = bth.opcode.info();
        // IBTA 9.6.1.1 (C9-38): the destination QP exists and is of the opcode's service.
        let slot = self.find(bth.dest_qp).ok_or(DropReason::UnknownQp)?;
        let qp = self.qps.get(slot).ok_or(DropReason::UnknownQp)?;
        // IBTA Annex A17: for the sender of what was marked; counted, not obeyed.
        if info.operation == Operation::Cnp {
            return Err(DropReason::Cnp);
        }
        if info.service != qp.service {
            return Err(DropReason::WrongService);
        }
        // IBTA 10.3.1: by the queue pair's state.
        if !qp.receives_requests() {
            return Err(DropReason::QpState);
        }
        // IBTA 9.6.1.5: the connection's own addresses, nobody else's. A datagram comes from
        // anywhere.
        if qp.service != Service::Ud && (frame.src() != qp.path.dst || frame.dst() != qp.path.src) {
            return Err(DropReason::Address);
        }
        // IBTA 9.6.1.1.2 (C9-41).
        if !bth.pkey.matches(qp.pkey) {
            return Err(DropReason::PKey);
        }
        if info.is_response() {
            self.handle_response(slot, frame, &bth, backing)
        } else {
            self.handle_request(slot, frame, &bth, backing)
        }
    }
}

/// Where the destination QP of a packet is if it is one of the two usual kinds: a guess, for what
/// does no harm when it is wrong.
#[inline]
fn likely_dest_qp(rx: &Rx<'_>) -> Option<Qpn> {
    let [head, _] = rx.segments;
    let l3 = match rx.start {
        Start::Ethernet => 14,
        _ => 0,
    };
    let ip = if head.get(l3)? >> 4 == 4 { Ipv4::LEN } else { Ipv6::LEN };
    let [_, a, b, c] = *head.get(l3 + ip + Udp::LEN + 4..)?.first_chunk()?;
    Some(Qpn::new(u32::from_be_bytes([0, a, b, c])))
}

/// The checks that need no queue pair.
#[inline]
fn check_frame<'a, C: Crc32>(rx: &Rx<'a>) -> Result<Frame<'a>, DropReason> {
    let frame = Frame::parse(rx.segments, rx.start).map_err(|error| match error {
        ParseError::NotRoce { .. } => DropReason::NotRoce,
        _ => DropReason::Malformed,
    })?;
    // IBTA 9.6.1.1: a packet with a wrong ICRC is discarded before anything in it is used.
    if !rx.icrc_verified && frame.verify_icrc_with::<C>() != IcrcVerdict::Valid {
        return Err(DropReason::BadIcrc);
    }
    // IBTA 9.6.1.1: a transport version and an opcode that are known, and whole words.
    let bth = frame.bth();
    if bth.version != 0 {
        return Err(DropReason::Version);
    }
    if bth.opcode.info().class != OpcodeClass::Known {
        return Err(DropReason::UnknownOpcode);
    }
    if (frame.payload_len() + usize::from(bth.pad_count)) % 4 != 0 {
        return Err(DropReason::Pad);
    }
    Ok(frame)
}
