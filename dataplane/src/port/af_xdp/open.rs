//! Opening the port, step by step, each with its own error.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use super::bpf::{self, AttachFlag};
use super::config::{AfXdpConfig, AttachMode, Description, QueueDescription};
use super::program::Steering;
use super::rx::RxChunks;
use super::socket::{Binding, RingSizes, XdpSocket};
use super::tx::TxFrames;
use super::umem::{CHUNK, Layout, Umem};
use super::{AfXdpPort, MAX_QUEUES, Queue};
use crate::port::error::{Capabilities, PortError};
use crate::port::interface::Interface;
use crate::port::{MAX_FRAME, PortCounters};
use crate::{rtnetlink, sys};

/// The program, attached.
struct Attached {
    link: OwnedFd,
    native: bool,
    native_refused: Option<i32>,
}

impl AfXdpPort {
    /// Opens the interface.
    ///
    /// # Errors
    ///
    /// [`PortError::NoSuchInterface`], [`PortError::InterfaceDown`], [`PortError::NotEthernet`],
    /// [`PortError::NoSuchQueue`], [`PortError::BadConfig`]; [`PortError::NoPrivilege`] with the
    /// capabilities that are missing; [`PortError::ProgramAttached`] if the interface has an XDP
    /// program; [`PortError::QueueBusy`]; [`PortError::LockedMemory`]; [`PortError::MtuTooLarge`]
    /// where the kernel or device has no multi-buffer XDP.
    pub fn open(config: &AfXdpConfig) -> Result<Self, PortError> {
        let interface = Interface::open(&config.interface)?;
        let bad = |setting| PortError::BadConfig { interface: interface.name, setting };
        config.check().map_err(bad)?;
        let queue_count = interface.queues()?;
        let order = config.queue_order(queue_count).map_err(bad)?;
        if order.len() > MAX_QUEUES {
            return Err(bad("queues: 256 at most"));
        }
        if let Some(&queue) = order.iter().find(|queue| **queue >= queue_count) {
            let queues = queue_count;
            return Err(PortError::NoSuchQueue { interface: interface.name, queue, queues });
        }

        let steering = Steering::load(queue_count, &config.addresses).map_err(|error| {
            let needed = Capabilities::BPF.and(Capabilities::NET_ADMIN);
            interface.privileged_error("loading the steering program", needed, &error)
        })?;
        let attached = attach(&steering, &interface, config.attach)?;
        let umem = allocate(config, &interface, order.len())?;
        let queues = open_queues(config, &interface, &steering, &umem, &order)?;
        for queue in &queues {
            steering
                .steer(u32::from(queue.number), queue.socket.fd())
                .map_err(|error| interface.os_error("steering a queue to its socket", &error))?;
        }
        let multi_buffer = queues.last().is_some_and(|queue| queue.socket.multi_buffer);
        let longest = if multi_buffer { MAX_FRAME } else { CHUNK };
        let rx_length = rx_layout(config).len();
        Ok(Self {
            description: describe(&interface, &attached, &queues),
            _link: attached.link,
            _steering: steering,
            queues,
            tx: TxFrames::new(rx_length, config.tx_frames, longest),
            umem,
            rx_length,
            interface,
            sending: false,
            next: 0,
            counters: PortCounters::default(),
            invalid_descriptors: 0,
        })
    }
}

/// Attaches the program where `mode` says; natively first if that is open.
fn attach(
    steering: &Steering,
    interface: &Interface,
    mode: AttachMode,
) -> Result<Attached, PortError> {
    let failed = |error: &io::Error| {
        let doing = "attaching the steering program";
        let owner = rtnetlink::xdp_program(interface.signed_index()).ok().flatten();
        match (sys::errno(error), owner) {
            (libc::EEXIST | libc::EBUSY, Some(id)) => {
                let name = bpf::program_name(id);
                PortError::ProgramAttached { interface: interface.name, id, name }
            }
            _ => interface.privileged_error(doing, Capabilities::NET_ADMIN, error),
        }
    };
    let mut native_refused = None;
    if mode != AttachMode::Generic {
        match steering.attach(interface.index, AttachFlag::Native) {
            Ok(link) => return Ok(Attached { link, native: true, native_refused }),
            Err(error) => {
                let errno = sys::errno(&error);
                let hopeless = [libc::EEXIST, libc::EBUSY, libc::EPERM, libc::EACCES];
                if mode == AttachMode::Native || hopeless.contains(&errno) {
                    return Err(failed(&error));
                }
                native_refused = Some(errno);
            }
        }
    }
    let link =
        steering.attach(interface.index, AttachFlag::Generic).map_err(|error| failed(&error))?;
    Ok(Attached { link, native: false, native_refused })
}

/// A part without transmit frames.
fn rx_layout(config: &AfXdpConfig) -> Layout {
    Layout { rx_chunks: usize::try_from(config.rx_chunks).unwrap_or(usize::MAX), tx_frames: 0 }
}

/// The part of the queue that sends.
fn tx_layout(config: &AfXdpConfig) -> Layout {
    let tx_frames = usize::try_from(config.tx_frames).unwrap_or(usize::MAX);
    Layout { tx_frames, ..rx_layout(config) }
}

/// The parts of all queues side by side, the one that sends last.
fn allocate(config: &AfXdpConfig, interface: &Interface, queues: usize) -> Result<Umem, PortError> {
    let length = rx_layout(config).len() * (queues - 1) + tx_layout(config).len();
    Umem::new(length).map_err(|error| interface.os_error("allocating frame memory", &error))
}

fn open_queues(
    config: &AfXdpConfig,
    interface: &Interface,
    steering: &Steering,
    umem: &Umem,
    order: &[u32],
) -> Result<Vec<Queue>, PortError> {
    let mut queues = Vec::with_capacity(order.len());
    for (index, &queue) in order.iter().enumerate() {
        let sends = index + 1 == order.len();
        let layout = if sends { tx_layout(config) } else { rx_layout(config) };
        let start = rx_layout(config).len() * index;
        let part = start..start + layout.len();
        let no_memory = PortError::LockedMemory { interface: interface.name, bytes: 0 };
        let at = umem.part(part.clone()).ok_or(no_memory)?;
        let memory = NonNull::slice_from_raw_parts(at, part.len());
        let binding =
            Binding { interface, queue, fragments: steering.fragments, copy: config.copy };
        // Two descriptors a frame.
        let sizes = RingSizes { rx: config.rx_chunks, tx: sends.then_some(config.tx_frames * 2) };
        // SAFETY: the memory is a part of `umem`, which the port drops after its sockets, and no
        // other socket's; the port uses it by the rings' protocol (`rx`, `tx`).
        let mut socket = unsafe { XdpSocket::open(&binding, memory, sizes)? };
        let mut chunks = RxChunks::new(config.rx_chunks);
        chunks.refill(&mut socket.fill);
        // Interfaces have 65,536 queues at most.
        let number = u16::try_from(queue).unwrap_or(u16::MAX);
        queues.push(Queue { number, socket, chunks, part });
    }
    Ok(queues)
}

fn describe(interface: &Interface, attached: &Attached, queues: &[Queue]) -> Description {
    let mut descriptions: Vec<_> = queues
        .iter()
        .map(|queue| QueueDescription {
            queue: u32::from(queue.number),
            zero_copy: queue.socket.zero_copy,
            multi_buffer: queue.socket.multi_buffer,
        })
        .collect();
    let tx_queue = descriptions.last().map_or(0, |queue| queue.queue);
    descriptions.sort_unstable_by_key(|queue| queue.queue);
    Description {
        interface: interface.name,
        native: attached.native,
        native_refused: attached.native_refused,
        queues: descriptions,
        tx_queue,
    }
}
