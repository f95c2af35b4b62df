//! The counters, for people and as JSON.

use std::fmt::Write as _;

use roce_dataplane::port::fault::FaultCounts;
use roce_dataplane::port::{Port, PortCounters};
use roce_engine::{Counters, DropReason, HwCounter};
use serde_json::{Map, Value, json};

use super::wire::Stack;
use crate::service::cm::GsiCounters;

/// Everything that was counted.
#[derive(Debug)]
pub(crate) struct Stats {
    engine: Counters,
    /// Of queue pair 1, where there is one.
    gsi: Option<GsiCounters>,
    /// As the engine's side of the port sees it.
    port: PortCounters,
    /// As the wire sees it: apart from the above when faults lie between.
    wire: PortCounters,
    faults: Option<[FaultCounts; 2]>,
    unresolved: u64,
    sessions: Sessions,
}

/// Clients that have come and gone, or whom we were one of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sessions {
    /// All that were one.
    pub(crate) served: u64,
    /// Sessions that ended before their time, those of who was no client included.
    pub(crate) failed: u64,
}

impl Sessions {
    /// Ourselves.
    pub(crate) const fn own(ok: bool) -> Self {
        Self { served: 1, failed: !ok as u64 }
    }
}

impl Stats {
    pub(crate) fn new(
        engine: &Counters,
        gsi: Option<&GsiCounters>,
        stack: &Stack,
        unresolved: u64,
        sessions: Sessions,
    ) -> Self {
        Self {
            engine: engine.clone(),
            gsi: gsi.copied(),
            port: stack.counters(),
            wire: stack.wire_counters(),
            faults: stack.faults(),
            unresolved,
            sessions,
        }
    }

    /// `{"stats":{…}}`, with every counter in it, zero or not.
    pub(crate) fn json(&self) -> Value {
        let drops: Map<String, Value> = DropReason::ALL
            .iter()
            .map(|reason| (reason.name().to_owned(), self.engine.dropped(*reason).into()))
            .collect();
        let events: Map<String, Value> = HwCounter::ALL
            .iter()
            .map(|event| (event.name().to_owned(), self.engine.event(*event).into()))
            .collect();
        let mut stats = json!({
            "rx_frames": self.engine.received,
            "acted_on": self.engine.acted_on,
            "drops": drops,
            "tx_frames": self.port.tx_frames,
            "tx_unresolved": self.unresolved,
            "hw_counters": events,
            "port": {
                "rx_frames": self.wire.rx_frames,
                "rx_bytes": self.wire.rx_bytes,
                "rx_missed": self.wire.rx_missed,
                "rx_oversize": self.wire.rx_oversize,
                "tx_frames": self.wire.tx_frames,
                "tx_bytes": self.wire.tx_bytes,
                "tx_dropped": self.wire.tx_dropped,
                "tx_full": self.wire.tx_full,
            },
            "sessions": self.sessions.served,
            "sessions_failed": self.sessions.failed,
        });
        if let Some(gsi) = self.gsi {
            let mads = gsi.by_name().map(|(name, count)| (name.to_owned(), count.into()));
            stats["mads"] = Value::Object(mads.into_iter().collect());
        }
        if let Some([rx, tx]) = self.faults {
            stats["faults"] = json!({ "rx": faults(rx), "tx": faults(tx) });
        }
        json!({ "stats": stats })
    }

    /// A few lines, of what is not zero.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "clients served: {}\nframes received: {} ({} acted on, {} dropped), sent: {}",
            self.sessions.served,
            self.engine.received,
            self.engine.acted_on,
            self.engine.dropped_total(),
            self.port.tx_frames,
        );
        line(&mut text, "sessions", [("failed", self.sessions.failed)].into_iter());
        let drops =
            DropReason::ALL.iter().map(|reason| (reason.name(), self.engine.dropped(*reason)));
        line(&mut text, "dropped", drops);
        let events = HwCounter::ALL.iter().map(|event| (event.name(), self.engine.event(*event)));
        line(&mut text, "counted", events);
        line(&mut text, "MADs", self.gsi.iter().flat_map(GsiCounters::by_name));
        let port = [
            ("missed by the kernel or device", self.wire.rx_missed),
            ("too long", self.wire.rx_oversize),
            ("refused by the kernel", self.wire.tx_dropped),
            ("times no room to send", self.wire.tx_full),
            ("not sent for want of a neighbour", self.unresolved),
        ];
        line(&mut text, "port", port.into_iter());
        for (way, faults) in ["received", "sent"].into_iter().zip(self.faults.iter().flatten()) {
            let faults = [
                ("drop", faults.drop),
                ("duplicate", faults.duplicate),
                ("reorder", faults.reorder),
                ("corrupt", faults.corrupt),
                ("delay", faults.delay),
            ];
            line(&mut text, &format!("faults on frames {way}"), faults.into_iter());
        }
        text
    }
}

fn faults(counts: FaultCounts) -> Value {
    json!({
        "drop": counts.drop,
        "duplicate": counts.duplicate,
        "reorder": counts.reorder,
        "corrupt": counts.corrupt,
        "delay": counts.delay,
    })
}

fn line<'a>(text: &mut String, title: &str, counts: impl Iterator<Item = (&'a str, u64)>) {
    let mut separator = ": ";
    for (name, count) in counts.filter(|(_, count)| *count != 0) {
        if separator == ": " {
            let _ = write!(text, "\n{title}");
        }
        let _ = write!(text, "{separator}{name} {count}");
        separator = ", ";
    }
}
