//! Congestion notifications: what they answer, how close they come, and what answers them.

use std::collections::HashMap;

use roce_codec::ib::{Opcode, Operation, Qpn, Service};
use roce_codec::net::Ecn;

use crate::check::Checker;
use crate::check::flow::FlowId;
use crate::check::judge::{At, Judge};
use crate::check::packet::{Network, Seen};
use crate::check::profile::CnpScope;
use crate::check::rule::Rule;
use crate::observed::{FlowKey, Host};

/// What is remembered of hosts and queue pairs; beyond that, all of it is forgotten.
const MAX_ENTRIES: usize = 8192;
/// Marks that come closer may be answered by one notification, whatever the device.
const TOGETHER_NS: u64 = 50_000;
/// Notifications in a row that a tap hardly loses.
const UNANSWERED: u32 = 3;
/// Devices that space their notifications do so by this at least.
const SPACING_NS: u64 = 4_000;

/// Marks from one host to another, since they were last answered.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    first: At,
    since_ns: u64,
    /// Those that are to be answered by one notification each, and the last of them.
    count: u32,
    counted_ns: u64,
    told: bool,
}

/// What is known of a sender and a receiver of data.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    /// Whether marked data came this way.
    marked: bool,
    /// Whether any was answered.
    notified: bool,
    unanswered: Option<Unanswered>,
}

/// What notifications are spaced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Limiter {
    QueuePair(FlowKey),
    Hosts(Host, Host),
    Port(Host),
}

/// The marks and notifications of a capture.
#[derive(Debug, Default)]
pub(in crate::check) struct Congestion {
    /// By sender and receiver of data.
    paths: HashMap<(Host, Host), Path>,
    /// The last notification: its time, and its ICRC, which tells copies.
    last: HashMap<Limiter, (u64, [u8; 4])>,
}

impl Checker {
    /// A packet that is marked: its receiver tells its sender. Nobody is told of what answers, or
    /// goes to many.
    #[inline]
    pub(in crate::check) fn check_mark(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let Network::Roce(frame) = seen.network else { return };
        if Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce {
            self.marked(seen, id, at);
        }
    }

    #[cold]
    fn marked(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let answers =
            matches!(seen.info.operation, Operation::Acknowledge | Operation::AtomicAcknowledge);
        let connected = matches!(seen.info.service, Service::Rc | Service::Uc | Service::Xrc);
        let flow = self.flows.get_mut(id);
        let key = flow.key;
        let to_many = seen.bth.dest_qp == Qpn::MULTICAST
            || matches!(key.dst, Host::Ip(ip) if ip.is_multicast());
        let Some(now_ns) = at.time_ns.filter(|_| connected && !answers && !to_many) else { return };
        make_room(&mut self.congestion.paths);
        let path = self.congestion.paths.entry((key.src, key.dst)).or_default();
        path.marked = true;
        let profile = self.judge.profile();
        if profile.sends_cnps == Some(false) {
            return;
        }
        let fresh =
            Unanswered { first: at, since_ns: now_ns, count: 0, counted_ns: now_ns, told: false };
        let unanswered = path.unanswered.get_or_insert(fresh);
        let together_ns = profile.cnp_min_interval_ns.unwrap_or_default().max(TOGETHER_NS);
        let apart_ns = now_ns.saturating_sub(unanswered.counted_ns);
        if unanswered.count == 0 || apart_ns >= together_ns {
            unanswered.count += 1;
            unanswered.counted_ns = now_ns;
        }
        let late = profile.cnp_max_delay_ns.is_some_and(|most_ns| {
            now_ns.saturating_sub(unanswered.since_ns) > most_ns && unanswered.count > UNANSWERED
        });
        if late && !unanswered.told && profile.sends_cnps == Some(true) {
            unanswered.told = true;
            let Unanswered { first, count, .. } = *unanswered;
            let found = format!("none since packet {}, {count} marks ago", first.packet);
            let message = "marked data leads to no notification of its sender".into();
            self.judge.fail(Rule::EcnCnp, at, ("a notification".into(), found, message));
        }
    }

    /// A congestion notification.
    #[cold]
    pub(in crate::check) fn notification(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        // Each network has an opcode of its own for it.
        let own = match seen.network {
            Network::Roce(_) => Opcode::CNP,
            Network::Native(_) => Opcode::IB_CNP,
        };
        if seen.bth.opcode != own {
            return;
        }
        let flow = self.flows.get_mut(id);
        let key = flow.key;
        self.check_spacing(seen, id, at);
        let flow = self.flows.get_mut(id);
        let answered = |path: &mut Path, judge: &mut Judge| {
            path.notified = true;
            if path.unanswered.take().is_some_and(|unanswered| !unanswered.told) {
                judge.pass(Rule::EcnCnp);
            }
        };
        let paths = &mut self.congestion.paths;
        if self.judge.profile().cnp_scope == Some(CnpScope::Port) {
            // One limiter for all: what is told to one may stand for another.
            for ((_, receiver), path) in paths.iter_mut() {
                if *receiver == key.src {
                    answered(path, &mut self.judge);
                }
            }
        } else if let Some(path) = paths.get_mut(&(key.dst, key.src)) {
            answered(path, &mut self.judge);
        }
        if paths.get(&(key.dst, key.src)).is_some_and(|path| path.marked) {
            self.judge.pass(Rule::CnpCause);
        } else {
            self.judge.unknown_once(Rule::CnpCause, at, &mut flow.told, || {
                let message = "no mark was seen: the tap may be before the switch that marks, and \
                               some devices also notify of what is missing";
                ("marked data before it".into(), "none".into(), message.into())
            });
        }
        self.check_rate(id, at);
    }

    fn check_spacing(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let Some(now_ns) = at.time_ns else { return };
        let flow = self.flows.get_mut(id);
        let key = flow.key;
        let profile = self.judge.profile();
        let limiter = match profile.cnp_scope {
            None | Some(CnpScope::QueuePair) => Limiter::QueuePair(key),
            Some(CnpScope::Host) => Limiter::Hosts(key.src, key.dst),
            Some(CnpScope::Port) => Limiter::Port(key.src),
        };
        make_room(&mut self.congestion.last);
        let icrc = seen.transport.icrc();
        let Some((before_ns, before)) = self.congestion.last.insert(limiter, (now_ns, icrc)) else {
            return;
        };
        let Some(gap_ns) = now_ns.checked_sub(before_ns) else { return };
        let least_ns = profile.cnp_min_interval_ns;
        if gap_ns >= least_ns.unwrap_or(SPACING_NS) {
            return self.judge.pass(Rule::CnpSpacing);
        }
        let words = || {
            let expected = format!("{} ns or more", least_ns.unwrap_or(SPACING_NS));
            let message = match least_ns {
                Some(_) => "closer than the device sends them",
                None => "closer than devices send them that limit themselves",
            };
            (expected, format!("{gap_ns} ns"), message.into())
        };
        // What waits on its way comes closer to what went before it; and copies are no others.
        if least_ns.is_some_and(|least_ns| gap_ns < least_ns / 2) && icrc != before {
            self.judge.fail(Rule::CnpSpacing, at, words());
        } else {
            self.judge.unknown_once(Rule::CnpSpacing, at, &mut flow.told, words);
        }
    }
}

impl Congestion {
    /// The capture ends: marks that were not answered.
    pub(in crate::check) fn finish(&mut self, told: &mut u64, judge: &mut Judge) {
        // The last marks of a capture may be answered behind its end, few of them together.
        let never = self.paths.values().filter(|path| !path.notified);
        let mut firsts: Vec<At> = never
            .filter_map(|path| path.unanswered)
            .filter(|unanswered| !unanswered.told && unanswered.count > UNANSWERED)
            .map(|unanswered| unanswered.first)
            .collect();
        firsts.sort_by_key(|first| first.packet);
        for first in firsts {
            judge.unknown_once(Rule::EcnCnp, first, told, || {
                let message = "no notification followed: the devices may send none, or the tap \
                               have missed it";
                ("a notification".into(), "none".into(), message.into())
            });
        }
    }
}

fn make_room<K, V>(map: &mut HashMap<K, V>) {
    if map.len() >= MAX_ENTRIES {
        map.clear();
    }
}
