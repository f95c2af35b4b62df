//! What services run on in these tests: memory of the process, one address of our own, and every
//! peer at the far end of the wire.

use std::net::IpAddr;

use dpu_app::service::memory::{Region, SharedRegion};
use dpu_app::service::{Platform, Route, RouteError};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{Addr, NextHop, SeededEntropy};

/// See the [module](self).
pub(crate) struct Host {
    pub(crate) memory: HostMemory,
    pub(crate) random: SeededEntropy,
    address: IpAddr,
    /// Regions and routes that are out.
    pub(crate) regions: i32,
    pub(crate) routes: i32,
    /// What peers of sessions that have ended left in memory: the beginning of each region.
    pub(crate) kept: Vec<Vec<u8>>,
}

impl Host {
    pub(crate) fn new(address: IpAddr, random: SeededEntropy) -> Self {
        Self { memory: HostMemory::new(), random, address, regions: 0, routes: 0, kept: Vec::new() }
    }
}

impl Platform for Host {
    type Memory = HostMemory;
    type Random = SeededEntropy;

    fn memory(&self) -> &HostMemory {
        &self.memory
    }

    fn random(&mut self) -> &mut SeededEntropy {
        &mut self.random
    }

    fn take_region(&mut self, len: u64) -> Option<Region> {
        let region = self.memory.map(usize::try_from(len).ok()?).ok()?;
        self.regions += 1;
        Some(Region { addr: Addr { region, offset: 0 }, va: self.memory.va(region)?, len })
    }

    fn give_region(&mut self, _: Region) {
        self.regions -= 1;
    }

    fn keep(&mut self, _: &str, _: u32, shared: &SharedRegion) {
        let region = shared.exposed.region;
        let mut beginning = vec![0; usize::try_from(region.len.min(1 << 16)).unwrap()];
        self.memory.read(region.addr, &mut beginning).unwrap();
        self.kept.push(beginning);
    }

    fn is_own(&self, _: IpAddr) -> bool {
        true
    }

    fn route(&mut self, peer: IpAddr) -> Result<Route, RouteError> {
        if peer.is_ipv6() != self.address.is_ipv6() {
            return Err(RouteError::NoAddress(peer));
        }
        self.routes += 1;
        Ok(Route { src: self.address, next_hop: NextHop(0) })
    }

    fn release_route(&mut self, _: Route) {
        self.routes -= 1;
    }
}
