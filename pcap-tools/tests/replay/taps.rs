//! Two taps: what was lost between them is not replayed.

use roce_pcap::replay::{DEFAULT_LIMIT, Drops, Freedom, Replay, Report};

use crate::support::{Owned, freedom, load, record};

fn replay(first: &[Owned], second: &[Owned]) -> Report {
    Replay::new(record(first), Some(record(second))).run(DEFAULT_LIMIT).unwrap()
}

/// nftables dropped 77 of the packets it was to forward. The responder is given what its own tap
/// saw, whichever tap is named first.
#[test]
fn losses_are_inferred_from_the_other_tap() {
    let (client, server) = (load("rxe-lossy-client"), load("rxe-lossy-server"));
    for (tap, report) in [(1, replay(&client, &server)), (0, replay(&server, &client))] {
        let drops = report.drops.unwrap();
        assert_eq!((drops.requests, drops.answers, drops.strays), (51, 26, 0));
        assert_eq!(drops.requests + drops.answers, 77);
        let total = report.total();
        assert!(report.streams.iter().all(|stream| stream.tap == tap && stream.lost == 0));
        assert_eq!((total.given, total.compared, total.mismatches), (1363, 814, 0));
        assert!(total.unknown.is_empty());
        assert_eq!(freedom(&report, Freedom::Coalescing), 0);
        assert_eq!(freedom(&report, Freedom::ReadRetryOpcode), 11);
    }
}

#[test]
fn marked_packets_are_the_same_packets() {
    let report = replay(&load("rxe-ecn-client"), &load("rxe-ecn-server"));
    assert_eq!(report.drops, Some(Drops::default()), "22 of them have another ECN field");
    assert!(report.is_clean());
    assert_eq!(report.total().compared, 20);
}

/// With the responder's own tap at hand, an answer that is missing was not sent.
#[test]
fn two_taps_leave_nothing_open() {
    let (client, mut server) = (load("rxe-lossy-client"), load("rxe-lossy-server"));
    let read = server
        .iter()
        .rposition(|packet| packet.is_answer() && !packet.frame().payload()[0].is_empty());
    server.remove(read.unwrap());
    let report = replay(&client, &server);
    assert_eq!(report.total().mismatches, 1);
    assert!(report.total().unknown.is_empty());
}
