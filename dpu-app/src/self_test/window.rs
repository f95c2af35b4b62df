//! Memory windows (IBTA 10.6.7): bound, used, and closed to the peer again.

use roce_codec::ib::{NakCode, PathMtu, RKey, Service};
use roce_dataplane::port::Port;
use roce_engine::{
    Access, Mr, Mw, MwBind, MwBindInfo, MwType, SendWr, WcOpcode, WcStatus, WrOpcode,
};

use super::lab::{Expected, Lab, Moved};
use super::operation::write;
use super::refusal::refused;
use super::side::{Side, VA};
use super::{Failure, Host, MEMORY};

/// Where the window begins at the responder, how long it is, and where what is written there comes
/// from.
const AT: u32 = 4097;
const SPAN: u32 = 1500;
const NEAR: u32 = 21;
/// What is READ through it, from its end, and where that goes.
const READ: u32 = 100;
const BACK: u32 = 9001;

/// Why a request by the window's key is refused in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Its last byte is beyond the window, not beyond the region.
    Beyond,
    /// The window was closed here: type 1 by being bound to nothing, type 2 by its key's being
    /// invalidated.
    Closed,
    /// The peer has invalidated the key.
    ByPeer,
}

/// Runs it with windows of a type.
pub(super) fn run<P: Port, H: Host>(
    kind: MwType,
    lab: &mut Lab<'_, '_, P, H>,
) -> Result<(), Failure> {
    for ending in [Ending::Beyond, Ending::Closed, Ending::ByPeer] {
        // Type 1 is not for the peer to invalidate.
        if (kind, ending) != (MwType::Type1, Ending::ByPeer) {
            once(kind, ending, lab)?;
        }
    }
    Ok(())
}

fn once<P: Port, H: Host>(
    kind: MwType,
    ending: Ending,
    lab: &mut Lab<'_, '_, P, H>,
) -> Result<(), Failure> {
    lab.connect(Service::Rc, PathMtu::Mtu512, kind == MwType::Type2)?;
    let side = &mut lab.far;
    let all = u32::try_from(MEMORY).unwrap_or(u32::MAX);
    // Open to nobody by itself.
    let mr = side.register(all, Access::LOCAL_WRITE | Access::MW_BIND)?;
    let mut mw = side.engine.alloc_mw(side.pd, kind, &mut side.random)?;
    bind(side, &mut mw, 100, info(mr, SPAN))?;
    let [_, far] = lab.run([0, 1])?;
    Expected::of(100, WcOpcode::BindMw).check(far.first())?;

    let rkey = mw.rkey;
    lab.near.post_send(0, write(Side::<P>::va(AT), rkey), lab.near.sge(NEAR, SPAN))?;
    let opcode = WrOpcode::RdmaRead { va: Side::<P>::va(AT + SPAN - READ), rkey };
    lab.near.post_send(1, opcode, lab.near.sge(BACK, READ))?;
    let [near, _] = lab.run([2, 0])?;
    Expected::of(0, WcOpcode::RdmaWrite).check(near.first())?;
    Expected { len: Some(READ), ..Expected::of(1, WcOpcode::RdmaRead) }.check(near.get(1))?;

    close(ending, lab, (mr, &mut mw), rkey)?;
    let request = match ending {
        Ending::Beyond => (write(Side::<P>::va(AT + SPAN - 7), rkey), 8),
        Ending::Closed | Ending::ByPeer => (write(Side::<P>::va(AT), rkey), 8),
    };
    refused(lab, request, 0, (NakCode::RemoteAccessError, WcStatus::RemoteAccess))?;
    let written = Moved { far: true, to: &[(AT, SPAN)], from: &[(NEAR, SPAN)] };
    lab.check_memory(|lab, far, offset| {
        // It has come back from where it went.
        let back = offset.checked_sub(BACK).filter(|within| *within < READ && !far);
        back.map(|within| lab.before(false, NEAR + SPAN - READ + within))
            .or_else(|| lab.moved(&[written], far, offset))
    })?;
    lab.totals.messages += 2;
    lab.totals.bytes += u64::from(SPAN + READ);
    lab.far.engine.dealloc_mw(mw)?;
    lab.far.engine.deregister_mr(mr.rkey)?;
    lab.disconnect()
}

fn info(mr: Mr, len: u32) -> MwBindInfo {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    MwBindInfo { lkey: mr.lkey, va: VA + u64::from(AT), len: len.into(), access }
}

/// Posts a binding by the verb that the type has.
fn bind<P: Port>(
    side: &mut Side<'_, P>,
    mw: &mut Mw,
    wr_id: u64,
    info: MwBindInfo,
) -> Result<(), Failure> {
    if mw.kind == MwType::Type1 {
        return Ok(side.engine.bind_mw(side.qpn, mw, &MwBind::new(wr_id, info))?);
    }
    let rkey = mw.next_rkey();
    side.post(&SendWr::new(wr_id, WrOpcode::BindMw { rkey, info }, &[]))?;
    mw.rkey = rkey;
    Ok(())
}

/// Closes the window, if it is to be.
fn close<P: Port, H: Host>(
    ending: Ending,
    lab: &mut Lab<'_, '_, P, H>,
    (mr, mw): (Mr, &mut Mw),
    rkey: RKey,
) -> Result<(), Failure> {
    let (opcode, expected) = match (ending, mw.kind) {
        (Ending::Beyond, _) => return Ok(()),
        (Ending::Closed, MwType::Type1) => {
            bind(&mut lab.far, mw, 101, info(mr, 0))?;
            (WcOpcode::BindMw, [0, 1])
        }
        (Ending::Closed, MwType::Type2) => {
            lab.far.post(&SendWr::new(101, WrOpcode::LocalInvalidate(rkey), &[]))?;
            (WcOpcode::LocalInvalidate, [0, 1])
        }
        (Ending::ByPeer, _) => {
            lab.far.post_recv(101, lab.far.sge(0, 0))?;
            lab.near.post_send(2, WrOpcode::SendWithInvalidate(rkey), lab.near.sge(0, 0))?;
            (WcOpcode::Recv, [1, 1])
        }
    };
    let [near, far] = lab.run(expected)?;
    if ending == Ending::ByPeer {
        Expected::of(2, WcOpcode::Send).check(near.first())?;
    }
    let invalidated = (ending == Ending::ByPeer).then_some(rkey);
    Expected { invalidated, ..Expected::of(101, opcode) }.check(far.first())
}
