//! roce-responder: serves RDMA clients over RoCEv2 without an RDMA NIC or kernel module.
//!
//! [`service`] is what runs on a DPU core as well as on a Linux box: `no_std`, no allocation, its
//! surroundings behind [`service::Platform`]. [`linux`] is those surroundings on Linux: command
//! line, ports, sockets, signals, and the poll loop. [`self_test`] is the engine against itself,
//! with as little as `service`; the program `dpu-firmware` runs it on bare metal.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![deny(unsafe_code)]

#[cfg(feature = "linux")]
pub mod linux;
pub mod self_test;
pub mod service;
