//! A shared receive queue and its limit (IBTA 10.2.9).

use roce_codec::ib::{PathMtu, Service};
use roce_dataplane::port::Port;
use roce_engine::{Event, RecvWr, SrqError, SrqInfo, SrqInit, WcOpcode, WrOpcode};

use super::lab::{Expected, Lab, Moved};
use super::{Failure, Host};

/// Receives there are at first, and below how many it is told.
const RECEIVES: u32 = 5;
const LIMIT: u32 = 3;
/// Bytes of a message, of a receive, and where the first of either lies.
const LEN: u32 = 777;
const ROOM: u32 = 1000;
const NEAR: u32 = 9;
const FAR: u32 = 20;

/// Two queue pairs, one after another, of either kind of connection, take from one queue.
pub(super) fn run<P: Port, H: Host>(lab: &mut Lab<'_, '_, P, H>) -> Result<(), Failure> {
    let init = SrqInit { pd: lab.far.pd, max_wr: RECEIVES, max_sge: 1 };
    let srq = lab.far.engine.create_srq(&init)?;
    lab.far.srq = Some(srq);
    for place in 0..RECEIVES {
        let sges = [lab.far.sge(FAR + place * ROOM, ROOM)];
        lab.far.engine.post_srq_recv(srq, &RecvWr::new((100 + place).into(), &sges))?;
    }
    lab.far.engine.modify_srq(srq, LIMIT)?;
    let mut taken = 0;
    // The limit is reached by the third message, and told once.
    for (service, messages, told) in [(Service::Rc, 2, 0), (Service::Uc, 2, 1)] {
        lab.connect(service, PathMtu::Mtu256, service == Service::Uc)?;
        for number in 0..messages {
            let sge = lab.near.sge(NEAR + number * LEN, LEN);
            lab.near.post_send(number.into(), WrOpcode::Send, sge)?;
        }
        let [near, far] = lab.run([messages, messages])?;
        for (wr_id, wc) in (0..).zip(&near) {
            Expected::of(wr_id, WcOpcode::Send).check(Some(wc))?;
        }
        for (place, wc) in (taken..).zip(&far) {
            let expected = Expected::of((100 + place).into(), WcOpcode::Recv);
            Expected { len: Some(LEN), ..expected }.check(Some(wc))?;
        }
        let events = core::iter::from_fn(|| lab.far.engine.poll_event());
        let found = events.filter(|event| *event == Event::SrqLimitReached(srq)).count();
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found != told {
            return Err(Failure::Limit { expected: told, found });
        }
        let place = |number| FAR + (taken + number) * ROOM;
        let (first, second) = ([(place(0), LEN)], [(place(1), LEN)]);
        lab.check_moved(&[
            Moved { far: true, to: &first, from: &[(NEAR, LEN)] },
            Moved { far: true, to: &second, from: &[(NEAR + LEN, LEN)] },
        ])?;
        taken += messages;
        lab.totals.messages += messages;
        lab.totals.bytes += u64::from(messages * LEN);
        // It stays as long as somebody takes from it.
        match lab.far.engine.destroy_srq(srq) {
            Err(SrqError::Busy) => {}
            other => return Err(Failure::Srq(other.err().unwrap_or(SrqError::UnknownSrq))),
        }
        lab.disconnect()?;
    }
    let left = lab.far.engine.query_srq(srq)?;
    let expected = SrqInfo { wrs: RECEIVES - taken, limit: 0 };
    if left != expected {
        return Err(Failure::SrqInfo { expected, found: left });
    }
    lab.far.srq = None;
    Ok(lab.far.engine.destroy_srq(srq)?)
}
