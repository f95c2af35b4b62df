//! A port over an AF_PACKET socket: any Ethernet interface, no driver support needed.
//!
//! The socket gets a copy of each RoCEv2 frame (a filter in the kernel drops all others) and the
//! kernel's own network stack still sees the frame. So that it does not answer with ICMP "port
//! unreachable", the port also owns UDP port 4791 on the interface, through a socket that
//! receives nothing.
//!
//! Receiving is `recvmmsg` into a fixed pool of frames, sending is `sendmmsg` out of a fixed ring
//! of frames: one system call a burst. Nothing is allocated after [`PacketPort::open`].
//!
//! The kernel hands the outermost VLAN tag over apart from the frame; the port puts it back.

mod filter;
mod message;
mod udp_guard;

use std::ffi::c_int;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use roce_codec::net::MacAddr;

use self::message::{Received, SLOT, VLAN_TAG};
use super::error::{Capabilities, PortError};
use super::interface::Interface;
use super::{BURST, Chunk, MAX_FRAME, Port, PortCounters, RxBurst, RxMeta, RxToken};
use crate::sys;

/// Frames waiting to be sent, at most.
const TX_SLOTS: usize = 2 * BURST;
/// The shortest Ethernet frame there is: its header.
const ETHERNET_HEADER: usize = 14;
/// What the kernel may queue for us between two bursts, in bytes: some 3,000 frames of 1 KiB
/// (the kernel charges about 2.3 KiB for one).
const RECEIVE_BUFFER: c_int = 8 << 20;

/// How to open a [`PacketPort`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PacketConfig {
    /// The interface's name.
    pub interface: String,
    /// Frames that may be on loan at a time, 32 to 65,536; each costs 4,416 bytes. 256 unless set.
    pub rx_frames: usize,
}

impl PacketConfig {
    /// The defaults on `interface`.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self { interface: interface.to_owned(), rx_frames: 256 }
    }
}

/// An AF_PACKET socket as a [`Port`].
#[derive(Debug)]
pub struct PacketPort {
    interface: Interface,
    socket: OwnedFd,
    /// Keeps the kernel from answering for us.
    _udp_guard: OwnedFd,
    rx: RxPool,
    tx: TxRing,
    counters: PortCounters,
    /// The kernel's drop counter starts anew at each reading; here is the sum.
    missed: AtomicU64,
}

/// Fixed slots that received frames lie in.
#[derive(Debug)]
struct RxPool {
    memory: Box<[u8]>,
    free: Vec<usize>,
    lent: Box<[bool]>,
}

/// A ring of slots that frames to be sent lie in: `head` counts those sent, `tail` those committed.
#[derive(Debug)]
struct TxRing {
    memory: Box<[u8]>,
    lengths: [usize; TX_SLOTS],
    head: usize,
    tail: usize,
    reserved: Option<usize>,
}

impl PacketPort {
    /// Opens the interface.
    ///
    /// # Errors
    ///
    /// [`PortError::NoSuchInterface`], [`PortError::InterfaceDown`], [`PortError::NotEthernet`];
    /// [`PortError::NoPrivilege`] without CAP_NET_RAW; [`PortError::UdpPortTaken`] if something
    /// else, the kernel's rdma_rxe included, owns UDP port 4791; [`PortError::BadConfig`].
    pub fn open(config: &PacketConfig) -> Result<Self, PortError> {
        let interface = Interface::open(&config.interface)?;
        if !(BURST..=65_536).contains(&config.rx_frames) {
            let setting = "rx_frames: 32 to 65,536";
            return Err(PortError::BadConfig { interface: interface.name, setting });
        }
        let udp_guard = udp_guard::open(&interface)?;
        let socket = open_socket(&interface)?;
        Ok(Self {
            interface,
            socket,
            _udp_guard: udp_guard,
            rx: RxPool::new(config.rx_frames),
            tx: TxRing::new(),
            counters: PortCounters::default(),
            missed: AtomicU64::new(0),
        })
    }
}

/// An AF_PACKET socket on the interface that receives RoCEv2 only.
fn open_socket(interface: &Interface) -> Result<OwnedFd, PortError> {
    let os = |doing| move |error: std::io::Error| interface.os_error(doing, &error);
    // Protocol 0 receives nothing, so that no frame slips in before the filter is there.
    let socket =
        sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0).map_err(|error| {
            let doing = "opening an AF_PACKET socket";
            interface.privileged_error(doing, Capabilities::NET_RAW, &error)
        })?;
    let fd = socket.as_fd();
    filter::attach_roce(fd).map_err(os("attaching the RoCEv2 filter"))?;
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)
        .map_err(os("asking for VLAN tags"))?;
    // More than net.core.rmem_max takes CAP_NET_ADMIN; without it the kernel gives what it may.
    if sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER).is_err() {
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER)
            .map_err(os("sizing the receive buffer"))?;
    }
    let mut address: libc::sockaddr_ll = sys::zeroed();
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or(0);
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or(0).to_be();
    address.sll_ifindex = interface.signed_index();
    sys::bind(fd, &address).map_err(os("binding the AF_PACKET socket"))?;
    Ok(socket)
}

impl RxPool {
    fn new(slots: usize) -> Self {
        Self {
            memory: vec![0; slots * SLOT].into_boxed_slice(),
            free: (0..slots).collect(),
            lent: vec![false; slots].into_boxed_slice(),
        }
    }

    /// The slot of a chunk that is on loan, and where in the pool it lies.
    fn lent_chunk(&self, chunk: Chunk) -> Option<(usize, std::ops::Range<usize>)> {
        let start = usize::try_from(chunk.addr).ok()?;
        let end = start.checked_add(usize::try_from(chunk.len).ok()?)?;
        let slot = start / SLOT;
        let valid = *self.lent.get(slot)? && end <= (slot + 1) * SLOT;
        valid.then_some((slot, start..end))
    }
}

impl TxRing {
    fn new() -> Self {
        Self {
            memory: vec![0; TX_SLOTS * SLOT].into_boxed_slice(),
            lengths: [0; TX_SLOTS],
            head: 0,
            tail: 0,
            reserved: None,
        }
    }

    /// How many frames wait to be sent.
    fn waiting(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }
}

impl Port for PacketPort {
    fn mac(&self) -> MacAddr {
        self.interface.mac
    }

    fn mtu(&self) -> usize {
        self.interface.mtu
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        let wanted = (BURST - out.len()).min(self.rx.free.len());
        let mut slots = [0; BURST];
        let kept = self.rx.free.len() - wanted;
        for (to, from) in slots.iter_mut().zip(self.rx.free.drain(kept..)) {
            *to = from;
        }
        let mut received = [Received::default(); BURST];
        let count = message::receive(
            self.socket.as_fd(),
            &mut self.rx.memory,
            &slots[..wanted],
            &mut received,
        );
        let mut handed_out = 0;
        for (index, &slot) in slots[..wanted].iter().enumerate() {
            let frame = received.get(index).filter(|_| index < count);
            let Some(token) = frame.and_then(|frame| self.token(slot, *frame)) else {
                self.rx.free.push(slot);
                continue;
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += u64::from(token.chunks[0].len);
            self.rx.lent[slot] = true;
            // There is room: no more were asked for.
            if out.push(token).is_ok() {
                handed_out += 1;
            }
        }
        handed_out
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        let lent = self.rx.lent_chunk(token.chunks[0]);
        [lent.and_then(|(_, range)| self.rx.memory.get(range)).unwrap_or_default(), &[]]
    }

    fn release(&mut self, token: RxToken) {
        if let Some((slot, _)) = self.rx.lent_chunk(token.chunks[0]) {
            self.rx.lent[slot] = false;
            self.rx.free.push(slot);
        }
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > MAX_FRAME {
            return None;
        }
        if self.tx.waiting() == TX_SLOTS {
            self.counters.tx_full += 1;
            return None;
        }
        self.tx.reserved = Some(len);
        let start = self.tx.tail % TX_SLOTS * SLOT;
        self.tx.memory.get_mut(start..start + len)
    }

    fn tx_commit(&mut self, len: usize) {
        let Some(reserved) = self.tx.reserved.take() else {
            return;
        };
        if !(ETHERNET_HEADER..=reserved).contains(&len) {
            return;
        }
        self.tx.lengths[self.tx.tail % TX_SLOTS] = len;
        self.tx.tail = self.tx.tail.wrapping_add(1);
        self.counters.tx_frames += 1;
        // A frame is far below 2^64 bytes.
        self.counters.tx_bytes += u64::try_from(len).unwrap_or(0);
    }

    fn tx_flush(&mut self) {
        // Each turn sends a frame, drops one or ends the loop.
        while self.tx.waiting() > 0 {
            let (head, waiting) = (self.tx.head, self.tx.waiting());
            let frames = (0..waiting.min(BURST)).map(|offset| {
                let slot = head.wrapping_add(offset) % TX_SLOTS;
                slot * SLOT..slot * SLOT + self.tx.lengths[slot]
            });
            match message::send(self.socket.as_fd(), &self.tx.memory, frames) {
                Ok(sent) => self.tx.head = head.wrapping_add(sent),
                Err(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return,
                Err(_) => {
                    self.tx.head = head.wrapping_add(1);
                    self.counters.tx_dropped += 1;
                }
            }
        }
    }

    fn counters(&self) -> PortCounters {
        // struct tpacket_stats: packets, and how many of them were dropped.
        let fresh = sys::get_option::<[u32; 2]>(
            self.socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        )
        .map_or(0, |([_, drops], _)| u64::from(drops));
        let missed = self.missed.fetch_add(fresh, Ordering::Relaxed) + fresh;
        PortCounters { rx_missed: missed, ..self.counters }
    }

    fn wait(&mut self, timeout_ns: u64) {
        sys::wait_readable(&mut [sys::readable(self.socket.as_fd())], timeout_ns);
    }
}

impl PacketPort {
    /// The token for a frame received into `slot`; `None`, counted, if it cannot be lent.
    fn token(&mut self, slot: usize, frame: Received) -> Option<RxToken> {
        let start = slot * SLOT;
        let at = start + VLAN_TAG;
        let whole = frame.length <= MAX_FRAME && frame.length >= ETHERNET_HEADER;
        let (addr, length) = match frame.vlan {
            Some(tag) if whole && frame.length + VLAN_TAG <= MAX_FRAME => {
                // The addresses move to the slot's front, the tag fills the gap behind them.
                self.rx.memory.copy_within(at..at + 12, start);
                self.rx.memory.get_mut(start + 12..at + 12)?.copy_from_slice(&tag);
                (start, frame.length + VLAN_TAG)
            }
            None if whole => (at, frame.length),
            _ => {
                self.counters.rx_oversize += 1;
                return None;
            }
        };
        let chunk = Chunk { addr: u64::try_from(addr).ok()?, len: u32::try_from(length).ok()? };
        Some(RxToken { chunks: [chunk, Chunk::default()], meta: RxMeta::default() })
    }
}
