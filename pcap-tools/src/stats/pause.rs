//! How long PAUSE and PFC frames asked links to be silent.

use std::num::NonZeroU64;

use roce_codec::net::{MacAddr, MacControl, PauseQuanta};

/// Senders and priorities told apart; what comes beyond that is counted as one.
const MOST: usize = 1024;

/// What a station asked of its peer, for one priority or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Who asked; `None` for all that there was no room for.
    pub src: Option<MacAddr>,
    /// The priority; `None` for a PAUSE of all traffic.
    pub priority: Option<u8>,
    /// Frames that ask for silence.
    pub frames: u64,
    /// Frames that end it (quanta 0).
    pub resumes: u64,
    /// The sum of quanta asked for, of 512 bit times each. A frame that comes before the last one has
    /// run out replaces it, so that this is more than the time of silence.
    pub quanta: u64,
    /// How long silence was asked for, nanoseconds: from each frame until it ran out, was replaced or
    /// ended. `None` without a link rate, or where the file has no times.
    pub paused_ns: Option<u64>,
}

#[derive(Debug)]
struct Account {
    pause: Pause,
    /// The silence asked for last: from when, until when.
    running: Option<(u64, u64)>,
}

/// Accounts of all stations.
#[derive(Debug)]
pub(super) struct Pauses {
    link_bps: Option<NonZeroU64>,
    accounts: Vec<Account>,
}

impl Pauses {
    pub(super) fn new(link_bps: Option<NonZeroU64>) -> Self {
        Self { link_bps, accounts: Vec::new() }
    }

    pub(super) fn frame(&mut self, frame: &MacControl, time_ns: Option<u64>) {
        match frame {
            MacControl::Pause(pause) => self.asked(pause.src, None, pause.quanta, time_ns),
            MacControl::Pfc(pfc) => {
                for (priority, quanta) in pfc.enabled() {
                    self.asked(pfc.src, Some(priority), quanta, time_ns);
                }
            }
        }
    }

    fn asked(
        &mut self,
        src: MacAddr,
        priority: Option<u8>,
        quanta: PauseQuanta,
        time_ns: Option<u64>,
    ) {
        let link_bps = self.link_bps;
        let account = self.account(src, priority);
        account.settle(time_ns);
        account.pause.quanta = account.pause.quanta.saturating_add(u64::from(quanta.0));
        if quanta.0 == 0 {
            account.pause.resumes += 1;
            return;
        }
        account.pause.frames += 1;
        account.running = time_ns
            .zip(link_bps)
            .map(|(now_ns, link_bps)| (now_ns, now_ns.saturating_add(quanta.ns(link_bps))));
    }

    fn account(&mut self, src: MacAddr, priority: Option<u8>) -> &mut Account {
        let is_it = |account: &Account| {
            account.pause.src == Some(src) && account.pause.priority == priority
        };
        let at = match self.accounts.iter().position(is_it) {
            Some(at) => at,
            None => {
                let full = self.accounts.len() >= MOST;
                if self.accounts.len() <= MOST {
                    let (src, priority) = if full { (None, None) } else { (Some(src), priority) };
                    let paused_ns = self.link_bps.map(|_| 0);
                    let (frames, resumes, quanta) = (0, 0, 0);
                    let pause = Pause { src, priority, frames, resumes, quanta, paused_ns };
                    self.accounts.push(Account { pause, running: None });
                }
                self.accounts.len() - 1
            }
        };
        &mut self.accounts[at]
    }

    /// The accounts at the end of a capture whose last packet came at `end_ns`.
    pub(super) fn finish(&mut self, end_ns: Option<u64>) -> Vec<Pause> {
        for account in &mut self.accounts {
            account.settle(end_ns);
        }
        let mut pauses: Vec<Pause> = self.accounts.iter().map(|account| account.pause).collect();
        pauses
            .sort_by_key(|pause| (pause.src.is_none(), pause.src.map(|mac| mac.0), pause.priority));
        pauses
    }
}

impl Account {
    /// The silence that was asked for ends by `now_ns`, or has run out before.
    fn settle(&mut self, now_ns: Option<u64>) {
        if let Some((from_ns, until_ns)) = self.running.take()
            && let Some(paused_ns) = &mut self.pause.paused_ns
        {
            let end_ns = now_ns.map_or(until_ns, |now_ns| now_ns.clamp(from_ns, until_ns));
            *paused_ns = paused_ns.saturating_add(end_ns - from_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use roce_codec::net::Pfc;

    use super::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn frame(priority: u8, quanta: u16) -> MacControl {
        MacControl::Pfc(Pfc::new(MAC).with(priority, PauseQuanta(quanta)))
    }

    #[test]
    fn silence_is_counted_once() {
        // At 100 Gb/s a quantum is 5.12 ns: 1000 of them are 5,120 ns.
        let mut pauses = Pauses::new(NonZeroU64::new(100_000_000_000));
        pauses.frame(&frame(3, 1000), Some(10_000)); // runs out at 15,120
        pauses.frame(&frame(3, 1000), Some(20_000));
        pauses.frame(&frame(3, 1000), Some(22_000)); // replaced after 2,000
        pauses.frame(&frame(3, 0), Some(23_000)); // ended after 1,000
        pauses.frame(&frame(4, 1000), Some(30_000)); // the capture ends 120 later
        let [three, four] = pauses.finish(Some(30_120)).try_into().unwrap();
        assert_eq!((three.src, three.priority), (Some(MAC), Some(3)));
        assert_eq!((three.frames, three.resumes, three.quanta), (3, 1, 3000));
        assert_eq!(three.paused_ns, Some(5_120 + 2_000 + 1_000));
        assert_eq!((four.priority, four.paused_ns), (Some(4), Some(120)));
    }

    #[test]
    fn without_a_rate_there_are_quanta_alone() {
        let mut pauses = Pauses::new(None);
        pauses.frame(&frame(0, 7), Some(1));
        let [pause] = pauses.finish(Some(2)).try_into().unwrap();
        assert_eq!((pause.frames, pause.quanta, pause.paused_ns), (1, 7, None));
    }

    #[test]
    fn forged_senders_are_bounded() {
        let mut pauses = Pauses::new(NonZeroU64::new(1));
        for n in 0..3000_u16 {
            let [high, low] = n.to_be_bytes();
            let pfc = Pfc::new(MacAddr([2, 0, 0, 0, high, low]));
            pauses.frame(&MacControl::Pfc(pfc.with(1, PauseQuanta(u16::MAX))), Some(n.into()));
        }
        let all = pauses.finish(None);
        assert_eq!(all.len(), MOST + 1);
        assert_eq!(all.iter().map(|pause| pause.frames).sum::<u64>(), 3000);
        assert_eq!(all.last().unwrap().src, None);
    }
}
