//! What two programs of perftest 4.5 said to each other over rxe: `ib_write_bw -R -q 2 -n 10 -s 1024`,
//! every SEND of the connection that carries the exchange, in order.

use dpu_app::service::perftest::client::{Client, ClientProgress, Job};
use dpu_app::service::perftest::{Exchange, Form, KeyMessage, Message, Test};
use dpu_app::service::{Progress, Reply};
use roce_codec::ib::PathMtu;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::HeapStorage;

use super::support::side::{MACS, Side, host};
use super::{CLIENT, LIMITS, job, roomy};

fn said_by(who: &str) -> Vec<Vec<u8>> {
    let lines = include_str!("write_bw.txt").lines();
    let lines = lines.filter_map(|line| line.strip_prefix(who)?.strip_prefix(' '));
    lines
        .map(|hex| {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        })
        .map(Iterator::collect)
        .collect()
}

/// The client's part makes sense to the server's, message by message.
#[test]
fn a_real_client() {
    let mut exchange = Exchange::new(Test::WriteBw, Form::Binary);
    let mut named = Vec::new();
    let mut course = Vec::new();
    let mut results = Vec::new();
    for message in said_by("client") {
        assert_eq!(exchange.next_len(), message.len());
        let mut new_qp = false;
        match exchange.parse(&message).unwrap() {
            Message::Key(key) => {
                new_qp = !named.contains(&key.qpn);
                named.push(key.qpn);
                assert_eq!(key.gid.address().to_string(), "10.78.2.2");
                // All but the four bytes of no meaning.
                let mut written = key.emit_binary();
                written[20..24].copy_from_slice(&message[20..24]);
                assert_eq!(written[..], message);
            }
            Message::Barrier => assert!(named.is_empty()),
            Message::Result(value) => results.push(value),
            _ => {}
        }
        course.push(exchange.advance(new_qp).unwrap());
        assert_eq!(exchange.is_joining(), course.len() == 5, "between the barriers");
    }
    let (first, second) = (named[0].get(), named[1].get());
    assert_eq!((first, second), (0x14, 0x15));
    let names: Vec<_> = named.iter().map(|qpn| qpn.get() - first).collect();
    assert_eq!(names, [0, 1, 0, 1, 0, 0, 0], "five before the run, two behind it");
    assert_eq!(results[..2], [1024, 20]);
    // The version, two sizes, the path MTU, two barriers, and five keys.
    assert_eq!(course.iter().position(|step| *step == Progress::Started), Some(10));
    assert_eq!(course.iter().position(|step| *step == Progress::Finished), Some(course.len() - 1));
    assert!(exchange.may_end());
}

/// The server's answers make sense to our client until it is to connect, and what that says is what
/// the real one does.
#[test]
fn a_real_server() {
    roomy(|| {
        let mut wire = Box::new(LoopbackWire::<32>::new());
        let [near, _] = wire.ends(MACS);
        let mut storage = HeapStorage::new(&LIMITS);
        let mut near = Side::new(&mut storage, near, host(CLIENT), PathMtu::Mtu4096);
        let job = Job { qps: 2, ..job(Test::WriteBw, 1024) };
        let mut client = Client::new(&job, CLIENT, Form::Binary);
        let mut out = Reply::new();
        client.start(&mut out, &near.context());
        let mut real = said_by("client").into_iter();
        for answer in said_by("server") {
            assert_eq!(Some(out.to_vec()), real.next(), "as the real client says it");
            out.clear();
            assert_eq!(client.next_len(), answer.len());
            let progress = client.handle_message(&answer, &mut out, &mut near.context()).unwrap();
            if progress == ClientProgress::Connects {
                assert_eq!(answer, [0; KeyMessage::BINARY_LEN]);
                assert_eq!((client.next_len(), out.len()), (0, 0));
                break;
            }
        }
        assert_eq!(client.path_mtu(), PathMtu::Mtu4096);
        assert_eq!(real.len(), 13, "what is said once it has connected");
        client.close(&mut near.context());
    });
}
