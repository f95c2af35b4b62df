//! Linux as a platform for services: memory between guard pages, the kernel's random numbers and
//! neighbours.

use std::net::IpAddr;

use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::neighbour::{Neighbours, NextHopError};
use roce_engine::{Addr, Entropy};

use super::dump::MemoryDump;
use super::log::say;
use super::os::OsEntropy;
use crate::service::memory::{Region, SharedRegion};
use crate::service::{Platform, Route, RouteError};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) memory: HostMemory,
    pub(crate) neighbours: Neighbours,
    /// Where what peers leave in memory is written, if anywhere.
    pub(crate) dump: Option<MemoryDump>,
    random: OsEntropy,
    addresses: Vec<IpAddr>,
    /// Regions of former sessions.
    free: Vec<Region>,
}

impl Host {
    /// A host whose services are reached at `addresses`.
    pub(crate) fn new(addresses: Vec<IpAddr>, neighbours: Neighbours) -> Self {
        Self {
            memory: HostMemory::new(),
            neighbours,
            dump: None,
            random: OsEntropy::new(),
            addresses,
            free: Vec::new(),
        }
    }

    /// One of the ports that Linux gives a user without a preference, 32768 to 60999.
    pub(crate) fn any_port(&mut self) -> u16 {
        32768 + u16::try_from(self.random.next_u32() % 28232).unwrap_or(0)
    }
}

impl Platform for Host {
    type Memory = HostMemory;
    type Random = OsEntropy;

    fn memory(&self) -> &HostMemory {
        &self.memory
    }

    fn random(&mut self) -> &mut OsEntropy {
        &mut self.random
    }

    fn take_region(&mut self, len: u64) -> Option<Region> {
        if let Some(index) = self.free.iter().position(|region| region.len == len) {
            return Some(self.free.swap_remove(index));
        }
        let region = self.memory.map(usize::try_from(len).ok()?).ok()?;
        let va = self.memory.va(region)?;
        Some(Region { addr: Addr { region, offset: 0 }, va, len })
    }

    fn give_region(&mut self, region: Region) {
        // The next client must not read what this one wrote. Were it not cleared, it would be
        // lost to us until the end.
        if self.memory.clear(region.addr.region).is_ok() {
            self.free.push(region);
        }
    }

    fn keep(&mut self, service: &str, session: u32, region: &SharedRegion) {
        if let Some(dump) = &mut self.dump
            && let Err(error) = dump.write(service, session, region, &self.memory)
        {
            say(format_args!("{error:#}"));
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    fn route(&mut self, peer: IpAddr) -> Result<Route, RouteError> {
        let src = source_for(peer, &self.addresses).ok_or(RouteError::NoAddress(peer))?;
        match self.neighbours.resolve(peer, Some(src)) {
            Ok(next_hop) => Ok(Route { src, next_hop }),
            Err(NextHopError::Local { .. }) => Err(RouteError::Local(peer)),
            Err(NextHopError::Full { .. }) => Err(RouteError::Full),
            Err(_) => Err(RouteError::NoRoute(peer)),
        }
    }

    fn release_route(&mut self, route: Route) {
        self.neighbours.release(route.next_hop);
    }
}

/// Which of `addresses` talks to `peer`: one of its family and scope, the one that shares the
/// most leading bits with it.
fn source_for(peer: IpAddr, addresses: &[IpAddr]) -> Option<IpAddr> {
    let shared = |address: IpAddr| match (address, peer) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b))
            if a.is_unicast_link_local() == b.is_unicast_link_local() =>
        {
            Some((a.to_bits() ^ b.to_bits()).leading_zeros())
        }
        _ => None,
    };
    addresses
        .iter()
        .filter_map(|address| Some((shared(*address)?, *address)))
        .max_by_key(|(bits, _)| *bits)
        .map(|(_, address)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_of_the_peers_kind_and_net() {
        let addresses: Vec<IpAddr> =
            ["192.0.2.1", "198.51.100.1", "fe80::1", "2001:db8:1::1", "2001:db8:2::1"]
                .map(|address| address.parse().unwrap())
                .into();
        for (peer, source) in [
            ("192.0.2.7", "192.0.2.1"),
            ("198.51.100.200", "198.51.100.1"),
            ("fe80::5054:ff:fe00:2", "fe80::1"),
            ("2001:db8:1::2", "2001:db8:1::1"),
            ("2001:db8:2:0:1::", "2001:db8:2::1"),
        ] {
            let found = source_for(peer.parse().unwrap(), &addresses);
            assert_eq!(found, Some(source.parse().unwrap()), "{peer}");
        }
        assert_eq!(source_for("fe80::2".parse().unwrap(), &addresses[3..]), None);
        assert_eq!(source_for("192.0.2.7".parse().unwrap(), &addresses[2..]), None);
    }
}
