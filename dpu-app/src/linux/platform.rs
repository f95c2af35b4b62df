//! Linux as a platform for services: memory between guard pages, the kernel's random numbers and
//! neighbours.

use std::cell::RefCell;
use std::net::IpAddr;

use roce_codec::net::{MacAddr, VlanStack};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::poll::NextHops;
use roce_engine::{Addr, NextHop};

use super::os::OsEntropy;
use crate::service::memory::Region;
use crate::service::{Platform, Route};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) memory: HostMemory,
    pub(crate) neighbours: Neighbours,
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
            random: OsEntropy::new(),
            addresses,
            free: Vec::new(),
        }
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

    fn route(&mut self, peer: IpAddr) -> Option<Route> {
        let src = source_for(peer, &self.addresses)?;
        Some(Route { src, next_hop: self.neighbours.hop(peer) })
    }
}

/// Which of `addresses` talks to `peer`: one of its family and scope, the one that shares the
/// most leading bits with it.
fn source_for(peer: IpAddr, addresses: &[IpAddr]) -> Option<IpAddr> {
    let shared = |address: IpAddr| match (address, peer) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) if a.is_unicast_link_local() == b.is_unicast_link_local() => {
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

/// MAC addresses of peers.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    hops: Vec<IpAddr>,
    macs: RefCell<Vec<Option<MacAddr>>>,
}

impl Neighbours {
    fn hop(&mut self, peer: IpAddr) -> NextHop {
        let at = self.hops.iter().position(|hop| *hop == peer).unwrap_or_else(|| {
            self.hops.push(peer);
            self.macs.borrow_mut().push(None);
            self.hops.len() - 1
        });
        NextHop(u16::try_from(at).unwrap_or(0))
    }
}

impl NextHops for Neighbours {
    fn link(&self, hop: NextHop) -> Option<(MacAddr, VlanStack)> {
        let at = usize::from(hop.0);
        let mut macs = self.macs.borrow_mut();
        if macs[at].is_none() {
            let text = std::fs::read_to_string("/proc/net/arp").ok()?;
            let peer = self.hops[at].to_string();
            let line = text.lines().find(|l| l.split_whitespace().next() == Some(&peer))?;
            let mac: Vec<u8> = line.split_whitespace().nth(3)?.split(':').filter_map(|b| u8::from_str_radix(b, 16).ok()).collect();
            macs[at] = Some(MacAddr(mac.try_into().ok()?));
        }
        Some((macs[at]?, VlanStack::EMPTY))
    }
}
