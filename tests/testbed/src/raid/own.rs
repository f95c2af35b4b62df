//! What the responder does of its own: receives, requests for the peer to answer, windows.

use roce_codec::ib::{Qpn, RKey, Service};
use roce_engine::{
    Access, MwBind, MwBindInfo, MwType, Placement, QpState, RecvWr, Selectivity, SendWr, Sge,
    WrOpcode,
};

use super::ground::{Grant, Ground, Key, Loan, PLACE};
use super::{Besieged, Post, Raid};
use crate::hostile::target::{MTU, Target};
use crate::random::Random;

/// Windows that are made, at most.
const MOST_WINDOWS: usize = 8;

impl Raid<'_, '_> {
    /// Keeps a queue pair alive and busy.
    pub(super) fn tend(&mut self, which: usize) -> Result<(), String> {
        let Besieged { qp, service, shared } = self.qps[which];
        let state = self.target.query(qp).state;
        if state == QpState::Error {
            if self.random.one_in(3) {
                return Ok(());
            }
            self.complete()?;
            self.all_ended(qp, shared)?;
            self.connect(which);
        }
        if self.random.one_in(2) {
            self.post_receive(which);
        }
        if service == Service::Rc && self.random.one_in(2) {
            match self.random.below(8) {
                0..=3 => self.ask(qp),
                4..=6 => self.bind(qp),
                _ => self.invalidate(qp),
            }
        }
        Ok(())
    }

    fn post_receive(&mut self, which: usize) {
        let Besieged { qp, service, shared } = self.qps[which];
        self.serial += 1;
        let from = Ground::place(false, self.serial);
        // Not one place for two receives.
        if self.ground.loans.iter().any(|loan| loan.from == from) {
            return;
        }
        let least = if service == Service::Ud { 40 } else { 0 };
        let short = self.random.one_in(6);
        let len = if short { least + self.random.index(PLACE - least + 1) } else { PLACE };
        let cut = self.random.index(len + 1);
        let sge = |from: usize, len: usize| Sge {
            va: self.ground.va(from),
            len: u32::try_from(len).unwrap_or(0),
            lkey: self.ground.local.lkey,
        };
        let sges = [sge(from, cut), sge(from + cut, len - cut)];
        let wr = RecvWr::new(self.serial, &sges);
        let posted = match shared {
            true => self.target.engine.post_srq_recv(self.srq, &wr),
            false => self.target.engine.post_recv(qp, &wr),
        };
        if posted.is_ok() {
            // What is shared does not go with a queue pair that has not taken it.
            let qp = (!shared).then_some(qp);
            self.ground.loans.push(Loan { wr_id: self.serial, qp, from, len });
        }
    }

    fn post(&mut self, qp: Qpn, opcode: WrOpcode, sge: Option<Sge>, post: Post) -> bool {
        let fence = self.random.one_in(6);
        let sges: Vec<_> = sge.into_iter().collect();
        let wr = SendWr { fence, ..SendWr::new(self.serial, opcode, &sges) };
        let posted = self.target.engine.post_send(qp, &wr).is_ok();
        if posted {
            self.sends.entry(qp).or_default().push_back((self.serial, post));
        }
        posted
    }

    /// Asks the peer something, so that it has something to answer.
    fn ask(&mut self, qp: Qpn) {
        self.serial += 1;
        let from = Ground::place(true, 0);
        let (va, rkey) = (0x1000, RKey(7));
        let some = self.random.index(PLACE + 1);
        let placement = Placement::GLOBAL_VISIBILITY;
        let selectivity = Selectivity::Region;
        let (opcode, len, returns) = match self.random.below(8) {
            0 | 1 => (WrOpcode::RdmaRead { va, rkey }, some, true),
            2 => (WrOpcode::FetchAdd { va, rkey, add: 1 }, 8, true),
            3 => (WrOpcode::RdmaWrite { va, rkey }, some, false),
            4 => (WrOpcode::Send, some, false),
            5 => (WrOpcode::AtomicWrite { va, rkey }, 8, false),
            6 => (WrOpcode::Flush { rkey, selectivity, placement }, 0, false),
            _ => (WrOpcode::SendWithInvalidate(rkey), some, false),
        };
        // One place for what is returned: one at a time.
        if returns && self.ground.loans.iter().any(|loan| loan.from == from) {
            return;
        }
        let size = u32::try_from(len).unwrap_or(0);
        let at = if returns { from } else { 0 };
        let sge = Sge { va: self.ground.va(at), len: size, lkey: self.ground.local.lkey };
        let flush = matches!(opcode, WrOpcode::Flush { .. });
        if self.post(qp, opcode, (!flush).then_some(sge), Post::Plain) {
            self.ledger.posted(len, MTU);
            if returns {
                let loan = Loan { wr_id: self.serial, qp: Some(qp), from, len };
                self.ground.loans.push(loan);
            }
        }
    }

    /// Binds a window to a part of what may be.
    fn bind(&mut self, qp: Qpn) {
        self.serial += 1;
        if self.windows.len() < MOST_WINDOWS && self.random.one_in(2) {
            let kind = self.random.pick(&[MwType::Type1, MwType::Type2]);
            let Target { engine, random, pd, .. } = &mut self.target;
            self.windows.push(engine.alloc_mw(*pd, kind, random).expect("a slot"));
        }
        let at = self.random.index(self.windows.len());
        let Some(mut mw) = self.windows.get(at).copied() else { return };
        if !self.ground.is_free(mw) {
            return;
        }
        let from = self.random.index(PLACE);
        let len = 1 + self.random.index(PLACE - from);
        let from = Ground::WINDOWS + from;
        let access = random_access(&mut self.random);
        let info = MwBindInfo {
            lkey: self.ground.base.lkey,
            va: self.ground.va(from),
            len: u64::try_from(len).unwrap_or(0),
            access,
        };
        let posted = match mw.kind {
            MwType::Type1 => {
                let bind = MwBind::new(self.serial, info);
                let posted = self.target.engine.bind_mw(qp, &mut mw, &bind).is_ok();
                if posted {
                    let sends = self.sends.entry(qp).or_default();
                    sends.push_back((self.serial, Post::Bind(mw.rkey)));
                }
                posted
            }
            MwType::Type2 => {
                mw.rkey = mw.next_rkey();
                let opcode = WrOpcode::BindMw { rkey: mw.rkey, info };
                self.post(qp, opcode, None, Post::Bind(mw.rkey))
            }
        };
        if posted {
            self.windows[at] = mw;
            let kind = Key::Window(mw, (mw.kind == MwType::Type2).then_some(qp));
            let (rkey, posted) = (mw.rkey, self.serial);
            let grant = Grant { rkey, from, len, access, open: true, kind, posted, settled: None };
            self.ground.grants.push(grant);
        }
    }

    /// Takes a key away that may be: a window's of the queue pair.
    fn invalidate(&mut self, qp: Qpn) {
        self.serial += 1;
        let mine = |grant: &&Grant| {
            grant.open && matches!(grant.kind, Key::Window(_, Some(owner)) if owner == qp)
        };
        let keys: Vec<_> = self.ground.grants.iter().filter(mine).map(|grant| grant.rkey).collect();
        if !keys.is_empty() {
            let rkey = self.random.pick(&keys);
            self.post(qp, WrOpcode::LocalInvalidate(rkey), None, Post::Invalidate(rkey));
        }
    }
}

/// Some rights, all of them more often than not.
pub(super) fn random_access(random: &mut Random) -> Access {
    let rights =
        [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC, Access::FLUSH_GLOBAL];
    let all = !random.one_in(4);
    let some = rights.into_iter().filter(|_| all || random.one_in(2));
    some.fold(Access::NONE, |sum, right| sum | right)
}
