//! How to open the port, and what was chosen.

use core::fmt;
use std::io;
use std::net::IpAddr;

use crate::port::error::KernelName;

/// The largest MTU whose frames, two VLAN tags included, fit one chunk behind the headroom.
pub(super) const SINGLE_BUFFER_MTU: usize = super::umem::CHUNK - super::umem::HEADROOM - 14 - 2 * 4;

/// Where the steering program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttachMode {
    /// In the driver where it can, otherwise in the network stack.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the network stack, behind the allocation of a socket buffer: any interface, slower.
    Generic,
}

/// How frames get between the device and the frame memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyMode {
    /// By DMA where the driver can, otherwise copied by the kernel; each queue for itself.
    #[default]
    Auto,
    /// By DMA, or not at all.
    ZeroCopy,
    /// Copied by the kernel.
    Copy,
}

/// How to open an [`AfXdpPort`](super::AfXdpPort).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AfXdpConfig {
    /// The interface's name.
    pub interface: String,
    /// The receive queues to take RoCEv2 from; all unless set. What comes on another queue goes
    /// to the kernel.
    pub queues: Option<Vec<u32>>,
    /// The queue to send on, one of `queues`; the first of them unless set.
    pub tx_queue: Option<u32>,
    /// Where the steering program runs.
    pub attach: AttachMode,
    /// Zero-copy or copy.
    pub copy: CopyMode,
    /// Receive chunks of 4,096 bytes a queue: a power of two, 64 to 65,536. 2,048 unless set.
    pub rx_chunks: u32,
    /// Transmit frames of 8,192 bytes: a power of two, 32 to 32,768. 512 unless set.
    pub tx_frames: u32,
    /// The addresses to take RoCEv2 for, 64 at most; what is for another goes to the kernel, as
    /// on a router or beside a second responder. Any address if empty.
    pub addresses: Vec<IpAddr>,
}

impl AfXdpConfig {
    /// The defaults on `interface`.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            queues: None,
            tx_queue: None,
            attach: AttachMode::Auto,
            copy: CopyMode::Auto,
            rx_chunks: 2048,
            tx_frames: 512,
            addresses: Vec::new(),
        }
    }

    /// The setting that is out of range, if one is, as the error names it.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if !self.rx_chunks.is_power_of_two() || !(64..=65_536).contains(&self.rx_chunks) {
            return Err("rx_chunks: a power of two, 64 to 65,536");
        }
        if !self.tx_frames.is_power_of_two() || !(32..=32_768).contains(&self.tx_frames) {
            return Err("tx_frames: a power of two, 32 to 32,768");
        }
        if self.addresses.len() > super::program::MAX_ADDRESSES {
            return Err("addresses: 64 at most");
        }
        Ok(())
    }

    /// The queues to open, none twice, the one to send on last.
    pub(super) fn queue_order(&self, count: u32) -> Result<Vec<u32>, &'static str> {
        let mut queues = self.queues.clone().unwrap_or_else(|| (0..count).collect());
        let tx = self.tx_queue.or(queues.first().copied()).ok_or("queues: at least one")?;
        queues.sort_unstable();
        queues.dedup();
        let tx_at = queues.binary_search(&tx).map_err(|_| "tx_queue: one of the queues")?;
        queues.remove(tx_at);
        queues.push(tx);
        Ok(queues)
    }
}

/// How one queue was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDescription {
    /// The device's queue.
    pub queue: u32,
    /// Whether frames go by DMA.
    pub zero_copy: bool,
    /// Whether a frame may lie in more than one chunk.
    pub multi_buffer: bool,
}

/// What was chosen when the port was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The interface.
    pub interface: KernelName,
    /// Whether the steering program runs in the driver.
    pub native: bool,
    /// Why not, if that was tried: the driver's `errno`.
    pub native_refused: Option<i32>,
    /// The queues, in ascending order.
    pub queues: Vec<QueueDescription>,
    /// The queue frames are sent on.
    pub tx_queue: u32,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: XDP {}", self.interface, if self.native { "native" } else { "generic" })?;
        if let Some(errno) = self.native_refused {
            write!(f, " (native refused: {})", io::Error::from_raw_os_error(errno))?;
        }
        for queue in &self.queues {
            let copy = if queue.zero_copy { "zero-copy" } else { "copy" };
            let buffers = if queue.multi_buffer { "multi-buffer" } else { "single buffer" };
            write!(f, ", queue {} {copy} {buffers}", queue.queue)?;
        }
        write!(f, ", sending on queue {}", self.tx_queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(
        queues: Option<&[u32]>,
        tx: Option<u32>,
        count: u32,
    ) -> Result<Vec<u32>, &'static str> {
        let mut config = AfXdpConfig::new("eth0");
        config.queues = queues.map(<[u32]>::to_vec);
        config.tx_queue = tx;
        config.queue_order(count)
    }

    #[test]
    fn the_queue_to_send_on_is_last() {
        assert_eq!(order(None, None, 4), Ok(vec![1, 2, 3, 0]));
        assert_eq!(order(None, Some(2), 4), Ok(vec![0, 1, 3, 2]));
        assert_eq!(order(Some(&[5, 1, 5]), None, 8), Ok(vec![1, 5]));
        assert!(order(Some(&[]), None, 8).is_err());
        assert!(order(Some(&[1]), Some(2), 8).is_err());
    }

    #[test]
    fn sizes_are_powers_of_two_in_range() {
        let check = |rx_chunks, tx_frames, addresses: usize| {
            let address = IpAddr::from([192, 0, 2, 1]);
            let addresses = vec![address; addresses];
            AfXdpConfig { rx_chunks, tx_frames, addresses, ..AfXdpConfig::new("eth0") }.check()
        };
        assert_eq!(check(64, 32, 64), Ok(()));
        assert_eq!(check(65_536, 32_768, 0), Ok(()));
        for (rx, tx, addresses) in [
            (0, 32, 0),
            (32, 32, 0),
            (96, 32, 0),
            (1 << 17, 32, 0),
            (64, 16, 0),
            (64, 0, 0),
            (64, 48, 0),
            (64, 32, 65),
        ] {
            assert!(check(rx, tx, addresses).is_err(), "{rx} {tx} {addresses}");
        }
    }
}
