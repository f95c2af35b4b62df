//! DCQCN, the congestion control of RoCEv2: both ends, without the packets.
//!
//! ```text
//!  sender                          switch                         receiver
//!  ReactionPoint ── data, ECT ──> queue grows ── data, CE ──> NotificationPoint
//!       ^                                                           │
//!       └──────────────────────── CNP ──────────────────────────────┘
//!
//!  a CNP:      R_T := R_C;  R_C := R_C·(1 − α/2);  α := (1 − g)·α + g
//!  no CNP, K:  α := (1 − g)·α
//!  T or B:     fast recovery      R_C := (R_T + R_C)/2
//!              additive increase  R_T := R_T + R_AI,   then as above
//!              hyper increase     R_T := R_T + i·R_HAI, then as above
//! ```
//!
//! [`NotificationPoint`] says when to send a CNP (16 bytes a flow), [`ReactionPoint`] what rate to
//! send at (88 bytes a flow); [`Params`] are shared by all flows. Integers only, no allocation,
//! time given in nanoseconds, and no timer runs for a flow that is not congested.
//!
//! Two sets of parameters come with it: [`Params::PAPER`], the SIGCOMM 2015 paper, and
//! [`Params::MLX5`], what ConnectX NICs report. They differ in more than numbers: where the paper
//! and implementations part, a field of [`Params`] says which way to go.
//!
//! | question | answers |
//! |---|---|
//! | is the rate cut by alpha before or after its update | [`CutOrder`] |
//! | when does a cut set the target rate | [`TargetClamp`] |
//! | is there a byte counter, and what does it count in | [`Params::rpg_byte_reset`], [`ByteUnit`] |
//! | does a CNP cut, or the end of a period | [`CutTiming`], and for alpha [`AlphaUpdate`] |
//! | where do fast recovery end and hyper increase begin | [`FastRecovery`], [`HyperIncrease`], [`StageTest`] |
//! | what is a hyper increase's step; what does the first CNP do | [`HyperStep`], [`FirstCnp`] |
//! | which way round is `DCE_TCP_G` | [`GSense`] |
//!
//! ```
//! use roce_codec::dcqcn::{NotificationPoint, Params, ReactionPoint};
//!
//! let mut params = Params::PAPER;
//! params.set("rpg_ai_rate", 50)?; // or "rp_ai_rate", as in debugfs
//! params.validate()?;
//!
//! let mut receiver = NotificationPoint::new();
//! assert!(receiver.on_packet(&params, 1_000, true)); // marked: answer with a CNP
//! assert!(!receiver.on_packet(&params, 2_000, true)); // not again within 50 µs
//!
//! let mut sender = ReactionPoint::new(&params, 40_000_000_000);
//! assert_eq!((sender.rate_bps(), sender.next_timeout()), (40_000_000_000, None));
//! sender.on_cnp(&params, 3_000);
//! assert_eq!(sender.rate_bps(), 20_000_000_000); // alpha starts at 1
//! assert_eq!(sender.next_timeout(), Some(58_000)); // 55 µs later
//! sender.on_timeout(&params, 58_000);
//! assert_eq!(sender.rate_bps(), 30_000_000_000); // half way back
//! assert_eq!(sender.gap_ns(1500), 400); // 12,000 bits at 30 Gb/s
//! # Ok::<(), roce_codec::dcqcn::ParamError>(())
//! ```

mod alpha;
mod choices;
mod climb;
mod knob;
mod notification_point;
mod params;
mod q31;
mod reaction_point;

pub use choices::{
    AlphaUpdate, ByteUnit, CutOrder, CutTiming, FastRecovery, FirstCnp, GSense, HyperIncrease,
    HyperStep, StageTest, TargetClamp,
};
pub use knob::{Knob, ParamError};
pub use notification_point::{NotificationPoint, may_cause_cnp};
pub use params::Params;
pub use reaction_point::ReactionPoint;
