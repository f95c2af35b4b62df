//! PAUSE and PFC frames: their form, and pauses without end.

use std::collections::HashMap;
use std::num::NonZeroU64;

use roce_codec::ParseError;
use roce_codec::net::{MacAddr, MacControl, PauseQuanta};

use super::judge::{At, Judge};
use super::rule::Rule;
use crate::capture::Packet;

/// Senders and priorities remembered; beyond that, all are forgotten.
const MAX_SENDERS: usize = 4096;

/// No Ethernet is faster: a pause that is renewed before it runs out here never stops anywhere.
const FASTEST: NonZeroU64 = NonZeroU64::new(800_000_000_000).expect("above 0");
/// None with PFC is slower.
const SLOWEST: NonZeroU64 = NonZeroU64::new(1_000_000_000).expect("above 0");

/// Other MAC control opcodes: gates and reports of passive optical networks, and the extension.
const OTHER_OPCODES: [u16; 6] = [2, 3, 4, 5, 6, 0xfffe];

/// Who pauses what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sender {
    interface: u32,
    mac: MacAddr,
    /// `None` pauses everything (802.3x).
    priority: Option<u8>,
}

/// A pause that has been renewed since it began.
#[derive(Debug, Clone, Copy)]
struct Paused {
    since_ns: u64,
    last_ns: u64,
    /// When it runs out on the fastest link, or on this one if its rate is known.
    certain_until_ns: u64,
    /// When it runs out on the slowest.
    until_ns: u64,
    /// It did not run out in between, whatever the link's rate.
    certain: bool,
    told: bool,
}

/// The pauses in force.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    senders: HashMap<Sender, Paused>,
}

impl Pauses {
    /// Judges a frame.
    pub(super) fn frame(
        &mut self,
        frame: &MacControl,
        packet: &Packet<'_>,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        check_form(frame, at, judge);
        let Some(time_ns) = at.time_ns else { return };
        let interface = packet.interface;
        // What the capture says of this link counts more than what is said of all.
        let link_bps = packet.link_bps.or(judge.profile().link_bps());
        let mut hear = |mac, priority, quanta| {
            let sender = Sender { interface, mac, priority };
            self.hear(sender, (quanta, link_bps), time_ns, at, told, judge);
        };
        match frame {
            MacControl::Pause(pause) => hear(pause.src, None, pause.quanta),
            MacControl::Pfc(pfc) => {
                for (priority, quanta) in pfc.enabled() {
                    hear(pfc.src, Some(priority), quanta);
                }
            }
        }
    }

    fn hear(
        &mut self,
        sender: Sender,
        (quanta, link_bps): (PauseQuanta, Option<NonZeroU64>),
        time_ns: u64,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        if quanta.0 == 0 {
            self.senders.remove(&sender);
            return judge.pass(Rule::PauseStorm);
        }
        if self.senders.len() >= MAX_SENDERS {
            self.senders.clear();
        }
        let until = |rate| time_ns.saturating_add(quanta.ns(rate));
        let fresh = Paused {
            since_ns: time_ns,
            last_ns: time_ns,
            certain_until_ns: until(link_bps.unwrap_or(FASTEST)),
            until_ns: until(link_bps.unwrap_or(SLOWEST)),
            certain: true,
            told: false,
        };
        let paused = match self.senders.get(&sender).copied() {
            Some(before) if (before.last_ns..=before.until_ns).contains(&time_ns) => Paused {
                since_ns: before.since_ns,
                certain: before.certain && time_ns <= before.certain_until_ns,
                told: before.told,
                ..fresh
            },
            _ => fresh,
        };
        let lasted_ns = time_ns - paused.since_ns;
        let most_ns = judge.profile().pause_storm_ns;
        let storm = lasted_ns >= most_ns;
        self.senders.insert(sender, Paused { told: paused.told || storm, ..paused });
        if !storm {
            return judge.pass(Rule::PauseStorm);
        }
        if paused.told {
            return;
        }
        let Sender { mac, priority, .. } = sender;
        let what = match priority {
            Some(priority) => format!("priority {priority}"),
            None => "everything".into(),
        };
        let expected = format!("less than {} ms", most_ns / 1_000_000);
        let found = format!("{} ms", lasted_ns / 1_000_000);
        if paused.certain {
            let message = format!("{mac} has paused {what} without a break");
            judge.fail(Rule::PauseStorm, at, (expected, found, message));
        } else {
            let message =
                format!("{mac} keeps pausing {what}; without the link's rate, breaks do not show");
            judge.unknown_once(Rule::PauseStorm, at, told, || (expected, found, message));
        }
    }
}

fn check_form(frame: &MacControl, at: At, judge: &mut Judge) {
    let is_group = |mac: MacAddr| mac.0[0] & 1 != 0;
    let (dst, src, reserved): (_, _, &[u8]) = match frame {
        MacControl::Pause(pause) => (pause.dst, pause.src, &pause.reserved),
        MacControl::Pfc(pfc) => (pfc.dst, pfc.src, &pfc.reserved),
    };
    let pfc = match frame {
        MacControl::Pfc(pfc) => Some(pfc),
        MacControl::Pause(_) => None,
    };
    // A PAUSE may go to the peer's own address.
    let right_dst = dst == MacControl::DESTINATION || (pfc.is_none() && !is_group(dst));
    let faults = [
        (!right_dst, format!("destination {dst}")),
        (is_group(src), format!("source {src}")),
        (
            pfc.is_some_and(|pfc| pfc.resv8 != 0),
            format!("class-enable vector {:02x}xx", pfc.map_or(0, |pfc| pfc.resv8)),
        ),
        (reserved.iter().any(|byte| *byte != 0), "reserved bytes that are not zero".into()),
    ];
    let fault = faults.into_iter().find(|(is_so, _)| *is_so);
    judge.check(Rule::PfcFrame, at, fault.is_none(), || {
        let expected = "to 01:80:c2:00:00:01 from one station, reserved bytes zero";
        let (_, found) = fault.unwrap_or_default();
        (
            expected.into(),
            found,
            "a malformed flow control frame: its receiver may ignore it".into(),
        )
    });
}

/// A MAC control frame that cannot be read.
#[cold]
pub(super) fn check_unreadable(error: &ParseError, at: At, told: &mut u64, judge: &mut Judge) {
    let words = |found: String, message: &str| {
        ("opcode 0x0001 or 0x0101, no VLAN tag".into(), found, message.into())
    };
    match *error {
        ParseError::TaggedMacControl => {
            let message = "flow control frames carry no VLAN tag: their receiver ignores this one";
            judge.fail(Rule::PfcFrame, at, words("a VLAN tag".into(), message));
        }
        ParseError::MacControlOpcode(opcode) => {
            let found = format!("opcode {opcode:#06x}");
            if OTHER_OPCODES.contains(&opcode) {
                let message = "MAC control, but no flow control";
                judge.unknown_once(Rule::PfcFrame, at, told, || words(found, message));
            } else {
                judge.fail(Rule::PfcFrame, at, words(found, "no such MAC control opcode"));
            }
        }
        _ => {}
    }
}
