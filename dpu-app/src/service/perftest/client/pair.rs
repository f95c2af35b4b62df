//! One of a client's queue pairs, and the memory behind it.

use core::net::IpAddr;

use roce_codec::ib::{PathMtu, Psn, Qpn, RKey, Service};
use roce_engine::{
    Access, Addr, Backing, Entropy, Pd, PostError, QpError, QpInit, RecvWr, SendWr, Wc, WrOpcode,
};

use super::super::Test;
use super::super::connect::Connect;
use super::super::key::KeyMessage;
use super::error::ClientError;
use super::job::Job;
use crate::service::memory::Exposed;
use crate::service::{Context, Gid, Platform, Route};

/// Receives kept posted for a `send_lat` server, which answers one message at a time.
const RECEIVES: u32 = 16;

/// A queue pair and its memory. It is to be ended with [`ClientPair::close`].
#[derive(Debug)]
pub(super) struct ClientPair {
    pub(super) qpn: Qpn,
    pub(super) exposed: Exposed,
    /// Bytes of either half of the memory.
    pub(super) half: u32,
    /// Messages posted in this run, and those of them that are done.
    pub(super) posted: u64,
    pub(super) completed: u64,
    /// Which of the client's it is.
    index: u32,
    psn: Psn,
    peer: Option<(KeyMessage, Route)>,
}

impl ClientPair {
    /// Takes memory and a queue pair.
    pub(super) fn new<P: Platform>(
        job: &Job,
        index: u32,
        pd: Pd,
        half: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, ClientError> {
        let exposed = Exposed::new(context, pd, 2 * u64::from(half), access(job.test))?;
        if !job.test.reads() && job.test != Test::WriteLat {
            exposed.fill_with_noise(context);
        }
        let receives = if job.test == Test::SendLat { RECEIVES } else { 0 };
        let queues = context.queues;
        let init = QpInit {
            max_send_wr: job.depth.max(RECEIVES),
            max_recv_wr: receives,
            observe_writes: job.test == Test::WriteLat,
            ..QpInit::new(Service::Rc, pd, queues.send, queues.recv)
        };
        match context.engine.create_qp(&init, context.platform.random()) {
            Ok(qpn) => {
                let psn = Psn::new(context.platform.random().next_u32());
                Ok(Self { qpn, exposed, half, posted: 0, completed: 0, index, psn, peer: None })
            }
            Err(error) => {
                exposed.withdraw(context);
                Err(error.into())
            }
        }
    }

    /// Its description for the server.
    pub(super) fn key(&self, job: &Job, source: IpAddr) -> KeyMessage {
        KeyMessage {
            lid: 0,
            out_reads: u16::from(job.out_reads),
            qpn: self.qpn,
            psn: self.psn,
            rkey: self.exposed.mr.rkey,
            va: self.exposed.region.va + u64::from(self.half),
            gid: Gid::from(source),
            srqn: 0,
        }
    }

    /// Whether the server's queue pair is known.
    pub(super) const fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// The way to the server.
    pub(super) fn route(&self) -> Option<Route> {
        self.peer.map(|(_, route)| route)
    }

    /// Where the server's memory begins, and its key.
    pub(super) fn remote(&self) -> (u64, RKey) {
        self.peer.map_or((0, RKey(0)), |(peer, _)| (peer.va, peer.rkey))
    }

    /// Joins it to the server's.
    pub(super) fn connect<P: Platform>(
        &mut self,
        peer: KeyMessage,
        source: IpAddr,
        job: &Job,
        path_mtu: PathMtu,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        let theirs = peer.gid.address();
        if kind(theirs) != kind(source) {
            return Err(ClientError::Family { ours: source, theirs });
        }
        let reads = u8::try_from(peer.out_reads).unwrap_or(u8::MAX).min(job.out_reads);
        if job.test.reads() && reads == 0 {
            return Err(ClientError::NoReads(job.test));
        }
        let route = Route { src: source, ..context.platform.route(theirs)? };
        // From here on `close` gives the route back.
        let (peer, _) = self.peer.insert((peer, route));
        let connect = Connect {
            qpn: self.qpn,
            psn: self.psn,
            peer,
            route,
            path_mtu,
            access: access(job.test),
            max_dest_rd_atomic: 0,
            max_rd_atomic: if job.test.reads() { reads } else { 0 },
            timeout: job.timeout,
        };
        connect.apply(context.engine)?;
        if job.test == Test::SendLat {
            for _ in 0..RECEIVES {
                self.post_receive(context)?;
            }
        }
        Ok(())
    }

    /// Posts message `index`, whose local memory begins at `offset`.
    pub(super) fn post<P: Platform>(
        &self,
        index: u64,
        opcode: WrOpcode,
        offset: u32,
        len: u32,
        signaled: bool,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let wr_id = index << 8 | u64::from(self.index);
        let sges = [self.exposed.sge(offset, len)];
        let wr = SendWr { signaled, ..SendWr::new(wr_id, opcode, &sges) };
        context.engine.post_send(self.qpn, &wr)
    }

    /// Puts bytes into the memory, `offset` bytes from its beginning; what does not fit is left.
    pub(super) fn put<P: Platform>(
        &self,
        offset: u32,
        bytes: &[u8],
        context: &mut Context<'_, '_, P>,
    ) {
        let start = self.exposed.region.addr;
        let at = Addr { offset: start.offset + u64::from(offset), ..start };
        // Inside the region: a message of this size is posted from here next.
        let _ = context.platform.memory().write(at, [bytes, &[]]);
    }

    /// Lends the second half of the memory to the server's next SEND.
    pub(super) fn post_receive<P: Platform>(
        &self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let sges = [self.exposed.sge(self.half, self.half)];
        context.engine.post_recv(self.qpn, &RecvWr::new(u64::from(self.index), &sges))
    }

    /// The oldest PSN that the server has not acknowledged.
    pub(super) fn unacknowledged<P: Platform>(
        &self,
        context: &Context<'_, '_, P>,
    ) -> Result<Psn, QpError> {
        context.engine.query_qp(self.qpn).map(|info| info.unacknowledged_psn)
    }

    /// Destroys the queue pair and gives its memory back.
    pub(super) fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // It is there: nobody else destroys it.
        let _ = context.engine.destroy_qp(self.qpn);
        self.exposed.withdraw(context);
        if let Some((_, route)) = self.peer {
            context.platform.release_route(route);
        }
    }
}

/// The queue pair and the message that a completion is of.
pub(super) fn message_of(wc: &Wc) -> (usize, u64) {
    (usize::from(wc.wr_id.to_le_bytes()[0]), wc.wr_id >> 8)
}

/// What two addresses have to have in common: IPv4, and whether they are link-local IPv6.
fn kind(address: IpAddr) -> (bool, bool) {
    match address {
        IpAddr::V4(_) => (true, false),
        IpAddr::V6(address) => (false, address.is_unicast_link_local()),
    }
}

/// What the server may do with a client's memory, and what comes back may be placed in.
const fn access(test: Test) -> Access {
    match test {
        Test::WriteLat => Access::REMOTE_WRITE,
        Test::ReadBw | Test::ReadLat | Test::AtomicBw | Test::AtomicLat | Test::SendLat => {
            Access::LOCAL_WRITE
        }
        Test::WriteBw | Test::SendBw => Access::NONE,
    }
}
