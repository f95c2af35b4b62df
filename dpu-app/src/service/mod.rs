//! What is served to peers, whatever it runs on.

pub mod memory;
pub mod perftest;

use core::net::IpAddr;

use roce_codec::ib::PathMtu;
use roce_engine::{Backing, Cq, Engine, Entropy, Instant, NextHop, Pd};

use self::memory::Region;

/// The way to a peer: which of our addresses it is to talk to, and who passes packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Our address, of the peer's family.
    pub src: IpAddr,
    /// The next hop's place in the poll loop's table.
    pub next_hop: NextHop,
}

/// What a service needs from what it runs on.
pub trait Platform {
    /// The memory that regions lie in.
    type Memory: Backing;
    /// Where keys and numbers come from.
    type Random: Entropy;

    /// The memory.
    fn memory(&self) -> &Self::Memory;

    /// The random source.
    fn random(&mut self) -> &mut Self::Random;

    /// A region of at least `len` zeroed bytes; `None` when there is none left.
    fn take_region(&mut self, len: u64) -> Option<Region>;

    /// Gives a region back. No key of it is alive any more.
    fn give_region(&mut self, region: Region);

    /// The way to `peer`; `None` if we have no address of its kind.
    fn route(&mut self, peer: IpAddr) -> Option<Route>;
}

/// The surroundings of one call to a service.
#[derive(Debug)]
pub struct Context<'a, 's, P> {
    /// The engine its queue pairs live in.
    pub engine: &'a mut Engine<'s>,
    /// What it runs on.
    pub platform: &'a mut P,
    /// The queues that completions of services go to.
    pub queues: Queues,
    /// The largest path MTU to agree to.
    pub path_mtu: PathMtu,
    /// The time.
    pub now: Instant,
}

/// The completion queues that all services share; a work request's id says whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// For sends.
    pub send: Cq,
    /// For receives.
    pub recv: Cq,
}

impl<P: Platform> Context<'_, '_, P> {
    /// A protection domain of one's own.
    pub fn alloc_pd(&mut self) -> Pd {
        self.engine.alloc_pd()
    }
}
