//! RoCE v1 and native InfiniBand are judged by the same rules: our captures, put on other links.

use std::net::IpAddr;

use roce_codec::ib::{Lid, LinkNextHeader, Lrh};
use roce_codec::net::{EtherType, Ethernet, Gid, Grh};
use roce_codec::{Crc, NativeBuilder, Route};
use roce_pcap::capture::LinkType;
use roce_pcap::check::{Rule, Verdict};

use crate::faults::frame;
use crate::support::{Owned, failures, judge, load_own, name, own_captures};

/// Where a packet goes when its Ethernet, IP and UDP are taken off.
type OnLink = fn(&Owned) -> Option<(LinkType, Route)>;

fn grh(packet: &Owned) -> Option<Grh> {
    let frame = frame(packet)?;
    let gid = |ip| match ip {
        IpAddr::V4(ip) => Gid::from(ip),
        IpAddr::V6(ip) => Gid(ip.octets()),
    };
    let (sgid, dgid) = (gid(frame.src()), gid(frame.dst()));
    let (traffic_class, flow_label) = (frame.traffic_class(), 0);
    let (pay_len, next_header, hop_limit) = (0, Grh::IBA, 64);
    Some(Grh { traffic_class, flow_label, pay_len, next_header, hop_limit, sgid, dgid })
}

fn roce_v1(packet: &Owned) -> Option<(LinkType, Route)> {
    let ethernet = frame(packet)?.ethernet()?;
    let ethernet = Ethernet { ethertype: EtherType::ROCE_V1, ..ethernet };
    Some((LinkType::ETHERNET, Route::RoceV1(ethernet, grh(packet)?)))
}

fn lrh(packet: &Owned, lnh: LinkNextHeader) -> Option<Lrh> {
    let frame = frame(packet)?;
    let lid = |ip| match ip {
        IpAddr::V4(ip) => Lid(ip.octets()[3].into()),
        IpAddr::V6(ip) => Lid(ip.octets()[15].into()),
    };
    let (dlid, slid) = (lid(frame.dst()), lid(frame.src()));
    Some(Lrh { vl: 0, lver: 0, sl: 0, resv2: 0, lnh, dlid, resv5: 0, pkt_len: 0, slid })
}

fn local(packet: &Owned) -> Option<(LinkType, Route)> {
    Some((LinkType::INFINIBAND, Route::Local(lrh(packet, LinkNextHeader::Local)?)))
}

fn global(packet: &Owned) -> Option<(LinkType, Route)> {
    let lrh = lrh(packet, LinkNextHeader::Global)?;
    Some((LinkType::INFINIBAND, Route::Global(lrh, grh(packet)?)))
}

fn moved(packets: &[Owned], on_link: OnLink) -> Vec<Owned> {
    let moved = |packet: &Owned| {
        let (frame, (link, route)) = (frame(packet)?, on_link(packet)?);
        let payload = frame.payload();
        let (bth, ext) = (frame.bth(), frame.ext_headers());
        let mut builder = NativeBuilder { route, bth, ext, pad: frame.pad().bytes() };
        builder.set_payload_len(frame.payload_len()).ok()?;
        let mut data = vec![0; packet.data.len() + 128];
        let len = builder.emit::<Crc>(payload, &mut data).unwrap();
        data.truncate(len);
        let orig_len = len.try_into().unwrap();
        Some(Owned { link: Some(link), orig_len, data, ..packet.clone() })
    };
    packets.iter().filter_map(moved).collect()
}

const LINKS: [OnLink; 3] = [roce_v1, local, global];

#[test]
fn clean_captures_are_clean_on_every_link() {
    for path in own_captures() {
        let packets = load_own(&name(&path));
        let (before, _) = judge(&packets);
        for on_link in LINKS {
            let (summary, findings) = judge(&moved(&packets, on_link));
            let first = failures(&findings).first().copied();
            assert_eq!(first, None, "{}", path.display());
            assert_eq!(summary.icrc_valid, before.roce_packets);
            assert_eq!(summary.flows, before.flows);
        }
    }
}

#[test]
fn damage_on_the_last_link_is_told_from_damage_before() {
    let packets = moved(&load_own("rxe-read"), global);
    for at in [0, 700, 1300] {
        for (from_end, rule) in [(1, Rule::IbVcrc), (4, Rule::RoceIcrc)] {
            let mut changed = packets.clone();
            let data = &mut changed[at].data;
            let place = data.len() - from_end;
            data[place] ^= 0x10;
            let (_, findings) = judge(&changed);
            let failures: Vec<_> =
                findings.iter().filter(|finding| finding.verdict == Verdict::Fail).collect();
            assert_eq!(failures.len(), 1, "{failures:?}");
            assert_eq!((failures[0].rule, failures[0].packet), (rule, at as u64 + 1));
        }
    }
}
