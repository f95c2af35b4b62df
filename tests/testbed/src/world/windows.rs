//! Memory windows of a side's: what is open to the other side, and what is no more.
//!
//! A request that can use a window does, whenever its owner has heard that it is bound; nobody
//! waits for one. A window is bound anew or closed only when all requests by its key are
//! acknowledged: what would come of the others, nobody could say.

use roce_codec::ib::RKey;
use roce_engine::{
    Access, MemoryError, Mr, MrAttr, Mw, MwBind, MwBindInfo, MwType, SendWr, WrOpcode,
};

use super::end::{BYSTANDER, End, remote_rights, wr_id};
use super::host::Host;
use crate::plan::{Kind, Request};

/// The windows of one side.
pub(super) struct Windows {
    /// The offered memory, open to nobody but by windows; FLUSH excepted.
    base: Mr,
    all: Vec<Window>,
    /// Keys that open nothing to the other side's queue pair, and never will.
    dead: Vec<RKey>,
    /// Regions whose keys their owner takes away, by which request.
    spent: Vec<(usize, Mr)>,
    /// A window of another queue pair's, and one of another domain's.
    foreign: Vec<RKey>,
    offered: (usize, usize),
}

struct Window {
    mw: Mw,
    state: State,
    from: usize,
    len: usize,
    access: Access,
    /// The newest request of the other side's by this key.
    used_by: Option<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Closed,
    /// To be open when this request of the owner's is done, and the key before dead.
    Binding(usize, RKey),
    Open,
    /// To be closed when this request of the owner's is done.
    Closing(usize),
    /// To be closed by a message of the other side's.
    Doomed,
    /// As it is for good.
    Left,
}

impl Windows {
    /// The windows of a side that offers this memory; some of them are not for the other side.
    pub(super) fn new(
        host: &mut Host<'_>,
        connection: usize,
        (offered, len): (usize, usize),
    ) -> Result<Self, String> {
        let rights = Access::LOCAL_WRITE | Access::MW_BIND | Access::FLUSH_GLOBAL;
        let base = host.register(offered, len, rights)?;
        let mut windows = Self {
            base,
            all: Vec::new(),
            dead: Vec::new(),
            spent: Vec::new(),
            foreign: Vec::new(),
            offered: (offered, len),
        };
        let [same, other] = host.bystanders()?;
        let whole = |lkey| MwBindInfo {
            lkey,
            va: host.va(offered),
            len: u64::try_from(len).unwrap_or(0),
            access: remote_rights(),
        };
        let (info, pd) = (whole(base.lkey), host.pd);
        // Of another queue pair of the domain, type 2: for that one alone.
        let theirs = alloc(host, pd, MwType::Type2)?;
        let opcode = WrOpcode::BindMw { rkey: theirs.next_rkey(), info };
        let wr = SendWr { signaled: false, ..SendWr::new(0, opcode, &[]) };
        host.engine.post_send(same.0, &wr).map_err(|error| error.to_string())?;
        windows.foreign.push(theirs.next_rkey());
        // Of the same, type 1: for all of the domain.
        let mut mw = alloc(host, pd, MwType::Type1)?;
        let first = mw.rkey;
        let bind = MwBind::new(wr_id(connection, BYSTANDER), info);
        host.engine.bind_mw(same.0, &mut mw, &bind).map_err(|error| error.to_string())?;
        windows.all.push(Window {
            mw,
            state: State::Binding(BYSTANDER, first),
            from: 0,
            len,
            access: remote_rights(),
            used_by: None,
        });
        // Of another domain: not for this one.
        let attr = MrAttr { pd: other.1, ..host.attr(offered, len, rights | remote_rights()) };
        let elsewhere = host.engine.register_mr(&attr, &mut host.random);
        let elsewhere = elsewhere.map_err(|error| error.to_string())?;
        let mut mw = alloc(host, other.1, MwType::Type1)?;
        let info = MwBindInfo { lkey: elsewhere.lkey, ..info };
        let bind = MwBind { signaled: false, ..MwBind::new(0, info) };
        host.engine.bind_mw(other.0, &mut mw, &bind).map_err(|error| error.to_string())?;
        windows.foreign.extend([elsewhere.rkey, mw.rkey]);
        Ok(windows)
    }

    /// The key of a window that is open for a request, if there is one.
    pub(super) fn key_for(&mut self, request: &Request, index: usize) -> Option<RKey> {
        let need = need(request.kind);
        let (from, len) = (request.remote, request.len);
        let fits = |window: &&mut Window| {
            window.state == State::Open
                && window.contains(from, len)
                && window.access.contains(need)
        };
        let window = pick(self.all.iter_mut().filter(fits), request.operand >> 8)?;
        window.used_by = Some(index);
        Some(window.mw.rkey)
    }

    /// The key of a window that a message of the other side's closes, if there is one that can be.
    pub(super) fn key_to_take(&mut self, request: &Request) -> Option<RKey> {
        let open = self
            .all
            .iter_mut()
            .filter(|window| window.state == State::Open && window.mw.kind == MwType::Type2);
        let window = pick(open, request.operand >> 8)?;
        window.state = State::Doomed;
        Some(window.mw.rkey)
    }

    /// A key that does not open what a request asks for, there or where it says.
    pub(super) fn wrong_key(&self, request: &Request) -> Option<(RKey, usize)> {
        let (need, from, len) = (need(request.kind), request.remote, request.len);
        let open = self.all.iter().filter(|window| window.state == State::Open);
        let beside = open.clone().filter(|_| request.kind != Kind::SendInv);
        let beside = beside.filter(|window| window.access.contains(need));
        let beside: Vec<_> = beside.flat_map(|window| window.beside(request)).collect();
        let unfit = open.filter(|window| match request.kind {
            // By its owner only.
            Kind::SendInv => window.mw.kind == MwType::Type1,
            _ => !window.contains(from, len) || !window.access.contains(need),
        });
        // A window that may be flushed through needs a region that may be.
        let base = (request.kind != Kind::Flush).then_some(self.base.rkey);
        let here = |keys: &mut dyn Iterator<Item = RKey>| keys.map(|key| (key, from)).collect();
        let kinds: [Vec<_>; 4] = [
            beside,
            here(&mut unfit.map(|window| window.mw.rkey)),
            here(&mut self.dead.iter().copied()),
            here(&mut self.foreign.iter().copied().chain(base)),
        ];
        let keys = pick(kinds.into_iter().filter(|keys| !keys.is_empty()), request.operand >> 8)?;
        pick(keys.into_iter(), request.operand >> 16)
    }

    /// A message has taken a key away: if it is a window's, it may be bound again.
    pub(super) fn taken(&mut self, rkey: RKey) {
        if let Some(window) = self.all.iter_mut().find(|window| window.mw.rkey == rkey) {
            window.state = State::Closed;
            self.dead.push(rkey);
        }
    }

    /// A binding or invalidation of the owner's has been carried out.
    pub(super) fn done(&mut self, request: usize) {
        for window in &mut self.all {
            match window.state {
                State::Binding(by, old) if by == request => {
                    // The first key of a window of type 2 is the one before the first binding.
                    self.dead.push(old);
                    let none = window.len == 0;
                    window.state = if none { State::Closed } else { State::Open };
                    self.dead.extend(none.then_some(window.mw.rkey));
                }
                State::Closing(by) if by == request => {
                    self.dead.push(window.mw.rkey);
                    window.state = State::Closed;
                }
                _ => {}
            }
        }
        let spent = self.spent.iter().filter(|(by, _)| *by == request);
        self.dead.extend(spent.map(|(_, mr)| mr.rkey));
    }

    /// Takes the windows and keys of the owner's own away.
    pub(super) fn leave(&self, host: &mut Host<'_>) -> Result<(), String> {
        // A window of a bystander's, perhaps still to be bound, keeps it.
        let open = self.all.iter().any(|window| window.state == State::Open);
        if open && host.engine.deregister_mr(self.base.rkey) != Err(MemoryError::WindowsBound) {
            return Err("a region went with windows bound to it".to_owned());
        }
        for window in &self.all[1..] {
            host.engine.dealloc_mw(window.mw).map_err(|error| error.to_string())?;
        }
        for (_, mr) in &self.spent {
            host.engine.deregister_mr(mr.rkey).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Window {
    const fn contains(&self, from: usize, len: usize) -> bool {
        self.from <= from && from + len <= self.from + self.len
    }

    /// Places where a request would reach just beyond its ends.
    fn beside(&self, request: &Request) -> impl Iterator<Item = (RKey, usize)> {
        let (rkey, end) = (self.mw.rkey, self.from + self.len);
        let word = request.kind.is_word();
        let before = self.from.checked_sub(1).map(|at| if word { at & !7 } else { at });
        let behind = if word { Some(end & !7) } else { (end + 1).checked_sub(request.len) };
        before.into_iter().chain(behind).map(move |at| (rkey, at))
    }

    /// Whether all requests by its key have ended.
    fn is_idle(&self, peer: &End) -> bool {
        self.used_by.is_none_or(|used| peer.direction.posted()[used].ends <= peer.una.packets)
    }
}

/// What a request needs.
const fn need(kind: Kind) -> Access {
    match kind {
        Kind::Read => Access::REMOTE_READ,
        Kind::Flush => Access::FLUSH_GLOBAL,
        _ if kind.is_atomic() => Access::REMOTE_ATOMIC,
        _ => Access::REMOTE_WRITE,
    }
}

fn alloc(host: &mut Host<'_>, pd: roce_engine::Pd, kind: MwType) -> Result<Mw, String> {
    host.engine.alloc_mw(pd, kind, &mut host.random).map_err(|error| error.to_string())
}

fn pick<T>(from: impl Iterator<Item = T>, bits: u64) -> Option<T> {
    let mut all: Vec<T> = from.collect();
    let at = usize::try_from(bits % u64::try_from(all.len().max(1)).unwrap_or(1)).unwrap_or(0);
    (!all.is_empty()).then(|| all.swap_remove(at))
}

impl End {
    /// Posts a binding or an invalidation, of what can be bound or closed now.
    pub(super) fn post_local(
        &mut self,
        host: &mut Host<'_>,
        peer: &End,
        request: &Request,
        id: (u64, usize),
    ) -> Result<(), String> {
        let qp = self.qp;
        let offered = self.offered_mr;
        let windows = self.windows.as_mut().ok_or("no windows were planned")?;
        let opcode = match (request.kind, request.poison.is_some()) {
            (Kind::Bind, poisoned) => {
                let (at, info) = windows.binding(host, peer, request, poisoned, offered)?;
                let window = &mut windows.all[at];
                let old = window.mw.rkey;
                if poisoned {
                    window.state = State::Left;
                } else {
                    window.state = State::Binding(id.1, old);
                    window.used_by = None;
                }
                if window.mw.kind == MwType::Type1 {
                    let bind = MwBind { fence: request.fence, ..MwBind::new(id.0, info) };
                    let posted = host.engine.bind_mw(qp, &mut window.mw, &bind);
                    return posted.map_err(|error| error.to_string());
                }
                let rkey = window.mw.next_rkey();
                if !poisoned {
                    window.mw.rkey = rkey;
                }
                WrOpcode::BindMw { rkey, info }
            }
            (_, false) => WrOpcode::LocalInvalidate(windows.closing(host, peer, request, id.1)?),
            (_, true) => {
                let type_1 = windows.all.iter().find(|window| window.mw.kind == MwType::Type1);
                let type_1 = type_1.map(|window| window.mw.rkey);
                let dead = windows.dead.last().copied();
                let others = windows.foreign.iter().copied().chain(type_1).chain(dead);
                let keys = others.chain([offered.rkey, windows.base.rkey]);
                let key = pick(keys, request.operand >> 8);
                WrOpcode::LocalInvalidate(key.ok_or("no key")?)
            }
        };
        let wr = SendWr { fence: request.fence, ..SendWr::new(id.0, opcode, &[]) };
        host.engine.post_send(qp, &wr).map_err(|error| error.to_string())
    }
}

impl Windows {
    /// Which window is bound, and to what; `poisoned`, if that may not be.
    fn binding(
        &mut self,
        host: &mut Host<'_>,
        peer: &End,
        request: &Request,
        poisoned: bool,
        offered: Mr,
    ) -> Result<(usize, MwBindInfo), String> {
        let bits = request.operand;
        let free = |window: &Window| match window.state {
            State::Closed => true,
            State::Open => window.mw.kind == MwType::Type1 && window.is_idle(peer),
            _ => false,
        };
        // The first is a bystander's.
        let free = (1..self.all.len()).filter(|at| free(&self.all[*at]));
        let at = pick(free, bits >> 8).filter(|_| !poisoned && bits & 3 > 0);
        let at = match at {
            Some(at) => at,
            None => {
                let kind = if bits & 4 == 0 { MwType::Type1 } else { MwType::Type2 };
                let mw = alloc(host, host.pd, kind)?;
                // It opens nothing yet, and is bound by another.
                self.dead.push(mw.rkey);
                self.all.push(Window {
                    mw,
                    state: State::Closed,
                    from: 0,
                    len: 0,
                    access: Access::NONE,
                    used_by: None,
                });
                self.all.len() - 1
            }
        };
        let room = self.offered.1;
        let number = |bits: u64| usize::try_from(bits & 0xffff).unwrap_or(0);
        let whole = bits & 8 == 0;
        let unbound = bits >> 4 & 15 == 0 && self.all[at].mw.kind == MwType::Type1 && !poisoned;
        let from = if whole { 0 } else { number(bits >> 16) % room };
        let len = match (unbound, whole) {
            (true, _) => 0,
            (_, true) => room,
            _ => 1 + number(bits >> 32) % (room - from),
        };
        let rights = [
            Access::REMOTE_WRITE,
            Access::REMOTE_READ,
            Access::REMOTE_ATOMIC,
            Access::FLUSH_GLOBAL,
        ];
        let some = rights.into_iter().enumerate().filter(|(bit, _)| bits >> (48 + 2 * bit) & 3 > 0);
        let access = some.fold(Access::NONE, |all, (_, right)| all | right);
        let window = &mut self.all[at];
        (window.from, window.len, window.access) = (from, len, access);
        let mut info = MwBindInfo {
            lkey: self.base.lkey,
            va: host.va(self.offered.0 + from),
            len: u64::try_from(len).unwrap_or(0),
            access,
        };
        if poisoned {
            match bits >> 56 & 3 {
                0 => info.lkey = offered.lkey,
                1 => info.va = host.va(self.offered.0 + room - len + 1),
                2 => info.access = access | Access::LOCAL_WRITE,
                _ => {
                    // A window of type 2 that is bound already.
                    let bound = |window: &Window| {
                        window.state == State::Open && window.mw.kind == MwType::Type2
                    };
                    let Some(bound) = self.all.iter().position(bound) else {
                        info.lkey.0 ^= 0x0100_0000;
                        return Ok((at, info));
                    };
                    return Ok((bound, info));
                }
            }
        }
        Ok((at, info))
    }

    /// The key that its owner takes away: a window's, or a region's.
    fn closing(
        &mut self,
        host: &mut Host<'_>,
        peer: &End,
        request: &Request,
        index: usize,
    ) -> Result<RKey, String> {
        let open = self.all.iter_mut().filter(|window| {
            window.state == State::Open && window.mw.kind == MwType::Type2 && window.is_idle(peer)
        });
        if let Some(window) = pick(open, request.operand >> 8) {
            window.state = State::Closing(index);
            return Ok(window.mw.rkey);
        }
        let rights = remote_rights() | Access::LOCAL_WRITE | Access::REMOTE_INVALIDATE;
        let mr = host.register(self.offered.0, self.offered.1, rights)?;
        self.spent.push((index, mr));
        Ok(mr.rkey)
    }
}
