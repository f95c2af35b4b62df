//! Either side of ucmatose against the other.

use dpu_app::service::cm::{AnySession, CmService, CmServiceError, End};
use dpu_app::service::ucmatose::{DEFAULT_PORT, Session, Traffic};

use crate::support::SERVER;

/// A connection, with the server's idea of the traffic and the client's; how it ended at either side.
fn run(theirs: Traffic, ours: Traffic, drop: f64) -> [End; 2] {
    let service = CmService::Ucmatose { port: DEFAULT_PORT, traffic: theirs };
    let ends = crate::run(service, drop, |number, gsi, context| {
        let ports = (1234, DEFAULT_PORT);
        let client = Session::connect(number, ours, SERVER, ports, gsi, context)?;
        Ok(AnySession::Ucmatose(client))
    });
    ends.map(Option::unwrap)
}

#[test]
fn there_and_back() {
    for (count, size) in [(10, 100), (1, 1), (7, 1024), (5, 5000), (512, 64)] {
        let traffic = Traffic { count, size };
        for end in run(traffic, traffic, 0.0) {
            assert_eq!((end.error, end.count), (None, u64::from(count)), "{traffic}: {end}");
            assert_eq!((end.service, end.peer.is_ipv4()), ("ucmatose", true));
        }
    }
}

#[test]
fn under_loss() {
    let traffic = Traffic { count: 200, size: 1500 };
    let [client, server] = run(traffic, traffic, 0.02);
    assert_eq!((client.error, client.count), (None, 200), "{client}");
    assert_eq!((server.error, server.count), (None, 200), "{server}");
}

/// Neither side tells the other what it does.
#[test]
fn by_different_measures() {
    let traffic = Traffic { count: 10, size: 100 };
    let [client, _] = run(Traffic { size: 99, ..traffic }, traffic, 0.0);
    assert_eq!(client.error, Some(CmServiceError::Protocol), "shorter messages: {client}");
    let [client, server] = run(Traffic { size: 101, ..traffic }, traffic, 0.0);
    assert!(client.error.is_some() && server.error.is_some(), "longer ones: {client} {server}");
    let [client, server] = run(Traffic { count: 9, ..traffic }, traffic, 0.0);
    assert!(client.error.is_some() || server.error.is_some(), "fewer: {client} {server}");
}
