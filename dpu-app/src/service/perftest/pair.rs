//! One of a client's queue pairs: ours that answers it, and the memory behind it.

use core::net::IpAddr;

use roce_codec::ib::{PathMtu, Psn, Qpn};
use roce_engine::{Access, Entropy, Pd, PostError, QpInit, RecvWr};

use super::Test;
use super::connect::{Connect, TIMEOUT};
use super::error::SessionError;
use super::key::KeyMessage;
use crate::service::memory::Exposed;
use crate::service::{Context, Gid, Platform, Route};

/// Receives kept posted on a queue pair: as many as perftest's own server keeps.
pub(super) const RECEIVES: u32 = 512;
/// Sends that may wait on a queue pair; a latency test has one, or two when an acknowledgement
/// is slow.
pub(super) const SENDS: u32 = 16;

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
    pub(super) fn reads(&self) -> bool {
        self.test.reads() || self.access != self.test.access()
    }
}

/// What lies behind a queue pair. It is to be given back with [`PairMemory::withdraw`].
#[derive(Debug)]
pub(super) struct PairMemory {
    pub(super) exposed: Exposed,
    /// What we send from, in the latency tests where we do.
    pub(super) source: Option<Exposed>,
}

impl PairMemory {
    /// Takes it.
    pub(super) fn new<P: Platform>(
        attr: &PairAttr,
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
        Ok(Self { exposed, source })
    }

    pub(super) fn withdraw<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.exposed.withdraw(context);
        self.source.into_iter().for_each(|source| source.withdraw(context));
    }
}

/// What makes a queue pair ours to connect and to destroy; those of RDMA CM's connections are not.
#[derive(Debug, Clone, Copy)]
struct Own {
    psn: Psn,
    route: Route,
}

/// A queue pair and its memory. It is to be ended with [`Pair::close`].
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) qpn: Qpn,
    /// The client's queue pair.
    pub(super) peer_qpn: Qpn,
    /// What the client says of it, once it has.
    pub(super) peer: Option<KeyMessage>,
    pub(super) memory: PairMemory,
    /// Our address.
    source: IpAddr,
    own: Option<Own>,
    /// The PSN expected, and the oldest of ours unacknowledged, when it was last looked at.
    seen: Option<(Psn, Psn)>,
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
        let memory = PairMemory::new(attr, context)?;
        let init = QpInit {
            max_send_wr: SENDS,
            max_recv_wr: RECEIVES,
            observe_writes: attr.test == Test::WriteLat,
            ..QpInit::new(
                roce_codec::ib::Service::Rc,
                attr.pd,
                context.queues.send,
                context.queues.recv,
            )
        };
        match context.engine.create_qp(&init, context.platform.random()) {
            Ok(qpn) => {
                let psn = Psn::new(context.platform.random().next_u32());
                Ok(Self {
                    qpn,
                    peer_qpn: peer.qpn,
                    peer: Some(peer),
                    memory,
                    source: route.src,
                    own: Some(Own { psn, route }),
                    seen: None,
                })
            }
            Err(error) => {
                memory.withdraw(context);
                Err(error.into())
            }
        }
    }

    /// A queue pair that belongs to a connection of RDMA CM's, with memory for it.
    pub(super) const fn connected(
        (qpn, source): (Qpn, IpAddr),
        peer_qpn: Qpn,
        memory: PairMemory,
    ) -> Self {
        Self { qpn, peer_qpn, peer: None, memory, source, own: None, seen: None }
    }

    /// Makes it ready to receive and to send: the client may begin as soon as it has its answer.
    /// `wr_id` is of the receives, in the tests that have some.
    pub(super) fn connect<P: Platform>(
        &self,
        attr: &PairAttr,
        wr_id: u64,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        if let (Some(Own { psn, route }), Some(peer)) = (self.own, &self.peer) {
            let reads = attr.reads();
            let connect = Connect {
                qpn: self.qpn,
                psn,
                peer,
                route,
                path_mtu: attr.path_mtu,
                access: attr.access,
                max_dest_rd_atomic: if reads { context.engine.max_dest_rd_atomic() } else { 0 },
                max_rd_atomic: 0,
                timeout: TIMEOUT,
            };
            connect.apply(context.engine)?;
        }
        self.post_receives(attr, wr_id, context)
    }

    /// Posts all receives, in the tests that have some.
    pub(super) fn post_receives<P: Platform>(
        &self,
        attr: &PairAttr,
        wr_id: u64,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
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
        let sge = self.memory.exposed.sge(0, region_len);
        context.engine.post_recv(self.qpn, &RecvWr::new(wr_id, &[sge]))
    }

    /// Whether a packet has come, or one of ours been acknowledged, since this was last asked; the
    /// first time it is so.
    pub(super) fn has_moved<P: Platform>(&mut self, context: &Context<'_, '_, P>) -> bool {
        let info = context.engine.query_qp(self.qpn).ok();
        let now = info.map(|info| (info.expected_psn, info.unacknowledged_psn));
        core::mem::replace(&mut self.seen, now) != now
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
        let asked = self.peer.map_or(1, |peer| peer.out_reads);
        let out_reads = if attr.reads() { asked.clamp(1, most) } else { 1 };
        let exposed = &self.memory.exposed;
        KeyMessage {
            lid: 0,
            out_reads,
            qpn: self.qpn,
            // Of RDMA CM's connections, its messages say it.
            psn: self.own.map_or(Psn::new(0), |own| own.psn),
            rkey: exposed.mr.rkey,
            va: exposed.region.va,
            gid: Gid::from(self.source),
            srqn: 0,
        }
    }

    /// Gives its memory back, and destroys the queue pair if it is its own.
    pub(super) fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        if let Some(Own { route, .. }) = self.own {
            // It is there: nobody else destroys it.
            let _ = context.engine.destroy_qp(self.qpn);
            context.platform.release_route(route);
        }
        self.memory.withdraw(context);
    }
}
