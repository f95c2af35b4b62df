//! Who has which receive chunk, and frames put together from descriptors.
//!
//! A chunk goes round: on the fill ring or with the kernel, then lent out with a frame, then
//! waiting to be put on the fill ring again. A descriptor is believed only if it names a chunk
//! the kernel has, so that whatever the kernel says, no chunk is lent twice, lent while the
//! kernel may write it, or lost.

use super::ring::ProducerRing;
use super::umem::CHUNK;
use crate::port::{Chunk, MAX_FRAME};

/// The shortest Ethernet frame there is: its header.
const ETHERNET_HEADER: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Kernel,
    Lent,
    Waiting,
}

/// What became of a frame when its last descriptor had come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// Its pieces, addresses counted from the part's start; the second may be empty.
    Frame([Chunk; 2]),
    /// It was longer than [`MAX_FRAME`] or in more than two pieces and has been dropped.
    Oversize,
    /// A descriptor of it was nonsense and it has been dropped.
    Invalid,
}

/// The receive chunks of one socket.
#[derive(Debug)]
pub(super) struct RxChunks {
    holders: Box<[Holder]>,
    /// Those that wait, in no order; never longer than `holders`.
    waiting: Vec<u32>,
    /// The frame whose last descriptor has not come yet.
    frame: Partial,
}

#[derive(Debug, Default)]
struct Partial {
    pieces: [Chunk; 2],
    /// How many descriptors it had so far.
    count: usize,
    length: usize,
    invalid: bool,
}

impl RxChunks {
    /// `chunks` chunks, all waiting for the fill ring.
    pub(super) fn new(chunks: u32) -> Self {
        // Reversed, since they are taken from the end.
        let waiting: Vec<u32> = (0..chunks).rev().collect();
        Self {
            holders: waiting.iter().map(|_| Holder::Waiting).collect(),
            waiting,
            frame: Partial::default(),
        }
    }

    /// How many chunks wait for the fill ring.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Puts what waits on the fill ring: one ring update.
    pub(super) fn refill(&mut self, fill: &mut ProducerRing<u64>) {
        if self.waiting.is_empty() {
            return;
        }
        while let Some(&chunk) = self.waiting.last() {
            if !fill.push(address_of(chunk)) {
                break;
            }
            self.waiting.pop();
            self.hold(chunk, Holder::Kernel);
        }
        fill.publish();
    }

    /// Takes one descriptor from the RX ring; says what became of a frame that it ended.
    pub(super) fn accept(&mut self, descriptor: libc::xdp_desc) -> Option<Accepted> {
        match self.claim(descriptor) {
            Some(piece) => {
                self.frame.length += usize::try_from(piece.len).unwrap_or(CHUNK);
                match self.frame.pieces.get_mut(self.frame.count) {
                    Some(place) => *place = piece,
                    None => self.give_back(piece),
                }
            }
            None => self.frame.invalid = true,
        }
        self.frame.count = self.frame.count.saturating_add(1);
        if descriptor.options & libc::XDP_PKT_CONTD != 0 {
            return None;
        }
        let frame = std::mem::take(&mut self.frame);
        let whole = frame.count <= 2 && frame.length <= MAX_FRAME;
        if whole && !frame.invalid && frame.length >= ETHERNET_HEADER {
            return Some(Accepted::Frame(frame.pieces));
        }
        frame.pieces.into_iter().for_each(|piece| self.give_back(piece));
        Some(if whole { Accepted::Invalid } else { Accepted::Oversize })
    }

    /// The piece a descriptor names, now lent; `None` if it is nonsense.
    fn claim(&mut self, descriptor: libc::xdp_desc) -> Option<Chunk> {
        let chunk = chunk_of(descriptor.addr)?;
        if self.holders.get(index(chunk)) != Some(&Holder::Kernel) {
            return None;
        }
        let piece = Chunk { addr: descriptor.addr, len: descriptor.len };
        self.hold(chunk, Holder::Lent);
        if !fits_chunk(piece) {
            // The chunk is real; it goes back to the kernel.
            self.give_back(Chunk { len: 1, ..piece });
            return None;
        }
        Some(piece)
    }

    /// Whether the piece lies in a chunk that is on loan.
    pub(super) fn is_lent(&self, piece: Chunk) -> bool {
        let holder = chunk_of(piece.addr).and_then(|chunk| self.holders.get(index(chunk)));
        holder == Some(&Holder::Lent) && fits_chunk(piece)
    }

    /// Takes a piece back that was on loan; an empty one is none.
    pub(super) fn give_back(&mut self, piece: Chunk) {
        let Some(chunk) = chunk_of(piece.addr) else { return };
        if piece.len > 0 && self.holders.get(index(chunk)) == Some(&Holder::Lent) {
            self.hold(chunk, Holder::Waiting);
            self.waiting.push(chunk);
        }
    }

    fn hold(&mut self, chunk: u32, holder: Holder) {
        if let Some(place) = self.holders.get_mut(index(chunk)) {
            *place = holder;
        }
    }
}

/// 4,096 as the kernel's addresses have it.
const CHUNK_BYTES: u64 = 1 << CHUNK.trailing_zeros();

fn address_of(chunk: u32) -> u64 {
    u64::from(chunk) * CHUNK_BYTES
}

fn chunk_of(address: u64) -> Option<u32> {
    u32::try_from(address / CHUNK_BYTES).ok()
}

fn index(chunk: u32) -> usize {
    usize::try_from(chunk).unwrap_or(usize::MAX)
}

/// Whether a piece is not empty and ends in the chunk it begins in.
fn fits_chunk(piece: Chunk) -> bool {
    piece.len > 0 && piece.addr % CHUNK_BYTES + u64::from(piece.len) <= CHUNK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::af_xdp::ring;

    const CONTINUED: u32 = libc::XDP_PKT_CONTD;

    fn descriptor(addr: u64, len: u32, options: u32) -> libc::xdp_desc {
        libc::xdp_desc { addr, len, options }
    }

    /// Eight chunks, all with the kernel.
    fn with_kernel() -> (RxChunks, ProducerRing<u64>) {
        let mut fill = ring::fake::producer(8);
        let mut chunks = RxChunks::new(8);
        chunks.refill(&mut fill);
        assert!(chunks.waiting.is_empty());
        (chunks, fill)
    }

    /// Nothing is lost: every chunk that the kernel does not have waits for the ring.
    fn assert_all_there(chunks: &RxChunks, lent: usize) {
        let count = |holder| chunks.holders.iter().filter(|held| **held == holder).count();
        assert_eq!(count(Holder::Lent), lent);
        assert_eq!(count(Holder::Waiting), chunks.waiting.len());
    }

    #[test]
    fn a_frame_in_one_and_in_two_pieces() {
        let (mut chunks, _fill) = with_kernel();
        let one = chunks.accept(descriptor(4096 + 256, 1098, 0));
        let piece = Chunk { addr: 4352, len: 1098 };
        assert_eq!(one, Some(Accepted::Frame([piece, Chunk::default()])));
        assert_eq!(chunks.accept(descriptor(256, 3840, CONTINUED)), None);
        let pieces = [Chunk { addr: 256, len: 3840 }, Chunk { addr: 8448, len: 374 }];
        assert_eq!(chunks.accept(descriptor(8448, 374, 0)), Some(Accepted::Frame(pieces)));
        assert_all_there(&chunks, 3);
        pieces.into_iter().chain([piece]).for_each(|piece| {
            assert!(chunks.is_lent(piece));
            chunks.give_back(piece);
            assert!(!chunks.is_lent(piece));
        });
        assert_all_there(&chunks, 0);
    }

    #[test]
    fn more_than_two_pieces_or_too_long_is_dropped_whole() {
        let (mut chunks, mut fill) = with_kernel();
        for (n, last) in [(0, CONTINUED), (1, CONTINUED), (2, CONTINUED), (3, 0)] {
            let end = chunks.accept(descriptor(n * 4096, 100, last));
            assert_eq!(end, (last == 0).then_some(Accepted::Oversize));
        }
        assert_all_there(&chunks, 0);
        assert_eq!(chunks.accept(descriptor(4 * 4096, 4096, CONTINUED)), None);
        let over = u32::try_from(MAX_FRAME).expect("small") - 4096 + 1;
        assert_eq!(chunks.accept(descriptor(5 * 4096, over, 0)), Some(Accepted::Oversize));
        assert_all_there(&chunks, 0);
        assert_eq!(chunks.waiting.len(), 6);
        ring::fake::consume_all(&fill);
        chunks.refill(&mut fill);
        assert!(chunks.waiting.is_empty(), "and all go round again");
    }

    #[test]
    fn nonsense_is_dropped_and_nothing_is_lost() {
        let (mut chunks, _fill) = with_kernel();
        for (addr, len, what) in [
            (8 * 4096, 64, "past the chunks"),
            (u64::MAX, 64, "far past"),
            (u64::MAX - 4095, 4096, "wrapping"),
            (1 << 60, 64, "high bits"),
            (4096 - 63, 64, "across a chunk's end"),
            (4096, 4097, "longer than a chunk"),
            (2 * 4096, u32::MAX, "as long as can be"),
            (3 * 4096, 0, "empty"),
            (4 * 4096, 13, "shorter than a header"),
        ] {
            let end = chunks.accept(descriptor(addr, len, 0));
            assert_eq!(end, Some(Accepted::Invalid), "{what}");
            assert_all_there(&chunks, 0);
        }
        assert_eq!(chunks.waiting.len(), 5, "real chunks come back");
    }

    #[test]
    fn a_chunk_is_never_lent_twice() {
        let (mut chunks, _fill) = with_kernel();
        let Some(Accepted::Frame([piece, _])) = chunks.accept(descriptor(0, 64, 0)) else {
            panic!("a frame")
        };
        assert_eq!(chunks.accept(descriptor(128, 64, 0)), Some(Accepted::Invalid), "lent");
        chunks.give_back(piece);
        chunks.give_back(piece);
        assert_eq!(chunks.waiting, [0]);
        assert_eq!(chunks.accept(descriptor(0, 64, 0)), Some(Accepted::Invalid), "waiting");
        assert_eq!(chunks.accept(descriptor(4096, 64, CONTINUED)), None);
        let again = chunks.accept(descriptor(4096, 64, 0));
        assert_eq!(again, Some(Accepted::Invalid), "twice in one frame");
        assert_all_there(&chunks, 0);
    }

    #[test]
    fn a_broken_frame_does_not_spoil_the_next() {
        let (mut chunks, _fill) = with_kernel();
        assert_eq!(chunks.accept(descriptor(u64::MAX, 64, CONTINUED)), None);
        assert_eq!(chunks.accept(descriptor(0, 64, 0)), Some(Accepted::Invalid));
        assert!(matches!(chunks.accept(descriptor(4096, 64, 0)), Some(Accepted::Frame(_))));
        assert_all_there(&chunks, 1);
    }

    #[test]
    fn tokens_that_were_never_lent_give_nothing_back() {
        let (mut chunks, _fill) = with_kernel();
        for addr in [0, 4096, 8 * 4096, u64::MAX] {
            let piece = Chunk { addr, len: 64 };
            assert!(!chunks.is_lent(piece));
            chunks.give_back(piece);
        }
        assert!(chunks.waiting.is_empty());
    }
}
