//! Servers that are not what the client wants, and what it says of them.

use std::net::IpAddr;

use dpu_app::service::perftest::client::{Client, ClientError, ClientProgress, Job};
use dpu_app::service::perftest::{ExchangeError, Form, KeyMessage, Test};
use dpu_app::service::{Gid, Reply};
use roce_codec::ib::{PathMtu, Psn, Qpn, RKey};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::{FaultConfig, FaultPort, FaultRates};
use roce_engine::{Addr, WcStatus};

use super::roomy;
use super::world::{CLIENT, Count, MACS, SERVER, Side, job, plain, run};

/// The wrong test on the other side: the refused request is named.
#[test]
fn a_server_of_another_test() {
    roomy(|| {
        for (ours, theirs, status) in [
            (Test::WriteBw, Test::ReadBw, WcStatus::RemoteAccess),
            (Test::ReadBw, Test::WriteBw, WcStatus::RemoteInvalidRequest),
            (Test::AtomicLat, Test::ReadLat, WcStatus::RemoteInvalidRequest),
        ] {
            let job = Job { depth: 1, ..job(ours, 64) };
            let (mut wire, mut storage) = plain();
            let Err(error) = run(&job, theirs, &mut storage, wire.ends(MACS)) else {
                panic!("{ours} runs against {theirs}");
            };
            let ClientError::Failed { test, status: found, qp: 0, message: 0, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(test, ours);
            let refused = [WcStatus::RemoteAccess, WcStatus::RemoteInvalidRequest];
            assert!(refused.contains(&found), "{found:?}, {status:?} or its like wanted");
            let said = error.to_string();
            assert!(said.contains(&format!("does it run {ours}")), "{said}");
            assert!(
                said.contains("message 0 of queue pair 0") && said.contains("PSN 0x"),
                "{said}"
            );
        }
    });
}

/// A server without a network: no answer, and the client says what may be the matter.
#[test]
fn a_server_that_does_not_answer() {
    roomy(|| {
        let gone = FaultRates { drop: 1.0, ..FaultRates::default() };
        let (mut wire, mut storage) = plain();
        let ports = wire
            .ends(MACS)
            .map(|end| FaultPort::new(end, &FaultConfig { rx: gone, tx: gone, seed: 1 }));
        let Err(error) = run(&job(Test::WriteBw, 64), Test::WriteBw, &mut storage, ports) else {
            panic!("it ran");
        };
        let ClientError::Failed { status: WcStatus::RetryExceeded, message: 0, .. } = error else {
            panic!("{error:?}");
        };
        assert!(error.to_string().contains("UDP 4791"), "{error}");
    });
}

/// The greeting up to the key messages, as a server answers it.
fn greet<'s, P: Port>(client: &mut Client, near: &mut Side<'s, P>) -> Result<Reply, ClientError> {
    let mut out = Reply::new();
    client.start(&mut out, &near.context());
    for answer in [&b"6.06\0\0\0\0\0\0\0\0\0\0\0\0"[..], &[0, 0, 16, 0], &[0, 0, 0, 64], b"3\0"] {
        assert_eq!(client.next_len(), answer.len());
        out.clear();
        client.handle_message(answer, &mut out, &mut near.context())?;
    }
    Ok(out)
}

/// Of ib_write_bw of perftest 4.5 over rxe.
const KEY: &[u8; 108] = b"0000:0001:000011:d2ec0c:00000208:00007f56c97cf000:\
    00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:01:00000000:\0";

/// What the client says, byte by byte, as real clients of perftest 4.5 were seen to.
#[test]
fn the_bytes_of_the_greeting() {
    roomy(|| {
        let (mut wire, mut storage) = plain();
        let [near, _] = wire.ends(MACS);
        let mut near = Side::new(&mut storage[0], near, MACS[1], CLIENT);
        let mut client = Client::new(&job(Test::WriteBw, 64), CLIENT, Form::Text);
        let mut out = Reply::new();
        client.start(&mut out, &near.context());
        assert_eq!(&out[..], b"6.06\0\0\0\0\0\0\0\0\0\0\0\0");
        let mut next = |client: &mut Client, answer: &[u8]| {
            let mut out = Reply::new();
            client.handle_message(answer, &mut out, &mut near.context()).unwrap();
            out
        };
        assert_eq!(&next(&mut client, b"6.06\0\0\0\0\0\0\0\0\0\0\0\0")[..], [0, 0, 0x10, 0]);
        assert_eq!(&next(&mut client, &[0, 0, 0x10, 0])[..], [0, 0, 0, 0x40]);
        assert_eq!(&next(&mut client, &[0, 0, 0, 0x40])[..], b"5\0", "4096");
        let key = next(&mut client, b"3\0");
        let text = core::str::from_utf8(&key).unwrap();
        assert_eq!(text.len(), 108);
        assert!(text.starts_with("0000:0010:"), "LID and outstanding READs: {text}");
        assert!(
            text.ends_with("00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:02:00000000:\0"),
            "{text}"
        );
        assert_eq!(client.path_mtu(), PathMtu::Mtu1024, "the server's is the smaller one");
        // Its buffer lies behind another of the same size, which begins at a page.
        let ours = KeyMessage::parse(key.first_chunk().unwrap()).unwrap();
        assert_eq!(ours.va % 4096, 0);
        client.close(&mut near.context());
    });
}

#[test]
fn servers_that_make_no_sense() {
    roomy(|| {
        let (mut wire, mut storage) = plain();
        let [near, _] = wire.ends(MACS);
        let mut near = Side::new(&mut storage[0], near, MACS[1], CLIENT);
        let mut out = Reply::new();

        let mut client = Client::new(&job(Test::WriteBw, 64), CLIENT, Form::Text);
        client.start(&mut out, &near.context());
        let error = client.handle_message(b"SSH-2.0-OpenSSH_", &mut out, &mut near.context());
        assert_eq!(error, Err(ClientError::Exchange(ExchangeError::Version)));
        client.close(&mut near.context());

        let mut client = Client::new(&job(Test::WriteBw, 64), CLIENT, Form::Text);
        greet(&mut client, &mut near).unwrap();
        let error = client.handle_message(&[b'z'; 108], &mut out, &mut near.context());
        assert_eq!(error, Err(ClientError::Exchange(ExchangeError::Key)));
        client.close(&mut near.context());

        // Of another family.
        let mut client = Client::new(&job(Test::WriteBw, 64), CLIENT, Form::Text);
        greet(&mut client, &mut near).unwrap();
        let theirs = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 2]);
        let mut key = KeyMessage::parse(KEY).unwrap();
        key.gid = Gid::from(theirs);
        let error = client.handle_message(&key.emit(), &mut out, &mut near.context()).unwrap_err();
        assert_eq!(error, ClientError::Family { ours: CLIENT, theirs });
        assert!(error.to_string().contains("choose another GID index at the server (-x)"));
        client.close(&mut near.context());

        // No READ may be outstanding.
        let mut client = Client::new(&job(Test::ReadBw, 64), CLIENT, Form::Text);
        greet(&mut client, &mut near).unwrap();
        let key = KeyMessage { out_reads: 0, ..KeyMessage::parse(KEY).unwrap() };
        let error = client.handle_message(&key.emit(), &mut out, &mut near.context());
        assert_eq!(error, Err(ClientError::NoReads(Test::ReadBw)));
        client.close(&mut near.context());

        // All the zeroes and ones.
        for key in [[b'0'; 108], [b'f'; 108], [0; 108], [0xff; 108]] {
            let mut client = Client::new(&job(Test::SendLat, 64), CLIENT, Form::Text);
            greet(&mut client, &mut near).unwrap();
            assert!(client.handle_message(&key, &mut out, &mut near.context()).is_err());
            client.close(&mut near.context());
        }
        let nobody = KeyMessage {
            lid: u16::MAX,
            out_reads: u16::MAX,
            qpn: Qpn::new(0xff_ffff),
            psn: Psn::new(0xff_ffff),
            rkey: RKey(u32::MAX),
            va: u64::MAX,
            gid: Gid::from(SERVER),
            srqn: u32::MAX,
        };
        let mut client = Client::new(&job(Test::ReadLat, 64), CLIENT, Form::Text);
        greet(&mut client, &mut near).unwrap();
        client.handle_message(&nobody.emit(), &mut out, &mut near.context()).unwrap();
        client.poll(&mut Count::default(), &mut near.context()).unwrap();
        client.close(&mut near.context());
        assert!(near.is_clean());
    });
}

/// `ib_write_lat`'s server closes without a word once it has seen the last message, and then
/// acknowledges no more.
#[test]
fn a_write_lat_server_that_leaves() {
    roomy(|| {
        let (mut wire, mut storage) = plain();
        let [near, _] = wire.ends(MACS);
        let mut near = Side::new(&mut storage[0], near, MACS[1], CLIENT);
        let mut client =
            Client::new(&Job { iterations: Some(1), ..job(Test::WriteLat, 8) }, CLIENT, Form::Text);
        greet(&mut client, &mut near).unwrap();
        let mut out = Reply::new();
        let mut progress = ClientProgress::Continues;
        for _ in 0..4 {
            progress = client.handle_message(KEY, &mut out, &mut near.context()).unwrap();
        }
        assert_eq!(progress, ClientProgress::Runs);
        let mut meter = Count::default();
        client.poll(&mut meter, &mut near.context()).unwrap();
        assert!(meter.posted.is_empty(), "the server writes first");
        assert!(!client.handle_closed(), "it left before it had seen anything");

        let region = client.regions().next().unwrap().exposed.region;
        let at = Addr { offset: region.addr.offset + 4096 + 7, ..region.addr };
        roce_engine::Backing::write(&near.host.memory, at, [&[1], &[]]).unwrap();
        client.poll(&mut meter, &mut near.context()).unwrap();
        assert_eq!(meter.posted.len(), 1);
        assert!(!client.has_run(), "not acknowledged");
        assert!(client.handle_closed());
        assert!(client.has_run());
        client.close(&mut near.context());
    });
}
