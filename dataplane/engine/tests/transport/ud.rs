//! The unreliable datagram (IBTA 9.8.3) and its Q_Key, and the area before a received payload.

use std::net::IpAddr;

use roce_codec::Start;
use roce_codec::ib::{Deth, Opcode, PKey, Psn, QKey, Qpn, Service};
use roce_codec::net::datagram_source_port;
use roce_engine::{
    DropReason, Event, GrhArea, HwCounter, ModifyQp, Path, PostError, QpInit, QpState, SendWr, Sge,
    UdAddress, Wc, WcOpcode, WcStatus, WrOpcode,
};

use crate::captured;
use crate::host::{Host, Setup};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;

const SETUP: Setup = Setup { service: Service::Ud, ..Setup::DEFAULT };
const QKEY: QKey = QKey(0x1111_1111);

/// A datagram queue pair that sends and receives.
fn datagrams(setup: Setup) -> Lone {
    let mut host = Host::new(&setup);
    to_rts(&mut host, &setup);
    Lone { host, setup, now: roce_engine::Instant::ZERO }
}

fn to_rts(host: &mut Host, setup: &Setup) {
    let changes = [
        ModifyQp::InitUd { pkey: setup.pkey, qkey: QKEY },
        ModifyQp::RtrUd,
        ModifyQp::RtsUd { sq_psn: Psn::new(setup.sq_psn) },
    ];
    for change in &changes {
        host.engine.modify_qp(host.qp, change).unwrap();
    }
}

fn datagram(psn: u32, qkey: QKey, payload: &[u8]) -> Packet {
    let mut packet = Packet::new(Opcode::UD_SEND_ONLY, psn).payload(payload);
    packet.ext.deth = Some(Deth { qkey, resv8: 0, src_qp: PEER_QPN });
    packet
}

/// The way from the engine to the peer.
fn path(setup: &Setup) -> Path {
    let [src, dst] = setup.addresses();
    Path { src, dst, traffic_class: 0x20, hop_limit: 61, ..Path::EMPTY }
}

fn address(lone: &mut Lone) -> UdAddress {
    let ah = lone.host.engine.create_ah(&path(&lone.setup)).unwrap();
    UdAddress { ah, dest_qpn: PEER_QPN, qkey: QKey(0x2222) }
}

fn post(lone: &mut Lone, wr_id: u64, opcode: WrOpcode, len: u32, to: UdAddress) {
    let sges = [lone.host.sge(0, len)];
    let wr = SendWr::new(wr_id, opcode, &sges).to(to);
    lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
}

fn ended(lone: &mut Lone) -> Vec<(u64, WcStatus)> {
    lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// The payload lies behind 40 bytes; whatever the PSN, nothing is answered.
#[test]
fn datagrams_are_received() {
    for ipv6 in [false, true] {
        let mut lone = datagrams(Setup { ipv6, ..SETUP });
        for wr_id in 0..3 {
            lone.host.post_recv(wr_id, 1024 * usize::try_from(wr_id).unwrap(), 1000);
        }
        lone.host.put(0, &[0xee; 3000]);
        let mut immediate = datagram(5, QKEY, &[2; 3]).imm(0xabcd).solicit();
        immediate.opcode = Opcode::UD_SEND_ONLY_IMM;
        lone.burst(&[datagram(7000, QKEY, b"one"), immediate.ask(), datagram(5, QKEY, &[])]);
        assert_eq!(lone.sends(), []);
        let expect = |wr_id, byte_len, imm, solicited| Wc {
            wr_id,
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            byte_len,
            imm,
            invalidated: None,
            qp: lone.host.qp,
            src_qp: Some(PEER_QPN),
            solicited,
        };
        let expect = [
            expect(0, 43, None, false),
            expect(1, 43, Some(0xabcd), true),
            expect(2, 40, None, false),
        ];
        assert_eq!(lone.host.received(), expect);
        assert_eq!(lone.host.bytes(40, 4), [b'o', b'n', b'e', 0xee]);
        assert_eq!(lone.host.bytes(1024 + 40, 4), [2, 2, 2, 0xee]);
        assert_eq!(lone.host.bytes(2048 + 40, 1), [0xee]);
        assert_eq!(lone.host.events(), [], "there is no connection to be established");
    }
}

/// IPv4: twenty zeroes, then the header as it came. IPv6: the header.
#[test]
fn the_area_is_the_ip_header() {
    for ipv6 in [false, true] {
        let mut lone = datagrams(Setup { ipv6, ..SETUP });
        lone.host.post_recv(1, 0, 100);
        lone.host.put(0, &[0xee; 100]);
        let frame = lone.frame(&datagram(1, QKEY, b"four"));
        lone.burst_bytes(std::slice::from_ref(&frame));
        let area = lone.host.bytes(0, 40);
        if ipv6 {
            assert_eq!(area, frame[..40]);
        } else {
            assert_eq!(area, [&[0; 20], &frame[..20]].concat());
        }
        let back = GrhArea(area.try_into().unwrap()).way_back().unwrap();
        let [own, peer] = lone.setup.addresses();
        assert_eq!((back.src, back.dst), (own, peer));
        assert_eq!(back.traffic_class, 2);
        assert_eq!(back.flow_label, if ipv6 { 5 } else { 0 });
        // An answer goes there, by an address handle made of it.
        let ah = lone.host.engine.create_ah(&back).unwrap();
        post(&mut lone, 1, WrOpcode::Send, 4, UdAddress { ah, dest_qpn: PEER_QPN, qkey: QKEY });
        assert_eq!(lone.sends().len(), 1);
    }
}

/// Anybody may send who knows the Q_Key, from any address; nobody else.
#[test]
fn the_keys_are_looked_at() {
    let mut lone = datagrams(SETUP);
    lone.host.post_recv(1, 0, 100);
    for bit in 0..32 {
        lone.receives(datagram(1, QKey(QKEY.0 ^ 1 << bit), b"four"));
    }
    assert_eq!(lone.dropped(DropReason::QKey), 32);
    let other = Packet { pkey: PKey(0x1234), ..datagram(1, QKEY, b"four") };
    lone.receives(other);
    assert_eq!(lone.dropped(DropReason::PKey), 1);
    let stranger = [IpAddr::from([198, 51, 100, 7]), lone.setup.addresses()[0]];
    lone.receives(Packet { addresses: Some(stranger), ..datagram(1, QKEY, b"four") });
    assert_eq!(lone.host.received().len(), 1);
    lone.host.post_recv(1, 0, 100);
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::QKey(QKey(5))).unwrap();
    lone.burst(&[datagram(1, QKEY, b"four"), datagram(1, QKey(5), b"four")]);
    assert_eq!((lone.dropped(DropReason::QKey), lone.host.received().len()), (33, 1));
}

/// Too long for the receive, longer than the MTU, or no receive: dropped, and the receive waits.
#[test]
fn what_finds_no_room_is_dropped() {
    let mut lone = datagrams(SETUP);
    lone.receives(datagram(1, QKEY, b"four"));
    assert_eq!(lone.dropped(DropReason::ReceiverNotReady), 1);
    lone.host.post_recv(1, 0, 44);
    lone.receives(datagram(1, QKEY, b"five."));
    lone.receives(datagram(1, QKEY, &[1; 4097]));
    assert_eq!(lone.dropped(DropReason::Refused), 2);
    assert_eq!((lone.host.received(), lone.host.bytes(0, 100)), (vec![], vec![0; 100]));
    lone.receives(datagram(1, QKEY, b"four"));
    let received = lone.host.received();
    assert_eq!((received[0].wr_id, received[0].byte_len), (1, 44));
    assert_eq!(lone.state(), QpState::Rts);
    assert_eq!(lone.count(HwCounter::RxSendRequests), 1);
}

/// Though the receive would hold it.
#[test]
fn a_datagram_above_the_mtu_is_dropped() {
    let mut lone = datagrams(SETUP);
    lone.host.post_recv(1, 0, 8192);
    lone.receives(datagram(1, QKEY, &[1; 4097]));
    assert_eq!((lone.dropped(DropReason::Refused), lone.host.received()), (1, vec![]));
    lone.receives(datagram(1, QKEY, &[1; 4096]));
    assert_eq!(lone.host.received().len(), 1);
}

/// The receive's pieces hold area and payload one behind the other.
#[test]
fn a_receive_in_pieces() {
    let mut host = Host::new(&SETUP);
    let init = QpInit {
        max_recv_wr: 1,
        max_recv_sge: 3,
        ..QpInit::new(Service::Ud, host.pd, host.cq, host.recv_cq)
    };
    host.qp = host.engine.create_qp(&init, &mut host.entropy).unwrap();
    to_rts(&mut host, &SETUP);
    let mut lone = Lone { host, setup: SETUP, now: roce_engine::Instant::ZERO };
    let sges = [lone.host.sge(0, 30), lone.host.sge(100, 12), lone.host.sge(200, 8)];
    let wr = roce_engine::RecvWr::new(1, &sges);
    lone.host.engine.post_recv(lone.host.qp, &wr).unwrap();
    let frame = lone.frame(&datagram(1, QKEY, b"abcdefgh"));
    lone.burst_bytes(std::slice::from_ref(&frame));
    assert_eq!(lone.host.received()[0].byte_len, 48);
    assert_eq!(lone.host.bytes(20, 10), frame[..10]);
    assert_eq!(lone.host.bytes(100, 12), [&frame[10..20], b"ab"].concat());
    assert_eq!(lone.host.bytes(200, 7), *b"cdefgh\0");
}

/// Our own memory has gone: the receive ends with an error, and so does the queue pair.
#[test]
fn a_receive_whose_memory_went() {
    let mut lone = datagrams(SETUP);
    lone.host.post_recv(1, 0, 100);
    lone.host.post_recv(2, 0, 100);
    lone.host.memory.gone.set(true);
    lone.receives(datagram(1, QKEY, b"four"));
    let ended: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ended, [(1, WcStatus::LocalProtection), (2, WcStatus::WrFlush)]);
    assert_eq!(lone.state(), QpState::Error);
}

/// One packet each, with our queue pair as its source; complete when it is out.
#[test]
fn datagrams_are_sent() {
    for ipv6 in [false, true] {
        let mut lone = datagrams(Setup { ipv6, ..SETUP });
        let to = address(&mut lone);
        lone.host.put(0, b"abcdefg");
        post(&mut lone, 1, WrOpcode::Send, 7, to);
        post(&mut lone, 2, WrOpcode::SendWithImm(9), 4096, to);
        let sent = lone.sends();
        let source = Deth { qkey: QKey(0x2222), resv8: 0, src_qp: lone.host.qp };
        let mut first = Packet::new(Opcode::UD_SEND_ONLY, 5000).payload(b"abcdefg");
        first.ext.deth = Some(source);
        assert_eq!(sent[0], first);
        assert_eq!((sent[1].opcode, sent[1].psn), (Opcode::UD_SEND_ONLY_IMM, Psn::new(5001)));
        assert_eq!(sent[1].ext.imm_dt, Some(roce_codec::ib::ImmDt(9)));
        assert_eq!((sent[1].payload.len(), sent[1].ack_req), (4096, false));
        assert_eq!(ended(&mut lone), [(1, WcStatus::Success), (2, WcStatus::Success)]);
        assert_eq!(lone.host.engine.poll_timeout(), None);
    }
}

/// As frames: the path is the address handle's, the source port Linux's where it says none.
#[test]
fn the_path_is_the_address_handles() {
    let mut lone = datagrams(SETUP);
    let to = address(&mut lone);
    let port = Path { src_port: 0xd123, ..path(&SETUP) };
    let ported = UdAddress { ah: lone.host.engine.create_ah(&port).unwrap(), ..to };
    post(&mut lone, 1, WrOpcode::Send, 4, to);
    post(&mut lone, 2, WrOpcode::Send, 4, ported);
    let own = datagram_source_port(lone.host.qp);
    for src_port in [own, 0xd123] {
        let transmit = lone.host.engine.poll_transmit(lone.now).unwrap();
        assert_eq!(transmit.path, Path { src_port, ..path(&SETUP) });
        assert_eq!(transmit.bth.dest_qp, PEER_QPN);
    }
    assert!(own >= 0xc000);
}

/// A work request's Q_Key with the highest bit set is not sent: the queue pair's own is.
#[test]
fn a_controlled_key_is_our_own() {
    let mut lone = datagrams(SETUP);
    let to = UdAddress { qkey: QKey(0x8000_0007), ..address(&mut lone) };
    post(&mut lone, 1, WrOpcode::Send, 4, to);
    assert_eq!(lone.sends()[0].ext.deth.unwrap().qkey, QKEY);
}

#[test]
fn what_may_not_be_posted() {
    let mut lone = datagrams(SETUP);
    let to = address(&mut lone);
    let (va, rkey) = (0, roce_codec::ib::RKey(1));
    let mut refused = |opcode, len, to: Option<UdAddress>| {
        let sges: [Sge; 1] = [lone.host.sge(0, len)];
        let wr = SendWr { to, ..SendWr::new(1, opcode, &sges) };
        lone.host.engine.post_send(lone.host.qp, &wr).unwrap_err()
    };
    assert_eq!(refused(WrOpcode::Send, 4097, Some(to)), PostError::Length);
    assert_eq!(refused(WrOpcode::Send, 1, None), PostError::Address);
    for opcode in [
        WrOpcode::SendWithInvalidate(rkey),
        WrOpcode::RdmaWrite { va, rkey },
        WrOpcode::RdmaRead { va, rkey },
        WrOpcode::FetchAdd { va, rkey, add: 1 },
    ] {
        assert_eq!(refused(opcode, 8, Some(to)), PostError::Service, "{opcode:?}");
    }
    lone.host.engine.destroy_ah(to.ah).unwrap();
    let refused = |lone: &mut Lone, to| {
        let sges = [lone.host.sge(0, 1)];
        let wr = SendWr::new(1, WrOpcode::Send, &sges).to(to);
        lone.host.engine.post_send(lone.host.qp, &wr).unwrap_err()
    };
    assert_eq!(refused(&mut lone, to), PostError::Address);
    let mut connected = Lone::new();
    let to = address(&mut connected);
    assert_eq!(refused(&mut connected, to), PostError::Address);
}

/// The address handle goes before the datagram: it fails, what is behind it is flushed, and what
/// comes is received still. Back in RTS, the PSNs go on.
#[test]
fn a_send_error_stops_the_sends_alone() {
    let mut lone = datagrams(SETUP);
    let (to, other) = (address(&mut lone), address(&mut lone));
    lone.host.post_recv(9, 0, 100);
    post(&mut lone, 1, WrOpcode::Send, 4, to);
    post(&mut lone, 2, WrOpcode::Send, 4, other);
    post(&mut lone, 3, WrOpcode::Send, 4, to);
    lone.host.engine.destroy_ah(other.ah).unwrap();
    assert_eq!(lone.sends().len(), 1);
    let status = WcStatus::LocalQpOperation;
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success), (2, status), (3, WcStatus::WrFlush)]);
    assert_eq!(lone.host.events(), [Event::RequestFailed { qp: lone.host.qp, status }]);
    assert_eq!(lone.state(), QpState::Sqe);
    post(&mut lone, 4, WrOpcode::Send, 4, to);
    assert_eq!(ended(&mut lone), [(4, WcStatus::WrFlush)]);
    lone.receives(datagram(1, QKEY, b"four"));
    assert_eq!(lone.host.received().len(), 1);
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Resume).unwrap();
    post(&mut lone, 5, WrOpcode::Send, 4, to);
    let sent = lone.sends();
    assert_eq!((sent.len(), sent[0].psn, sent[0].payload.len()), (1, Psn::new(5003), 4));
    assert_eq!(ended(&mut lone), [(5, WcStatus::Success)]);
}

/// `udaddy` between two Linux hosts: our queue pair in one's place takes what it got.
#[test]
fn linux_datagrams() {
    let mut taken = 0;
    for frame in captured::frames("rxe-cm.pcap") {
        let Some(parsed) = captured::of_opcode(&frame, Opcode::UD_SEND_ONLY_IMM) else {
            continue;
        };
        let (qkey, src_qp) = (parsed.deth().unwrap().qkey, parsed.deth().unwrap().src_qp);
        let mut lone = datagrams(SETUP);
        lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::QKey(qkey)).unwrap();
        lone.host.post_recv(1, 0, 140);
        lone.burst_as(&[captured::retarget(&frame, lone.host.qp)], Start::Ethernet);
        let received = lone.host.received();
        assert_eq!((received.len(), received[0].src_qp), (1, Some(src_qp)));
        assert_eq!(received[0].imm, parsed.imm_dt().map(|imm| imm.0));
        assert_eq!(received[0].byte_len, 140);
        assert_eq!(lone.host.bytes(40, 100), parsed.payload().concat());
        let back = GrhArea(lone.host.bytes(0, 40).try_into().unwrap()).way_back().unwrap();
        assert_eq!((back.src, back.dst), (parsed.dst(), parsed.src()));
        assert_eq!(parsed.udp().src_port, datagram_source_port(src_qp));
        taken += 1;
    }
    assert_eq!(taken, 10);
}

/// The same from our side: but for the IP identification, and the bits of its transport header
/// that Linux has otherwise, what leaves is Linux's frame.
#[test]
fn as_linux_sends_it() {
    let frames = captured::frames("rxe-cm.pcap");
    let mads = frames.iter().filter_map(|frame| captured::of_opcode(frame, Opcode::UD_SEND_ONLY));
    let mut sent = 0;
    for theirs in mads {
        let mut host = Host::new(&SETUP);
        let init = QpInit::new(Service::Ud, host.pd, host.cq, host.recv_cq);
        host.qp = host.engine.create_gsi_qp(&init, &mut host.entropy).unwrap();
        to_rts(&mut host, &Setup { sq_psn: theirs.psn().get(), ..SETUP });
        let mut lone = Lone { host, setup: SETUP, now: roce_engine::Instant::ZERO };
        lone.host.put(0, &theirs.payload().concat());
        let path = Path { src: theirs.src(), dst: theirs.dst(), ..Path::EMPTY };
        let ah = lone.host.engine.create_ah(&path).unwrap();
        post(
            &mut lone,
            1,
            WrOpcode::Send,
            256,
            UdAddress { ah, dest_qpn: Qpn::GSI, qkey: QKey::GSI },
        );
        let transmit = lone.host.engine.poll_transmit(lone.now).unwrap();
        let theirs = theirs.to_builder();
        assert_eq!(transmit.ext, theirs.ext);
        assert_eq!(transmit.path.src_port, theirs.udp.src_port);
        let bth = roce_codec::ib::Bth { ack_req: true, ..transmit.bth };
        assert_eq!(bth, theirs.bth);
        sent += 1;
    }
    assert_eq!(sent, 17);
}

/// Linux's MADs at queue pair 1, whatever key it was given: class and length are for whoever reads
/// them.
#[test]
fn linux_mads() {
    let mut host = Host::new(&SETUP);
    let init =
        QpInit { max_recv_wr: 32, ..QpInit::new(Service::Ud, host.pd, host.cq, host.recv_cq) };
    let connected = host.qp;
    host.qp = host.engine.create_gsi_qp(&init, &mut host.entropy).unwrap();
    to_rts(&mut host, &SETUP);
    let mut lone = Lone { host, setup: SETUP, now: roce_engine::Instant::ZERO };
    for wr_id in 0..17 {
        lone.host.post_recv(wr_id, 512 * usize::try_from(wr_id).unwrap(), 296);
    }
    let frames = captured::frames("rxe-cm.pcap");
    let mads: Vec<_> = frames
        .into_iter()
        .filter(|frame| captured::of_opcode(frame, Opcode::UD_SEND_ONLY).is_some())
        .collect();
    lone.burst_as(&mads, Start::Ethernet);
    let received = lone.host.received();
    assert_eq!(received.len(), 17);
    for (wc, frame) in received.iter().zip(&mads) {
        assert_eq!((wc.qp, wc.src_qp, wc.byte_len), (Qpn::GSI, Some(Qpn::GSI), 296));
        let at = 512 * usize::try_from(wc.wr_id).unwrap();
        let payload = captured::of_opcode(frame, Opcode::UD_SEND_ONLY).unwrap().payload().concat();
        assert_eq!(lone.host.bytes(at + 40, 256), payload);
    }
    // Any other key than the one that everybody knows is refused, and so is everybody else.
    lone.host.post_recv(1, 0, 296);
    lone.receives(datagram(1, QKEY, &[0; 256]));
    assert_eq!(lone.dropped(DropReason::QKey), 1);
    lone.receives(Packet { dest_qp: Some(connected), ..datagram(1, QKey::GSI, &[0; 256]) });
    assert_eq!(lone.dropped(DropReason::QpState), 1);
}

/// There is one queue pair 1, of datagrams; its number comes again when it is gone.
#[test]
fn queue_pair_1_is_one() {
    let mut host = Host::new(&SETUP);
    let init = QpInit::new(Service::Ud, host.pd, host.cq, host.recv_cq);
    let create =
        |host: &mut Host, init: &QpInit| host.engine.create_gsi_qp(init, &mut host.entropy);
    let rc = QpInit { service: Service::Rc, ..init };
    assert_eq!(create(&mut host, &rc), Err(roce_engine::QpError::Service));
    assert_eq!(create(&mut host, &init), Ok(Qpn::GSI));
    assert_eq!(create(&mut host, &init), Err(roce_engine::QpError::Gsi));
    host.engine.destroy_qp(Qpn::GSI).unwrap();
    assert_eq!(host.engine.query_qp(Qpn::GSI), Err(roce_engine::QpError::UnknownQp));
    assert_eq!(create(&mut host, &init), Ok(Qpn::GSI));
}
