//! Pingpong at either side, from the first message over TCP to the end of the session.

use dpu_app::service::pingpong::{Address, Client, DONE, Options, Session, Transport};
use dpu_app::service::{Progress, Reply};
use roce_codec::ib::PathMtu;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::{HeapStorage, Instant};

use crate::MACS;
use crate::counting::watch;
use crate::lossy::Lossy;
use crate::perftest::Machine;
use crate::support::side::{LIMITS, Side, host};
use crate::support::{CLIENT, SERVER};

const ITERATIONS: u64 = 500;

/// A whole run; says how many frames were lost of which one in so many is to be.
fn run(transport: Transport, size: u32, one_in: u32) -> u64 {
    let path_mtu = PathMtu::Mtu1024;
    let options = Options { transport, path_mtu, size, iterations: Some(ITERATIONS), check: true };
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let [a, b] = &mut storage;
    let side = |storage, port, address| {
        let port = Lossy::new(port, one_in);
        Side::new(storage, port, Machine(host(address)), path_mtu)
    };
    let (mut here, mut there) = (side(a, near, CLIENT), side(b, far, SERVER));
    let ((), asked) = watch(|| {
        let mut client = Client::new(6, options, CLIENT, &mut here.context()).unwrap();
        let mut session = Session::new(5, options);
        let mut reply = Reply::new();
        let said = client.address().emit();
        let progress = session.handle_message(&said, &mut reply, &mut there.context());
        assert_eq!(progress, Ok(Progress::Started));
        let server = Address::parse(reply.first_chunk().unwrap()).unwrap();
        client.connect(&server, &mut here.context()).unwrap();
        session.handle_message(&DONE, &mut reply, &mut there.context()).unwrap();
        client.start(&mut here.context()).unwrap();
        let mut now = Instant::ZERO;
        while !client.is_done() {
            // A microsecond while something is under way; a timer is met soon.
            let idle = [here.turn(now), there.turn(now)];
            let idle = idle.iter().all(|turn| turn.received + turn.sent == 0);
            now = now.add_ns(if idle { 100_000 } else { 1000 });
            while let Some(wc) = here.poll_cq() {
                client.handle_completion(&wc, &mut here.context()).unwrap();
            }
            while let Some(event) = here.poll_event() {
                client.handle_event(&event).unwrap();
            }
            if client.poll_timeout().is_some_and(|due| due <= now) {
                client.handle_timeout(&here.context()).unwrap();
            }
            while let Some(wc) = there.poll_cq() {
                session.handle_completion(&wc, &mut there.context()).unwrap();
            }
            while let Some(event) = there.poll_event() {
                session.handle_event(&event).unwrap();
            }
            if session.poll_timeout().is_some_and(|due| due <= now) {
                session.handle_timeout(&there.context());
            }
        }
        assert_eq!([client.answered(), session.messages()], [ITERATIONS; 2]);
        client.close(&mut here.context());
        session.close(&mut there.context());
    });
    assert_eq!(asked, 0, "{transport}: calls of the allocator");
    here.port.lost + there.port.lost
}

#[test]
fn pingpong() {
    let lost = run(Transport::Rc, 5000, 100);
    assert!(lost > 20, "{lost}");
    // These lose a message for good.
    run(Transport::Uc, 5000, u32::MAX);
    run(Transport::Ud, 1000, u32::MAX);
}
