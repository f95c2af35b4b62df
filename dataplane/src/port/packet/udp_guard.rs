//! The socket that keeps the kernel from answering RoCEv2 with ICMP "port unreachable".

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::filter;
use crate::port::error::PortError;
use crate::port::interface::Interface;
use crate::sys;

/// RoCEv2's UDP port.
const ROCE_V2_PORT: u16 = 4791;

/// Takes UDP port 4791 of both IP versions on the interface, and receives nothing there.
pub(super) fn open(interface: &Interface) -> Result<OwnedFd, PortError> {
    let guard = match guard_socket(interface, libc::AF_INET6) {
        // A kernel without IPv6.
        Err(error) if matches!(sys::errno(&error), libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => {
            guard_socket(interface, libc::AF_INET)
        }
        other => other,
    };
    guard.map_err(|error| match sys::errno(&error) {
        libc::EADDRINUSE => PortError::UdpPortTaken { interface: interface.name },
        _ => interface.os_error("taking UDP port 4791", &error),
    })
}

fn guard_socket(interface: &Interface, family: i32) -> io::Result<OwnedFd> {
    let socket = sys::socket(family, libc::SOCK_DGRAM, 0)?;
    let fd = socket.as_fd();
    filter::attach_nothing(fd)?;
    // Unprivileged since Linux 5.7, for a socket that is bound to no device yet.
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &interface.name.to_bytes())?;
    if family == libc::AF_INET {
        let mut any: libc::sockaddr_in = sys::zeroed();
        any.sin_family = u16::try_from(family).unwrap_or(0);
        any.sin_port = ROCE_V2_PORT.to_be();
        sys::bind(fd, &any)?;
    } else {
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0)?;
        let mut any: libc::sockaddr_in6 = sys::zeroed();
        any.sin6_family = u16::try_from(family).unwrap_or(0);
        any.sin6_port = ROCE_V2_PORT.to_be();
        sys::bind(fd, &any)?;
    }
    Ok(socket)
}
