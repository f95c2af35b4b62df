//! The self-test with this machine around it.

use dpu_app::self_test::{self, End, Host, MEMORY, Pools, Report, Totals};
use roce_codec::net::MacAddr;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::Instant;

use crate::board;
use crate::lend::Lend;
use crate::plant::Plant;
use crate::stack;

/// Frames under way, each way.
const FRAMES: usize = 32;
const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

static WIRE: Lend<LoopbackWire<FRAMES>> = Lend::new(LoopbackWire::new());
static POOLS: Lend<[Pools; 2]> = Lend::new([Pools::EMPTY; 2]);
static REGIONS: Lend<[[u8; MEMORY]; 2]> = Lend::new([[0; MEMORY]; 2]);

/// All that the test works in.
pub(crate) struct Parts {
    wire: &'static mut LoopbackWire<FRAMES>,
    pools: &'static mut [Pools; 2],
    regions: &'static mut [[u8; MEMORY]; 2],
}

impl Parts {
    /// The first time.
    pub(crate) fn take() -> Option<Self> {
        Some(Self { wire: WIRE.take()?, pools: POOLS.take()?, regions: REGIONS.take()? })
    }
}

/// Runs it and logs what it did; says whether all went well.
pub(crate) fn run(parts: Parts, plant: Plant, counts: bool) -> bool {
    if !counts {
        defmt::info!("nothing counts instructions here: run QEMU with -icount shift=0");
    }
    let Parts { wire, pools: [near, far], regions: [ours, theirs] } = parts;
    let [mut here, mut there] = wire.ends(MACS);
    let requester = End { storage: near.lend(), memory: ours, port: &mut here };
    let responder = End { storage: far.lend(), memory: theirs, port: &mut there };
    let start = board::nanoseconds();
    match self_test::run(requester, responder, &mut Machine { plant, checks: 0 }) {
        Ok(totals) => {
            let Totals { messages, bytes, packets, lost, refusals, compared, .. } = totals;
            defmt::info!(
                "passed: {=u32} messages of {=u64} bytes in {=u64} packets, {=u32} more lost, \
                 {=u32} requests refused, {=u64} bytes of memory compared, in {=u64} us",
                messages,
                bytes,
                packets,
                lost,
                refusals,
                compared,
                (board::nanoseconds() - start) / 1000,
            );
            defmt::info!(
                "stack: {=u64} bytes at the deepest",
                u64::try_from(stack::deepest()).unwrap_or(0)
            );
            true
        }
        Err(failure) => {
            defmt::error!("failed: {}", defmt::Display2Format(&failure));
            false
        }
    }
}

/// How long each message is, if all are of a length.
struct Each(Option<u32>);

impl defmt::Format for Each {
    fn format(&self, f: defmt::Formatter<'_>) {
        if let Some(len) = self.0 {
            defmt::write!(f, " of {=u32} bytes", len);
        }
    }
}

struct Machine {
    plant: Plant,
    /// Checks of memory until now.
    checks: u32,
}

impl Host for Machine {
    fn now(&mut self) -> Instant {
        Instant(board::nanoseconds())
    }

    fn instructions() -> u32 {
        board::instructions()
    }

    fn passed(&mut self, report: &Report) {
        match *report {
            Report::Operation {
                operation,
                service,
                path_mtu,
                ipv6,
                each,
                messages,
                bytes,
                packets,
                instructions: [near, far],
            } => defmt::info!(
                "{} {=str}{}, path MTU {=u32}, {=str}: {=u32} messages, {=u32} bytes, {=u32} packets; \
                 instructions a packet: requester {=u32}, responder {=u32}",
                service,
                operation.name(),
                Each(each),
                path_mtu.bytes(),
                if ipv6 { "IPv6" } else { "IPv4" },
                messages,
                bytes,
                packets,
                near,
                far,
            ),
            Report::Feature(feature) => defmt::info!("{=str}: as it has to be", feature.name()),
            Report::Refusal(refusal) => {
                defmt::info!("{=str}: refused, {}", refusal.name(), refusal.code());
            }
            Report::Repair(repair) => defmt::info!("{=str}: made good", repair.name()),
            Report::Seen { opcode, packets } => {
                defmt::info!("on the wire: {} {=u32} times", opcode, packets);
            }
            _ => {}
        }
    }

    fn before_check(&mut self, memory: &mut [u8]) {
        /// In the middle of all.
        const STRUCK: u32 = 20;
        self.checks += 1;
        if self.checks == STRUCK {
            self.plant.strike();
            if self.plant == Plant::Corrupt
                && let Some(byte) = memory.get_mut(1000)
            {
                *byte ^= 0x10;
            }
        }
    }
}
