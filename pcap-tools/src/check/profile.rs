//! What is known of the devices in a capture: their quirks, so that what they do is explained
//! instead of failed, and their habits, so that rules about them can be judged at all.

#[cfg(feature = "profiles")]
mod file;

use std::num::NonZeroU64;

use roce_codec::icrc::IcrcMistake;

#[cfg(feature = "profiles")]
pub use file::ProfileError;

/// What the minimum time between two congestion notifications holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "profiles", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum CnpScope {
    /// Each queue pair.
    QueuePair,
    /// All notifications to one host.
    Host,
    /// Everything the sender sends.
    Port,
}

/// A mistake in the ICRC that a device is known to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "profiles", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum KnownIcrcMistake {
    /// A FLUSH covers BTH and extension headers twice: Linux rxe.
    HeadersTwice,
    /// The pad bytes are left out: Linux rxe up to 2019.
    PadLeftOut,
    /// The most significant byte is stored first.
    BigEndian,
    /// The complement at the end is missing.
    NotInverted,
    /// The eight bytes of ones before the packet are left out.
    OnesLeftOut,
    /// No field is set to ones.
    NothingMasked,
}

impl KnownIcrcMistake {
    /// Whether it is what a diagnosis names.
    #[must_use]
    pub fn is(self, mistake: IcrcMistake) -> bool {
        matches!(
            (self, mistake),
            (Self::HeadersTwice, IcrcMistake::HeadersTwice)
                | (Self::PadLeftOut, IcrcMistake::PadLeftOut)
                | (Self::BigEndian, IcrcMistake::BigEndian)
                | (Self::NotInverted, IcrcMistake::NotInverted)
                | (Self::OnesLeftOut, IcrcMistake::OnesLeftOut)
                | (Self::NothingMasked, IcrcMistake::NothingMasked)
        )
    }
}

/// What is known of the devices in a capture. `None` is not known: rules that need it say unknown.
///
/// As a file it is TOML with the fields' names as keys, each of them optional
/// ([`Profile::parse`]); some are built in ([`Profile::BUILT_IN`]).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "profiles", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Profile {
    /// What findings call it.
    #[cfg_attr(feature = "profiles", serde(skip))]
    pub name: String,
    /// Which devices it describes, for people.
    pub description: String,
    /// Whether an RC or UC queue pair sends from one UDP source port all its life. Multipath
    /// devices do not. (UDP-SRC-PORT)
    pub constant_source_port: Option<bool>,
    /// Whether congestion marks (CE) are answered by congestion notifications. (ECN-CNP)
    pub sends_cnps: Option<bool>,
    /// The least time between two notifications, nanoseconds. (CNP-SPACING)
    pub cnp_min_interval_ns: Option<u64>,
    /// What that time holds for; each queue pair unless stated. (CNP-SPACING)
    pub cnp_scope: Option<CnpScope>,
    /// The longest time from a mark to the notification it leads to, nanoseconds. Devices put
    /// marks together, so a notification before that one counts as well. (ECN-CNP)
    pub cnp_max_delay_ns: Option<u64>,
    /// Whether a sender lowers its rate when it is notified. Those that go by the round-trip time
    /// do not. (CNP-RATE)
    pub heeds_cnps: Option<bool>,
    /// Whether retransmission timers adapt to the network, and so run out before the time set.
    /// (RC-RETRY-TIME)
    pub adaptive_retransmission: Option<bool>,
    /// Whether ATOMIC WRITEs and FLUSHes that are sent again carry address 0. (RC-RETRANSMISSION)
    pub resends_address_zero: bool,
    /// Whether READs, WRITEs and atomics may be answered by an RNR NAK: memory paged on demand.
    /// (RC-RNR-OPERATION)
    pub rnr_to_rdma: Option<bool>,
    /// Known mistakes in the ICRC: such packets are explained instead of failed. (ROCE-ICRC)
    pub icrc_mistakes: Vec<KnownIcrcMistake>,
    /// How long a priority may be paused without a break before it is a storm, nanoseconds;
    /// [`Profile::PAUSE_STORM_NS`] unless stated. (PAUSE-STORM)
    pub pause_storm_ns: u64,
    /// The rate of the links in the capture, Gb/s: says when a pause runs out, on interfaces whose
    /// speed the capture does not state. (PAUSE-STORM)
    pub link_gbps: Option<NonZeroU64>,
}

impl Default for Profile {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            constant_source_port: None,
            sends_cnps: None,
            cnp_min_interval_ns: None,
            cnp_scope: None,
            cnp_max_delay_ns: None,
            heeds_cnps: None,
            adaptive_retransmission: None,
            resends_address_zero: false,
            rnr_to_rdma: None,
            icrc_mistakes: Vec::new(),
            pause_storm_ns: Self::PAUSE_STORM_NS,
            link_gbps: None,
        }
    }
}

impl Profile {
    /// What watchdogs of switches and NICs take for a storm: 100 ms.
    pub const PAUSE_STORM_NS: u64 = 100_000_000;

    /// The rate of the links, bits a second.
    pub(super) fn link_bps(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.link_gbps?.get().saturating_mul(1_000_000_000))
    }
}
