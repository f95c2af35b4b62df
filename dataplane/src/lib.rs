//! Ports and the poll-mode loop that run the RoCEv2 engine on AF_XDP, AF_PACKET or a bare core.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod host_memory;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod huge_pages;
#[cfg(all(feature = "std", target_os = "linux"))]
pub mod neighbour;
pub mod poll;
pub mod port;
#[cfg(all(feature = "std", target_os = "linux"))]
mod rtnetlink;
#[cfg(all(feature = "std", target_os = "linux"))]
mod sys;
