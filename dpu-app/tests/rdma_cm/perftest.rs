//! A server of perftest's, asked by who is no client of it: another program at its port.

use dpu_app::service::cm::{AnySession, CmService, CmServiceError, End};
use dpu_app::service::perftest::{DEFAULT_PORT, Options, Test};
use dpu_app::service::ucmatose::{Session, Traffic};
use roce_codec::cm::RejReason;
use roce_engine::{Access, Limits, PostError};

use crate::support::SERVER;
use crate::support::side::LIMITS;
use crate::{connect, finish, pair_with};

const OPTIONS: Options =
    Options { region_len: 4096, size: None, iterations: None, access: Access::NONE };
const SERVICE: CmService =
    CmService::Perftest { port: DEFAULT_PORT, test: Test::WriteBw, options: OPTIONS };
/// What queue pair 1 keeps posted, and the exchange.
const GSI_RECEIVES: usize = 64;
const RECEIVES: usize = 8;

/// How it ends at either side, where the server's engine has so many receives.
fn asked_by_another(recv_wqes: usize) -> [End; 2] {
    pair_with(&Limits { recv_wqes, ..LIMITS }, 0.0, |here, there| {
        there.cm.serve(SERVICE).unwrap();
        connect(here, |number, gsi, context| {
            let (traffic, ports) = (Traffic { count: 1, size: 16 }, (1234, DEFAULT_PORT));
            let client = Session::connect(number, traffic, SERVER, ports, gsi, context)?;
            Ok(AnySession::Ucmatose(client))
        })
        .unwrap();
        finish(here, there).0.map(Option::unwrap)
    })
}

/// The receives that are there already are given back, and the peer is told.
#[test]
fn too_few_receives_for_the_exchange() {
    for recv_wqes in GSI_RECEIVES..GSI_RECEIVES + RECEIVES {
        let [ours, theirs] = asked_by_another(recv_wqes);
        let refused = CmServiceError::Rejected(RejReason::CONSUMER_REJECT);
        assert_eq!(ours.error, Some(refused), "{recv_wqes}");
        assert_eq!(theirs.error, Some(PostError::QueueFull.into()), "{recv_wqes}");
        assert!(!theirs.was_served, "{recv_wqes}");
    }
}

/// It is connected, but says nothing and gets no queue pair for a run.
#[test]
fn no_exchange() {
    let [_, theirs] = asked_by_another(GSI_RECEIVES + RECEIVES);
    assert_eq!(theirs.error, Some(CmServiceError::Gone));
    assert!(!theirs.was_served, "{theirs}");
}
