//! Judging on several cores: packets are observed on all of them, and judged one after the other in
//! the order of the capture, so that the findings are the same however many there are.
//!
//! Each worker reads a batch, observes its packets, waits for the batch's turn and judges it.
//! Reading and judging are done by one worker at a time; what takes about as long, dissecting and
//! the ICRC, by all at once.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Checker, Finding};
use crate::capture::{Batch, Packet};
use crate::observed::Observed;

/// What comes of a capture, in its order.
#[derive(Debug)]
pub enum Judged<'a, X> {
    /// A packet, and the findings that it settled.
    Packet(&'a Packet<'a>, &'a [Finding]),
    /// All packets that came at once have been told: live output goes out now.
    Pause,
    /// The capture cannot be read here; there may be more behind it.
    Error(X),
}

/// Where packets come from, the next batch's number, and whether the end was seen.
struct Source<S> {
    fill: S,
    next: u64,
    ended: bool,
}

/// Who judges, and the number of the batch whose turn it is. `None` when told to stop.
struct Turn<'c, E> {
    checker: &'c mut Checker,
    each: E,
    next: Option<u64>,
}

/// Judges what `fill` gives until it gives nothing, on `jobs` cores, and tells `each` what comes of
/// it. Stops when `each` breaks off. The capture's end is the caller's to tell the checker
/// ([`Checker::finish`]).
pub fn judge<S, E, X>(fill: S, checker: &mut Checker, jobs: NonZeroUsize, each: E)
where
    S: FnMut(&mut Batch) -> Result<usize, X> + Send,
    E: FnMut(Judged<'_, X>) -> ControlFlow<()> + Send,
{
    let source = Mutex::new(Source { fill, next: 0, ended: false });
    let turn = Mutex::new(Turn { checker, each, next: Some(0) });
    let changed = Condvar::new();
    let worker = || work(&source, &turn, &changed);
    thread::scope(|scope| {
        for _ in 1..jobs.get() {
            scope.spawn(worker);
        }
        worker();
    });
}

fn work<S, E, X>(source: &Mutex<Source<S>>, turn: &Mutex<Turn<'_, E>>, changed: &Condvar)
where
    S: FnMut(&mut Batch) -> Result<usize, X>,
    E: FnMut(Judged<'_, X>) -> ControlFlow<()>,
{
    let mut batch = Batch::new();
    while let Some((number, filled)) = next_batch(source, &mut batch) {
        let observed: Vec<_> = match &filled {
            Ok(_) => batch.packets().map(|packet| Observed::new(&packet)).collect(),
            Err(_) => Vec::new(),
        };
        let Some(mut turn) = wait_for(number, turn, changed) else { return };
        let Turn { checker, each, .. } = &mut *turn;
        let mut flow = ControlFlow::Continue(());
        for observed in &observed {
            flow = each(Judged::Packet(&observed.packet, checker.observed(observed)));
            if flow.is_break() {
                break;
            }
        }
        if flow.is_continue() {
            flow = each(match filled {
                Ok(_) => Judged::Pause,
                Err(error) => Judged::Error(error),
            });
        }
        turn.next = flow.is_continue().then_some(number + 1);
        drop(turn);
        changed.notify_all();
    }
}

/// The next batch and its number; `None` at the end.
fn next_batch<S, X>(source: &Mutex<Source<S>>, batch: &mut Batch) -> Option<(u64, Result<usize, X>)>
where
    S: FnMut(&mut Batch) -> Result<usize, X>,
{
    let mut source = lock(source);
    if source.ended {
        return None;
    }
    let filled = (source.fill)(batch);
    if let Ok(0) = filled {
        source.ended = true;
        return None;
    }
    let number = source.next;
    source.next += 1;
    Some((number, filled))
}

/// Waits until it is a batch's turn; `None` when told to stop.
fn wait_for<'m, 'c, E>(
    number: u64,
    turn: &'m Mutex<Turn<'c, E>>,
    changed: &Condvar,
) -> Option<MutexGuard<'m, Turn<'c, E>>> {
    let waits = |turn: &mut Turn<'_, E>| turn.next.is_some_and(|next| next != number);
    let turn = changed.wait_while(lock(turn), waits).unwrap_or_else(PoisonError::into_inner);
    turn.next.is_some().then_some(turn)
}

/// A worker that panics takes the others down when they are joined; until then it does no harm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
