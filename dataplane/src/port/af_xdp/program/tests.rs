//! The program run by the kernel itself, over packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::sys;

const XDP_REDIRECT: u32 = 4;
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
const OUR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OUR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// The loaded program with a socket at queue 0, where a test run's frames come from.
struct Loaded {
    steering: Steering,
    _socket: OwnedFd,
}

impl Loaded {
    /// `None`, printed, without the privilege to load it.
    fn new(addresses: &[IpAddr]) -> Option<Self> {
        let steering = match Steering::load(1, addresses) {
            Err(error) if matches!(sys::errno(&error), libc::EPERM | libc::EACCES) => {
                println!("passed over: loading a BPF program needs root ({error})");
                return None;
            }
            other => other.expect("the verifier takes it"),
        };
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).expect("an AF_XDP socket");
        steering.steer(0, socket.as_fd()).expect("a socket in the map");
        Some(Self { steering, _socket: socket })
    }

    /// Whether the program redirects the frame; otherwise it must pass it to the kernel.
    fn redirects(&self, frame: &[u8]) -> bool {
        let (verdict, _) = bpf::test_run::run(self.steering.program.as_fd(), frame, 1)
            .unwrap_or_else(|error| panic!("{} bytes: {error}", frame.len()));
        assert!([XDP_REDIRECT, XDP_PASS.cast_unsigned()].contains(&verdict), "verdict {verdict}");
        verdict == XDP_REDIRECT
    }
}

/// An IPv4 packet to `to` with a header of `ihl` words and a UDP header to `port`.
fn ipv4(to: Ipv4Addr, ihl: u8, fragment: u16, protocol: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0; usize::from(ihl.max(5)) * 4];
    packet[0] = 0x40 | ihl;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[9] = protocol;
    packet[16..20].copy_from_slice(&to.octets());
    packet.extend([0x12, 0xb7]);
    packet.extend(port.to_be_bytes());
    packet.extend([0; 28]);
    packet
}

fn ipv6(to: Ipv6Addr, next_header: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[6] = next_header;
    packet[24..40].copy_from_slice(&to.octets());
    packet.extend([0x12, 0xb7]);
    packet.extend(port.to_be_bytes());
    packet.extend([0; 28]);
    packet
}

fn framed(tags: &[[u8; 4]], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&MACS, tags.as_flattened(), &ethertype.to_be_bytes(), packet].concat()
}

const C_TAG: [u8; 4] = [0x81, 0x00, 0x60, 0x05];
const S_TAG: [u8; 4] = [0x88, 0xa8, 0x00, 0x07];

#[test]
fn roce_is_redirected_behind_up_to_two_tags() {
    let Some(loaded) = Loaded::new(&[]) else { return };
    for tags in [&[][..], &[C_TAG], &[S_TAG], &[S_TAG, C_TAG], &[C_TAG, C_TAG]] {
        for ihl in 5..=15 {
            let packet = ipv4(OUR_V4, ihl, 0, 17, 4791);
            assert!(loaded.redirects(&framed(tags, 0x0800, &packet)), "{tags:02x?} {ihl}");
        }
        let dont_fragment = ipv4(OUR_V4, 5, 0x4000, 17, 4791);
        assert!(loaded.redirects(&framed(tags, 0x0800, &dont_fragment)), "{tags:02x?}");
        let packet = ipv6(OUR_V6, 17, 4791);
        assert!(loaded.redirects(&framed(tags, 0x86dd, &packet)), "{tags:02x?}");
    }
    let three = framed(&[S_TAG, C_TAG, C_TAG], 0x0800, &ipv4(OUR_V4, 5, 0, 17, 4791));
    assert!(!loaded.redirects(&three), "three tags");
}

#[test]
fn a_frame_in_several_buffers_is_redirected() {
    let Some(loaded) = Loaded::new(&[]) else { return };
    assert!(loaded.steering.fragments, "the kernel knows multi-buffer XDP");
    for length in [1514, 3520, 4096, 4170, 4352, 9000] {
        for (ethertype, packet) in
            [(0x0800, ipv4(OUR_V4, 5, 0, 17, 4791)), (0x86dd, ipv6(OUR_V6, 17, 4791))]
        {
            let mut frame = framed(&[], ethertype, &packet);
            frame.resize(length, 0x5a);
            assert!(loaded.redirects(&frame), "{length}");
        }
        let mut frame = framed(&[], 0x0800, &ipv4(OUR_V4, 5, 0, 17, 4790));
        frame.resize(length, 0x5a);
        assert!(!loaded.redirects(&frame), "another port, {length}");
    }
}

#[test]
fn everything_else_passes_to_the_kernel() {
    let Some(loaded) = Loaded::new(&[]) else { return };
    let good = ipv4(OUR_V4, 5, 0, 17, 4791);
    let mut version = good.clone();
    version[0] = 0x55;
    let mut version6 = ipv6(OUR_V6, 17, 4791);
    version6[0] = 0x40;
    // The port a RoCEv2 packet has, as source.
    let mut answer = ipv4(OUR_V4, 5, 0, 17, 53);
    answer[20..22].copy_from_slice(&4791_u16.to_be_bytes());
    for (ethertype, packet, what) in [
        (0x0800, ipv4(OUR_V4, 5, 0, 17, 4790), "another port"),
        (0x0800, ipv4(OUR_V4, 5, 0, 17, 0xb712), "the port's bytes exchanged"),
        (0x0800, answer, "4791 as the source port"),
        (0x0800, ipv4(OUR_V4, 5, 0, 6, 4791), "TCP"),
        (0x0800, ipv4(OUR_V4, 5, 0, 1, 4791), "ICMP"),
        (0x0800, ipv4(OUR_V4, 5, 0x2000, 17, 4791), "the first fragment"),
        (0x0800, ipv4(OUR_V4, 5, 0x00b9, 17, 4791), "a later fragment"),
        (0x0800, ipv4(OUR_V4, 5, 0x1fff, 17, 4791), "the last fragment there can be"),
        (0x0800, ipv4(OUR_V4, 4, 0, 17, 4791), "a header length below the least"),
        (0x0800, ipv4(OUR_V4, 0, 0, 17, 4791), "a header length of 0"),
        (0x0800, version, "version 5"),
        (0x86dd, ipv6(OUR_V6, 17, 53), "DNS"),
        (0x86dd, ipv6(OUR_V6, 6, 4791), "TCP"),
        (0x86dd, ipv6(OUR_V6, 44, 4791), "an IPv6 fragment"),
        (0x86dd, ipv6(OUR_V6, 0, 4791), "a hop-by-hop header"),
        (0x86dd, version6, "version 4"),
        (0x0806, good.clone(), "ARP"),
        (0x8915, good.clone(), "RoCEv1"),
        (0x88cc, good.clone(), "LLDP"),
        (0x0008, good, "the EtherType's bytes exchanged"),
    ] {
        for tags in [&[][..], &[C_TAG], &[S_TAG, C_TAG]] {
            assert!(!loaded.redirects(&framed(tags, ethertype, &packet)), "{what}, {tags:02x?}");
        }
    }
}

#[test]
fn a_frame_cut_anywhere_before_the_end_of_udp_passes() {
    let Some(loaded) = Loaded::new(&[]) else { return };
    for tags in [&[][..], &[C_TAG], &[S_TAG, C_TAG]] {
        for (ethertype, packet, headers) in [
            (0x0800, ipv4(OUR_V4, 5, 0, 17, 4791), 28),
            (0x0800, ipv4(OUR_V4, 15, 0, 17, 4791), 68),
            (0x86dd, ipv6(OUR_V6, 17, 4791), 48),
        ] {
            let frame = framed(tags, ethertype, &packet);
            let whole = 14 + tags.len() * 4 + headers;
            // The kernel runs no frame shorter than an Ethernet header.
            for length in 14..frame.len() {
                assert_eq!(loaded.redirects(&frame[..length]), length >= whole, "{length}");
            }
        }
    }
}

#[test]
fn only_the_addresses_it_was_made_for() {
    let other_v4 = Ipv4Addr::new(192, 0, 2, 2);
    let second_v4 = Ipv4Addr::new(10, 255, 0, 128);
    let second_v6 = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0xff, 0xfe12, 0x8001);
    // Each differs in one of the four words only.
    let others_v6 = [0, 2, 4, 6].map(|word| {
        let mut segments = OUR_V6.segments();
        segments[word] ^= 1;
        Ipv6Addr::from(segments)
    });
    let takes = |loaded: &Loaded, to: IpAddr| match to {
        IpAddr::V4(to) => loaded.redirects(&framed(&[], 0x0800, &ipv4(to, 6, 0, 17, 4791))),
        IpAddr::V6(to) => loaded.redirects(&framed(&[C_TAG], 0x86dd, &ipv6(to, 17, 4791))),
    };
    let all: Vec<IpAddr> = [OUR_V4, other_v4, second_v4]
        .map(IpAddr::V4)
        .into_iter()
        .chain([OUR_V6, second_v6].into_iter().chain(others_v6).map(IpAddr::V6))
        .collect();
    for ours in [
        &[IpAddr::V4(OUR_V4)][..],
        &[IpAddr::V6(OUR_V6)],
        &[IpAddr::V4(OUR_V4), IpAddr::V6(OUR_V6)],
        &[IpAddr::V6(second_v6), IpAddr::V4(OUR_V4), IpAddr::V4(second_v4), IpAddr::V6(OUR_V6)],
    ] {
        let Some(loaded) = Loaded::new(ours) else { return };
        for to in &all {
            assert_eq!(takes(&loaded, *to), ours.contains(to), "{to} at {ours:?}");
        }
    }
}

#[test]
fn the_most_addresses_still_load() {
    let addresses: Vec<IpAddr> = (0..32)
        .flat_map(|n| {
            let v4 = Ipv4Addr::new(10, 0, 0, u8::try_from(n).expect("small"));
            [IpAddr::V4(v4), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n))]
        })
        .collect();
    assert_eq!(addresses.len(), MAX_ADDRESSES);
    let Some(loaded) = Loaded::new(&addresses) else { return };
    let last = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 31);
    assert!(loaded.redirects(&framed(&[], 0x86dd, &ipv6(last, 17, 4791))));
}

#[test]
fn a_queue_without_a_socket_leaves_the_frame_to_the_kernel() {
    let Some(loaded) = Loaded::new(&[]) else { return };
    let frame = framed(&[], 0x0800, &ipv4(OUR_V4, 5, 0, 17, 4791));
    assert!(loaded.redirects(&frame));
    let Loaded { steering, _socket: socket } = loaded;
    // The kernel takes a socket out of the map when it closes.
    drop(socket);
    let (verdict, _) = bpf::test_run::run(steering.program.as_fd(), &frame, 1).expect("runs");
    assert_eq!(verdict, XDP_PASS.cast_unsigned());
}
