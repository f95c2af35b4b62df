//! Connections as Linux's connection manager makes them, in our captures.

use std::path::Path;

use roce_codec::cm::{Mad, Message};
use roce_codec::ib::{Operation, PathMtu, Psn, Service};
use roce_codec::{Frame, Start};
use roce_pcap::capture::Reader;
use roce_pcap::connection::{ConnectionId, Connections, Refusal, Role, State, Step};
use roce_pcap::observed::{FlowKey, Host, Observed};

fn frames(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    let mut reader = Reader::open(folder.join(format!("{name}.pcap"))).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.to_vec());
    }
    frames
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    Frame::parse([bytes, &[]], Start::Ethernet).unwrap()
}

/// Every step of a capture's exchanges, and what is known in the end.
fn steps(frames: &[Vec<u8>]) -> (Vec<Step>, Connections) {
    let mut connections = Connections::new();
    let step = |bytes: &Vec<u8>| {
        let frame = frame(bytes);
        connections.packet(FlowKey::of_frame(&frame), &frame)
    };
    let steps = frames.iter().filter_map(step).collect();
    (steps, connections)
}

/// The numbers of transport-rules: the REQ says c46a6e, the REP 4ecc75, and the receiver of each
/// sends with it.
#[test]
fn psns_are_those_the_receiver_sends_with() {
    let frames = frames("rxe-cm");
    let (steps, connections) = steps(&frames);
    let first = connections.get(ConnectionId(0)).unwrap();
    assert_eq!(first.first_psn(Role::Passive), Some(Psn::new(0xc4_6a6e)));
    assert_eq!(first.first_psn(Role::Active), Some(Psn::new(0x4e_cc75)));
    assert_eq!(first.service, Some(Service::Rc));
    assert_eq!(first.path_mtu, Some(PathMtu::Mtu1024));
    let unfit = steps.iter().filter(|step| matches!(step, Step::Unknown | Step::Refused(..)));
    assert_eq!(unfit.count(), 0);
    // rping, and two of ucmatose; udaddy resolves a service ID.
    let last = connections.get(ConnectionId(2)).unwrap();
    assert_eq!(last.state, State::Disconnected);
    assert_eq!(connections.get(ConnectionId(3)), None);
    assert!(steps.contains(&Step::Datagram));
}

/// Every request of every connection that was set up by the exchange belongs to one, and begins at
/// the PSN that was stated.
#[test]
fn data_belongs_to_the_connections() {
    for (name, count) in [("rxe-cm", 3), ("rxe-nvme", 2), ("rxe-errors", 17)] {
        let mut connections = Connections::new();
        let mut first_psns = std::collections::BTreeMap::new();
        for bytes in frames(name) {
            let frame = frame(&bytes);
            let flow = FlowKey::of_frame(&frame);
            connections.packet(flow, &frame);
            if frame.info().service != Service::Rc || !frame.info().is_request() {
                continue;
            }
            let (end, connection) = connections.of_flow(flow).expect("a connection");
            let stated = connection.first_psn(end.role).unwrap();
            let first =
                *first_psns.entry((end.id, end.role == Role::Active)).or_insert(frame.psn());
            assert_eq!(first, stated, "{name} {end:?}");
            if matches!(frame.info().operation, Operation::ReadRequest) {
                assert!(connection.read_limit(end.role).unwrap() > 0);
            }
        }
        assert!(connections.get(ConnectionId(count - 1)).is_some(), "{name}");
        assert!(connections.get(ConnectionId(count)).is_none(), "{name}");
    }
}

#[test]
fn messages_that_do_not_fit_are_told() {
    let frames = frames("rxe-cm");
    let cm: Vec<_> = frames
        .iter()
        .filter(|bytes| Mad::from_frame(&frame(bytes)).is_some_and(|mad| mad.is_cm()))
        .take(4)
        .cloned()
        .collect();
    let [req, rep, rtu, dreq] = &cm[..] else { panic!() };
    let take = |connections: &mut Connections, bytes: &Vec<u8>, swap: bool| {
        let frame = frame(bytes);
        let mad = Mad::from_frame(&frame).unwrap();
        let message = Message::parse(&mad).unwrap();
        let [src, dst] = [frame.src(), frame.dst()].map(Host::Ip);
        let [src, dst] = if swap { [dst, src] } else { [src, dst] };
        connections.message(src, dst, mad.header.transaction_id, &message)
    };
    let id = ConnectionId(0);
    let mut connections = Connections::new();
    assert_eq!(take(&mut connections, rep, false), Step::Unknown);
    assert_eq!(take(&mut connections, req, false), Step::Advanced(id));
    assert_eq!(take(&mut connections, req, false), Step::Repeated(id));
    let early = Refusal::OutOfOrder(State::Requested);
    assert_eq!(take(&mut connections, rtu, false), Step::Refused(id, early));
    assert_eq!(take(&mut connections, dreq, false), Step::Refused(id, early));
    assert_eq!(take(&mut connections, rep, false), Step::Advanced(id));
    assert_eq!(take(&mut connections, rep, false), Step::Repeated(id));
    assert_eq!(take(&mut connections, rtu, false), Step::Advanced(id));
    assert_eq!(take(&mut connections, dreq, false), Step::Advanced(id));
    assert_eq!(connections.get(id).unwrap().state, State::Disconnecting);
    // The same REQ with another PSN, and of the other side's.
    let frame = frame(req);
    let mad = Mad::from_frame(&frame).unwrap();
    let Ok(Message::Req(mut changed)) = Message::parse(&mad) else { panic!() };
    changed.starting_psn = Psn::new(1);
    let [src, dst] = [frame.src(), frame.dst()].map(Host::Ip);
    let transaction = mad.header.transaction_id;
    let step = connections.message(src, dst, transaction, &Message::Req(changed));
    assert_eq!(step, Step::Refused(id, Refusal::Changed));
    // Under a new transaction it is a new connection.
    let step = connections.message(src, dst, transaction + 1, &Message::Req(changed));
    assert_eq!(step, Step::Advanced(ConnectionId(1)));
}

#[test]
fn observed_packets_are_taken() {
    let mut connections = Connections::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    let mut reader = Reader::open(folder.join("rxe-cm.pcap")).unwrap();
    let mut steps = 0;
    while let Some(packet) = reader.next_packet() {
        let observed = Observed::new(&packet.unwrap());
        let flow = observed.flow().unwrap();
        steps += usize::from(connections.packet(flow, observed.transport().unwrap()).is_some());
    }
    assert!(steps > 12, "{steps}");
}
