//! The engine against itself: a requester and a responder over a loopback wire, every byte
//! checked. `no_std`, no allocation; what firmware runs to show that it can.
//!
//! - *Operations*: every one of the reliable and of the unreliable connection and of datagrams, at
//!   each path MTU, in messages from none to several packets; IPv4 and IPv6 in turn.
//! - *Features*: Q_Keys, shared receives, memory windows, scatter-gather lists and inline data.
//! - *Refusals*: what a peer may not do is answered by the right NAK and changes no byte.
//! - *Repairs*: packets lost, and a receiver that is not ready.
//! - *At the end*: every opcode of RC, UC and UD was seen on the wire, and the counters add up.

mod datagram;
mod failure;
mod feature;
mod gather;
mod lab;
mod memory;
mod operation;
mod pattern;
mod refusal;
mod repair;
mod report;
mod shared;
mod side;
mod tap;
mod window;

pub use failure::Failure;
pub use feature::Feature;
pub use operation::Operation;
pub use refusal::Refusal;
pub use repair::Repair;
pub use report::{Report, Totals};

use roce_codec::ib::{PathMtu, Service};
use roce_dataplane::port::Port;
use roce_engine::{Instant, StaticStorage, Storage};

use self::lab::Lab;

/// Bytes of memory that peers reach, at each end.
pub const MEMORY: usize = 64 << 10;

/// What is run once more with messages of one length, each a packet, to see what that costs.
pub const COSTS: [(Operation, u32); 6] = [
    (Operation::Write, 64),
    (Operation::Write, 1024),
    (Operation::Send, 64),
    (Operation::Read, 64),
    (Operation::Read, 1024),
    (Operation::Read, 4096),
];

/// The pools that one end needs.
pub type Pools = StaticStorage<4, 16, 16, 2, 64, 16, 16, 16, 8, 4, 1, 1>;

/// What it runs on.
pub trait Host {
    /// The time.
    fn now(&mut self) -> Instant;

    /// Instructions executed until now, modulo 2³²; always 0 where nothing counts them.
    fn instructions() -> u32 {
        0
    }

    /// Told after each part that went well.
    fn passed(&mut self, report: &Report);

    /// Called before memory is checked, with the responder's: a test of the test damages it here.
    fn before_check(&mut self, memory: &mut [u8]) {
        let _ = memory;
    }
}

/// One end's share of the machine.
#[derive(Debug)]
pub struct End<'m, P> {
    /// Empty pools.
    pub storage: Storage<'m>,
    /// [`MEMORY`] bytes.
    pub memory: &'m mut [u8],
    /// Its end of the wire.
    pub port: &'m mut P,
}

/// Runs all of it.
///
/// # Errors
/// The first check that fails.
pub fn run<P: Port, H: Host>(
    requester: End<'_, P>,
    responder: End<'_, P>,
    host: &mut H,
) -> Result<Totals, Failure> {
    let mut lab = Lab::new(requester, responder, host)?;
    for (index, path_mtu) in (0u32..).zip(PathMtu::ALL) {
        let reliable = Operation::ALL.map(|operation| (Service::Rc, operation));
        let unreliable = Operation::UNRELIABLE.map(|operation| (Service::Uc, operation));
        let datagrams = Operation::DATAGRAMS.map(|operation| (Service::Ud, operation));
        let all = reliable.into_iter().chain(unreliable).chain(datagrams);
        for (turn, (service, operation)) in (index..).zip(all) {
            lab.connect(service, path_mtu, turn % 2 == 1)?;
            operation.run(&mut lab, path_mtu, None)?;
            lab.disconnect()?;
        }
    }
    for (operation, each) in COSTS {
        lab.connect(Service::Rc, PathMtu::Mtu4096, false)?;
        operation.run(&mut lab, PathMtu::Mtu4096, Some(each))?;
        lab.disconnect()?;
    }
    for feature in Feature::ALL {
        feature.run(&mut lab)?;
    }
    for refusal in Refusal::ALL {
        lab.connect(Service::Rc, PathMtu::Mtu1024, false)?;
        refusal.run(&mut lab)?;
        lab.disconnect()?;
    }
    for repair in Repair::ALL {
        lab.connect(Service::Rc, PathMtu::Mtu1024, true)?;
        repair.run(&mut lab)?;
        lab.disconnect()?;
    }
    lab.finish()
}
