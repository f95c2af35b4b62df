//! What cannot be given or compared: cut packets, captures that begin or end in the middle.

use roce_codec::ib::Operation;
use roce_pcap::replay::{Freedom, Unknown};

use crate::support::{answers, freedom, load, replay};

#[test]
fn a_cut_request_is_never_given_and_nothing_is_said_of_what_follows() {
    let mut packets = load("rxe-write");
    // The second WRITE's middle packet.
    packets[5].data.truncate(80);
    let report = replay(&packets);
    let total = report.total();
    assert_eq!((total.given, total.cut, total.compared, total.mismatches), (4, 1, 1, 0));
    assert_eq!(total.unknown.get(&Unknown::Cut), Some(&15));
}

#[test]
fn a_cut_answer_is_compared_as_far_as_it_goes() {
    let mut packets = load("rxe-read");
    for packet in packets.iter_mut().filter(|packet| packet.is_answer()) {
        packet.data.truncate(90);
    }
    let report = replay(&packets);
    assert_eq!(report.total().mismatches, 0);
    assert_eq!(report.total().compared, 1328);
    let at = answers(&packets)[1];
    packets[at].data[70] ^= 1;
    // A byte of memory that the next READs contradict: its owner's doing, as far as anybody knows.
    let report = replay(&packets);
    assert_eq!((report.total().mismatches, freedom(&report, Freedom::OwnerStore)), (0, 1));
}

/// A capture that begins in the middle of a message, of a connection whose MSN nobody saw begin.
#[test]
fn a_capture_that_begins_in_the_middle() {
    for skip in 1..12 {
        let packets = load("rxe-pingpong").split_off(skip);
        let report = replay(&packets);
        assert_eq!(report.total().mismatches, 0, "without the first {skip}");
        assert!(report.total().compared >= 16, "without the first {skip}");
    }
    let packets = load("rxe-pingpong").split_off(20);
    let bases: Vec<_> = replay(&packets).streams.iter().map(|stream| stream.msn_base).collect();
    assert_eq!(bases, [2, 3], "in the order of their first requests");
}

#[test]
fn a_capture_that_ends_before_the_answer() {
    for name in ["rxe-write", "rxe-read", "rxe-atomic", "rxe-send"] {
        let mut packets = load(name);
        let request = packets.iter().rposition(|packet| !packet.is_answer()).unwrap();
        packets.truncate(request + 1);
        let report = replay(&packets);
        assert_eq!(report.total().mismatches, 0, "{name}");
        assert!(report.total().unknown.contains_key(&Unknown::CaptureEnds), "{name}");
    }
    // Here the capture goes on, until the connection is taken down.
    let mut packets = load("rxe-errors");
    let at = packets.iter().rposition(crate::support::Owned::is_answer).unwrap();
    packets.remove(at);
    // The refusal that is not there taught that READ is not allowed: ours has three packets of it.
    assert_eq!(replay(&packets).total().mismatches, 3);
}

/// A READ of more than the capture holds is not answered by gigabytes of our own.
#[test]
fn a_read_beyond_the_capture_is_not_given() {
    let mut packets = load("rxe-read");
    let mut reads = (0..packets.len())
        .filter(|at| packets[*at].frame().info().operation == Operation::ReadRequest);
    let last = reads.next_back().unwrap();
    packets[last].change(|builder, _| {
        if let Some(reth) = &mut builder.ext.reth {
            reth.dma_len = 1 << 31;
        }
    });
    let report = replay(&packets);
    assert_eq!(report.total().mismatches, 0);
    assert!(report.total().unknown[&Unknown::LongRead] > 200);
}
