//! The connection manager and its services at either side: from listening and the first MAD to the
//! end of the last of several sessions.

use std::time::Duration;

use dpu_app::service::cm::{AnySession, CmService, CmServiceError, Gsi};
use dpu_app::service::rping::{self, ClientOptions};
use dpu_app::service::ucmatose::{self, Traffic};
use dpu_app::service::{Context, udaddy};
use roce_codec::ib::PathMtu;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::HeapStorage;
use roce_engine::cm::HeapCmStorage;

use crate::MACS;
use crate::counting::watch;
use crate::lossy::Lossy;
use crate::perftest::Machine;
use crate::support::side::{CmSide, LIMITS, Side, host, slots, until};
use crate::support::{CLIENT, SERVER};

const PATIENCE: Duration = Duration::from_secs(60);
const SESSIONS: usize = 20;
/// Frames of which one is lost.
const FEW: u32 = 100;

/// Clients one after another; one frame in so many is lost, at either side. Says how many were.
fn sessions(
    service: CmService,
    one_in: u32,
    rounds: u64,
    client: impl Fn(
        u32,
        &mut Gsi<'_>,
        &mut Context<'_, '_, Machine>,
    ) -> Result<AnySession, CmServiceError>,
) -> u64 {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    // Connections of before are in time-wait.
    let most = SESSIONS + 4;
    let mut cm = [HeapCmStorage::new(most, 4, 8), HeapCmStorage::new(most, 4, 8)];
    let mut slots = [slots(1), slots(1)];
    let ([a, b], [c, d], [e, f]) = (&mut storage, &mut cm, &mut slots);
    let side = |storage, port, address| {
        let port = Lossy::new(port, one_in);
        Side::new(storage, port, Machine(host(address)), PathMtu::Mtu1024)
    };
    let (here, there) = (side(a, near, CLIENT), side(b, far, SERVER));
    let (mut here, mut there) = (CmSide::new(here, c, e), CmSide::new(there, d, f));
    let ((), asked) = watch(|| {
        there.cm.serve(service).unwrap();
        for _ in 0..SESSIONS {
            let (cm, mut context) = here.parts();
            let number = cm.number();
            let client = client(number, cm.gsi(), &mut context).unwrap();
            cm.add(number, client, &mut context).unwrap();
            until(&mut here, &mut there, PATIENCE, |here, there| {
                here.cm.is_empty() && there.cm.is_empty()
            });
            let end = here.cm.poll_end().unwrap();
            assert_eq!((end.error, end.count), (None, rounds));
            assert_eq!(there.cm.poll_end().unwrap().count, rounds);
        }
    });
    assert_eq!(asked, 0, "{service}: calls of the allocator");
    here.side.port.lost + there.side.port.lost
}

#[test]
fn rping() {
    let port = rping::DEFAULT_PORT;
    let options =
        ClientOptions { peer: SERVER, port, src_port: 40_000, count: 50, size: 3000, verify: true };
    let lost = sessions(CmService::Rping { port }, FEW, 50, |number, gsi, context| {
        let client = rping::Client::connect(number, &options, gsi, context)?;
        Ok(AnySession::RpingClient(client))
    });
    assert!(lost > 20, "{lost}");
}

#[test]
fn ucmatose() {
    let (port, traffic) = (ucmatose::DEFAULT_PORT, Traffic { count: 100, size: 1500 });
    let service = CmService::Ucmatose { port, traffic };
    let lost = sessions(service, FEW, 100, |number, gsi, context| {
        let ports = (40_000, port);
        let client = ucmatose::Session::connect(number, traffic, SERVER, ports, gsi, context)?;
        Ok(AnySession::Ucmatose(client))
    });
    assert!(lost > 20, "{lost}");
}

/// Nobody sends a datagram again.
#[test]
fn udaddy() {
    let port = udaddy::DEFAULT_PORT;
    let (peer, src_port, count, size) = (SERVER, 40_000, udaddy::MAX_COUNT, 1000);
    let options = udaddy::ClientOptions { peer, port, src_port, count, size };
    sessions(CmService::Udaddy { port }, u32::MAX, count.into(), |number, gsi, context| {
        let client = udaddy::Client::connect(number, &options, gsi, context)?;
        Ok(AnySession::UdaddyClient(client))
    });
}
