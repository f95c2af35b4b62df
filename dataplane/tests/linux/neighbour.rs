//! Next hops from the kernel's tables, with another namespace as the neighbour.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use roce_codec::net::{MacAddr, VlanStack};
use roce_dataplane::neighbour::{Neighbours, NextHopError};
use roce_dataplane::poll::NextHops;
use roce_dataplane::port::error::PortError;
use roce_engine::NextHop;

use super::netns::Netns;
use super::peer::{PATIENCE, SILENCE};
use super::privilege::run_without;

const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// As PATIENCE, where pauses of some seconds are part of it.
const LONG: Duration = Duration::from_secs(30);

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Two hosts on a wire: `ours` with 10.9.0.1, `peer` with 10.9.0.2, and fe80::1 and fe80::2.
struct Hosts {
    ours: Netns,
    peer: Netns,
    hops: Neighbours,
}

fn hosts() -> Option<Hosts> {
    let (ours, peer) = (Netns::new()?, Netns::new()?);
    ours.veth(1500, 1);
    peer.sysctl("net.ipv6.conf.default.disable_ipv6", "1");
    ours.ip(&format!("link set peer netns {}", peer.path()));
    for (host, interface, last) in [(&ours, "ours", 1), (&peer, "peer", 2)] {
        host.sysctl(&format!("net.ipv6.conf.{interface}.addr_gen_mode"), "1");
        host.sysctl(&format!("net.ipv6.conf.{interface}.disable_ipv6"), "0");
        host.ip(&format!("address add 10.9.0.{last}/24 dev {interface}"));
        host.ip(&format!("address add fe80::{last}/64 dev {interface} nodad"));
    }
    peer.ip("link set peer up");
    peer.up(&["peer"]);
    ours.up(&["ours"]);
    // A minute in a second: how long a neighbour is believed, and how long one waits for answers.
    for version in ["ipv4", "ipv6"] {
        for (name, value) in [
            ("base_reachable_time_ms", "200"),
            ("retrans_time_ms", "50"),
            ("delay_first_probe_time", "1"),
            ("ucast_solicit", "2"),
            ("mcast_solicit", "2"),
        ] {
            ours.sysctl(&format!("net.{version}.neigh.ours.{name}"), value);
        }
    }
    let hops = ours.run(|| Neighbours::open("ours", 64)).expect("opens");
    Some(Hosts { ours, peer, hops })
}

impl Hosts {
    fn resolve(&mut self, dst: &str) -> NextHop {
        self.hops.resolve(address(dst), None).expect("a route")
    }

    /// Polls until the next hop is `mac`.
    fn becomes(&mut self, hop: NextHop, mac: Option<MacAddr>, within: Duration) {
        let deadline = Instant::now() + within;
        while self.hops.get(hop) != mac {
            let got = self.hops.get(hop);
            assert!(Instant::now() < deadline, "{got:?} instead of {mac:?}");
            std::thread::sleep(Duration::from_millis(2));
            self.hops.poll();
        }
    }

    /// Polls for a while in which the next hop stays `mac`.
    fn stays(&mut self, hop: NextHop, mac: Option<MacAddr>, during: Duration) {
        let deadline = Instant::now() + during;
        while Instant::now() < deadline {
            self.hops.poll();
            assert_eq!(self.hops.get(hop), mac);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_neighbour_on_the_wire_is_found() {
    let Some(mut hosts) = hosts() else { return };
    for dst in ["10.9.0.2", "fe80::2"] {
        let hop = hosts.resolve(dst);
        hosts.becomes(hop, Some(PEER), PATIENCE);
        assert_eq!(hosts.resolve(dst), hop, "the same place again");
        assert_eq!(hosts.hops.link(hop), Some((PEER, VlanStack::EMPTY)), "as the poll loop asks");
    }
    // A source of the host's own, and one the kernel does not know.
    for src in ["10.9.0.1", "10.9.0.200"] {
        let hop = hosts.hops.resolve(address("10.9.0.2"), Some(address(src))).expect("a route");
        assert_eq!(hosts.hops.get(hop), Some(PEER), "known already");
    }
}

#[test]
fn poll_says_when_something_changed() {
    let Some(mut hosts) = hosts() else { return };
    hosts.hops.poll();
    assert!(!hosts.hops.poll());
    let hop = hosts.resolve("10.9.0.2");
    let mut poll =
        libc::pollfd { fd: hosts.hops.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let deadline = Instant::now() + PATIENCE;
    while hosts.hops.get(hop).is_none() {
        assert!(Instant::now() < deadline);
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut poll, 1, 100) };
        let changed = hosts.hops.poll();
        assert_eq!(changed, hosts.hops.get(hop).is_some());
    }
}

#[test]
fn a_neighbour_that_changes_its_mac_is_followed() {
    let Some(mut hosts) = hosts() else { return };
    let hops = ["10.9.0.2", "fe80::2"].map(|dst| hosts.resolve(dst));
    for hop in hops {
        hosts.becomes(hop, Some(PEER), PATIENCE);
    }
    // Longer than the kernel believes an idle neighbour.
    hosts.stays(hops[0], Some(PEER), Duration::from_secs(1));
    // Without a word about it: no gratuitous ARP.
    hosts.peer.sysctl("net.ipv4.conf.peer.arp_notify", "0");
    hosts.peer.ip("link set peer address 02:00:00:00:00:03");
    let new = MacAddr([2, 0, 0, 0, 0, 3]);
    for hop in hops {
        hosts.becomes(hop, Some(new), LONG);
    }
}

#[test]
fn a_neighbour_that_comes_late_is_found() {
    let Some(mut hosts) = hosts() else { return };
    let hop = hosts.resolve("10.9.0.77");
    hosts.stays(hop, None, SILENCE);
    hosts.peer.ip("address add 10.9.0.77/24 dev peer");
    hosts.becomes(hop, Some(PEER), LONG);
    // And one that goes is forgotten.
    hosts.peer.ip("address del 10.9.0.77/24 dev peer");
    hosts.becomes(hop, None, LONG);
}

#[test]
fn entries_flushed_or_set_by_hand() {
    let Some(mut hosts) = hosts() else { return };
    let hop = hosts.resolve("10.9.0.2");
    hosts.becomes(hop, Some(PEER), PATIENCE);
    let by_hand = MacAddr([2, 0, 0, 0, 0, 0x44]);
    hosts.ours.ip("neighbour replace 10.9.0.2 lladdr 02:00:00:00:00:44 dev ours nud permanent");
    hosts.becomes(hop, Some(by_hand), PATIENCE);
    hosts.stays(hop, Some(by_hand), Duration::from_secs(1));
    hosts.ours.ip("neighbour del 10.9.0.2 dev ours");
    hosts.becomes(hop, Some(PEER), LONG);
}

#[test]
fn beyond_a_gateway() {
    let Some(mut hosts) = hosts() else { return };
    hosts.ours.ip("route add default via 10.9.0.2");
    hosts.ours.ip("route add 198.51.100.0/24 via inet6 fe80::2 dev ours");
    hosts.ours.ip("-6 route add default via fe80::2 dev ours");
    for dst in ["192.0.2.55", "198.51.100.1", "2001:db8::7"] {
        let hop = hosts.resolve(dst);
        hosts.becomes(hop, Some(PEER), PATIENCE);
    }
}

#[test]
fn a_route_that_changes_is_followed() {
    let Some(mut hosts) = hosts() else { return };
    hosts.ours.ip("route add default via 10.9.0.2");
    hosts.ours.ip("neighbour add 10.9.0.3 lladdr 02:00:00:00:00:33 dev ours nud permanent");
    // More than are looked up in one poll, and another that is not concerned.
    let hops: Vec<_> = (1..=40).map(|n| hosts.resolve(&format!("192.0.2.{n}"))).collect();
    let near = hosts.resolve("10.9.0.2");
    hops.iter().for_each(|hop| hosts.becomes(*hop, Some(PEER), PATIENCE));
    hosts.ours.ip("route replace default via 10.9.0.3");
    let new = MacAddr([2, 0, 0, 0, 0, 0x33]);
    hops.iter().for_each(|hop| hosts.becomes(*hop, Some(new), PATIENCE));
    assert_eq!(hosts.hops.get(near), Some(PEER));
    // Again at once, within the pause between two such times.
    hosts.ours.ip("route replace default via 10.9.0.2");
    hops.iter().for_each(|hop| hosts.becomes(*hop, Some(PEER), PATIENCE));
    hosts.ours.ip("route replace blackhole default");
    hops.iter().for_each(|hop| hosts.becomes(*hop, None, PATIENCE));
    hosts.ours.ip("route replace default via 10.9.0.3");
    hops.iter().for_each(|hop| hosts.becomes(*hop, Some(new), PATIENCE));
}

#[test]
fn news_that_were_lost_are_looked_up() {
    let Some(mut hosts) = hosts() else { return };
    let hop = hosts.resolve("10.9.0.2");
    hosts.becomes(hop, Some(PEER), PATIENCE);
    // Thousands of news unread, far more than the socket holds; the one that counts comes last.
    let mut batch: String = (0..4000)
        .map(|n| {
            format!(
                "neighbour replace 10.9.{}.{} lladdr 02:00:00:00:00:55 dev ours nud permanent\n",
                16 + n / 250,
                1 + n % 250
            )
        })
        .collect();
    batch += "neighbour replace 10.9.0.2 lladdr 02:00:00:00:00:66 dev ours nud permanent\n";
    let file =
        std::env::temp_dir().join(format!("roce-dataplane-neighbours-{}", std::process::id()));
    std::fs::write(&file, batch).expect("written");
    hosts.ours.ip(&format!("-batch {}", file.display()));
    std::fs::remove_file(&file).expect("removed");
    hosts.becomes(hop, Some(MacAddr([2, 0, 0, 0, 0, 0x66])), PATIENCE);
}

#[test]
fn an_interface_that_goes_down_and_up_again() {
    let Some(mut hosts) = hosts() else { return };
    let hop = hosts.resolve("10.9.0.2");
    hosts.becomes(hop, Some(PEER), PATIENCE);
    hosts.ours.ip("link set ours down");
    hosts.becomes(hop, None, PATIENCE);
    hosts.ours.ip("link set ours up");
    hosts.becomes(hop, Some(PEER), LONG);
}

#[test]
fn groups_need_no_neighbour() {
    let Some(mut hosts) = hosts() else { return };
    for (dst, mac) in [
        ("239.1.2.3", [0x01, 0x00, 0x5e, 1, 2, 3]),
        ("ff02::1:2:3", [0x33, 0x33, 0, 2, 0, 3]),
        ("255.255.255.255", [0xff; 6]),
        ("10.9.0.255", [0xff; 6]),
    ] {
        let hop = hosts.resolve(dst);
        assert_eq!(hosts.hops.get(hop), Some(MacAddr(mac)), "{dst}");
    }
}

#[test]
fn without_the_privilege_to_ask() {
    let Some(mut hosts) = hosts() else { return };
    const CAP_NET_ADMIN: u32 = 12;
    // The datagram it sends instead leaves from the thread's namespace.
    let handle = hosts.ours.duplicate();
    handle.run(|| {
        run_without(&[CAP_NET_ADMIN], || {
            for dst in ["10.9.0.2", "fe80::2"] {
                let hop = hosts.resolve(dst);
                hosts.becomes(hop, Some(PEER), PATIENCE);
            }
        });
    });
}

#[test]
fn what_cannot_be_resolved_says_why() {
    let Some(mut hosts) = hosts() else { return };
    hosts.ours.ip("route add unreachable 203.0.113.0/24");
    hosts.ours.ip("route add blackhole 192.0.2.0/24");
    let mut error = |dst| hosts.hops.resolve(address(dst), None).expect_err(dst);
    for dst in ["203.0.113.1", "192.0.2.1", "198.51.100.1", "2001:db8::1"] {
        assert_eq!(error(dst), NextHopError::NoRoute { dst: address(dst) });
    }
    for dst in ["10.9.0.1", "fe80::1"] {
        assert_eq!(error(dst), NextHopError::Local { dst: address(dst) });
    }
    let ours = &hosts.ours;
    let error = ours.run(|| Neighbours::open("nowhere0", 8)).expect_err("not there");
    assert!(matches!(error, PortError::NoSuchInterface { .. }), "{error:?}");
}

#[test]
fn places_are_counted_and_used_again() {
    let Some(hosts) = hosts() else { return };
    let mut hops = hosts.ours.run(|| Neighbours::open("ours", 3)).expect("opens");
    let dst = |n: u8| IpAddr::from([10, 9, 0, n]);
    let taken: Vec<_> = (11..=13).map(|n| hops.resolve(dst(n), None).expect("room")).collect();
    assert_eq!(taken, [NextHop(0), NextHop(1), NextHop(2)]);
    assert_eq!(hops.resolve(dst(14), None), Err(NextHopError::Full { capacity: 3 }));
    assert_eq!(hops.resolve(dst(12), None), Ok(NextHop(1)), "no new place");
    hops.release(NextHop(1));
    assert_eq!(
        hops.resolve(dst(14), None),
        Err(NextHopError::Full { capacity: 3 }),
        "one user left"
    );
    hops.release(NextHop(1));
    assert_eq!(hops.resolve(dst(14), None), Ok(NextHop(1)));
    hops.release(NextHop(7));
    assert_eq!(hops.get(NextHop(7)), None);
}
