//! What Linux said to Linux, said to us: with the same intentions, our messages are Linux's but
//! for the names we choose.

use std::net::IpAddr;
use std::path::Path as FilePath;

use pcap_file::pcap::PcapReader;
use roce_codec::cm::{
    CaGuid, CommunicationId, Drep, IpCmHeader, MAD_LEN, Mad, Message, Rep, Req, Rtu, SidrRep,
    SidrReq,
};
use roce_codec::ib::Qpn;
use roce_codec::{Frame, Start};
use roce_engine::cm::{
    Accept, Cm, CmConfig, CmEvent, CmState, Connect, HeapCmStorage, QpAttributes, SidrAnswer,
    SidrQuery,
};
use roce_engine::{Instant, NextHop, Path, SeededEntropy};

const CLIENT_GUID: CaGuid = CaGuid(0x5054_00ff_fe00_0003);
const SERVER_GUID: CaGuid = CaGuid(0x5054_00ff_fe00_0002);

/// A packet of a capture: a MAD, or a request on a connection.
enum Seen {
    Mad(Box<[u8; MAD_LEN]>, Path),
    Request { dest_qp: Qpn, psn: u32, from: IpAddr },
}

fn capture(name: &str) -> Vec<Seen> {
    let file = format!("{}/../../tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    let mut reader = PcapReader::new(std::fs::File::open(FilePath::new(&file)).unwrap()).unwrap();
    let mut seen = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let bytes = packet.unwrap().into_data().into_owned();
        let Ok(frame) = Frame::parse([&bytes, &[]], Start::Ethernet) else { continue };
        let (src, dst) = (frame.ip().src(), frame.ip().dst());
        if Mad::from_frame(&frame).is_some() {
            let mad = Box::new(frame.payload()[0].try_into().unwrap());
            // The way back, as the receiver has it.
            let way = Path { src: dst, dst: src, src_port: frame.udp().src_port, ..Path::EMPTY };
            seen.push(Seen::Mad(mad, way));
        } else if frame.opcode().0 >> 5 == 0 && is_request(&frame) {
            let psn = frame.psn().get();
            seen.push(Seen::Request { dest_qp: frame.dest_qp(), psn, from: src });
        }
    }
    seen
}

/// Of RC, what is not an answer: opcodes 0x0D to 0x12 are READ responses and acknowledgements.
fn is_request(frame: &Frame<'_>) -> bool {
    !(0x0d..=0x12).contains(&frame.opcode().0)
}

fn cm(guid: CaGuid) -> Cm<'static> {
    let storage = Box::leak(Box::new(HeapCmStorage::new(4, 2, 4)));
    Cm::new(CmConfig::new(guid), storage.lend(), &mut SeededEntropy::new(1))
}

/// Gives a manager a message as if it knew our names.
fn give(cm: &mut Cm<'_>, message: &Message<'_>, tid: u64, way: &Path) {
    let mut mad = [0; MAD_LEN];
    message.emit(tid, &mut mad).unwrap();
    cm.handle_mad(Instant::ZERO, &Mad::parse(&mad).unwrap(), way);
}

/// What a manager sends; nothing else follows.
fn sent(cm: &mut Cm<'_>) -> ([u8; MAD_LEN], u64) {
    let transmit = cm.poll_transmit(Instant::ZERO).expect("it sends something");
    assert!(cm.poll_transmit(Instant::ZERO).is_none());
    (transmit.mad, Mad::parse(&transmit.mad).unwrap().header.transaction_id)
}

fn message(mad: &[u8; MAD_LEN]) -> (Message<'_>, u64) {
    let mad = Mad::parse(mad).unwrap();
    (Message::parse(&mad).unwrap(), mad.header.transaction_id)
}

/// The whole life of a connection: its messages by both sides.
struct Exchange<'a> {
    req: (Req<'a>, u64, Path),
    rep: (Rep<'a>, Path),
    rtu: (Rtu<'a>, u64),
    dreq: Option<(roce_codec::cm::Dreq<'a>, u64, Path)>,
    drep: Option<Drep<'a>>,
    /// The PSN of the first request by the passive and by the active side.
    first_psn: [Option<u32>; 2],
}

fn exchanges(seen: &[Seen]) -> Vec<Exchange<'_>> {
    let mut found = Vec::new();
    for (at, one) in seen.iter().enumerate() {
        let Seen::Mad(mad, req_way) = one else { continue };
        let (Message::Req(req), tid) = message(mad) else { continue };
        let (mut rep, mut rtu, mut dreq, mut drep) = (None, None, None, None);
        let mut first_psn = [None, None];
        for later in &seen[at..] {
            match later {
                Seen::Mad(mad, way) => match message(mad) {
                    (Message::Rep(it), _) if it.remote_comm_id == req.local_comm_id => {
                        rep = Some((it, *way));
                    }
                    (Message::Rtu(it), tid) if it.local_comm_id == req.local_comm_id => {
                        rtu = Some((it, tid));
                    }
                    (Message::Dreq(it), tid)
                        if [it.local_comm_id, it.remote_comm_id].contains(&req.local_comm_id) =>
                    {
                        dreq = Some((it, tid, *way));
                    }
                    (Message::Drep(it), _)
                        if [it.local_comm_id, it.remote_comm_id].contains(&req.local_comm_id) =>
                    {
                        drep = Some(it);
                        break;
                    }
                    _ => {}
                },
                Seen::Request { dest_qp, psn, from } => {
                    let Some((rep, _)) = &rep else { continue };
                    if *dest_qp == req.local_qpn && *from == req_way.src {
                        first_psn[0].get_or_insert(*psn);
                    }
                    if *dest_qp == rep.local_qpn && *from == req_way.dst {
                        first_psn[1].get_or_insert(*psn);
                    }
                }
            }
        }
        found.push(Exchange {
            req: (req, tid, *req_way),
            rep: rep.expect("a REP follows"),
            rtu: rtu.expect("an RTU follows"),
            dreq,
            drep,
            first_psn,
        });
    }
    found
}

/// We in the place of Linux's server.
fn as_passive(exchange: &Exchange<'_>) -> QpAttributes {
    let (req, tid, way) = &exchange.req;
    let (rep, _) = &exchange.rep;
    let mut cm = cm(SERVER_GUID);
    cm.listen(req.service_id, 1).unwrap();
    give(&mut cm, &Message::Req(*req), *tid, way);
    let Some(CmEvent::ConnectRequest { id, req: told, .. }) = cm.poll_event() else {
        panic!("no request")
    };
    assert_eq!(told, *req);
    // The consumer's part. Where it did not limit READs and atomics itself it could serve any
    // number, so that the agreement is ours.
    let limit = |said, asked| if said < asked { said } else { 128 };
    let accept = Accept {
        qpn: rep.local_qpn,
        starting_psn: rep.starting_psn,
        responder_resources: limit(rep.responder_resources, req.initiator_depth),
        initiator_depth: limit(rep.initiator_depth, req.responder_resources),
        rnr_retry_count: rep.rnr_retry_count,
        end_to_end_flow_control: rep.end_to_end_flow_control,
        srq: rep.srq,
        private_data: rep.private_data,
    };
    let ours = cm.accept(Instant::ZERO, id, &accept).unwrap();
    let (mad, our_tid) = sent(&mut cm);
    // Linux's verbs pass on what a program asks for: one of rxe-errors wants 16 outstanding of a
    // peer that serves 4. Ours says 4.
    let initiator_depth = rep.initiator_depth.min(req.responder_resources);
    let theirs = Rep { local_comm_id: id, initiator_depth, ..*rep };
    assert_eq!(message(&mad).0, Message::Rep(theirs));
    assert_eq!(our_tid, *tid, "the answer is of the REQ's transaction");

    let (rtu, tid) = &exchange.rtu;
    give(&mut cm, &Message::Rtu(Rtu { remote_comm_id: id, ..*rtu }), *tid, way);
    assert!(matches!(cm.poll_event(), Some(CmEvent::Established { .. })));
    if let (Some((dreq, tid, dreq_way)), Some(drep)) = (&exchange.dreq, &exchange.drep) {
        if dreq_way == way {
            let dreq = roce_codec::cm::Dreq { remote_comm_id: id, ..*dreq };
            give(&mut cm, &Message::Dreq(dreq), *tid, way);
            assert!(matches!(cm.poll_event(), Some(CmEvent::DisconnectRequest { .. })));
            cm.disconnect(Instant::ZERO, id, &[]).unwrap();
            let (mad, our_tid) = sent(&mut cm);
            assert_eq!(message(&mad).0, Message::Drep(Drep { local_comm_id: id, ..*drep }));
            assert_eq!(our_tid, *tid);
        } else {
            // The server disconnects.
            cm.disconnect(Instant::ZERO, id, &[]).unwrap();
            let (mad, _) = sent(&mut cm);
            let theirs = roce_codec::cm::Dreq { local_comm_id: id, ..*dreq };
            assert_eq!(message(&mad).0, Message::Dreq(theirs));
        }
    }
    ours
}

/// We in the place of Linux's client.
fn as_active(exchange: &Exchange<'_>) -> QpAttributes {
    let (req, tid, way) = &exchange.req;
    let (rep, rep_way) = &exchange.rep;
    let (header, private_data) = req.ip_cm().expect("an RDMA IP CM service");
    let path = Path {
        src: way.dst,
        dst: way.src,
        next_hop: NextHop(0),
        src_port: 0xc000,
        traffic_class: req.primary.traffic_class,
        flow_label: req.primary.flow_label,
        hop_limit: req.primary.hop_limit,
    };
    let mut cm = cm(CLIENT_GUID);
    // What Linux's RDMA CM asks for by itself is ours, too.
    let connect = Connect {
        ip_src_port: header.src_port,
        private_data,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        end_to_end_flow_control: req.end_to_end_flow_control,
        ..Connect::new(req.service_id, path, req.local_qpn, req.starting_psn)
    };
    let id = cm.connect(Instant::ZERO, &connect).unwrap();
    let (mad, our_tid) = sent(&mut cm);
    assert_eq!(message(&mad).0, Message::Req(Req { local_comm_id: id, ..*req }));

    give(&mut cm, &Message::Rep(Rep { remote_comm_id: id, ..*rep }), our_tid, rep_way);
    let theirs = match cm.poll_event() {
        Some(CmEvent::ConnectResponse { qp, .. }) => qp,
        other => panic!("{other:?}"),
    };
    let (rtu, rtu_tid) = &exchange.rtu;
    cm.ready(Instant::ZERO, id, rtu.private_data).unwrap();
    let (mad, tid_of_rtu) = sent(&mut cm);
    assert_eq!(message(&mad).0, Message::Rtu(Rtu { local_comm_id: id, ..*rtu }));
    assert_eq!(tid_of_rtu == our_tid, rtu_tid == tid, "of the REQ's transaction, as Linux's");
    assert_eq!(cm.state(id), CmState::Established);
    theirs
}

#[test]
fn connections() {
    let mut psns = 0;
    for (name, count) in [("rxe-cm", 3), ("rxe-nvme", 2), ("rxe-errors", 16)] {
        let seen = capture(name);
        let exchanges = exchanges(&seen);
        assert!(exchanges.len() >= count, "{name}: {}", exchanges.len());
        for exchange in &exchanges {
            let passive = as_passive(exchange);
            let active = as_active(exchange);
            let (req, rep) = (&exchange.req.0, &exchange.rep.0);
            assert_eq!((passive.dest_qpn, active.dest_qpn), (req.local_qpn, rep.local_qpn));
            assert_eq!((passive.sq_psn, passive.rq_psn), (active.rq_psn, active.sq_psn));
            // And those are the PSNs that Linux's queue pairs did send first.
            for (side, first) in [(passive, exchange.first_psn[0]), (active, exchange.first_psn[1])]
            {
                if let Some(first) = first {
                    assert_eq!(side.sq_psn.get(), first, "{name}");
                    psns += 1;
                }
            }
            assert_eq!(passive.max_rd_atomic, active.max_dest_rd_atomic);
            assert_eq!(passive.max_dest_rd_atomic, active.max_rd_atomic);
            assert_eq!(passive.path_mtu, active.path_mtu);
            assert_eq!((passive.retry_cnt, active.retry_cnt), (req.retry_count, req.retry_count));
            assert_eq!(passive.rnr_retry, req.rnr_retry_count);
            assert_eq!(active.rnr_retry, rep.rnr_retry_count);
            // Linux gives both ends 19: 2.1 s.
            assert_eq!((passive.timeout.code(), active.timeout.code()), (19, 19));
        }
    }
    assert!(psns > 20, "{psns} first PSNs were seen");
}

/// Typed from the capture's bytes: rping's connection in rxe-cm.
#[test]
fn rping_by_hand() {
    let seen = capture("rxe-cm");
    let exchange = &exchanges(&seen)[0];
    let (passive, active) = (as_passive(exchange), as_active(exchange));
    assert_eq!((passive.sq_psn.get(), passive.rq_psn.get()), (0xc4_6a6e, 0x4e_cc75));
    assert_eq!((active.sq_psn.get(), active.rq_psn.get()), (0x4e_cc75, 0xc4_6a6e));
    assert_eq!(exchange.first_psn, [Some(0xc4_6a6e), Some(0x4e_cc75)]);
    assert_eq!((passive.path_mtu.bytes(), passive.dest_qpn.get()), (1024, 0x11));
    assert_eq!((passive.max_rd_atomic, passive.max_dest_rd_atomic), (1, 1));
    assert_eq!((passive.retry_cnt, passive.rnr_retry), (7, 7));
    assert_eq!(passive.path.flow_label, 0x39a6b);
    // nvme: 128 READs served by the host, none by the target.
    let seen = capture("rxe-nvme");
    let passive = as_passive(&exchanges(&seen)[0]);
    assert_eq!((passive.max_rd_atomic, passive.max_dest_rd_atomic), (128, 0));
}

/// udaddy's resolution in rxe-cm, both sides.
#[test]
fn a_datagram_service() {
    let seen = capture("rxe-cm");
    let mads = || {
        seen.iter().filter_map(|seen| match seen {
            Seen::Mad(mad, way) => Some((message(mad), *way)),
            Seen::Request { .. } => None,
        })
    };
    let (req, tid, way) = mads()
        .find_map(|((message, tid), way)| match message {
            Message::SidrReq(req) => Some((req, tid, way)),
            _ => None,
        })
        .unwrap();
    let (rep, rep_way) = mads()
        .find_map(|((message, _), way)| match message {
            Message::SidrRep(rep) => Some((rep, way)),
            _ => None,
        })
        .unwrap();

    let mut server = cm(SERVER_GUID);
    server.listen(req.service_id, 1).unwrap();
    give(&mut server, &Message::SidrReq(req), tid, &way);
    let Some(CmEvent::SidrRequest { id, req: told, .. }) = server.poll_event() else { panic!() };
    assert_eq!(told, req);
    let SidrRep { status, qpn, qkey, private_data, .. } = rep;
    let answer = SidrAnswer { status, qpn, qkey, private_data };
    server.sidr_reply(Instant::ZERO, id, &answer).unwrap();
    let (mad, our_tid) = sent(&mut server);
    assert_eq!((message(&mad).0, our_tid), (Message::SidrRep(rep), tid));
    assert_eq!(server.in_use(), 0);

    let (header, consumer): (IpCmHeader, _) = req.ip_cm().unwrap();
    let path = Path { src: way.dst, dst: way.src, ..Path::EMPTY };
    let query = SidrQuery {
        ip_src_port: header.src_port,
        private_data: consumer,
        ..SidrQuery::new(req.service_id, path)
    };
    let mut client = cm(CLIENT_GUID);
    let id = client.sidr_request(Instant::ZERO, &query).unwrap();
    let (mad, our_tid) = sent(&mut client);
    assert_eq!(message(&mad).0, Message::SidrReq(SidrReq { request_id: id.0, ..req }));
    let ours = SidrRep { request_id: id.0, ..rep };
    give(&mut client, &Message::SidrRep(ours), our_tid, &rep_way);
    let Some(CmEvent::SidrResponse { rep: told, .. }) = client.poll_event() else { panic!() };
    assert_eq!(told, ours);
    assert_eq!((told.qpn, told.qkey.0), (Qpn::new(0x14), 0x0123_4567));
    assert_eq!((client.in_use(), client.state(id)), (0, CmState::Idle));
    assert_ne!(id, CommunicationId(0));
}
