//! What the engines send, over good wires and bad ones, judged by the capture checker: two
//! readings of the specification that were not written together.

use std::collections::BTreeMap;

use roce_pcap::capture::{Direction, PcapngWriter, Reader};
use roce_testbed::plan::Plan;
use roce_testbed::world::{self, Trace};

/// Worlds that are judged.
const SEEDS: u64 = 400;

/// A plan in which everybody behaves: the checker would find fault with the others, rightly.
fn well_behaved(seed: u64) -> Plan {
    let mut plan = Plan::draw(seed);
    plan.mercy = true;
    for chain in &mut plan.chains {
        // Queue pairs that are used again begin a second life in the same flow.
        chain.truncate(1);
        for connection in chain {
            connection.retry_cnt = 7;
            for side in &mut connection.sides {
                if side.requests.iter().any(|request| request.poison.is_some()) {
                    side.requests.clear();
                }
            }
            let [a, b] = &mut connection.sides;
            let takes = |side: &roce_testbed::plan::Side| {
                side.requests.iter().filter(|request| request.kind.takes_receive()).count()
            };
            let (of_a, of_b) = (takes(a), takes(b));
            b.receives.truncate(of_a);
            a.receives.truncate(of_b);
        }
    }
    plan
}

#[test]
fn the_checker_finds_no_fault() {
    let mut faults: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut judged = BTreeMap::new();
    let mut packets = 0;
    for seed in 0..SEEDS {
        let trace = Trace::default();
        world::run_plan(&well_behaved(seed), Some(&trace)).unwrap();
        let mut writer = PcapngWriter::new(Vec::new()).unwrap();
        for record in trace.into_inner().unwrap().iter().filter(|record| !record.received) {
            writer.write_packet(record.at.0, Direction::Outbound, [&record.frame, &[]]).unwrap();
        }
        let capture = writer.into_inner().unwrap();
        let report = roce_pcap::check(Reader::new(capture.as_slice()).unwrap());
        packets += report.summary.packets;
        for (rule, counts) in &report.rules {
            let sum: &mut [u64; 2] = judged.entry(rule.id()).or_default();
            sum[0] += counts.pass;
            sum[1] += counts.unknown;
        }
        for finding in report.failures() {
            let text = format!("seed {seed}: {finding}");
            let entry = faults.entry(format!("{:?}", finding.rule)).or_insert((0, text));
            entry.0 += 1;
        }
    }
    for (rule, (count, first)) in &faults {
        println!("{rule}: {count}, the first: {first}");
    }
    for (rule, [pass, unknown]) in &judged {
        println!("  {rule:<24} {pass} passed, {unknown} unknown");
    }
    assert!(judged.values().filter(|[pass, _]| *pass > 0).count() > 15, "the checker was idle");
    assert!(packets > 100_000, "{packets} packets");
    assert!(faults.is_empty(), "{} rules", faults.len());
}
