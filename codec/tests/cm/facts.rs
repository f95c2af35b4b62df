//! What single messages say, against values read off the wire by hand, and what is refused.

use std::net::{IpAddr, Ipv4Addr};

use roce_codec::cm::{
    AttributeId, CaGuid, CmEmitError, CmError, CommunicationId, Failover, Gid, IpCmHeader, MAD_LEN,
    Mad, MadHeader, Message, Method, MgmtClass, Path, PortSpace, RdmaCmServiceId, Rej, RejReason,
    Req, ServiceId, SidrStatus, Timeout, TransportType,
};
use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, Service};
use roce_codec::net::source_port_from_flow_label;
use roce_codec::{Frame, Start};

use crate::packets::{ours, packets};

fn mad(packet: &[u8]) -> Mad<'_> {
    let frame = Frame::parse([packet, &[]], Start::Ethernet).unwrap();
    Mad::from_frame(&frame).unwrap()
}

/// rping's REQ: TCP port 7174, from 10.77.1.3.
#[test]
fn the_req_of_rping() {
    let packets = packets(&ours("rxe-cm.pcap"));
    let mad = mad(&packets[0]);
    assert_eq!(mad.header.transaction_id, 0x2_af8c_4a9d);
    let Message::Req(req) = Message::parse(&mad).unwrap() else { panic!() };
    assert_eq!(req.local_comm_id, CommunicationId(0x9d4a_8caf));
    assert_eq!(req.service_id, ServiceId(0x0106_1c06));
    let rping = RdmaCmServiceId { port_space: PortSpace::TCP, port: 7174 };
    assert_eq!(RdmaCmServiceId::from_service_id(req.service_id), Some(rping));
    assert_eq!(req.local_ca_guid, CaGuid(0x5054_00ff_fe00_0003));
    assert_eq!((req.local_qkey, req.local_qpn), (QKey(0), Qpn::new(0x11)));
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    let timeouts = [req.remote_cm_response_timeout, req.local_cm_response_timeout];
    assert_eq!(timeouts.map(Timeout::ns), [4_294_967_296; 2]);
    assert_eq!((req.transport, req.service()), (TransportType::Rc, Some(Service::Rc)));
    assert_eq!(req.starting_psn, Psn::new(0xc4_6a6e));
    assert_eq!((req.retry_count, req.rnr_retry_count, req.max_cm_retries), (7, 7, 15));
    assert_eq!((req.pkey, req.path_mtu()), (PKey(0xffff), Some(PathMtu::Mtu1024)));
    assert!(!req.srq && !req.rdc_exists && !req.end_to_end_flow_control && !req.sap_supported);
    let client = Ipv4Addr::new(10, 77, 1, 3);
    let server = Ipv4Addr::new(10, 77, 1, 2);
    let path = req.primary;
    assert_eq!((path.local_lid, path.remote_lid), (0xffff, 0xffff));
    assert_eq!((path.local_gid.ip(), path.remote_gid.ip()), (client.into(), server.into()));
    assert_eq!((path.hop_limit, path.traffic_class, path.sl), (64, 0, 0));
    assert_eq!(path.local_ack_timeout.code(), 19);
    assert!(!req.alternate.is_present() && path.is_present());

    let (ip_cm, consumer) = req.ip_cm().unwrap();
    assert_eq!(ip_cm, IpCmHeader::v4(client, 0xa0fb, server));
    assert_eq!((ip_cm.src_ip(), ip_cm.dst_ip()), (Some(client.into()), Some(server.into())));
    assert_eq!(consumer, [0; 56]);
    // Linux makes the label of the ports, and the data's source port of the label; tshark shows
    // another label.
    assert_eq!(path.flow_label, (0xa0fb * 31 + 7174) & 0xf_ffff);
    let data = packets[3..].iter().find_map(|packet| {
        let frame = Frame::parse([packet, &[]], Start::Ethernet).ok()?;
        (frame.src() == IpAddr::V4(client)).then(|| frame.udp().src_port)
    });
    assert_eq!(data, Some(source_port_from_flow_label(path.flow_label)));
}

#[test]
fn the_rep_of_rping() {
    let packets = packets(&ours("rxe-cm.pcap"));
    let mad = mad(&packets[1]);
    let message = Message::parse(&mad).unwrap();
    let Message::Rep(rep) = message else { panic!() };
    assert_eq!(message.local_comm_id(), Some(CommunicationId(0xf659_2e84)));
    assert_eq!(message.remote_comm_id(), Some(CommunicationId(0x9d4a_8caf)));
    assert_eq!((rep.local_qpn, rep.starting_psn), (Qpn::new(0x11), Psn::new(0x4e_cc75)));
    assert_eq!((rep.responder_resources, rep.initiator_depth), (1, 1));
    assert_eq!((rep.target_ack_delay.code(), rep.failover), (15, Failover::Accepted));
    assert_eq!((rep.rnr_retry_count, rep.srq, rep.resv4, rep.vendor_id), (7, false, 0, 0));
    assert_eq!(rep.local_ca_guid, CaGuid(0x5054_00ff_fe00_0002));
    assert_eq!(
        message.to_string(),
        "REP local=0xf6592e84 remote=0x9d4a8caf qpn=0x000011 starting_psn=0x4ecc75"
    );
}

/// udaddy's resolution: UDP port 7174. The answer has the QP and the Q_Key that Linux gives UDP
/// services.
#[test]
fn the_resolution_of_udaddy() {
    let packets = packets(&ours("rxe-cm.pcap"));
    let (asked, answered) = (mad(&packets[115]), mad(&packets[116]));
    assert_eq!(asked.header.transaction_id, answered.header.transaction_id);
    let Message::SidrReq(req) = Message::parse(&asked).unwrap() else { panic!() };
    let Message::SidrRep(rep) = Message::parse(&answered).unwrap() else { panic!() };
    let udaddy = RdmaCmServiceId { port_space: PortSpace::UDP, port: 7174 };
    assert_eq!(RdmaCmServiceId::from_service_id(req.service_id), Some(udaddy));
    let (ip_cm, consumer) = req.ip_cm().unwrap();
    assert_eq!(ip_cm.dst_ip(), Some(Ipv4Addr::new(10, 77, 1, 2).into()));
    assert_eq!(consumer.len(), 180);
    assert_eq!((rep.request_id, rep.service_id), (req.request_id, req.service_id));
    assert_eq!((rep.status, rep.qkey), (SidrStatus::VALID, QKey(0x0123_4567)));
    let datagram = packets[117..].iter().find_map(|packet| {
        let frame = Frame::parse([packet, &[]], Start::Ethernet).ok()?;
        frame.deth().filter(|_| frame.dest_qp() == rep.qpn)
    });
    assert_eq!(datagram.map(|deth| deth.qkey), Some(rep.qkey), "the next datagram goes there");
}

#[test]
fn no_header_of_the_ip_service_before_other_services() {
    let private_data = [0xff; 92];
    let req = Req { private_data: &private_data, ..Req::default() };
    for id in [0, 0x0206_0000, 0xff00_0000_0106_0000] {
        assert_eq!(Req { service_id: ServiceId(id), ..req }.ip_cm(), None);
    }
    let (header, consumer) = Req { service_id: ServiceId(0x0106_0001), ..req }.ip_cm().unwrap();
    assert_eq!((header.src_ip(), header.dst_ip()), (None, None), "IP version 15");
    assert_eq!(consumer.len(), 56);
    let short = Req { service_id: ServiceId(0x0106_0001), private_data: &[0; 35], ..req };
    assert_eq!(short.ip_cm(), None);
}

#[test]
fn ipv6_addresses_fill_their_field() {
    let src = "fe80::5054:ff:fe00:3".parse().unwrap();
    let dst = "fe80::5054:ff:fe00:2".parse().unwrap();
    let header = IpCmHeader::v6(src, 0x1234, dst);
    let mut out = [0xa5; 36];
    header.emit(&mut out).unwrap();
    let expected = [
        0x00, 0x60, 0x12, 0x34, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0, 0, 3,
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0, 0, 2,
    ];
    assert_eq!(out, expected);
    assert_eq!((header.src_ip(), header.dst_ip()), (Some(src.into()), Some(dst.into())));
}

#[test]
fn what_is_no_message_is_an_error_with_its_number() {
    let data = [0; 232];
    let header = MadHeader::cm(AttributeId::REQ, 1);
    let parse = |header| Message::parse(&Mad { header, data: &data }).map(|it| it.attribute());
    assert_eq!(parse(header), Ok(AttributeId::REQ));
    let with = |change: fn(&mut MadHeader)| {
        let mut header = header;
        change(&mut header);
        parse(header)
    };
    assert_eq!(with(|it| it.base_version = 2), Err(CmError::BaseVersion(2)));
    assert_eq!(with(|it| it.class = MgmtClass::SUBN_ADM), Err(CmError::Class(MgmtClass(3))));
    assert_eq!(with(|it| it.class_version = 1), Err(CmError::ClassVersion(1)));
    assert_eq!(with(|it| it.method = Method::GET), Err(CmError::Method(Method(1))));
    for id in 0..=u16::MAX {
        let attribute = AttributeId(id);
        let expected = match id {
            0x10..=0x1c => Ok(attribute),
            _ => Err(CmError::Attribute(attribute)),
        };
        assert_eq!(parse(MadHeader { attribute, ..header }), expected);
    }
    for (error, says) in [
        (CmError::Truncated { needed: 256, available: 3 }, "256"),
        (CmError::BaseVersion(9), "9"),
        (CmError::Class(MgmtClass(0x44)), "0x44"),
        (CmError::ClassVersion(3), "3"),
        (CmError::Method(Method::GET_RESP), "GetResp"),
        (CmError::Attribute(AttributeId(0x99)), "0x0099"),
    ] {
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn short_private_data_is_filled_with_zeroes_and_long_refused() {
    let mut out = [0xa5; MAD_LEN];
    let rej = Rej {
        reason: RejReason::CONSUMER_REJECT,
        ari: b"why",
        ari_len: 3,
        private_data: b"sorry",
        ..Rej::default()
    };
    Message::Rej(rej).emit(7, &mut out).unwrap();
    assert_eq!(out[24 + 12..24 + 15], *b"why");
    assert!(out[24 + 15..24 + 84].iter().all(|byte| *byte == 0));
    assert_eq!(out[24 + 84..24 + 89], *b"sorry");
    assert!(out[24 + 89..].iter().all(|byte| *byte == 0));
    let mad = Mad::parse(&out).unwrap();
    let Message::Rej(parsed) = Message::parse(&mad).unwrap() else { panic!() };
    assert_eq!(parsed.ari_bytes(), b"why");
    assert_eq!(Rej { ari_len: 127, ..parsed }.ari_bytes().len(), 72, "a length that lies");

    let long = Message::Rej(Rej { private_data: &[0; 149], ..rej });
    assert_eq!(long.emit(7, &mut out), Err(CmEmitError::TooLong { len: 149, room: 148 }));
    let long = Message::Rej(Rej { ari: &[0; 73], ..rej });
    assert_eq!(long.emit(7, &mut out), Err(CmEmitError::TooLong { len: 73, room: 72 }));
    for len in 0..MAD_LEN {
        let error = Message::Rej(rej).emit(7, &mut [0; MAD_LEN][..len]);
        assert_eq!(error, Err(CmEmitError::NoRoom { needed: MAD_LEN, available: len }));
    }
}

/// A vendor's options stand in the attribute modifier.
#[test]
fn a_header_of_ones_own() {
    let req = Message::Req(Req { vendor_id: 0x0002_c903, ..Req::default() });
    let header =
        MadHeader { attribute_modifier: 0x1234_5678, ..MadHeader::cm(AttributeId::REQ, 5) };
    let mut out = [0xa5; MAD_LEN];
    req.emit_under(&header, &mut out).unwrap();
    assert_eq!(out[..8], [1, 7, 2, 3, 0, 0, 0, 0]);
    assert_eq!(out[8..24], [0, 0, 0, 0, 0, 0, 0, 5, 0, 0x10, 0, 0, 0x12, 0x34, 0x56, 0x78]);
    assert_eq!(out[28..32], [0, 0x02, 0xc9, 0x03]);
    assert_eq!(Mad::parse(&out).unwrap().header, header);
}

#[test]
fn xrc_is_an_extended_transport() {
    let extended = Req { transport: TransportType::Extended, ..Req::default() };
    assert_eq!(Req { extended_transport: 1, ..extended }.service(), Some(Service::Xrc));
    assert_eq!(extended.service(), None);
    assert_eq!(Req { transport: TransportType::Uc, ..extended }.service(), Some(Service::Uc));
    assert_eq!(Req { transport: TransportType::Rd, ..extended }.service(), Some(Service::Rd));
    assert_eq!(Req { path_mtu_code: 6, ..extended }.path_mtu(), None);
}

/// Codes as other implementations name them: the specification's numbers, 34 left out.
#[test]
fn reject_reasons() {
    let named: Vec<u16> = (0..=u16::MAX).filter(|code| RejReason(*code).name().is_some()).collect();
    let expected: Vec<u16> = (1..=33).chain([35]).collect();
    assert_eq!(named, expected);
    assert_eq!(RejReason::ALL.iter().map(|reason| reason.0).collect::<Vec<_>>(), expected);
    for (code, words) in [
        (1, "no QP available"),
        (4, "timeout"),
        (8, "invalid service ID"),
        (10, "stale connection"),
        (12, "primary remote port GID rejected"),
        (18, "alternate remote port GID rejected"),
        (24, "port and CM redirection"),
        (26, "invalid path MTU"),
        (28, "consumer reject"),
        (31, "unsupported class version"),
        (33, "invalid alternate flow label"),
        (35, "vendor option not supported"),
        (34, "reason 34"),
    ] {
        assert_eq!(RejReason(code).to_string(), words);
    }
}

/// A message is no larger than the MAD it is read from: private data is borrowed.
#[test]
fn a_message_is_no_larger_than_its_mad() {
    assert!(size_of::<Message<'_>>() <= MAD_LEN, "{}", size_of::<Message<'_>>());
}

#[test]
fn gids_and_paths() {
    let v4: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    assert_eq!(Gid::from(v4).to_string(), "192.0.2.1");
    assert_eq!(Gid::ZERO.to_string(), "::");
    assert!(!Path::NONE.is_present());
    assert_eq!(Path::NONE, Path::default());
}
