//! The rate of a flow before and after its sender is told of congestion.

use crate::check::Checker;
use crate::check::flow::{Flow, FlowId};
use crate::check::judge::At;
use crate::check::packet::Seen;
use crate::check::rule::Rule;

/// What a rate is taken over.
const WINDOW_NS: u64 = 100_000;
/// Notifications that come closer than this leave a sender no time to recover.
const IN_A_ROW_NS: u64 = 100_000;
/// A flow that has not been notified for so long runs at the rate it likes. One that is notified
/// on and on has slowed down already.
const QUIET_NS: u64 = 5_000_000;
/// Notifications in a row after which every sender that heeds them has slowed down, and as many
/// more to see it by.
const SETTLED: u32 = 8;
/// Slower flows may be at the lowest rate their sender has, bytes a second.
const MIN_RATE: u128 = 125_000_000;
/// Headers and ICRC of a packet, about.
const OVERHEAD: usize = 60;

/// So many bytes in so many nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Rate {
    bytes: u64,
    ns: u64,
}

impl Rate {
    fn per_second(self) -> u128 {
        u128::from(self.bytes) * 1_000_000_000 / u128::from(self.ns.max(1))
    }
}

/// Notifications in a row, the first ones after a quiet time.
#[derive(Debug, Clone, Copy)]
struct Row {
    before: Rate,
    count: u32,
    /// Where the rate after them is taken from: time, and bytes sent until then.
    from: Option<(u64, u64)>,
}

/// What a flow has sent.
#[derive(Debug, Default)]
pub(in crate::check) struct Sent {
    bytes: u64,
    /// When the current window began, and the bytes sent until then.
    window: (u64, u64),
    /// The last whole window.
    rate: Option<Rate>,
    row: Option<Row>,
    /// The last notification, or the first packet.
    quiet_since_ns: Option<u64>,
}

impl Sent {
    /// Counts a packet.
    #[inline]
    pub(in crate::check) fn count(&mut self, seen: &Seen<'_, '_>, at: At) {
        let Some(now_ns) = at.time_ns else { return };
        self.quiet_since_ns.get_or_insert(now_ns);
        let (began_ns, before) = self.window;
        let ns = now_ns.saturating_sub(began_ns);
        if ns >= WINDOW_NS {
            // After a silence there is no rate.
            let whole = ns < 2 * WINDOW_NS;
            self.rate = whole.then_some(Rate { bytes: self.bytes - before, ns });
            self.window = (now_ns, self.bytes);
        }
        self.bytes += u64::try_from(seen.payload_len + OVERHEAD).unwrap_or_default();
    }

    /// A notification came. The rates before and after, once enough of them came in a row.
    fn notified(&mut self, now_ns: u64) -> Option<[Rate; 2]> {
        let quiet_ns = now_ns.saturating_sub(self.quiet_since_ns.replace(now_ns)?);
        let Some(row) = self.row.take().filter(|_| quiet_ns <= IN_A_ROW_NS) else {
            let before = self.rate.filter(|_| quiet_ns >= QUIET_NS);
            self.row = before.map(|before| Row { before, count: 1, from: None });
            return None;
        };
        let mut row = Row { count: row.count + 1, ..row };
        if row.count == SETTLED {
            row.from = Some((now_ns, self.bytes));
        }
        if row.count < 2 * SETTLED {
            self.row = Some(row);
            return None;
        }
        let (from_ns, from) = row.from?;
        let after = Rate { bytes: self.bytes - from, ns: now_ns.saturating_sub(from_ns) };
        Some([row.before, after])
    }
}

impl Checker {
    /// Holds the rate of the flow that a notification is about against what it was.
    pub(super) fn check_rate(&mut self, id: FlowId, at: At) {
        let Some(now_ns) = at.time_ns else { return };
        let Some(data) = self.flows.get_mut(id).peer.flow() else { return };
        let Flow { habits, told, .. } = self.flows.get_mut(data);
        let Some([before, after]) = habits.sent.notified(now_ns) else { return };
        let [before, after] = [before, after].map(Rate::per_second);
        if before < MIN_RATE {
            return;
        }
        let judge = &mut self.judge;
        if after < before * 9 / 10 {
            return judge.pass(Rule::CnpRate);
        }
        let words = || {
            let megabits = |rate: u128| format!("{} Mb/s", rate * 8 / 1_000_000);
            let message = format!("{} notifications in a row, and no slower", 2 * SETTLED);
            (format!("below {}", megabits(before)), megabits(after), message)
        };
        match judge.profile().heeds_cnps {
            Some(true) => judge.fail(Rule::CnpRate, at, words()),
            Some(false) => {}
            None => judge.unknown_once(Rule::CnpRate, at, told, words),
        }
    }
}
