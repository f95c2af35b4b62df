//! Where the times of a run go.

use roce_engine::Instant;

/// Is told when messages are posted and done, and makes of it what it likes. Messages of a queue
/// pair are numbered from 0 in each run.
pub trait Meter {
    /// Message `index` of queue pair `qp` has been posted.
    fn posted(&mut self, qp: usize, index: u64, now: Instant);

    /// The messages of queue pair `qp` up to `index` are done: acknowledged, or what was asked for
    /// is here. In `write_lat` and `send_lat`, the server's message in return has come; the last
    /// one of `write_lat` has none.
    fn completed(&mut self, qp: usize, index: u64, now: Instant);
}
