//! RoCEv2 packet codec: `no_std`, no alloc, no unsafe, no panic.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

pub mod net;
