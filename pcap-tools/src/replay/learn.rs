//! What captured answers teach of memory, and what requests do to it.

use std::collections::HashSet;

use roce_codec::Frame;
use roce_codec::ib::{Operation, Psn, Service};
use roce_engine::{Addr, Backing};

use super::answered::Answered;
use super::memory::{Known, Memory};
use super::recording::Recording;
use super::responder::atomic_of;

/// Memory as the capture shows it, apart from our responder's.
#[derive(Debug)]
pub(super) struct Lessons<'m> {
    /// What the captured requests and answers make of memory.
    pub(super) truth: &'m Memory,
    /// What our responder works on.
    pub(super) ours: &'m Memory,
    known: Known,
    /// Where in the recording the answers are that no request explains.
    pub(super) owner_stores: HashSet<usize>,
}

impl<'m> Lessons<'m> {
    pub(super) fn new(truth: &'m Memory, ours: &'m Memory) -> Self {
        Self { truth, ours, known: Known::default(), owner_stores: HashSet::new() }
    }

    /// Learns what a READ or atomic is going to find; says how many bytes are new.
    pub(super) fn before(
        &mut self,
        recording: &Recording,
        region: u32,
        frame: &Frame<'_>,
        answered: &Answered,
        at: usize,
    ) -> u64 {
        let mut learned = 0;
        for piece in answered.to(at) {
            let answer = recording.frame(piece.index);
            if let (Some(eth), Some(ack)) = (frame.atomic_eth(), answer.atomic_ack_eth()) {
                let bytes = ack.original.to_ne_bytes();
                learned += self.teach(Addr { region, offset: eth.va }, &bytes, piece.index);
            } else if let Some(reth) = frame.reth() {
                let offset = reth.va.wrapping_add(piece.offset);
                let [payload, _] = answer.payload();
                // What lies beyond what was asked for is not memory's.
                let left = u64::from(reth.dma_len).saturating_sub(piece.offset);
                let len = payload.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let payload = payload.get(..len).unwrap_or_default();
                learned += self.teach(Addr { region, offset }, payload, piece.index);
            }
        }
        learned
    }

    /// Takes captured bytes for what memory holds. Only what is not known, or no longer so, changes
    /// ours: what it has made of the requests itself stays to be seen.
    fn teach(&mut self, addr: Addr, bytes: &[u8], index: usize) -> u64 {
        let mut held = vec![0; bytes.len()];
        if self.truth.read(addr, &mut held).is_err() {
            return 0;
        }
        let mut learned = 0;
        let mut run = 0..0;
        let mut changed = false;
        for (at, (byte, held)) in bytes.iter().zip(&held).enumerate() {
            let offset = addr.offset.wrapping_add(u64::try_from(at).unwrap_or(0));
            let known = self.known.learn(addr.region, offset);
            learned += u64::from(!known);
            changed |= known && byte != held;
            if known && byte == held {
                self.put(addr, bytes, run);
                run = at + 1..at + 1;
            } else {
                run.end = at + 1;
            }
        }
        self.put(addr, bytes, run);
        if changed {
            self.owner_stores.insert(index);
        }
        learned
    }

    fn put(&self, addr: Addr, bytes: &[u8], run: std::ops::Range<usize>) {
        let offset = addr.offset.wrapping_add(u64::try_from(run.start).unwrap_or(0));
        let bytes = bytes.get(run).unwrap_or_default();
        for memory in [self.truth, self.ours] {
            // That it is full is seen by whoever looks.
            let _ = memory.put(Addr { offset, ..addr }, bytes);
        }
    }

    /// A request that was carried out changes memory. `message` is where the next byte of a WRITE in
    /// progress goes.
    pub(super) fn after(&mut self, region: u32, frame: &Frame<'_>, message: &mut Option<u64>) {
        let info = frame.info();
        if info.operation == Operation::Write {
            if let Some(reth) = frame.reth() {
                *message = Some(reth.va);
            }
            let Some(offset) = *message else { return };
            let [payload, _] = frame.payload();
            self.store(Addr { region, offset }, payload);
            let behind = offset.wrapping_add(u64::try_from(payload.len()).unwrap_or(0));
            *message = (!info.position.ends()).then_some(behind);
        } else if let Some((va, op)) = atomic_of(frame) {
            let addr = Addr { region, offset: va };
            if let Ok(original) = self.truth.atomic(addr, op) {
                self.store(addr, &op.apply(original).to_ne_bytes());
            }
        }
    }

    fn store(&mut self, addr: Addr, bytes: &[u8]) {
        let _ = self.truth.put(addr, bytes);
        for at in 0..bytes.len() {
            let offset = addr.offset.wrapping_add(u64::try_from(at).unwrap_or(0));
            self.known.learn(addr.region, offset);
        }
    }
}

/// Messages as they come in, to know what must be delivered.
#[derive(Debug, Default)]
pub(super) struct Message {
    len: u32,
    begun: bool,
    next: Option<Psn>,
}

impl Message {
    /// Takes the next packet that was carried out; says how long the message is if it ends here. On an
    /// unreliable connection, a message of which something is missing is none.
    pub(super) fn packet(&mut self, service: Service, frame: &Frame<'_>) -> Option<u32> {
        let info = frame.info();
        let in_order = self.next.is_none_or(|next| next == frame.psn());
        self.next = (service != Service::Ud).then(|| frame.psn().next());
        if info.position.starts() {
            *self = Self { len: 0, begun: true, next: self.next };
        } else if service == Service::Uc && !in_order {
            self.begun = false;
        }
        let len = u32::try_from(frame.payload_len()).unwrap_or(u32::MAX);
        self.len = self.len.saturating_add(len);
        (self.begun && info.position.ends()).then_some(self.len)
    }

    /// Whether the packets so far make a message.
    pub(super) fn is_whole(&self) -> bool {
        self.begun
    }
}
