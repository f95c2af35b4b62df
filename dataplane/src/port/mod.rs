//! The wire as the poll loop sees it: bursts of frames in, bursts of frames out.
//!
//! | port | runs on | feature |
//! |---|---|---|
//! | [`loopback`] | nothing: two ports joined in memory | |
//! | `fault` | any other port: drops, duplicates, reorders, corrupts and delays by a seed | `std` |
//! | `capture` | any other port: hands a copy of what passes to a sink, as a file | `std` |
//! | `packet` | an AF_PACKET socket | `packet` |
//! | `af_xdp` | AF_XDP sockets, one a queue, and the program that steers UDP 4791 to them | `af-xdp` |

#[cfg(all(feature = "af-xdp", target_os = "linux"))]
pub mod af_xdp;
#[cfg(feature = "std")]
pub mod capture;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod error;
#[cfg(feature = "std")]
pub mod fault;
#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) mod interface;
pub mod loopback;
#[cfg(all(feature = "packet", target_os = "linux"))]
pub mod packet;

use roce_codec::net::MacAddr;

/// Frames in one burst, at most.
pub const BURST: usize = 32;

/// The largest frame a port carries, from the destination MAC to the end of the ICRC: path MTU
/// 4096, every header the codec knows and three VLAN tags, rounded up.
pub const MAX_FRAME: usize = 4352;

/// What the device said about a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxMeta {
    /// The receive queue the frame came from.
    pub queue: u16,
    /// Whether a NIC has checked the ICRC already.
    pub icrc_verified: bool,
    /// When the device received the frame, in nanoseconds of its own clock, if it says.
    pub timestamp_ns: Option<u64>,
}

/// One piece of a received frame: where it lies in the port's memory, in the port's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Port-defined address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// A received frame on loan from its port.
///
/// The token is plain data and `Send`; [`Port::frame`] turns it into bytes, and
/// [`Port::release`] gives the memory back. A token that is dropped instead of released costs
/// the port one buffer for ever, hence no `Clone`.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "give it back with Port::release"]
pub struct RxToken {
    /// The frame's pieces, in order; the second is empty unless the frame spans two buffers.
    pub chunks: [Chunk; 2],
    /// What the device said about it.
    pub meta: RxMeta,
}

/// A burst of received frames.
pub type RxBurst = heapless::Vec<RxToken, BURST>;

/// What a port counted since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Frames handed out by [`Port::rx_burst`].
    pub rx_frames: u64,
    /// Bytes in them.
    pub rx_bytes: u64,
    /// Frames the device or kernel dropped before we could take them, where it says.
    pub rx_missed: u64,
    /// Frames received but not handed out because they cannot be lent (longer than
    /// [`MAX_FRAME`] or in more than two pieces).
    pub rx_oversize: u64,
    /// Frames committed for transmission.
    pub tx_frames: u64,
    /// Bytes in them.
    pub tx_bytes: u64,
    /// Frames committed that the device or kernel then refused.
    pub tx_dropped: u64,
    /// Times [`Port::tx_reserve`] found no room.
    pub tx_full: u64,
}

impl PortCounters {
    /// Nothing counted.
    pub const ZERO: Self = Self {
        rx_frames: 0,
        rx_bytes: 0,
        rx_missed: 0,
        rx_oversize: 0,
        tx_frames: 0,
        tx_bytes: 0,
        tx_full: 0,
        tx_dropped: 0,
    };
}

/// A wire that carries Ethernet frames.
///
/// Call order: any number of `tx_reserve`/`tx_commit` pairs, then one `tx_flush`; `rx_burst`,
/// `frame` for each token, `release` for each token. A port never blocks; nothing it returns is
/// trusted, since the other end may write what it likes.
pub trait Port {
    /// The port's own MAC address.
    fn mac(&self) -> MacAddr;

    /// The largest IP packet the wire carries, in bytes (the interface's MTU).
    fn mtu(&self) -> usize;

    /// Takes up to `BURST - out.len()` received frames and appends them to `out`; says how many.
    fn rx_burst(&mut self, out: &mut RxBurst) -> usize;

    /// The bytes of a received frame, Ethernet header first, without FCS. All headers of a RoCE
    /// packet lie in the first piece.
    fn frame(&self, token: &RxToken) -> [&[u8]; 2];

    /// Gives a received frame's memory back to the port.
    fn release(&mut self, token: RxToken);

    /// Room for one frame of up to `len` bytes, in place; `None` when the wire is full or `len`
    /// is above [`MAX_FRAME`]. A reservation that is not committed costs nothing.
    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Queues the first `len` bytes of the last reservation for transmission. Without a
    /// reservation, or with `len` above it, it does nothing.
    fn tx_commit(&mut self, len: usize);

    /// Tells the device about everything committed since the last call: one ring update.
    fn tx_flush(&mut self);

    /// What the port counted.
    fn counters(&self) -> PortCounters;

    /// Waits until a frame may have arrived or `timeout_ns` nanoseconds have passed, whichever
    /// comes first. Ports that can only spin return at once.
    fn wait(&mut self, timeout_ns: u64) {
        let _ = timeout_ns;
    }
}
