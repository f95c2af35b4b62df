//! Either side of udaddy against the other, and against what the program's other side does.

use dpu_app::service::cm::{AnySession, CmService, CmServiceError, End, What};
use dpu_app::service::udaddy::{Client, ClientOptions, DEFAULT_PORT, MAX_COUNT};
use dpu_app::service::wr_id;
use roce_codec::cm::{PortSpace, RdmaCmServiceId, SidrStatus};
use roce_codec::ib::{PKey, Psn, QKey, Qpn, Service};
use roce_dataplane::port::Port;
use roce_engine::cm::{SidrAnswer, SidrQuery};
use roce_engine::{
    Access, Addr, Backing, Instant, ModifyQp, Mr, MrAttr, NextHop, Path, PostError, QpInit, RecvWr,
    SendWr, Sge, UdAddress, Wc, WcOpcode, WcStatus, WrOpcode,
};

use crate::support::side::{CmSide, Side};
use crate::support::{CLIENT, SERVER};
use crate::{Far, LEFT, Near, connect, finish, pair, run};

const SERVICE: CmService = CmService::Udaddy { port: DEFAULT_PORT };
const QKEY: QKey = QKey(0x0123_4567);
/// The session of work requests of our own.
const OWN: u32 = 7;
/// Bytes before a received datagram.
const AREA: u32 = 40;

fn options(count: u32, size: u32) -> ClientOptions {
    ClientOptions { peer: SERVER, port: DEFAULT_PORT, src_port: 40_000, count, size }
}

/// A client of our own server's; how it ended at either side.
fn served(options: &ClientOptions, drop: f64) -> [Option<End>; 2] {
    run(SERVICE, drop, |number, gsi, context| {
        Client::connect(number, options, gsi, context).map(AnySession::UdaddyClient)
    })
}

#[test]
fn there_and_back() {
    for (count, size) in [(10, 100), (1, 1), (3, 40), (7, 1024), (MAX_COUNT, 257)] {
        for end in served(&options(count, size), 0.0).map(Option::unwrap) {
            assert_eq!((end.error, end.count), (None, u64::from(count)), "{size}: {end}");
            assert_eq!((end.service, end.peer.is_ipv4()), ("udaddy", true));
        }
    }
}

/// MADs that are lost come again; datagrams do not.
#[test]
fn under_loss() {
    let [client, server] = served(&options(MAX_COUNT, 500), 0.1).map(Option::unwrap);
    assert_eq!(client.error, Some(CmServiceError::Unreachable), "{client}");
    let [came, answered] = [server.count, client.count];
    assert!(answered > 50 && answered < came && came < MAX_COUNT.into(), "{came} {answered}");
    assert_eq!(server.error, None, "silence is its end");
}

#[test]
fn a_port_that_nobody_listens_at() {
    let [ours, theirs] = served(&ClientOptions { port: 9, ..options(1, 100) }, 0.0);
    let refused = CmServiceError::NotServed(SidrStatus::SERVICE_ID_NOT_SUPPORTED);
    assert_eq!(ours.unwrap().error, Some(refused));
    assert_eq!(theirs, None);
    // Nobody hears it at all.
    let [ours, theirs] = served(&options(1, 100), 1.0);
    assert_eq!(ours.unwrap().error, Some(CmServiceError::Unreachable));
    assert_eq!(theirs, None);
}

/// Who gives up before the answer does not go on asking.
#[test]
fn given_up_before_the_answer() {
    pair(1.0, |here, _| {
        connect(here, |number, gsi, context| {
            let client = Client::connect(number, &options(1, 100), gsi, context);
            client.map(AnySession::UdaddyClient)
        })
        .unwrap();
        here.pump(Instant::ZERO);
        assert!(here.cm.poll_timeout().is_some(), "the request would be sent again");
        let (cm, mut context) = here.parts();
        cm.end_all(&mut context);
        assert_eq!(here.cm.poll_timeout(), None);
        assert_eq!(here.side.host.regions, LEFT.0, "something is left");
    });
}

#[test]
fn what_cannot_be_asked_for() {
    pair(0.0, |here, _| {
        for (count, size) in [(0, 1), (MAX_COUNT + 1, 1), (1, 0), (1, 1025)] {
            let asked = connect(here, |number, gsi, context| {
                let client = Client::connect(number, &options(count, size), gsi, context);
                client.map(AnySession::UdaddyClient)
            });
            assert_eq!(asked, Err(CmServiceError::Post(PostError::Length)), "{count} {size}");
        }
        assert_eq!((here.side.host.regions, here.side.host.routes), (1, 0), "something is left");
    });
}

/// A datagram queue pair made by hand, with memory of 128 KiB.
struct ByHand {
    qpn: Qpn,
    region: Addr,
    va: u64,
    mr: Mr,
}

impl ByHand {
    fn new<P: Port>(side: &mut Side<'_, P>) -> Self {
        let pd = side.engine.alloc_pd();
        let len = 1 << 17;
        let region = side.host.memory.map(len).unwrap();
        let va = side.host.memory.va(region).unwrap();
        let region = Addr { region, offset: 0 };
        let len = u64::try_from(len).unwrap();
        let attr = MrAttr { pd, va, len, access: Access::LOCAL_WRITE, backing: region };
        let mr = side.engine.register_mr(&attr, &mut side.host.random).unwrap();
        let init = QpInit {
            max_send_wr: 32,
            max_recv_wr: 32,
            ..QpInit::new(Service::Ud, pd, side.queues.send, side.queues.recv)
        };
        let qpn = side.engine.create_qp(&init, &mut side.host.random).unwrap();
        let init = ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKEY };
        for change in [init, ModifyQp::RtrUd, ModifyQp::RtsUd { sq_psn: Psn::new(9) }] {
            side.engine.modify_qp(qpn, &change).unwrap();
        }
        Self { qpn, region, va, mr }
    }

    fn sge(&self, offset: u32, len: u32) -> Sge {
        Sge { va: self.va + u64::from(offset), len, lkey: self.mr.lkey }
    }

    fn at(&self, offset: u32) -> Addr {
        Addr { offset: offset.into(), ..self.region }
    }

    fn receive<P: Port>(&self, side: &mut Side<'_, P>, id: u32, offset: u32, len: u32) {
        let sges = [self.sge(offset, len)];
        side.engine.post_recv(self.qpn, &RecvWr::new(wr_id(OWN, id), &sges)).unwrap();
    }

    fn send<P: Port>(&self, side: &mut Side<'_, P>, to: UdAddress, offset: u32, len: u32) {
        let sges = [self.sge(offset, len)];
        let opcode = WrOpcode::SendWithImm(self.qpn.get());
        let wr = SendWr::new(wr_id(OWN, 100), opcode, &sges).to(to);
        side.engine.post_send(self.qpn, &wr).unwrap();
    }
}

/// Turns of both, one side's notices and completions being ours, until `done`.
fn by_hand<P: Port, Q: Port>(
    ours: &mut CmSide<'_, P>,
    theirs: &mut CmSide<'_, Q>,
    (notices, completions): (&mut Vec<What>, &mut Vec<Wc>),
    mut done: impl FnMut(&[What], &[Wc]) -> bool,
) {
    for _ in 0..100_000 {
        if done(notices, completions) {
            return;
        }
        let now = ours.side.now.add_ns(1000);
        ours.turn(now, |wc| completions.push(wc));
        let (cm, mut context) = ours.parts();
        cm.gsi().poll(&mut context);
        notices.extend(std::iter::from_fn(|| cm.gsi().poll_notice()).map(|notice| notice.what));
        theirs.pump(now);
    }
    panic!("{notices:?} {completions:?}");
}

/// The program's server: it answers when it has all, with what lies where the area does, from its
/// one buffer. `spoil` is what becomes of the buffer before that.
fn of_the_program(count: u32, size: u32, spoil: impl FnOnce(&mut Vec<u8>)) -> End {
    pair(0.0, |here: &mut Near<'_>, there: &mut Far<'_>| {
        let service = RdmaCmServiceId { port_space: PortSpace::UDP, port: DEFAULT_PORT }.into();
        there.cm.gsi().listen(service, 4).unwrap();
        let qp = ByHand::new(&mut there.side);
        for id in 0..count {
            qp.receive(&mut there.side, id, 0, size + AREA);
        }
        connect(here, |number, gsi, context| {
            let options = options(count, size);
            Client::connect(number, &options, gsi, context).map(AnySession::UdaddyClient)
        })
        .unwrap();
        let (mut notices, mut come) = (Vec::new(), Vec::new());
        let id = loop {
            let now = there.side.now.add_ns(1000);
            here.pump(now);
            there.turn(now, |wc| panic!("{wc:?}"));
            if let Some(notice) = there.cm.gsi().poll_notice() {
                assert!(matches!(notice.what, What::SidrRequest(_)), "{notice:?}");
                break notice.id;
            }
        };
        let answer =
            SidrAnswer { status: SidrStatus::VALID, qpn: qp.qpn, qkey: QKEY, private_data: &[] };
        there.cm.gsi().cm().sidr_reply(there.side.now, id, &answer).unwrap();
        let all = usize::try_from(count).unwrap();
        by_hand(there, here, (&mut notices, &mut come), |_, come| come.len() == all);

        let path = Path { src: SERVER, dst: CLIENT, next_hop: NextHop(0), ..Path::EMPTY };
        let ah = there.side.engine.create_ah(&path).unwrap();
        let dest_qpn = Qpn::new(come[0].imm.unwrap());
        assert_eq!(come[0].src_qp, Some(dest_qpn));
        let mut buffer = vec![0; usize::try_from(size).unwrap()];
        there.side.host.memory.read(qp.at(0), &mut buffer).unwrap();
        spoil(&mut buffer);
        there.side.host.memory.write(qp.at(0), [&buffer, &[]]).unwrap();
        let len = u32::try_from(buffer.len()).unwrap();
        for _ in 0..count {
            qp.send(&mut there.side, UdAddress { ah, dest_qpn, qkey: QKEY }, 0, len);
        }
        let ours = loop {
            let now = there.side.now.add_ns(1000);
            here.pump(now);
            there.turn(now, |_| {});
            if let Some(end) = here.cm.poll_end() {
                break end;
            }
        };
        assert_eq!((here.side.host.regions, here.side.host.routes), LEFT, "something is left");
        ours
    })
}

#[test]
fn answers_as_the_programs_server_has_them() {
    for (count, size) in [(10, 100), (3, 30), (5, 1024)] {
        let end = of_the_program(count, size, |_| {});
        assert_eq!((end.error, end.count), (None, u64::from(count)), "{size}: {end}");
    }
}

#[test]
fn answers_that_are_something_else() {
    let changed = Some(CmServiceError::Content { round: 0 });
    for at in [40, 99] {
        assert_eq!(of_the_program(2, 100, |buffer| buffer[at] ^= 1).error, changed, "{at}");
    }
    assert_eq!(of_the_program(2, 100, |buffer| buffer[39] ^= 1).error, None, "of the area");
    let shorter = of_the_program(2, 100, |buffer| buffer.truncate(99));
    assert_eq!(shorter.error, Some(CmServiceError::Protocol));
}

/// By a client made by hand: datagrams of different lengths.
#[test]
fn the_server_answers_each_datagram() {
    pair(0.0, |here, there| {
        there.cm.serve(SERVICE).unwrap();
        let path = Path { src: CLIENT, dst: SERVER, next_hop: NextHop(0), ..Path::EMPTY };
        let service = RdmaCmServiceId { port_space: PortSpace::UDP, port: DEFAULT_PORT }.into();
        let query = SidrQuery { ip_src_port: 4321, ..SidrQuery::new(service, path) };
        here.cm.gsi().cm().sidr_request(Instant::ZERO, &query).unwrap();
        let (mut notices, mut others) = (Vec::new(), Vec::new());
        by_hand(here, there, (&mut notices, &mut others), |notices, _| !notices.is_empty());
        let [What::SidrResponse { status, qpn: server, qkey }] = notices[..] else {
            panic!("{notices:?}");
        };
        assert_eq!((status, qkey), (SidrStatus::VALID, QKEY));

        let qp = ByHand::new(&mut here.side);
        let ah = here.side.engine.create_ah(&path).unwrap();
        let to = UdAddress { ah, dest_qpn: server, qkey };
        let lens: [u32; 4] = [1024, 1, 0, 333];
        for (slot, len) in (0..).zip(lens) {
            let message: Vec<u8> = (0..len).map(|n| u8::try_from((n * 7) % 251).unwrap()).collect();
            let (out, back) = (slot * 2048, (1 << 15) + slot * 2048);
            here.side.host.memory.write(qp.at(out), [&message, &[]]).unwrap();
            qp.receive(&mut here.side, slot, back, 1024 + AREA);
            qp.send(&mut here.side, to, out, len);
        }
        by_hand(here, there, (&mut notices, &mut others), |_, others| others.len() == 8);
        let answers = others.iter().filter(|wc| wc.opcode == WcOpcode::Recv);
        assert_eq!(answers.clone().count(), 4);
        for (slot, (wc, len)) in (0..).zip(answers.zip(lens)) {
            assert_eq!(wc.wr_id, wr_id(OWN, slot));
            assert_eq!((wc.status, wc.byte_len), (WcStatus::Success, len + AREA));
            assert_eq!((wc.src_qp, wc.imm), (Some(server), Some(server.get())));
            let mut message = vec![0; usize::try_from(len).unwrap()];
            let at = qp.at((1 << 15) + slot * 2048 + AREA);
            here.side.host.memory.read(at, &mut message).unwrap();
            assert!(message.iter().zip(0u32..).all(|(byte, n)| u32::from(*byte) == (n * 7) % 251));
        }

        // Silence is its end.
        assert_eq!(there.cm.len(), 1);
        let ([_, theirs], _) = finish(here, there);
        let theirs = theirs.unwrap();
        assert_eq!((theirs.error, theirs.count), (None, 4));
        assert!(there.side.now.0 > 10_000_000_000);
    });
}
