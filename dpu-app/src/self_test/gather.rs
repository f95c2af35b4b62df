//! Lists of scatter-gather elements, and data that is in the work request itself.

use heapless::Vec;
use roce_codec::ib::{PathMtu, Service};
use roce_dataplane::port::Port;
use roce_engine::{RecvWr, SendWr, Sge, WcOpcode, WrOpcode};

use super::lab::{Expected, Lab, Moved, Span};
use super::pattern::Pattern;
use super::side::Side;
use super::{Failure, Host};

/// Where a message of 1,000 bytes comes from, one piece being none, and where it goes; one behind
/// the other and at the other end of it.
const SOURCE: [Span; 4] = [(11, 100), (7, 0), (301, 1), (1003, 899)];
const SINK: [Span; 2] = [(2001, 3), (3001, 997)];
const LEN: u32 = 1000;
/// What a WRITE of it fills, and what is READ, and into which pieces.
const WRITTEN: Span = (10_000, LEN);
const READ: Span = (20_000, LEN);
const READ_INTO: [Span; 3] = [(5001, 999), (9, 0), (7001, 1)];
/// Inline data by SEND and by WRITE.
const SENT: Span = (30_001, 100);
const SET: Span = (31_001, 37);
const INLINE: usize = 100;
const SHORT: usize = 37;

fn list<P: Port>(side: &Side<'_, P>, spans: &[Span]) -> Vec<Sge, 4> {
    spans.iter().map(|(start, len)| side.sge(*start, *len)).collect()
}

/// Runs all of it on one connection.
pub(super) fn run<P: Port, H: Host>(lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
    lab.connect(Service::Rc, PathMtu::Mtu256, false)?;
    let (source, sink) = (list(&lab.near, &SOURCE), list(&lab.far, &SINK));
    let into = list(&lab.near, &READ_INTO);
    let (rkey, qpn) = (lab.far.mr.rkey, lab.far.qpn);
    let va = |(start, _): Span| Side::<P>::va(start);
    lab.far.engine.post_recv(qpn, &RecvWr::new(100, &sink))?;
    lab.far.post_recv(101, lab.far.sge(SENT.0, SENT.1))?;
    lab.near.post(&SendWr::new(0, WrOpcode::Send, &source))?;
    lab.near.post(&SendWr::new(1, WrOpcode::RdmaWrite { va: va(WRITTEN), rkey }, &source))?;
    lab.near.post(&SendWr::new(2, WrOpcode::RdmaRead { va: va(READ), rkey }, &into))?;
    let pattern = Pattern(lab.near.random());
    {
        let mut bytes = [0; INLINE];
        pattern.fill(&mut bytes);
        lab.near.post(&SendWr::new(3, WrOpcode::Send, &[]).inline(&bytes))?;
        let short = bytes.get(..SHORT).unwrap_or_default();
        let opcode = WrOpcode::RdmaWrite { va: va(SET), rkey };
        lab.near.post(&SendWr::new(4, opcode, &[]).inline(short))?;
        // They may be used again at once.
        bytes.fill(0);
        core::hint::black_box(&bytes);
    }
    let [near, far] = lab.run([5, 2])?;
    let opcodes = [
        WcOpcode::Send,
        WcOpcode::RdmaWrite,
        WcOpcode::RdmaRead,
        WcOpcode::Send,
        WcOpcode::RdmaWrite,
    ];
    for ((wr_id, opcode), wc) in (0..).zip(opcodes).zip(&near) {
        Expected::of(wr_id, opcode).check(Some(wc))?;
    }
    for ((wr_id, len), wc) in (100..).zip([LEN, SENT.1]).zip(&far) {
        Expected { len: Some(len), ..Expected::of(wr_id, WcOpcode::Recv) }.check(Some(wc))?;
    }
    let moved = [
        Moved { far: true, to: &SINK, from: &SOURCE },
        Moved { far: true, to: &[WRITTEN], from: &SOURCE },
        Moved { far: false, to: &READ_INTO, from: &[READ] },
    ];
    lab.check_memory(|lab, far, offset| {
        let inline = [SENT, SET].into_iter().find_map(|(start, len)| {
            let within = offset.checked_sub(start).filter(|within| *within < len && far)?;
            Some(pattern.at(within))
        });
        inline.or_else(|| lab.moved(&moved, far, offset))
    })?;
    lab.totals.messages += 5;
    lab.totals.bytes += u64::from(3 * LEN + SENT.1 + SET.1);
    lab.disconnect()
}
