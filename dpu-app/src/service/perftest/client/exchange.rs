//! The client's half of the exchange: what it says next, and what the answer is. The client
//! speaks first, and each message is answered by one of the same kind.

use super::super::Test;
use super::super::message::{Form, MessageKind};

/// What an answer, or the end of a run, has brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProgress {
    /// There is more to be said.
    Continues,
    /// The queue pairs are to be connected by RDMA CM:
    /// [`ByCm::connect_pairs`](super::ByCm::connect_pairs).
    Connects,
    /// A run begins.
    Runs,
    /// The exchange is over: say what there is to say, and close the connection.
    Over,
}

/// What to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Say {
    Version,
    CycleBuffer,
    CacheLine,
    PathMtu,
    Barrier,
    /// The key message of this queue pair of ours.
    Key(u32),
    /// One of the five results.
    Result(u32),
    /// The end; it is not answered.
    Done,
}

impl Say {
    /// What the answer is; `None` when there is none.
    pub(super) const fn answer(self) -> Option<MessageKind> {
        Some(match self {
            Self::Version => MessageKind::Version,
            Self::CycleBuffer => MessageKind::CycleBuffer,
            Self::CacheLine => MessageKind::CacheLine,
            Self::PathMtu => MessageKind::PathMtu,
            Self::Barrier => MessageKind::Barrier,
            Self::Key(_) => MessageKind::Key,
            Self::Result(_) => MessageKind::Result,
            Self::Done => return None,
        })
    }
}

const RESULTS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Version,
    CycleBuffer,
    CacheLine,
    PathMtu,
    /// A barrier, the connecting of the queue pairs, and another barrier.
    Meeting,
    Connecting,
    Joining,
    /// The key message of each queue pair.
    Keys(u32),
    /// The same again, as barriers.
    Barriers(u32),
    Running,
    /// Barriers between the runs of two sizes.
    Between(u32),
    /// A barrier behind the last of several sizes.
    Behind,
    /// A barrier, then the results.
    BeforeResults,
    Results(u32),
    LastKey,
    Done,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct ClientExchange {
    test: Test,
    qps: u32,
    /// Whether several sizes are run.
    all_sizes: bool,
    form: Form,
    phase: Phase,
}

impl ClientExchange {
    /// At its start.
    pub(super) const fn new(test: Test, qps: u32, all_sizes: bool, form: Form) -> Self {
        Self { test, qps, all_sizes, form, phase: Phase::Version }
    }

    /// How it is written.
    pub(super) const fn form(&self) -> Form {
        self.form
    }

    /// What is to be said, or has been and waits for its answer; `None` while it connects or runs.
    pub(super) fn say(&self) -> Option<Say> {
        Some(match self.phase {
            Phase::Version => Say::Version,
            Phase::CycleBuffer => Say::CycleBuffer,
            Phase::CacheLine => Say::CacheLine,
            Phase::PathMtu => Say::PathMtu,
            Phase::Keys(index) => Say::Key(index),
            Phase::Barriers(number) => Say::Key(self.barrier(number)),
            Phase::Connecting | Phase::Running => return None,
            Phase::Meeting | Phase::Joining => Say::Barrier,
            Phase::Between(_) | Phase::Behind | Phase::BeforeResults | Phase::LastKey => {
                Say::Key(0)
            }
            Phase::Results(index) => Say::Result(index),
            Phase::Done => Say::Done,
        })
    }

    /// Whether the run has been: what the peer says no longer changes the result.
    pub(super) fn is_at_its_end(&self) -> bool {
        matches!(self.phase, Phase::LastKey | Phase::Done)
    }

    /// Whether all has been said.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Steps past an answer, or the connecting.
    pub(super) fn advance(&mut self) -> ClientProgress {
        self.phase = match self.phase {
            Phase::Version => Phase::CycleBuffer,
            Phase::CycleBuffer => Phase::CacheLine,
            Phase::CacheLine => Phase::PathMtu,
            Phase::PathMtu => match self.form {
                Form::Text => Phase::Keys(0),
                Form::Binary => Phase::Meeting,
            },
            Phase::Meeting => Phase::Connecting,
            Phase::Connecting => Phase::Joining,
            Phase::Joining => Phase::Keys(0),
            Phase::Keys(index) if index + 1 < self.qps => Phase::Keys(index + 1),
            Phase::Keys(_) => Phase::Barriers(0),
            Phase::Barriers(number) if number + 1 < self.barriers() => Phase::Barriers(number + 1),
            Phase::Between(left) if left > 1 => Phase::Between(left - 1),
            Phase::Barriers(_) | Phase::Between(_) | Phase::Running => Phase::Running,
            Phase::BeforeResults => Phase::Results(0),
            Phase::Results(index) if index + 1 < RESULTS => Phase::Results(index + 1),
            Phase::Results(_) | Phase::Behind => Phase::LastKey,
            Phase::LastKey | Phase::Done => Phase::Done,
        };
        self.progress()
    }

    /// Steps past a run. `more` says whether another size follows.
    pub(super) fn finish_run(&mut self, more: bool) -> ClientProgress {
        self.phase = match self.test {
            Test::SendBw if more => Phase::Between(2),
            Test::SendLat if more => Phase::Between(1),
            _ if more => Phase::Running,
            Test::SendBw if self.all_sizes => Phase::Behind,
            Test::WriteBw | Test::ReadBw | Test::AtomicBw => Phase::BeforeResults,
            // Its server listens no more.
            Test::WriteLat if self.form == Form::Binary => Phase::Done,
            _ => Phase::LastKey,
        };
        self.progress()
    }

    const fn progress(&self) -> ClientProgress {
        match self.phase {
            Phase::Connecting => ClientProgress::Connects,
            Phase::Running => ClientProgress::Runs,
            Phase::Done => ClientProgress::Over,
            _ => ClientProgress::Continues,
        }
    }

    /// Key messages between those that make the queue pairs known and the run.
    const fn barriers(&self) -> u32 {
        match self.test {
            Test::WriteBw | Test::ReadBw | Test::AtomicBw => self.qps + 1,
            Test::SendBw => self.qps + 2,
            Test::WriteLat | Test::ReadLat | Test::SendLat | Test::AtomicLat => 3,
        }
    }

    /// Which queue pair a barrier names.
    const fn barrier(&self, number: u32) -> u32 {
        match self.test {
            Test::SendBw if number > 0 && number <= self.qps => number - 1,
            Test::WriteBw | Test::ReadBw | Test::AtomicBw if number < self.qps => number,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue pairs that the key messages before the run name.
    fn keys(test: Test, qps: u32) -> Vec<u32> {
        let mut exchange = ClientExchange::new(test, qps, false, Form::Text);
        for said in [Say::Version, Say::CycleBuffer, Say::CacheLine, Say::PathMtu] {
            assert_eq!(exchange.say(), Some(said));
            assert_eq!(exchange.advance(), ClientProgress::Continues);
        }
        let mut keys = Vec::new();
        while let Some(Say::Key(index)) = exchange.say() {
            keys.push(index);
            exchange.advance();
        }
        assert_eq!(exchange.say(), None, "it runs");
        keys
    }

    /// Counted in captures of real clients of perftest 4.5.
    #[test]
    fn as_many_keys_before_the_run_as_real_clients_send() {
        assert_eq!(keys(Test::WriteBw, 1), [0, 0, 0]);
        assert_eq!(keys(Test::ReadBw, 2), [0, 1, 0, 1, 0]);
        assert_eq!(keys(Test::AtomicBw, 3), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(keys(Test::SendBw, 1), [0, 0, 0, 0]);
        assert_eq!(keys(Test::SendBw, 2), [0, 1, 0, 0, 1, 0]);
        for test in [Test::WriteLat, Test::ReadLat, Test::SendLat, Test::AtomicLat] {
            assert_eq!(keys(test, 1), [0, 0, 0, 0]);
        }
    }

    /// What is said from the end of the first run on, `sizes` runs in all.
    fn after(test: Test, sizes: u32) -> Vec<Option<Say>> {
        let mut exchange = ClientExchange::new(test, 1, sizes > 1, Form::Text);
        while exchange.say().is_some() {
            exchange.advance();
        }
        let mut said = Vec::new();
        let mut progress = exchange.finish_run(sizes > 1);
        let mut left = sizes - 1;
        loop {
            said.push(exchange.say());
            progress = match progress {
                ClientProgress::Continues | ClientProgress::Connects => exchange.advance(),
                ClientProgress::Runs => {
                    left -= 1;
                    exchange.finish_run(left > 0)
                }
                ClientProgress::Over => return said,
            };
        }
    }

    #[test]
    fn after_the_run() {
        let key = Some(Say::Key(0));
        let results = (0..5).map(|index| Some(Say::Result(index)));
        let mut with_results = vec![key];
        with_results.extend(results);
        with_results.extend([key, Some(Say::Done)]);
        for test in [Test::WriteBw, Test::ReadBw, Test::AtomicBw] {
            assert_eq!(after(test, 1), with_results, "{test}");
        }
        for test in [Test::SendBw, Test::WriteLat, Test::ReadLat, Test::SendLat, Test::AtomicLat] {
            assert_eq!(after(test, 1), [key, Some(Say::Done)], "{test}");
        }
    }

    /// `ib_send_bw -a` and `ib_send_lat -a` meet between sizes, the others do not.
    #[test]
    fn several_sizes() {
        let (key, run, done) = (Some(Say::Key(0)), None, Some(Say::Done));
        assert_eq!(after(Test::SendBw, 2), [key, key, run, key, key, done]);
        assert_eq!(after(Test::SendLat, 3), [key, run, key, run, key, done]);
        assert_eq!(after(Test::ReadLat, 3), [run, run, key, done]);
        assert_eq!(after(Test::WriteLat, 2), [run, key, done]);
        assert_eq!(after(Test::WriteBw, 2)[..3], [run, key, Some(Say::Result(0))]);
    }
}
