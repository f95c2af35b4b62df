//! One of a client's queue pairs: ours that answers it, and the memory behind it.

use roce_codec::ib::{PathMtu, Psn, Qpn};
use roce_engine::{Access, Entropy, Pd, PostError, QpInit, RecvWr};

use super::Test;
use super::connect::{Connect, TIMEOUT};
use super::error::SessionError;
use super::key::KeyMessage;
use crate::service::memory::Exposed;
use crate::service::{Context, Gid, Platform, Route};

/// Receives kept posted on a queue pair: as many as perftest's own server keeps.
const RECEIVES: u32 = 512;
/// Sends that may wait on a queue pair; a latency test has one, or two when an acknowledgement
/// is slow.
const SENDS: u32 = 16;

/// What a session's pairs have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct PairAttr {
    pub(super) test: Test,
    /// What the client may do.
    pub(super) access: Access,
    pub(super) pd: Pd,
    pub(super) path_mtu: PathMtu,
    pub(super) region_len: u32,
}

impl PairAttr {
    /// Whether the client may send what has to be kept for replay.
    fn reads(&self) -> bool {
        self.test.reads() || self.access != self.test.access()
    }
}

/// A queue pair and its memory. It is to be ended with [`Pair::close`].
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) peer: KeyMessage,
    pub(super) qpn: Qpn,
    pub(super) exposed: Exposed,
    /// What we send from, in the latency tests where we do.
    pub(super) source: Option<Exposed>,
    psn: Psn,
    route: Route,
}

impl Pair {
    /// Takes memory and a queue pair for a client's.
    pub(super) fn new<P: Platform>(
        peer: KeyMessage,
        attr: &PairAttr,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, SessionError> {
        let route = context.platform.route(peer.gid.address())?;
        let made = Self::with_memory(peer, attr, route, context);
        if made.is_err() {
            context.platform.release_route(route);
        }
        made
    }

    fn with_memory<P: Platform>(
        peer: KeyMessage,
        attr: &PairAttr,
        route: Route,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, SessionError> {
        let PairAttr { test, access, pd, region_len, .. } = *attr;
        let len = u64::from(region_len);
        let exposed = Exposed::new(context, pd, len, access)?;
        if matches!(test, Test::ReadBw | Test::ReadLat) {
            exposed.fill_with_noise(context);
        }
        let source = match test {
            Test::WriteLat | Test::SendLat => match Exposed::new(context, pd, len, Access::NONE) {
                Ok(source) => Some(source),
                Err(error) => {
                    exposed.withdraw(context);
                    return Err(error.into());
                }
            },
            _ => None,
        };
        let init = QpInit {
            max_send_wr: SENDS,
            max_recv_wr: RECEIVES,
            observe_writes: test == Test::WriteLat,
            ..QpInit::new(roce_codec::ib::Service::Rc, pd, context.queues.send, context.queues.recv)
        };
        match context.engine.create_qp(&init, context.platform.random()) {
            Ok(qpn) => {
                let psn = Psn::new(context.platform.random().next_u32());
                Ok(Self { peer, qpn, exposed, source, psn, route })
            }
            Err(error) => {
                exposed.withdraw(context);
                source.into_iter().for_each(|source| source.withdraw(context));
                Err(error.into())
            }
        }
    }

    /// Makes it ready to receive and to send: the client may begin as soon as it has its answer.
    /// `wr_id` is of the receives, in the tests that have some.
    pub(super) fn connect<P: Platform>(
        &self,
        attr: &PairAttr,
        wr_id: u64,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        let connect = Connect {
            qpn: self.qpn,
            psn: self.psn,
            peer: &self.peer,
            route: self.route,
            path_mtu: attr.path_mtu,
            access: attr.access,
            max_dest_rd_atomic: if attr.reads() { context.engine.max_dest_rd_atomic() } else { 0 },
            max_rd_atomic: 0,
            timeout: TIMEOUT,
        };
        connect.apply(context.engine)?;
        if attr.test.receives() {
            for _ in 0..RECEIVES {
                self.post_receive(attr.region_len, wr_id, context)?;
            }
        }
        Ok(())
    }

    /// Lends the whole region to the client's next SEND.
    pub(super) fn post_receive<P: Platform>(
        &self,
        region_len: u32,
        wr_id: u64,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let sge = self.exposed.sge(0, region_len);
        context.engine.post_recv(self.qpn, &RecvWr::new(wr_id, &[sge]))
    }

    /// Its description for the client.
    pub(super) fn key<P: Platform>(
        &self,
        attr: &PairAttr,
        context: &Context<'_, '_, P>,
    ) -> KeyMessage {
        // READs and atomics that the client may have outstanding: what it says it takes itself,
        // which is what its device can do, as far as we keep them for replay.
        let most = u16::from(context.engine.max_dest_rd_atomic()).max(1);
        let out_reads = if attr.reads() { self.peer.out_reads.clamp(1, most) } else { 1 };
        KeyMessage {
            lid: 0,
            out_reads,
            qpn: self.qpn,
            psn: self.psn,
            rkey: self.exposed.mr.rkey,
            va: self.exposed.region.va,
            gid: Gid::from(self.route.src),
            srqn: 0,
        }
    }

    /// Destroys the queue pair and gives its memory back.
    pub(super) fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // It is there: nobody else destroys it.
        let _ = context.engine.destroy_qp(self.qpn);
        self.exposed.withdraw(context);
        self.source.into_iter().for_each(|source| source.withdraw(context));
        context.platform.release_route(self.route);
    }
}
