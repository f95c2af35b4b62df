//! Every call of the engine, for its code alone: it is linked, not run.
#![no_std]
#![no_main]

use roce_codec::ib::Qpn;
use roce_codec::icrc::Icrc;
use roce_codec::{Crc32, SmallTable};
use roce_engine::{
    Addr, AtomicOp, Backing, BackingFault, Engine, MemoryError, Mr, MrAttr, Mw, MwType, Pd,
    QpError, QpInit, SeededEntropy, Transmit,
};

roce_size::firmware! {
    &0 => |call| !call.is_null(),
}

/// Memory that is nowhere: a firmware's own is not the engine's code.
struct Nowhere;

impl Backing for Nowhere {
    fn write(&self, _: Addr, _: [&[u8]; 2]) -> Result<(), BackingFault> {
        core::hint::black_box(Err(BackingFault))
    }

    fn read_crc<C: Crc32>(
        &self,
        _: Addr,
        _: &mut [u8],
        _: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        core::hint::black_box(Err(BackingFault))
    }

    fn atomic(&self, _: Addr, _: AtomicOp) -> Result<u64, BackingFault> {
        core::hint::black_box(Err(BackingFault))
    }
}

// These two take anything that gives random numbers.

fn register_mr(
    engine: &mut Engine<'_>,
    attr: &MrAttr,
    entropy: &mut SeededEntropy,
) -> Result<Mr, MemoryError> {
    engine.register_mr(attr, entropy)
}

fn create_qp(
    engine: &mut Engine<'_>,
    init: &QpInit,
    entropy: &mut SeededEntropy,
) -> Result<Qpn, QpError> {
    engine.create_qp(init, entropy)
}

fn alloc_mw(
    engine: &mut Engine<'_>,
    pd: Pd,
    kind: MwType,
    entropy: &mut SeededEntropy,
) -> Result<Mw, MemoryError> {
    engine.alloc_mw(pd, kind, entropy)
}

/// The address of a call, so that it stays for any arguments.
#[inline(never)]
fn case(call: &usize) -> *const () {
    let calls = [
        Engine::new as *const (),
        Engine::alloc_pd as *const (),
        register_mr as *const (),
        Engine::deregister_mr as *const (),
        Engine::create_cq as *const (),
        create_qp as *const (),
        Engine::modify_qp as *const (),
        Engine::query_qp as *const (),
        Engine::destroy_qp as *const (),
        Engine::post_send as *const (),
        Engine::post_recv as *const (),
        Engine::create_srq as *const (),
        Engine::post_srq_recv as *const (),
        Engine::modify_srq as *const (),
        Engine::query_srq as *const (),
        Engine::destroy_srq as *const (),
        alloc_mw as *const (),
        Engine::bind_mw as *const (),
        Engine::dealloc_mw as *const (),
        Engine::handle_burst_with::<SmallTable, Nowhere> as *const (),
        Engine::handle_timeout as *const (),
        Engine::poll_timeout as *const (),
        Engine::poll_transmit as *const (),
        Engine::transmit_failed as *const (),
        Engine::poll_cq as *const (),
        Engine::poll_event as *const (),
        Transmit::emit::<SmallTable, Nowhere> as *const (),
    ];
    calls.get(*call).copied().unwrap_or(core::ptr::null())
}
