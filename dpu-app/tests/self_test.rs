//! What `dpu-firmware` runs, on the host: it passes, and a byte that is wrong fails it.

use dpu_app::self_test::{
    self, End, Failure, Feature, Host, MEMORY, Operation, Pools, Refusal, Repair, Report, Totals,
};
use roce_codec::ib::{PathMtu, Service};
use roce_codec::net::MacAddr;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::Instant;

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

/// How often both memories are compared.
const CHECKS: u32 = 80 + 6 + 9 + 7 + 6;

struct Here {
    /// One microsecond later each time it is asked for.
    now_ns: u64,
    reports: Vec<Report>,
    /// Which check to spoil, and which byte.
    damage: Option<(u32, usize)>,
}

impl Host for Here {
    fn now(&mut self) -> Instant {
        self.now_ns += 1000;
        Instant(self.now_ns)
    }

    fn passed(&mut self, report: &Report) {
        self.reports.push(*report);
    }

    fn before_check(&mut self, memory: &mut [u8]) {
        self.damage = match self.damage {
            Some((0, byte)) => {
                memory[byte] ^= 0x10;
                None
            }
            other => other.map(|(checks, byte)| (checks - 1, byte)),
        };
    }
}

fn run(damage: Option<(u32, usize)>) -> (Result<Totals, Failure>, Vec<Report>) {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let (mut near, mut far) = (Box::new(Pools::EMPTY), Box::new(Pools::EMPTY));
    let (mut here, mut there) = (vec![0; MEMORY], vec![0; MEMORY]);
    let [mut left, mut right] = wire.ends(MACS);
    let requester = End { storage: near.lend(), memory: &mut here, port: &mut left };
    let responder = End { storage: far.lend(), memory: &mut there, port: &mut right };
    let mut host = Here { now_ns: 0, reports: Vec::new(), damage };
    let result = self_test::run(requester, responder, &mut host);
    (result, host.reports)
}

#[test]
fn all_of_it_passes() {
    let (result, reports) = run(None);
    let totals = result.unwrap();
    // 7 messages of each of 7 operations and 8 of each of 3, RC; 7 of each of 4, UC, and of 2, UD; at 5
    // MTUs. 6 times 7 messages of a length; 6 repairs. One datagram, 4 by shared receives, 2 through
    // each of 5 windows, 5 in pieces.
    let features = 1 + 4 + 5 * 2 + 5;
    assert_eq!(totals.messages, 5 * (7 * 7 + 8 * 3 + 7 * 4 + 7 * 2) + 6 * 7 + 6 + features);
    assert_eq!(totals.refusals, 7 + 5);
    assert_eq!(totals.lost, 5);
    // Both memories after each of 50, 20 and 10 operations and 6, 9 times for features, after 7
    // refusals and 6 repairs.
    assert_eq!(totals.compared, 2 * 65_536 * u64::from(CHECKS));
    let reliable = Operation::ALL.map(|operation| (Service::Rc, operation));
    let unreliable = Operation::UNRELIABLE.map(|operation| (Service::Uc, operation));
    let datagrams = Operation::DATAGRAMS.map(|operation| (Service::Ud, operation));
    for (service, operation) in reliable.into_iter().chain(unreliable).chain(datagrams) {
        for mtu in PathMtu::ALL {
            let said = reports.iter().filter(|report| {
                matches!(report, Report::Operation { operation: o, service: s, path_mtu, each: None, .. }
                    if *o == operation && *s == service && *path_mtu == mtu)
            });
            assert_eq!(said.count(), 1, "{operation} of {service:?} at {mtu}");
        }
    }
    for feature in Feature::ALL {
        assert!(reports.contains(&Report::Feature(feature)), "{feature:?}");
    }
    for refusal in Refusal::ALL {
        assert!(reports.contains(&Report::Refusal(refusal)), "{refusal:?}");
    }
    for repair in Repair::ALL {
        assert!(reports.contains(&Report::Repair(repair)), "{repair:?}");
    }
    let opcodes = reports.iter().filter_map(|report| match report {
        Report::Seen { opcode, .. } => Some(opcode.0),
        _ => None,
    });
    // IBTA 9.2.1: RC but for what is reserved (0x15, 0x18 to 0x1b), UC and UD.
    let connected = (0x00..=0x14).chain(0x16..=0x17).chain(0x1c..=0x1d).chain(0x20..=0x2b);
    assert!(opcodes.eq(connected.chain(0x64..=0x65)));
}

#[test]
fn one_bit_in_any_part_fails_it() {
    for check in 0..CHECKS {
        let byte = if check % 4 == 0 { MEMORY - 1 } else { 1361 * check as usize % MEMORY };
        match run(Some((check, byte))).0 {
            Err(Failure::Byte { far: true, offset, expected, found }) => {
                assert_eq!((offset, expected ^ found), (byte.try_into().unwrap(), 0x10));
            }
            other => panic!("check {check}, byte {byte}: {other:?}"),
        }
    }
    // There are no more checks than that.
    assert!(run(Some((CHECKS, 0))).0.is_ok());
}
