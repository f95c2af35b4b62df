//! Next hops: which MAC address a frame for an IP address goes to, from the kernel's routing and
//! neighbour tables, kept current.
//!
//! The kernel owns the addresses and does ARP and neighbour discovery; it does so only for
//! traffic of its own, so this table asks it to whenever an entry is about to be forgotten, has
//! failed, or is gone, and hears of every change.

mod kernel;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use roce_codec::net::{MacAddr, VlanStack};
use roce_engine::NextHop;

use self::kernel::{Neighbour, Route};
use crate::poll::NextHops;
use crate::port::error::PortError;
use crate::port::interface::Interface;
use crate::rtnetlink::Socket;
use crate::sys;

/// The least time between two requests to the kernel about one next hop; while the neighbour is
/// not found it doubles each time, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// Next hops whose route is looked up anew in one [`Neighbours::poll`], at most.
const REROUTES: usize = 4;
/// The least time between two times that all routes are looked up, while routes keep changing.
const REROUTE_PAUSE: Duration = Duration::from_secs(1);

/// Why there is no next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextHopError {
    /// No route leads there, or one that drops or refuses.
    NoRoute {
        /// The destination.
        dst: IpAddr,
    },
    /// The destination is this host itself, whose packets never reach the wire.
    Local {
        /// The destination.
        dst: IpAddr,
    },
    /// The table is full.
    Full {
        /// How many next hops it has room for.
        capacity: u16,
    },
    /// The kernel refused to say.
    Os {
        /// The `errno`.
        errno: i32,
    },
}

impl fmt::Display for NextHopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoRoute { dst } => write!(f, "no route to {dst}; see `ip route get {dst}`"),
            Self::Local { dst } => write!(f, "{dst} is this host's own address"),
            Self::Full { capacity } => write!(f, "all {capacity} next hops are in use"),
            Self::Os { errno } => {
                write!(f, "looking up a route: {}", io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for NextHopError {}

/// The next hops of one interface: what [`turn`](crate::poll::turn) asks for link-layer addresses.
///
/// [`Neighbours::resolve`] when a peer becomes known, [`Neighbours::get`] for each frame,
/// [`Neighbours::poll`] often (it takes one system call and a clock reading when there is nothing to
/// do), [`Neighbours::release`] when the peer is gone.
#[derive(Debug)]
pub struct Neighbours {
    interface: Interface,
    /// For questions; the answers are waited for, microseconds.
    questions: Socket,
    /// For what the kernel tells unasked.
    changes: Socket,
    table: Table,
    reroute: Reroute,
}

/// Looking all routes up anew, since some have changed.
#[derive(Debug, Default)]
struct Reroute {
    /// Routes have changed since it was begun.
    wanted: bool,
    /// The next entry to look at, while it is going on.
    next: Option<usize>,
    begun: Option<Instant>,
}

/// The entries, apart from the sockets so that changes can be applied as they are read.
#[derive(Debug)]
struct Table {
    entries: Vec<Option<Entry>>,
    capacity: u16,
    /// When the first entry is due, at the earliest.
    due: Option<Instant>,
    changed: bool,
}

#[derive(Debug)]
struct Entry {
    dst: IpAddr,
    src: Option<IpAddr>,
    /// Calls of `resolve` less calls of `release`.
    users: u32,
    /// Who gets the frames; `None` where a group does, or no route leads there any more.
    neighbour: Option<IpAddr>,
    mac: Option<MacAddr>,
    /// When the kernel is to be asked to look for the neighbour.
    due: Option<Instant>,
    asked: Option<Instant>,
    pause: Duration,
}

impl Neighbours {
    /// A table for the interface of this name, with room for `capacity` next hops.
    ///
    /// It needs CAP_NET_ADMIN to ask the kernel to look for a neighbour; without, it sends an
    /// empty datagram to the neighbour's discard port (UDP 9) to the same end.
    ///
    /// # Errors
    ///
    /// [`PortError::NoSuchInterface`], [`PortError::InterfaceDown`], [`PortError::NotEthernet`],
    /// [`PortError::Os`].
    pub fn open(interface: &str, capacity: u16) -> Result<Self, PortError> {
        let interface = Interface::open(interface)?;
        let os = |error: io::Error| interface.os_error("opening an rtnetlink socket", &error);
        let groups = [libc::RTNLGRP_NEIGH, libc::RTNLGRP_IPV4_ROUTE, libc::RTNLGRP_IPV6_ROUTE];
        Ok(Self {
            questions: Socket::open().map_err(os)?,
            changes: Socket::subscribed(&groups).map_err(os)?,
            interface,
            table: Table { entries: Vec::new(), capacity, due: None, changed: false },
            reroute: Reroute::default(),
        })
    }

    /// The interface's own MAC address, to send from.
    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.interface.mac
    }

    /// The next hop for `dst`, from `src` where that decides; looked for if it is not known.
    /// Each call is to be matched by one of [`Self::release`].
    ///
    /// It does not wait for the neighbour to be found: [`Self::get`] says when that is so.
    ///
    /// # Errors
    ///
    /// [`NextHopError`]; nothing is taken then.
    pub fn resolve(&mut self, dst: IpAddr, src: Option<IpAddr>) -> Result<NextHop, NextHopError> {
        if let Some(index) = self.table.find(dst, src) {
            if let Some(entry) = self.table.entry_mut(index) {
                entry.users = entry.users.saturating_add(1);
            }
            return Ok(index);
        }
        let route = self.route(dst, src)?;
        let index = self.table.insert(dst, src)?;
        self.follow(index, route);
        Ok(index)
    }

    /// The MAC address to send to; `None` while it is not known.
    #[must_use]
    pub fn get(&self, index: NextHop) -> Option<MacAddr> {
        self.table.entry(index)?.mac
    }

    /// Gives back what one call of [`Self::resolve`] took; the last frees the next hop's place.
    pub fn release(&mut self, index: NextHop) {
        let Some(entry) = self.table.entry_mut(index) else { return };
        entry.users = entry.users.saturating_sub(1);
        if entry.users == 0 {
            self.table.remove(index);
        }
    }

    /// Applies what has changed and asks after what is due, without waiting; true if the answer
    /// of [`Self::get`] may have changed for any next hop.
    pub fn poll(&mut self) -> bool {
        let ifindex = self.interface.signed_index();
        let mut routes_changed = false;
        let now = Instant::now();
        let table = &mut self.table;
        let heard = self.changes.notifications(|message| match message.kind {
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => routes_changed = true,
            _ => {
                if let Some(news) =
                    kernel::parse_neighbour(message).filter(|n| n.ifindex == ifindex)
                {
                    table.apply(news, now);
                }
            }
        });
        // Some news were lost, or the kernel is out of memory: all is to be looked up anew.
        if routes_changed || heard.is_err() {
            self.reroute.wanted = true;
        }
        if self.reroute.wanted || self.reroute.next.is_some() {
            self.continue_reroute(now);
        }
        if self.table.due.is_some_and(|due| due <= now) {
            self.ask_due(now);
        }
        std::mem::take(&mut self.table.changed)
    }

    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>) -> Result<Route, NextHopError> {
        let ifindex = self.interface.signed_index();
        match kernel::route(&mut self.questions, ifindex, dst, src) {
            Ok(Route::Local) => Err(NextHopError::Local { dst }),
            Ok(Route::Nowhere) => Err(NextHopError::NoRoute { dst }),
            Ok(route) => Ok(route),
            Err(error) => match sys::errno(&error) {
                libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL => {
                    Err(NextHopError::NoRoute { dst })
                }
                errno => Err(NextHopError::Os { errno }),
            },
        }
    }

    /// Lets an entry follow its route, from now on.
    fn follow(&mut self, index: NextHop, route: Route) {
        let neighbour = match route {
            Route::Neighbour(neighbour) => Some(neighbour),
            Route::Group(_) | Route::Local | Route::Nowhere => None,
        };
        let Some(entry) = self.table.entry_mut(index) else { return };
        entry.neighbour = neighbour;
        let now = Instant::now();
        let Some(address) = neighbour else {
            let mac = if let Route::Group(mac) = route { Some(mac) } else { None };
            entry.due = None;
            self.table.set_mac(index, mac);
            return;
        };
        let ifindex = self.interface.signed_index();
        let known = kernel::neighbour(&mut self.questions, ifindex, address);
        let known = known.unwrap_or(Neighbour { ifindex, address, mac: None, dormant: true });
        self.table.set_mac(index, known.mac);
        if known.dormant {
            self.ask(index, now);
        }
    }

    /// Looks a bounded number of routes up anew.
    fn continue_reroute(&mut self, now: Instant) {
        let from = match (self.reroute.next, self.reroute.begun) {
            (Some(next), _) => next,
            (None, Some(begun)) if now < begun + REROUTE_PAUSE => return,
            (None, _) => {
                self.reroute = Reroute { wanted: false, next: None, begun: Some(now) };
                0
            }
        };
        let end = self.table.entries.len().min(from + REROUTES);
        for index in (from..end).filter_map(index_of) {
            let Some(entry) = self.table.entry(index) else { continue };
            let (dst, src) = (entry.dst, entry.src);
            // Without a route it keeps its place and has no MAC address until there is one.
            let route = self.route(dst, src).unwrap_or(Route::Nowhere);
            self.follow(index, route);
        }
        self.reroute.next = (end < self.table.entries.len()).then_some(end);
    }

    fn ask_due(&mut self, now: Instant) {
        for index in (0..self.table.entries.len()).filter_map(index_of) {
            let due = self.table.entry(index).and_then(|entry| entry.due);
            if due.is_some_and(|due| due <= now) {
                self.ask(index, now);
            }
        }
        let entries = self.table.entries.iter().flatten();
        self.table.due = entries.filter_map(|entry| entry.due).min();
    }

    /// Asks the kernel to look for the entry's neighbour, or puts it off if it was asked just now.
    fn ask(&mut self, index: NextHop, now: Instant) {
        let Some(entry) = self.table.entry_mut(index) else { return };
        let Some(neighbour) = entry.neighbour else { return };
        if let Some(asked) = entry.asked.filter(|asked| now < *asked + entry.pause) {
            let due = asked + entry.pause;
            self.table.set_due(index, due);
            return;
        }
        entry.asked = Some(now);
        entry.due = None;
        entry.pause = match entry.mac {
            Some(_) => PAUSE,
            None => (entry.pause * 2).min(LONGEST_PAUSE),
        };
        let again = now + entry.pause;
        let ifindex = self.interface.signed_index();
        let asked = match kernel::use_neighbour(&mut self.questions, ifindex, neighbour) {
            Err(error) if sys::errno(&error) == libc::EPERM => self.knock(neighbour),
            other => other,
        };
        if asked.is_err() {
            // The interface is down, say; no news will come of it.
            self.table.set_due(index, again);
        }
    }

    /// Sends the neighbour an empty datagram, for which the kernel has to find it.
    fn knock(&self, neighbour: IpAddr) -> io::Result<()> {
        const DISCARD: u16 = 9;
        let any = match neighbour {
            IpAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any)?;
        let device = self.interface.name.to_bytes();
        sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &device)?;
        let mut to = SocketAddr::from((neighbour, DISCARD));
        if let SocketAddr::V6(to) = &mut to {
            to.set_scope_id(self.interface.index);
        }
        socket.send_to(&[], to)?;
        Ok(())
    }
}

impl NextHops for Neighbours {
    fn link(&self, hop: NextHop) -> Option<(MacAddr, VlanStack)> {
        Some((self.get(hop)?, VlanStack::EMPTY))
    }
}

impl AsFd for Neighbours {
    /// Readable when [`Neighbours::poll`] has something to apply.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

fn index_of(at: usize) -> Option<NextHop> {
    u16::try_from(at).ok().map(NextHop)
}

impl Table {
    fn entry(&self, index: NextHop) -> Option<&Entry> {
        self.entries.get(usize::from(index.0))?.as_ref()
    }

    fn entry_mut(&mut self, index: NextHop) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(index.0))?.as_mut()
    }

    fn find(&self, dst: IpAddr, src: Option<IpAddr>) -> Option<NextHop> {
        let same = |entry: &Entry| entry.dst == dst && entry.src == src;
        index_of(self.entries.iter().position(|entry| entry.as_ref().is_some_and(same))?)
    }

    /// A new entry with one user, in the first free place.
    fn insert(&mut self, dst: IpAddr, src: Option<IpAddr>) -> Result<NextHop, NextHopError> {
        let full = NextHopError::Full { capacity: self.capacity };
        let free = self.entries.iter().position(Option::is_none);
        let at = free.unwrap_or(self.entries.len());
        let index = index_of(at).filter(|index| index.0 < self.capacity).ok_or(full)?;
        let entry = Entry {
            dst,
            src,
            users: 1,
            neighbour: None,
            mac: None,
            due: None,
            asked: None,
            pause: PAUSE,
        };
        match self.entries.get_mut(at) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        Ok(index)
    }

    fn remove(&mut self, index: NextHop) {
        if let Some(place) = self.entries.get_mut(usize::from(index.0)) {
            *place = None;
        }
    }

    fn set_mac(&mut self, index: NextHop, mac: Option<MacAddr>) {
        let Some(entry) = self.entry_mut(index) else { return };
        if entry.mac != mac {
            entry.mac = mac;
            self.changed = true;
        }
    }

    fn set_due(&mut self, index: NextHop, due: Instant) {
        let Some(entry) = self.entry_mut(index) else { return };
        entry.due = Some(due);
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
    }

    /// Applies what the kernel says of a neighbour to all that go there.
    fn apply(&mut self, news: Neighbour, now: Instant) {
        for index in (0..self.entries.len()).filter_map(index_of) {
            let entry = self.entry_mut(index);
            let Some(entry) = entry.filter(|entry| entry.neighbour == Some(news.address)) else {
                continue;
            };
            if news.dormant {
                // Idle, it is to be checked; failed or gone, to be looked for.
                self.set_due(index, now);
            } else if news.mac.is_some() {
                entry.due = None;
                entry.pause = PAUSE;
            }
            self.set_mac(index, news.mac);
        }
    }
}
