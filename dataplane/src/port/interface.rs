//! What the kernel says of a network interface.

use std::ffi::{c_int, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use roce_codec::net::MacAddr;

#[cfg(any(feature = "af-xdp", feature = "packet"))]
use super::error::Capabilities;
use super::error::{KernelName, PortError};
use crate::sys;

/// An Ethernet interface that is up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interface {
    pub(crate) name: KernelName,
    pub(crate) index: u32,
    pub(crate) mac: MacAddr,
    /// The largest IP packet, in bytes.
    #[cfg(any(feature = "af-xdp", feature = "packet"))]
    pub(crate) mtu: usize,
}

/// `struct ifreq`: the name and a union of at most 24 bytes, the first member at its start.
#[repr(C, align(8))]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: [u8; 24],
}

impl Interface {
    /// Looks `name` up in the calling thread's network namespace.
    pub(crate) fn open(name: &str) -> Result<Self, PortError> {
        let name = KernelName::new(name).ok_or(PortError::BadName)?;
        let os = |doing, error: io::Error| match sys::errno(&error) {
            libc::ENODEV | libc::ENXIO => PortError::NoSuchInterface { interface: name },
            errno => PortError::Os { interface: name, doing, errno },
        };
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
            .map_err(|error| os("opening a socket", error))?;
        let ask =
            |request, doing| ask(socket.as_fd(), request, name).map_err(|error| os(doing, error));

        let index = u32::from_ne_bytes(first(ask(libc::SIOCGIFINDEX, "reading its index")?));
        let hardware = ask(libc::SIOCGIFHWADDR, "reading its MAC address")?;
        let [t0, t1, mac @ ..]: [u8; 8] = first(hardware);
        let hardware = u16::from_ne_bytes([t0, t1]);
        if hardware != libc::ARPHRD_ETHER && hardware != libc::ARPHRD_LOOPBACK {
            return Err(PortError::NotEthernet { interface: name, hardware });
        }
        let flags = u16::from_ne_bytes(first(ask(libc::SIOCGIFFLAGS, "reading its flags")?));
        if c_int::from(flags) & libc::IFF_UP == 0 {
            return Err(PortError::InterfaceDown { interface: name });
        }
        Ok(Self {
            name,
            index,
            mac: MacAddr(mac),
            #[cfg(any(feature = "af-xdp", feature = "packet"))]
            mtu: {
                let mtu = u32::from_ne_bytes(first(ask(libc::SIOCGIFMTU, "reading its MTU")?));
                usize::try_from(mtu).unwrap_or(usize::MAX)
            },
        })
    }

    /// How many receive queues it has.
    #[cfg(feature = "af-xdp")]
    pub(crate) fn queues(&self) -> Result<u32, PortError> {
        match channels(self.name) {
            Ok(count) => Ok(count.max(1)),
            // A driver that has no such thing (tap): what sysfs shows, if it is of our namespace.
            Err(error) if sys::errno(&error) == libc::EOPNOTSUPP => Ok(self.queues_in_sysfs()),
            Err(error) => Err(self.os_error("reading its queues", &error)),
        }
    }

    /// The receive queues under `/sys`; 1 if that shows another network namespace, as after
    /// setns(2) without mounting it anew.
    #[cfg(feature = "af-xdp")]
    fn queues_in_sysfs(&self) -> u32 {
        let device = format!("/sys/class/net/{}", self.name);
        let index = std::fs::read_to_string(format!("{device}/ifindex")).unwrap_or_default();
        if index.trim().parse() != Ok(self.index) {
            return 1;
        }
        let Ok(entries) = std::fs::read_dir(format!("{device}/queues")) else { return 1 };
        let receive = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"rx-"));
        u32::try_from(receive.count()).unwrap_or(1).max(1)
    }

    /// The index as the signed integer some kernel structures hold it in.
    pub(crate) fn signed_index(&self) -> c_int {
        // Interface indices are positive C ints in the kernel.
        c_int::try_from(self.index).unwrap_or(0)
    }

    /// What became of `step`, in this interface's words.
    pub(crate) fn os_error(&self, doing: &'static str, error: &io::Error) -> PortError {
        match sys::errno(error) {
            libc::ENETDOWN => PortError::InterfaceDown { interface: self.name },
            libc::ENODEV | libc::ENXIO => PortError::NoSuchInterface { interface: self.name },
            errno => PortError::Os { interface: self.name, doing, errno },
        }
    }

    /// As [`Self::os_error`]; a refusal names those of the `needed` capabilities that are missing.
    #[cfg(any(feature = "af-xdp", feature = "packet"))]
    pub(crate) fn privileged_error(
        &self,
        doing: &'static str,
        needed: Capabilities,
        error: &io::Error,
    ) -> PortError {
        match sys::errno(error) {
            libc::EPERM | libc::EACCES => {
                PortError::NoPrivilege { interface: self.name, doing, missing: needed.missing() }
            }
            _ => self.os_error(doing, error),
        }
    }
}

/// The first `N` bytes of an answer.
fn first<const N: usize>(data: [u8; 24]) -> [u8; N] {
    data.first_chunk().copied().unwrap_or([0; N])
}

/// An interface ioctl that answers in the request itself.
fn ask(fd: BorrowedFd<'_>, request: c_ulong, name: KernelName) -> io::Result<[u8; 24]> {
    let mut ifreq = IfReq { name: name.to_bytes(), data: [0; 24] };
    // SAFETY: the requests that this is called with have no address in them.
    unsafe { ioctl(fd, request, &mut ifreq)? };
    Ok(ifreq.data)
}

/// An interface ioctl.
///
/// # Safety
///
/// If the request takes an address in `data`, it must be valid for what the kernel does with it.
unsafe fn ioctl(fd: BorrowedFd<'_>, request: c_ulong, ifreq: &mut IfReq) -> io::Result<()> {
    let ifreq: *mut IfReq = ifreq;
    // SAFETY: interface requests read and write one `struct ifreq`, which `IfReq` is as large as;
    // an address in it is the caller's promise.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), sys::fit(request), ifreq) })?;
    Ok(())
}

/// ETHTOOL_GCHANNELS: the receive queues in use, combined ones included.
#[cfg(feature = "af-xdp")]
fn channels(name: KernelName) -> io::Result<u32> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    // struct ethtool_channels: command; most rx, tx, other, combined; rx, tx, other, combined.
    let mut channels = [0_u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    let mut ifreq = IfReq { name: name.to_bytes(), data: [0; 24] };
    let address = (&raw mut channels).expose_provenance();
    ifreq.data[..size_of::<usize>()].copy_from_slice(&address.to_ne_bytes());
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the request reads and writes one `struct ethtool_channels` at the address, which is
    // live and ours.
    unsafe { ioctl(socket.as_fd(), libc::SIOCETHTOOL, &mut ifreq)? };
    let [_, _, _, _, _, receive, _, _, combined] = channels;
    Ok(receive.saturating_add(combined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there() {
        let error = Interface::open("no-such-if0").expect_err("not there");
        assert!(matches!(error, PortError::NoSuchInterface { .. }), "{error:?}");
        assert_eq!(Interface::open("a name too long for it").err(), Some(PortError::BadName));
    }

    #[test]
    fn ifreq_is_as_large_as_the_kernels() {
        assert!(size_of::<IfReq>() >= size_of::<libc::ifreq>());
        assert!(align_of::<IfReq>() >= align_of::<libc::ifreq>());
    }
}
