//! Nothing is allocated after the start: engine, poll loop and services, over thousands of
//! operations, with frames lost.

#![cfg(feature = "std")]

mod cm;
mod counting;
mod engine;
mod lossy;
mod perftest;
mod perftest_by_cm;
mod pingpong;
#[path = "../support/mod.rs"]
mod support;

use roce_codec::net::MacAddr;

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

/// An allocation that is made is seen.
#[test]
fn the_allocator_counts() {
    let (_, asked) = counting::watch(|| drop(core::hint::black_box(Box::new(1))));
    assert_eq!(asked, 2);
    let (_, asked) = counting::watch(|| counting::look_away(|| Vec::<u8>::with_capacity(9)));
    assert_eq!(asked, 0);
}
