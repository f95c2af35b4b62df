//! Either side of rping against the other.

use dpu_app::service::cm::{AnySession, CmService, CmServiceError, End};
use dpu_app::service::rping::{Advert, Client, ClientOptions, DEFAULT_PORT};
use dpu_app::service::wr_id;
use roce_codec::cm::RejReason;
use roce_codec::ib::{PKey, Psn, QKey, Qpn, RKey, Service};
use roce_engine::{
    ModifyQp, NextHop, Path, QpInit, SeededEntropy, SendWr, UdAddress, Wc, WcOpcode, WcStatus,
    WrOpcode,
};

use crate::support::{CLIENT, SERVER};
use crate::{connect, finish, pair};

const SERVICE: CmService = CmService::Rping { port: DEFAULT_PORT };

fn options(size: u32, count: u64, port: u16) -> ClientOptions {
    ClientOptions { peer: SERVER, port, src_port: 40_000, count, size, verify: true }
}

/// Runs a client; says how it ended at its own side and at the server's.
fn run(options: &ClientOptions, drop: f64) -> [Option<End>; 2] {
    crate::run(SERVICE, drop, |number, gsi, context| {
        Client::connect(number, options, gsi, context).map(AnySession::RpingClient)
    })
}

#[test]
fn pings_come_back() {
    for (size, count) in [(16, 1), (64, 100), (1025, 20), (65536, 3)] {
        let ends = run(&options(size, count, DEFAULT_PORT), 0.0);
        for end in ends {
            let end = end.unwrap();
            assert_eq!((end.error, end.count), (None, count), "{size}: {end}");
            assert!(end.was_served);
        }
    }
}

#[test]
fn pings_come_back_over_a_lossy_wire() {
    let ends = run(&options(3000, 100, DEFAULT_PORT), 0.05);
    assert_eq!(ends[0].map(|end| (end.error, end.count)), Some((None, 100)));
    assert_eq!(ends[1].map(|end| end.count), Some(100));
}

#[test]
fn a_port_that_nobody_listens_at() {
    let [ours, theirs] = run(&options(64, 1, 9), 0.0);
    let refused = CmServiceError::Rejected(RejReason::INVALID_SERVICE_ID);
    assert_eq!(ours.unwrap().error, Some(refused));
    assert_eq!(theirs, None);
}

/// What has the session's number, but is another's, does it no harm.
#[test]
fn a_completion_of_another_queue_pair() {
    let ([ours, _], _) = pair(0.0, |here, there| {
        there.cm.serve(SERVICE).unwrap();
        let mut own = 0;
        connect(here, |number, gsi, context| {
            own = number;
            let options = options(64, 3, DEFAULT_PORT);
            Client::connect(number, &options, gsi, context).map(AnySession::RpingClient)
        })
        .unwrap();
        let wc = Wc {
            wr_id: wr_id(own, 0),
            status: WcStatus::RetryExceeded,
            opcode: WcOpcode::Send,
            byte_len: 0,
            imm: None,
            invalidated: None,
            qp: Qpn::new(0x00ab_cdef),
            src_qp: None,
            solicited: false,
        };
        let (cm, mut context) = here.parts();
        cm.handle_completion(&wc, &mut context);
        assert_eq!(cm.len(), 1);
        finish(here, there)
    });
    assert_eq!(ours.map(|end| (end.error, end.count)), Some((None, 3)));
}

/// What is no MAD, of another class, or from elsewhere than a queue pair 1, is dropped and counted;
/// the client beside it is served.
#[test]
fn nonsense_at_queue_pair_1() {
    let (ends, seen) = pair(0.0, |here, there| {
        there.cm.serve(SERVICE).unwrap();
        let options = options(64, 5, DEFAULT_PORT);
        connect(here, |number, gsi, context| {
            Client::connect(number, &options, gsi, context).map(AnySession::RpingClient)
        })
        .unwrap();
        let side = &mut here.side;
        let pd = side.engine.alloc_pd();
        let init = QpInit {
            max_send_wr: 8,
            max_inline_data: 256,
            ..QpInit::new(Service::Ud, pd, side.queues.send, side.queues.recv)
        };
        let qp = side.engine.create_qp(&init, &mut SeededEntropy::new(9)).unwrap();
        for change in [
            ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKey::GSI },
            ModifyQp::RtrUd,
            ModifyQp::RtsUd { sq_psn: Psn::new(0) },
        ] {
            side.engine.modify_qp(qp, &change).unwrap();
        }
        let path = Path { src: CLIENT, dst: SERVER, next_hop: NextHop(0), ..Path::EMPTY };
        let ah = side.engine.create_ah(&path).unwrap();
        let to = UdAddress { ah, dest_qpn: Qpn::GSI, qkey: QKey::GSI };
        let mut of_cm = [0; 256];
        of_cm[..4].copy_from_slice(&[1, 7, 2, 3]);
        for bytes in [&[][..], &[1], &[0xa5; 255], &[0xa5; 256], &of_cm] {
            let wr = SendWr::new(1 << 32, WrOpcode::Send, &[]).to(to).inline(bytes).unsignaled();
            side.engine.post_send(qp, &wr).unwrap();
        }
        finish(here, there)
    });
    assert_eq!(ends.map(|end| end.map(|end| (end.error, end.count))), [Some((None, 5)); 2]);
    // Too short thrice; of no known class, and of the right one but from another queue pair.
    assert_eq!((seen.malformed, seen.foreign), (3, 2));
    assert_eq!(seen.received, 5 + 3, "and REQ, RTU, DREQ");
}

/// The first SEND of `rping -c` as Linux sent it.
#[test]
fn an_advert_of_linux() {
    let bytes = [0, 0, 0x55, 0x72, 0xd8, 0xba, 0x63, 0x70, 0, 0, 0x05, 0xbb, 0, 0, 0, 64];
    let advert = Advert { va: 0x5572_d8ba_6370, rkey: RKey(0x5bb), len: 64 };
    assert_eq!(Advert::parse(&bytes), advert);
    assert_eq!(advert.emit(), bytes);
}
