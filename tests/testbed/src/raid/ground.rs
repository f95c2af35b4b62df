//! The memory that a raid is about, and the model of it: which bytes may change now, and by which
//! keys what may be done.

use roce_codec::ib::{Qpn, RKey};
use roce_engine::{Access, Addr, Backing, Mr, MrAttr, Mw, MwType, Pd};

use crate::hostile::target::{SECRET, Target};

/// Bytes of a place, two packets; and with those behind it that are nobody's.
pub(super) const PLACE: usize = 1024;
pub(super) const STRIDE: usize = PLACE + 64;
const PLACES: usize = 16;
const LEN: usize = STRIDE * PLACES;
/// Places for what is returned, and for receives.
const RETURNED: usize = 7;
const RECEIVED: usize = 8;
/// What a place holds that a peer may read.
const PLAIN: u8 = 0x11;

/// A key that a peer has been given, and what it opens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    pub(super) rkey: RKey,
    pub(super) from: usize,
    pub(super) len: usize,
    pub(super) access: Access,
    /// It may be open; a key that is closed opens nothing.
    pub(super) open: bool,
    pub(super) kind: Key,
    /// Of a window: the work request that binds it, and the newest one when that had ended.
    pub(super) posted: u64,
    pub(super) settled: Option<u64>,
}

/// What a key is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Region,
    /// A window; the queue pair whose alone it is.
    Window(Mw, Option<Qpn>),
}

impl Grant {
    /// Whether the key may be taken away by way of a queue pair.
    fn may_go(&self, qp: Qpn) -> bool {
        match self.kind {
            Key::Region => self.access.contains(Access::REMOTE_INVALIDATE),
            Key::Window(_, owner) => owner == Some(qp),
        }
    }

    /// Whether a key is the grant's; of a window's, also one that it may have later.
    fn is(&self, rkey: RKey) -> bool {
        let mask = if self.kind == Key::Region { u32::MAX } else { !0xff };
        self.rkey.0 & mask == rkey.0 & mask
    }
}

/// Memory that a work request may write, until it ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loan {
    pub(super) wr_id: u64,
    pub(super) qp: Option<Qpn>,
    pub(super) from: usize,
    pub(super) len: usize,
}

/// The memory.
#[derive(Debug)]
pub(super) struct Ground {
    region: u32,
    va: u64,
    /// What it held when last looked at.
    image: Vec<u8>,
    pub(super) grants: Vec<Grant>,
    pub(super) loans: Vec<Loan>,
    /// Everything, for work requests.
    pub(super) local: Mr,
    /// What windows are bound to.
    pub(super) base: Mr,
    /// Keys of another domain's region, and of one that is gone.
    pub(super) foreign: [RKey; 2],
}

impl Ground {
    /// Where windows may be bound.
    pub(super) const WINDOWS: usize = 6 * STRIDE;

    pub(super) fn new(target: &mut Target<'_>) -> Self {
        let region = target.memory.map(LEN).expect("memory");
        let va = target.memory.va(region).expect("a region");
        let mut image = SECRET.repeat(LEN / SECRET.len());
        let (read, write) = (Access::REMOTE_READ, Access::REMOTE_WRITE);
        let (atomic, local) = (Access::REMOTE_ATOMIC, Access::LOCAL_WRITE);
        let invalidate = Access::REMOTE_INVALIDATE;
        let rights = [
            Access::ALL,
            read,
            write | local,
            atomic | local,
            Access::ALL | invalidate,
            read | invalidate,
        ];
        let other = target.engine.alloc_pd();
        let mut register = |pd: Pd, place: usize, places: usize, access| {
            let from = STRIDE * place;
            let offset = u64::try_from(from).unwrap_or(0);
            let len = u64::try_from(STRIDE * (places - 1) + PLACE).unwrap_or(0);
            let backing = Addr { region, offset };
            let attr = MrAttr { pd, va: va + offset, len, access, backing };
            target.engine.register_mr(&attr, &mut target.random).expect("a slot")
        };
        let mut grants = Vec::new();
        for (place, access) in rights.into_iter().enumerate() {
            let mr = register(target.pd, place, 1, access);
            let from = STRIDE * place;
            let kind = Key::Region;
            grants.push(Grant {
                rkey: mr.rkey,
                from,
                len: PLACE,
                access,
                open: true,
                kind,
                posted: 0,
                settled: None,
            });
            if access.contains(read) {
                image[from..from + PLACE].fill(PLAIN);
            }
        }
        image[Self::WINDOWS..Self::WINDOWS + PLACE].fill(PLAIN);
        let base = register(target.pd, 6, 1, local | Access::MW_BIND | Access::FLUSH_GLOBAL);
        let whole = register(target.pd, 0, PLACES, local);
        let foreign = register(other, 14, 1, Access::ALL).rkey;
        let gone = register(target.pd, 15, 1, Access::ALL).rkey;
        target.engine.deregister_mr(gone).expect("a region");
        // Requests send from what is plain.
        let addr = Addr { region, offset: 0 };
        target.memory.write(addr, [&image, &[]]).expect("inside");
        let foreign = [foreign, gone];
        Self { region, va, image, grants, loans: Vec::new(), local: whole, base, foreign }
    }

    pub(super) fn va(&self, offset: usize) -> u64 {
        self.va + u64::try_from(offset).unwrap_or(0)
    }

    /// What a byte was when last looked at.
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.image[at]
    }

    /// A place for what is returned, or for a receive; `number` is any.
    pub(super) fn place(returned: bool, number: u64) -> usize {
        if returned {
            return STRIDE * RETURNED;
        }
        STRIDE * (RECEIVED + usize::try_from(number % 6).unwrap_or(0))
    }

    /// Holds the memory to what may have changed.
    pub(super) fn check(&mut self, target: &Target<'_>) -> Result<(), String> {
        let mut actual = vec![0; LEN];
        let addr = Addr { region: self.region, offset: 0 };
        target.memory.read(addr, &mut actual).map_err(|_| "the region is gone")?;
        let writes = |grant: &&Grant| {
            grant.access.contains(Access::REMOTE_WRITE)
                || grant.access.contains(Access::REMOTE_ATOMIC)
        };
        let grants = self.grants.iter().filter(|grant| grant.open).filter(writes);
        let ranges = grants.map(|grant| (grant.from, grant.len));
        for (from, len) in ranges.chain(self.loans.iter().map(|loan| (loan.from, loan.len))) {
            self.image[from..from + len].copy_from_slice(&actual[from..from + len]);
        }
        if actual == self.image {
            return Ok(());
        }
        let at = actual.iter().zip(&self.image).position(|(is, must)| is != must);
        Err(format!("byte {at:?} was written, which nobody may"))
    }

    /// Packets and bytes that a READ may be answered with.
    pub(super) fn readable(&self, rkey: RKey, va: u64, len: u32) -> bool {
        let Ok(len) = usize::try_from(len) else { return false };
        let Some(at) = va.checked_sub(self.va).and_then(|at| usize::try_from(at).ok()) else {
            return len == 0;
        };
        let inside =
            |grant: &Grant| grant.from <= at && at.saturating_add(len) <= grant.from + grant.len;
        len == 0
            || self.grants.iter().any(|grant| {
                grant.is(rkey) && grant.access.contains(Access::REMOTE_READ) && inside(grant)
            })
    }

    /// The newest key that a message for a queue pair may take away.
    pub(super) fn takeable(&self, qp: Qpn) -> Option<RKey> {
        let grants = self.grants.iter().rev();
        grants.into_iter().find(|grant| grant.open && grant.may_go(qp)).map(|grant| grant.rkey)
    }

    /// A message has taken a key away.
    pub(super) fn taken(&mut self, rkey: RKey, qp: Qpn) -> Result<(), String> {
        let grant = self.grants.iter_mut().find(|grant| grant.rkey == rkey && grant.open);
        let grant = grant.ok_or_else(|| format!("{rkey:?} was not open"))?;
        grant.open = false;
        grant
            .may_go(qp)
            .then_some(())
            .ok_or_else(|| format!("{rkey:?} may not be taken away by {qp}"))
    }

    /// A queue pair is reset: what was only its own is closed, what it was lent is not written.
    pub(super) fn forget(&mut self, qp: Qpn) {
        self.loans.retain(|loan| loan.qp != Some(qp));
        for grant in &mut self.grants {
            if matches!(grant.kind, Key::Window(_, Some(owner)) if owner == qp) {
                grant.open = false;
            }
        }
    }

    /// A binding has ended, `serial` being the newest work request. If it succeeded, those of the
    /// window that had ended before it was posted are over; the others, who knows which came last?
    pub(super) fn bound(&mut self, rkey: RKey, success: bool, serial: u64) {
        let Some(new) = self.grants.iter_mut().find(|grant| grant.rkey == rkey) else { return };
        let (posted, kind) = (new.posted, new.kind);
        new.settled = Some(serial);
        for grant in self.grants.iter_mut().filter(|_| success) {
            if let (Key::Window(mw, _), Key::Window(new, _)) = (grant.kind, kind)
                && mw.rkey.0 & !0xff == new.rkey.0 & !0xff
                && grant.settled.is_some_and(|settled| settled < posted)
            {
                grant.open = false;
            }
        }
    }

    /// Whether a window may be bound: none of type 2 that may be bound already.
    pub(super) fn is_free(&self, mw: Mw) -> bool {
        mw.kind == MwType::Type1
            || !self.grants.iter().any(|grant| {
                grant.open && matches!(grant.kind, Key::Window(..)) && grant.is(mw.rkey)
            })
    }
}
