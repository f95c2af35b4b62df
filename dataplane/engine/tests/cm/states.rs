//! A manager in each state, brought there by its peer.

use roce_codec::cm::{CommunicationId, MAD_LEN, Mad, Timeout};
use roce_engine::cm::{Accept, Cm, CmState, Connect};
use roce_engine::{Instant, Path};

use crate::pair::{PASSIVE_PSN, PASSIVE_QPN, SERVICE, Told, connect, manager, path};

/// A manager at 192.0.2.1, one connection of which is in a state.
pub(crate) struct Brought {
    pub(crate) cm: Cm<'static>,
    /// Our ID of the connection.
    pub(crate) ours: CommunicationId,
    /// The peer's, whether we know it yet or not; 0 if it has none.
    pub(crate) theirs: CommunicationId,
    /// Whether we are the passive side.
    pub(crate) passive: bool,
    /// The REQ that began it.
    pub(crate) req: [u8; MAD_LEN],
}

/// What one sends the other gets; the last of it.
fn pass(from: &mut Cm<'_>, to: &mut Cm<'_>, way: &Path, now: Instant) -> Option<[u8; MAD_LEN]> {
    let mut last = None;
    while let Some(transmit) = from.poll_transmit(now) {
        to.handle_mad(now, &Mad::parse(&transmit.mad).unwrap(), way);
        last = Some(transmit.mad);
    }
    last
}

fn id_told(cm: &mut Cm<'_>) -> CommunicationId {
    match cm.poll_event().map(|event| Told::from(&event)) {
        Some(Told::ConnectRequest { id, .. } | Told::ConnectResponse { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

/// Brings a fresh manager, the peer of which is 192.0.2.2, into a state. What it has to send in
/// that state is still to be polled.
pub(crate) fn brought_to(state: CmState, passive: bool, now: Instant) -> Brought {
    let mut peer = manager(0xb, 3, 8);
    let mut cm = manager(0xa, 4, 8);
    cm.listen(SERVICE, 4).unwrap();
    peer.listen(SERVICE, 4).unwrap();
    let (ours, theirs, req) = if passive {
        as_passive(state, now, &mut cm, &mut peer)
    } else if state == CmState::Idle {
        (CommunicationId(0), CommunicationId(0), [0; MAD_LEN])
    } else {
        as_active(state, now, &mut cm, &mut peer)
    };
    if [CmState::DreqRcvd, CmState::Timewait].contains(&state) {
        peer.disconnect(now, theirs, &[]).unwrap();
        pass(&mut peer, &mut cm, &path(1, 2), now);
        assert!(cm.poll_event().is_some());
    }
    if [CmState::DreqSent, CmState::Timewait].contains(&state) {
        cm.disconnect(now, ours, &[]).unwrap();
    }
    assert_eq!(cm.state(ours), state);
    Brought { cm, ours, theirs, passive, req }
}

type Names = (CommunicationId, CommunicationId, [u8; MAD_LEN]);

/// As far as the state is on the way to an established connection.
fn as_passive(state: CmState, now: Instant, cm: &mut Cm<'_>, peer: &mut Cm<'_>) -> Names {
    use CmState::*;
    let (to_us, to_peer) = (path(1, 2), path(2, 1));
    let asked = Connect { path: path(2, 1), ..connect() };
    let theirs = peer.connect(now, &asked).unwrap();
    let req = pass(peer, cm, &to_us, now).unwrap();
    let ours = id_told(cm);
    let names = (ours, theirs, req);
    if state == MraReqSent {
        cm.delay(now, ours, Timeout::new(10), &[]).unwrap();
    }
    if state == ReqRcvd || state == MraReqSent {
        return names;
    }
    cm.accept(now, ours, &Accept::new(PASSIVE_QPN, PASSIVE_PSN)).unwrap();
    if state == RepSent {
        return names;
    }
    pass(cm, peer, &to_peer, now);
    assert_eq!(id_told(peer), theirs);
    if state == MraRepRcvd {
        peer.delay(now, theirs, Timeout::new(10), &[]).unwrap();
        pass(peer, cm, &to_us, now);
        return names;
    }
    peer.ready(now, theirs, &[]).unwrap();
    pass(peer, cm, &to_us, now);
    assert!(cm.poll_event().is_some());
    names
}

fn as_active(state: CmState, now: Instant, cm: &mut Cm<'_>, peer: &mut Cm<'_>) -> Names {
    use CmState::*;
    let (to_us, to_peer) = (path(1, 2), path(2, 1));
    let ours = cm.connect(now, &connect()).unwrap();
    let req = pass(cm, peer, &to_peer, now).unwrap();
    let theirs = id_told(peer);
    let names = (ours, theirs, req);
    match state {
        ReqSent => return names,
        RepWait => peer.delay(now, theirs, Timeout::new(10), &[]).unwrap(),
        _ => drop(peer.accept(now, theirs, &Accept::new(PASSIVE_QPN, PASSIVE_PSN)).unwrap()),
    }
    pass(peer, cm, &to_us, now);
    if state == RepWait {
        return names;
    }
    assert_eq!(id_told(cm), ours);
    match state {
        RepRcvd => return names,
        MraRepSent => {
            cm.delay(now, ours, Timeout::new(10), &[]).unwrap();
            return names;
        }
        _ => cm.ready(now, ours, &[]).unwrap(),
    }
    if state != Established {
        pass(cm, peer, &to_peer, now);
        assert!(peer.poll_event().is_some());
    }
    names
}
