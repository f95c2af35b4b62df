//! One of a client's queue pairs, and the memory behind it.

use core::net::IpAddr;

use roce_codec::cm::Timeout;
use roce_codec::ib::{PathMtu, Psn, Qpn, RKey, Service};
use roce_engine::{
    Access, Addr, Backing, Entropy, Pd, PostError, QpError, QpInit, RecvWr, SendWr, Wc, WrOpcode,
};

use super::super::Test;
use super::super::connect::Connect;
use super::super::key::KeyMessage;
use super::error::ClientError;
use super::job::Job;
use crate::service::cm::ConnectionAttr;
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
    /// The first PSN we send; of a connection of RDMA CM's, whose queue pair is not ours, `None`.
    psn: Option<Psn>,
    /// The server's, of such a connection.
    peer_qpn: Option<Qpn>,
    peer: Option<KeyMessage>,
    route: Option<Route>,
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
        let exposed = memory(job, pd, half, context)?;
        let queues = context.queues;
        let (max_send_wr, max_recv_wr) = depths(job);
        let init = QpInit {
            max_send_wr,
            max_recv_wr,
            observe_writes: job.test == Test::WriteLat,
            ..QpInit::new(Service::Rc, pd, queues.send, queues.recv)
        };
        match context.engine.create_qp(&init, context.platform.random()) {
            Ok(qpn) => {
                let psn = Psn::new(context.platform.random().next_u32());
                Ok(Self { psn: Some(psn), ..Self::bare(qpn, exposed, half, index) })
            }
            Err(error) => {
                exposed.withdraw(context);
                Err(error.into())
            }
        }
    }

    /// Takes memory for a queue pair that is connected already, and not ours to destroy.
    pub(super) fn connected<P: Platform>(
        job: &Job,
        index: u32,
        (qpn, peer_qpn): (Qpn, Qpn),
        (pd, half): (Pd, u32),
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, ClientError> {
        let exposed = memory(job, pd, half, context)?;
        let pair = Self { peer_qpn: Some(peer_qpn), ..Self::bare(qpn, exposed, half, index) };
        match pair.post_receives(job, context) {
            Ok(()) => Ok(pair),
            Err(error) => {
                pair.close(context);
                Err(error.into())
            }
        }
    }

    const fn bare(qpn: Qpn, exposed: Exposed, half: u32, index: u32) -> Self {
        let (posted, completed) = (0, 0);
        let (psn, peer_qpn, peer, route) = (None, None, None, None);
        Self { qpn, exposed, half, posted, completed, index, psn, peer_qpn, peer, route }
    }

    /// What an RDMA CM connection is to have.
    pub(super) fn connection_attr(job: &Job, pd: Pd) -> ConnectionAttr {
        let (max_send_wr, max_recv_wr) = depths(job);
        let reads = if job.test.reads() { job.out_reads } else { 0 };
        ConnectionAttr {
            access: access(job.test),
            max_send_wr,
            max_recv_wr,
            // perftest's server serves as many as the client does, not as it wants to have.
            responder_resources: reads,
            initiator_depth: reads,
            observe_writes: job.test == Test::WriteLat,
            ack_timeout: Timeout::new(job.timeout),
            ..ConnectionAttr::new(pd)
        }
    }

    /// Its description for the server.
    pub(super) fn key(&self, job: &Job, source: IpAddr) -> KeyMessage {
        KeyMessage {
            lid: 0,
            out_reads: u16::from(job.out_reads),
            qpn: self.qpn,
            psn: self.psn.unwrap_or(Psn::new(0)),
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
    pub(super) const fn route(&self) -> Option<Route> {
        self.route
    }

    /// The server's queue pair, if an RDMA CM connection leads there.
    pub(super) const fn peer_qpn(&self) -> Option<Qpn> {
        self.peer_qpn
    }

    /// Takes what the server says of the queue pair that the connection leads to.
    pub(super) const fn told(&mut self, peer: KeyMessage) {
        self.peer = Some(peer);
    }

    /// Where the server's memory begins, and its key.
    pub(super) fn remote(&self) -> (u64, RKey) {
        self.peer.map_or((0, RKey(0)), |peer| (peer.va, peer.rkey))
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
        self.route = Some(route);
        let psn = self.psn.unwrap_or(Psn::new(0));
        let peer = self.peer.insert(peer);
        let connect = Connect {
            qpn: self.qpn,
            psn,
            peer,
            route,
            path_mtu,
            access: access(job.test),
            max_dest_rd_atomic: 0,
            max_rd_atomic: if job.test.reads() { reads } else { 0 },
            timeout: job.timeout,
        };
        connect.apply(context.engine)?;
        Ok(self.post_receives(job, context)?)
    }

    fn post_receives<P: Platform>(
        &self,
        job: &Job,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        (0..depths(job).1).try_for_each(|_| self.post_receive(context))
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

    /// Gives its memory back, and destroys the queue pair if it is ours.
    pub(super) fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        if self.psn.is_some() {
            // It is there: nobody else destroys it.
            let _ = context.engine.destroy_qp(self.qpn);
        }
        self.exposed.withdraw(context);
        if let Some(route) = self.route {
            context.platform.release_route(route);
        }
    }
}

/// Memory for a queue pair, of two halves.
fn memory<P: Platform>(
    job: &Job,
    pd: Pd,
    half: u32,
    context: &mut Context<'_, '_, P>,
) -> Result<Exposed, ClientError> {
    let exposed = Exposed::new(context, pd, 2 * u64::from(half), access(job.test))?;
    if !job.test.reads() && job.test != Test::WriteLat {
        exposed.fill_with_noise(context);
    }
    Ok(exposed)
}

/// Sends and receives that a queue pair has room for.
fn depths(job: &Job) -> (u32, u32) {
    let receives = if job.test == Test::SendLat { RECEIVES } else { 0 };
    (job.depth.max(RECEIVES), receives)
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
