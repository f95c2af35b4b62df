//! Queue pair 1 and the connection manager behind it.

use heapless::Vec;
use roce_codec::cm::{CaGuid, MAD_LEN, Mad, MgmtClass, ServiceId};
use roce_codec::ib::{PKey, Psn, QKey, Qpn, Service};
use roce_codec::net::datagram_source_port;
use roce_engine::cm::{Cm, CmConfig, CmState, CmStorage, CmTransmit};
use roce_engine::{
    Access, Ah, Backing, Entropy, GrhArea, Instant, ModifyQp, Path, QpInit, RecvWr, SendWr,
    UdAddress, Wc, WcOpcode, WcStatus, WrOpcode,
};

use super::{CmServiceError, Notice};
use crate::service::memory::{Exposed, read};
use crate::service::{Context, Platform, Route, low_of, session_of, wr_id};

/// MADs that may wait to be looked at; a peer whose MAD finds no room sends it again.
const RECEIVES: u32 = 64;
/// MADs that may wait to be sent.
const SENDS: usize = 32;
/// Hosts whose way is remembered.
const PEERS: usize = 32;

/// A received MAD and the area before it.
const RECEIVE_LEN: usize = GrhArea::LEN + MAD_LEN;
/// Apart in memory, by whole cache lines.
const STRIDE: u32 = 320;
/// Where the MADs to send lie.
const SENDS_AT: u32 = RECEIVES * STRIDE;
const REGION_LEN: u32 = SENDS_AT + 32 * STRIDE;

/// The session number that marks the work requests of queue pair 1. No session has it.
const SESSION: u32 = 0;

/// What came to queue pair 1 and left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GsiCounters {
    /// MADs that came.
    pub received: u64,
    /// Of these, no MADs by their length or header.
    pub malformed: u64,
    /// Of another management class than the connection manager's, or not from a queue pair 1.
    pub foreign: u64,
    /// To an address that is not ours.
    pub misaddressed: u64,
    /// MADs that were sent.
    pub sent: u64,
    /// MADs that found no way to their host; they are sent again as if they had been lost.
    pub no_route: u64,
}

impl GsiCounters {
    /// Each by its name.
    #[must_use]
    pub const fn by_name(&self) -> [(&'static str, u64); 6] {
        [
            ("received", self.received),
            ("malformed", self.malformed),
            ("foreign", self.foreign),
            ("misaddressed", self.misaddressed),
            ("sent", self.sent),
            ("no_route", self.no_route),
        ]
    }
}

/// A host that MADs go to.
#[derive(Debug)]
struct Peer {
    route: Route,
    path: Path,
    used: Instant,
}

/// See the [module](super).
#[derive(Debug)]
pub struct Gsi<'s> {
    cm: Cm<'s>,
    exposed: Exposed,
    /// The address handle of each send that is not complete.
    sends: [Option<Ah>; SENDS],
    peers: Vec<Peer, PEERS>,
    counters: GsiCounters,
}

impl<'s> Gsi<'s> {
    /// Takes queue pair 1 of the engine, and memory for its MADs.
    ///
    /// # Errors
    /// [`CmServiceError`]: the engine or the platform has not what it takes.
    pub fn new<P: Platform>(
        storage: CmStorage<'s>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let random = context.platform.random();
        let guid = u64::from(random.next_u32()) << 32 | u64::from(random.next_u32());
        let config = CmConfig { max_path_mtu: context.path_mtu, ..CmConfig::new(CaGuid(guid)) };
        let cm = Cm::new(config, storage, context.platform.random());
        let pd = context.engine.alloc_pd();
        let exposed = Exposed::new(context, pd, REGION_LEN.into(), Access::LOCAL_WRITE)?;
        let init = QpInit {
            max_send_wr: u32::try_from(SENDS).unwrap_or(u32::MAX),
            max_recv_wr: RECEIVES,
            ..QpInit::new(Service::Ud, pd, context.queues.send, context.queues.recv)
        };
        let qpn = context.engine.create_gsi_qp(&init, context.platform.random())?;
        let changes = [
            ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKey::GSI },
            ModifyQp::RtrUd,
            ModifyQp::RtsUd { sq_psn: Psn::new(0) },
        ];
        for change in &changes {
            context.engine.modify_qp(qpn, change)?;
        }
        let gsi = Self {
            cm,
            exposed,
            sends: [None; SENDS],
            peers: Vec::new(),
            counters: GsiCounters::default(),
        };
        for index in 0..RECEIVES {
            gsi.post_receive(index, context)?;
        }
        Ok(gsi)
    }

    /// The connection manager.
    pub const fn cm(&mut self) -> &mut Cm<'s> {
        &mut self.cm
    }

    /// What came and went.
    #[must_use]
    pub const fn counters(&self) -> &GsiCounters {
        &self.counters
    }

    /// Listens for a service, with at most `backlog` connections that are not established yet.
    ///
    /// # Errors
    /// [`CmServiceError::Cm`].
    pub fn listen(&mut self, service: ServiceId, backlog: u32) -> Result<(), CmServiceError> {
        Ok(self.cm.listen(service, backlog)?)
    }

    /// Whether a work request is of queue pair 1.
    #[must_use]
    pub fn owns(wr_id: u64) -> bool {
        session_of(wr_id) == SESSION
    }

    fn post_receive<P: Platform>(
        &self,
        index: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let len = u32::try_from(RECEIVE_LEN).unwrap_or(STRIDE);
        let sges = [self.exposed.sge(index * STRIDE, len)];
        let wr = RecvWr::new(wr_id(SESSION, index), &sges);
        Ok(context.engine.post_recv(Qpn::GSI, &wr)?)
    }

    /// Takes a completion of queue pair 1's: a MAD has come, or one has gone.
    pub fn handle_completion<P: Platform>(&mut self, wc: &Wc, context: &mut Context<'_, '_, P>) {
        let low = low_of(wc.wr_id);
        if wc.opcode != WcOpcode::Recv {
            let slot = usize::try_from(low).ok().and_then(|low| self.sends.get_mut(low));
            if let Some(ah) = slot.and_then(Option::take) {
                // It is there: nobody else destroys it.
                let _ = context.engine.destroy_ah(ah);
            }
            if wc.status != WcStatus::Success {
                // Memory and address were ours: it can go on where it was.
                let _ = context.engine.modify_qp(Qpn::GSI, &ModifyQp::Resume);
            }
            return;
        }
        if wc.status != WcStatus::Success || low >= RECEIVES {
            return;
        }
        self.counters.received += 1;
        let mut bytes = [0; RECEIVE_LEN];
        if read(context.platform.memory(), self.exposed.addr(low * STRIDE), &mut bytes) {
            self.handle_datagram(wc, &bytes, context);
        }
        // As many are posted as there are slots.
        let _ = self.post_receive(low, context);
    }

    fn handle_datagram<P: Platform>(
        &mut self,
        wc: &Wc,
        bytes: &[u8; RECEIVE_LEN],
        context: &mut Context<'_, '_, P>,
    ) {
        let (area, mad) = bytes.split_at(GrhArea::LEN);
        let whole = usize::try_from(wc.byte_len) == Ok(RECEIVE_LEN);
        let back = area.try_into().ok().and_then(|area| GrhArea(area).way_back());
        let (Some(back), Ok(mad), true) = (back, Mad::parse(mad), whole) else {
            self.counters.malformed += 1;
            return;
        };
        if mad.header.class != MgmtClass::COM_MGT || wc.src_qp != Some(Qpn::GSI) {
            self.counters.foreign += 1;
            return;
        }
        if !context.platform.is_own(back.src) {
            self.counters.misaddressed += 1;
            return;
        }
        let path = Path { src_port: datagram_source_port(Qpn::GSI), ..back };
        self.cm.handle_mad(context.now, &mad, &path);
    }

    /// Serves the connection manager's timers and sends what it has to send, as far as there is
    /// room; says whether there was anything.
    pub fn poll<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> bool {
        let mut any = false;
        if self.cm.poll_timeout().is_some_and(|due| due <= context.now) {
            any = true;
            // What is left is due still, and served by the next call.
            let _ = self.cm.handle_timeout(context.now);
        }
        while let Some(free) = self.sends.iter().position(Option::is_none)
            && let Some(transmit) = self.cm.poll_transmit(context.now)
        {
            any = true;
            match self.send(free, &transmit, context) {
                Ok(()) => self.counters.sent += 1,
                Err(_) => self.counters.no_route += 1,
            }
        }
        any
    }

    /// When [`Gsi::poll`] is due even if nothing has come.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.cm.poll_timeout()
    }

    /// Whether a peer has still to answer that it is disconnected.
    #[must_use]
    pub fn is_disconnecting(&self) -> bool {
        self.cm.connections().any(|(_, state)| state == CmState::DreqSent)
    }

    /// What the connection manager has to tell.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        while let Some(event) = self.cm.poll_event() {
            if let Some(notice) = Notice::of(&event) {
                return Some(notice);
            }
        }
        None
    }

    fn send<P: Platform>(
        &mut self,
        slot: usize,
        transmit: &CmTransmit,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let next_hop = self.next_hop(&transmit.path, context)?.next_hop;
        let index = u32::try_from(slot).unwrap_or(0);
        let offset = SENDS_AT + index * STRIDE;
        let at = self.exposed.addr(offset);
        if context.platform.memory().write(at, [&transmit.mad, &[]]).is_err() {
            return Err(CmServiceError::Failed(WcStatus::LocalProtection));
        }
        let ah = context.engine.create_ah(&Path { next_hop, ..transmit.path })?;
        let to = UdAddress { ah, dest_qpn: Qpn::GSI, qkey: QKey::GSI };
        let sges = [self.exposed.sge(offset, u32::try_from(MAD_LEN).unwrap_or(STRIDE))];
        let wr = SendWr::new(wr_id(SESSION, index), WrOpcode::Send, &sges).to(to);
        if let Err(error) = context.engine.post_send(Qpn::GSI, &wr) {
            let _ = context.engine.destroy_ah(ah);
            return Err(error.into());
        }
        if let Some(slot) = self.sends.get_mut(slot) {
            *slot = Some(ah);
        }
        Ok(())
    }

    /// Who passes on what is for that path's host. Routes are kept for the hosts that MADs went to
    /// last.
    fn next_hop<P: Platform>(
        &mut self,
        path: &Path,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Route, CmServiceError> {
        let same = |peer: &&mut Peer| (peer.path.src, peer.path.dst) == (path.src, path.dst);
        if let Some(peer) = self.peers.iter_mut().find(same) {
            peer.used = context.now;
            return Ok(peer.route);
        }
        if self.peers.is_full() {
            let oldest = self.peers.iter().enumerate().min_by_key(|(_, peer)| peer.used);
            if let Some(index) = oldest.map(|(index, _)| index) {
                let peer = self.peers.swap_remove(index);
                context.platform.release_route(peer.route);
            }
        }
        let route = context.platform.route(path.dst)?;
        // There is room: it was made.
        let _ = self.peers.push(Peer { route, path: *path, used: context.now });
        Ok(route)
    }
}
