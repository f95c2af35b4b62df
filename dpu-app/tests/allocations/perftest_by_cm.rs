//! The perftest service and its client with `-R`, from the first MAD to the last.

use dpu_app::service::Reply;
use dpu_app::service::cm::{CmService, Gsi};
use dpu_app::service::perftest::client::{ByCm, Client, ClientProgress, Job, Meter, Outcome};
use dpu_app::service::perftest::{DEFAULT_PORT, Form, Test};
use roce_codec::ib::PathMtu;
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{HeapStorage, Instant, Limits};

use crate::MACS;
use crate::counting::watch;
use crate::lossy::Lossy;
use crate::perftest::{Machine, OPTIONS};
use crate::support::side::{CmSide, Side, host, slots};
use crate::support::{CLIENT, SERVER};

const LIMITS: Limits = Limits { qps: 8, mrs: 16, cqes: 8192, recv_wqes: 2048, ..Limits::SMALL };

type Port<'s> = Lossy<LoopbackPort<'s, 32>>;

const TURN_NS: u64 = 20_000;

struct Unmeasured;

impl Meter for Unmeasured {
    fn posted(&mut self, _: usize, _: u64, _: Instant) {}

    fn completed(&mut self, _: usize, _: u64, _: Instant) {}
}

fn pump_client(
    near: &mut Side<'_, Port<'_>, Machine>,
    by_cm: &mut ByCm<'_>,
    client: &mut Client,
    out: &mut Reply,
) {
    let _ = near.turn(near.now.add_ns(TURN_NS));
    while let Some(wc) = near.poll_cq() {
        if !by_cm.handle_completion(&wc, &mut near.context()).unwrap() {
            client.handle_completion(&wc, &mut Unmeasured, &mut near.context()).unwrap();
        }
    }
    while let Some(event) = near.poll_event() {
        by_cm.handle_event(&event).unwrap();
        client.handle_event(&event).unwrap();
    }
    by_cm.poll(client, out, &mut near.context()).unwrap();
    client.poll(&mut Unmeasured, &mut near.context()).unwrap();
    if by_cm.is_connected() && !out.is_empty() {
        by_cm.send(out, &mut near.context()).unwrap();
        out.clear();
    }
    if let Some(message) = by_cm.poll_message() {
        let context = &mut near.context();
        if client.handle_message(&message, out, context) == Ok(ClientProgress::Connects) {
            by_cm.connect_pairs(client, context).unwrap();
        }
    }
    if client.has_run() {
        client.finish_run(Outcome::default(), out, &near.context());
    }
}

fn run(test: Test) -> u64 {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let mut cm = [HeapCmStorage::new(8, 4, 8), HeapCmStorage::new(8, 4, 8)];
    let mut sessions = slots(1);
    let ([a, b], [c, d]) = (&mut storage, &mut cm);
    let machine = |address| Machine(host(address));
    let mut near = Side::new(a, Lossy::new(near, 100), machine(CLIENT), PathMtu::Mtu1024);
    let far = Side::new(b, Lossy::new(far, 100), machine(SERVER), PathMtu::Mtu1024);
    let mut far = CmSide::new(far, d, &mut sessions);
    far.cm.serve(CmService::Perftest { port: DEFAULT_PORT, test, options: OPTIONS }).unwrap();
    let gsi = Gsi::new(c.lend(), &mut near.context()).unwrap();
    let size = if test.is_atomic() { 8 } else { 1500 };
    let job = Job { size, iterations: Some(300), timeout: 10, ..Job::new(test) };
    let mut client = Client::new(&job, CLIENT, Form::Binary);
    let mut out = Reply::new();
    client.start(&mut out, &near.context());

    let (by_cm, mut asked) =
        watch(|| ByCm::connect(SERVER, (40_000, DEFAULT_PORT), &job, gsi, &mut near.context()));
    let mut by_cm = by_cm.unwrap();
    let mut end = None;
    let mut closed = false;
    for _ in 0..20_000_000 {
        let ((), count) = watch(|| {
            pump_client(&mut near, &mut by_cm, &mut client, &mut out);
            far.pump(near.now);
            end = end.or(far.cm.poll_end());
            if !closed && client.is_over() && out.is_empty() {
                by_cm.close(&mut near.context());
                closed = true;
            }
        });
        asked += count;
        if closed && end.is_some() {
            break;
        }
    }
    let end = end.unwrap_or_else(|| panic!("{test}: it does not end"));
    assert_eq!((end.error, end.was_served), (None, true), "{test}: {end}");
    assert_eq!(asked, 0, "{test}: calls of the allocator");
    near.port.lost + far.side.port.lost
}

#[test]
fn perftest_by_rdma_cm() {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let lost: u64 = Test::ALL.into_iter().map(run).sum();
        assert!(lost > 0);
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}
