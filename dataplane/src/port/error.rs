//! Why a port could not be opened.

use std::fmt;

/// An interface's or a program's name as the kernel keeps it: up to 15 bytes and a NUL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KernelName([u8; 16]);

impl KernelName {
    /// The name, if it has 1 to 15 bytes and neither NUL nor slash in it.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let valid = (1..16).contains(&name.len()) && !name.contains(['\0', '/']);
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        valid.then_some(Self(bytes))
    }

    /// The kernel's 16 bytes; what follows the first NUL is dropped.
    #[must_use]
    pub fn from_kernel(bytes: [u8; 16]) -> Self {
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(bytes).take_while(|(_, from)| *from != 0).take(15) {
            *to = from;
        }
        Self(name)
    }

    /// The 16 bytes, NUL padded.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take_while(|byte| **byte != 0) {
            fmt::Display::fmt(&byte.escape_ascii(), f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A set of the Linux capabilities that ports need; see capabilities(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// To change interfaces, attach XDP programs and make AF_XDP maps.
    pub const NET_ADMIN: Self = Self(1 << 12);
    /// To open AF_PACKET and AF_XDP sockets.
    pub const NET_RAW: Self = Self(1 << 13);
    /// To load BPF programs.
    pub const BPF: Self = Self(1 << 39);

    const NAMES: [(Self, &'static str); 3] = [
        (Self::NET_ADMIN, "CAP_NET_ADMIN"),
        (Self::NET_RAW, "CAP_NET_RAW"),
        (Self::BPF, "CAP_BPF"),
    ];

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of this set that the calling thread has not; all of it where that cannot be known.
    #[cfg(any(feature = "af-xdp", feature = "packet"))]
    pub(crate) fn missing(self) -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        Self(self.0 & !effective)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (capability, name) in Self::NAMES {
            if self.0 & capability.0 != 0 {
                write!(f, "{separator}{name}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// Why a port could not be opened: what was wrong, where, and (as [`Display`](fmt::Display)) what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortError {
    /// The name given is empty, longer than 15 bytes, or has a NUL or a slash in it.
    BadName,
    /// No interface has this name in this network namespace.
    NoSuchInterface {
        /// The name asked for.
        interface: KernelName,
    },
    /// The interface does not carry Ethernet frames.
    NotEthernet {
        /// The interface.
        interface: KernelName,
        /// Its ARPHRD_ type.
        hardware: u16,
    },
    /// The interface is administratively down.
    InterfaceDown {
        /// The interface.
        interface: KernelName,
    },
    /// The kernel refused a step for want of privilege.
    NoPrivilege {
        /// The interface.
        interface: KernelName,
        /// What was being done.
        doing: &'static str,
        /// The capabilities the step needs and the thread lacks; empty when it lacks none, as in
        /// a user namespace or under a security module.
        missing: Capabilities,
    },
    /// The frame memory is more than the process may lock.
    LockedMemory {
        /// The interface.
        interface: KernelName,
        /// How much was asked for, in bytes.
        bytes: u64,
    },
    /// An XDP program is attached to the interface already.
    ProgramAttached {
        /// The interface.
        interface: KernelName,
        /// The program's id, as `bpftool prog show id` takes it; 0 if it could not be found out.
        id: u32,
        /// The program's name, where the kernel tells it.
        name: Option<KernelName>,
    },
    /// Frames of this MTU need more than one buffer, and the device or kernel cannot do that.
    MtuTooLarge {
        /// The interface.
        interface: KernelName,
        /// Its MTU, in bytes.
        mtu: usize,
        /// The largest that would do, in bytes.
        limit: usize,
    },
    /// The interface has no such queue.
    NoSuchQueue {
        /// The interface.
        interface: KernelName,
        /// The queue asked for.
        queue: u32,
        /// How many it has.
        queues: u32,
    },
    /// Another AF_XDP socket has the queue.
    QueueBusy {
        /// The interface.
        interface: KernelName,
        /// The queue.
        queue: u32,
    },
    /// Another socket owns the RoCEv2 UDP port.
    UdpPortTaken {
        /// The interface.
        interface: KernelName,
    },
    /// The configuration asks for a number of frames, queues or addresses that cannot be had.
    BadConfig {
        /// The interface.
        interface: KernelName,
        /// Which setting, and its limits.
        setting: &'static str,
    },
    /// The kernel refused a step for another reason.
    Os {
        /// The interface.
        interface: KernelName,
        /// What was being done.
        doing: &'static str,
        /// The `errno`.
        errno: i32,
    },
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BadName => f.write_str("an interface name has 1 to 15 bytes and no slash"),
            Self::NoSuchInterface { interface } => {
                write!(f, "{interface}: no such interface here; `ip link` lists them")
            }
            Self::NotEthernet { interface, hardware } => {
                write!(f, "{interface}: not an Ethernet interface (ARPHRD type {hardware})")
            }
            Self::InterfaceDown { interface } => {
                write!(f, "{interface}: the interface is down; `ip link set {interface} up`")
            }
            Self::NoPrivilege { interface, doing, missing } if missing.is_empty() => write!(
                f,
                "{interface}: not permitted while {doing}, though the capabilities are there; \
                 those of a user namespace, or a security module's rules, do not suffice"
            ),
            Self::NoPrivilege { interface, doing, missing } => write!(
                f,
                "{interface}: not permitted while {doing}; needs {missing}: run as root or grant \
                 it (setcap, AmbientCapabilities=)"
            ),
            Self::LockedMemory { interface, bytes } => write!(
                f,
                "{interface}: cannot lock {} KiB of frame memory; raise the limit (ulimit -l, \
                 LimitMEMLOCK=), grant CAP_IPC_LOCK or ask for fewer frames",
                bytes / 1024
            ),
            Self::ProgramAttached { interface, id, name } => {
                write!(f, "{interface}: an XDP program is attached already (")?;
                match name {
                    Some(name) => write!(f, "id {id}, \"{name}\"")?,
                    None => write!(f, "id {id}")?,
                }
                write!(f, "); stop its owner or `ip link set {interface} xdp off`")
            }
            Self::MtuTooLarge { interface, mtu, limit } => write!(
                f,
                "{interface}: MTU {mtu} needs multi-buffer XDP, which the device or kernel lacks; \
                 lower it to {limit} or less, or use another port or mode"
            ),
            Self::NoSuchQueue { interface, queue, queues } => {
                write!(
                    f,
                    "{interface}: no queue {queue}, it has {queues}; see `ethtool -l {interface}`"
                )
            }
            Self::QueueBusy { interface, queue } => write!(
                f,
                "{interface}: another AF_XDP socket has queue {queue}; stop its owner or choose \
                 other queues"
            ),
            Self::UdpPortTaken { interface } => write!(
                f,
                "{interface}: UDP port 4791 is taken, by another responder or the kernel's own \
                 rdma_rxe; `ss -ulnp sport = 4791` shows the owner"
            ),
            Self::BadConfig { interface, setting } => {
                write!(f, "{interface}: bad setting: {setting}")
            }
            Self::Os { interface, doing, errno } => {
                let why = std::io::Error::from_raw_os_error(errno);
                write!(f, "{interface}: failed while {doing}: {why}")
            }
        }
    }
}

impl std::error::Error for PortError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_kernels_length_only() {
        assert!(KernelName::new("").is_none());
        assert!(KernelName::new("a/b").is_none());
        assert!(KernelName::new("abcdefghijklmnop").is_none());
        assert!(KernelName::new("abcdefghijklmnopqrstuvwxyz").is_none());
        let longest = KernelName::new("abcdefghijklmno").expect("15 bytes");
        assert_eq!(longest.to_string(), "abcdefghijklmno");
        assert_eq!(KernelName::from_kernel(*b"eth0\0rubbish\0\0\0\0").to_string(), "eth0");
        assert_eq!(KernelName::from_kernel([b'x'; 16]).to_string(), "x".repeat(15));
    }

    #[test]
    fn messages_say_what_and_what_to_do() {
        let interface = KernelName::new("eth7").expect("valid");
        let attached =
            PortError::ProgramAttached { interface, id: 42, name: KernelName::new("xdp_lb") };
        assert_eq!(
            attached.to_string(),
            "eth7: an XDP program is attached already (id 42, \"xdp_lb\"); stop its owner or \
             `ip link set eth7 xdp off`"
        );
        let missing = Capabilities::NET_ADMIN.and(Capabilities::BPF);
        let denied = PortError::NoPrivilege { interface, doing: "loading the program", missing };
        assert!(denied.to_string().contains("needs CAP_NET_ADMIN, CAP_BPF:"), "{denied}");
    }
}
