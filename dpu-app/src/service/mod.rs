//! What is served to peers, whatever it runs on.

pub mod cm;
mod gid;
mod hex;
pub mod memory;
pub mod perftest;
pub mod pingpong;
pub mod rping;
mod session;
pub mod ucmatose;
pub mod udaddy;

use core::fmt;
use core::net::IpAddr;

use roce_codec::ib::PathMtu;
use roce_engine::{Backing, Cq, Engine, Entropy, Instant, NextHop};

pub use self::gid::Gid;
use self::memory::{Region, SharedRegion};
pub use self::session::{
    MAX_MESSAGE_LEN, Progress, Reply, Session, SessionError, low_of, session_of, wr_id,
};

/// The way to a peer: which of our addresses it is to talk to, and who passes packets on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Our address, of the peer's family.
    pub src: IpAddr,
    /// The next hop's place in the poll loop's table.
    pub next_hop: NextHop,
}

/// Why there is no way to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// None of our addresses is of its kind: IPv4, link-local IPv6, other IPv6.
    NoAddress(IpAddr),
    /// The platform's tables lead nowhere.
    NoRoute(IpAddr),
    /// It is ourselves.
    Local(IpAddr),
    /// No more peers can be kept track of.
    Full,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(peer) => write!(
                f,
                "its GID is {peer}, and none of our addresses is of that kind; add one (--ip), or \
                 choose another GID index at the client (-x)"
            ),
            Self::NoRoute(peer) => write!(f, "no route to its GID {peer}"),
            Self::Local(peer) => write!(f, "its GID {peer} is an address of this host"),
            Self::Full => f.write_str("too many peers at a time"),
        }
    }
}

impl core::error::Error for RouteError {}

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

    /// A session of a service ends. What its peer left in a region is here still, and given back next.
    fn keep(&mut self, service: &str, session: u32, region: &SharedRegion) {
        let _ = (service, session, region);
    }

    /// Whether an address is one that services are reached at.
    fn is_own(&self, address: IpAddr) -> bool;

    /// The way to `peer`, kept until [`Platform::release_route`].
    ///
    /// # Errors
    /// [`RouteError`].
    fn route(&mut self, peer: IpAddr) -> Result<Route, RouteError>;

    /// Gives back what one call of [`Platform::route`] took.
    fn release_route(&mut self, route: Route);
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
