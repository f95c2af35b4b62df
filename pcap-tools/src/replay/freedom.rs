//! What two right responders may do differently.

use std::fmt;

macro_rules! freedoms {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $clause:literal, $why:literal;)*) => {
        /// A difference between our answer and the captured one that the specification permits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Freedom {
            $($(#[$doc])* $name,)*
        }

        impl Freedom {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name in output.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// Where the specification permits it.
            #[must_use]
            pub const fn clause(self) -> &'static str {
                match self { $(Self::$name => $clause,)* }
            }

            /// Why it is permitted.
            #[must_use]
            pub const fn why(self) -> &'static str {
                match self { $(Self::$name => $why,)* }
            }
        }
    };
}

freedoms! {
    /// One side acknowledged several requests at once where the other had an acknowledgement each.
    Coalescing = "coalescing", "IBTA 9.7.5.1.2",
        "an acknowledgement stands for everything before it; how many are sent is the responder's";
    /// The ACK states other credits.
    Credits = "credits", "IBTA 9.7.7.2",
        "credits tell of the receives that are posted, which the capture does not show";
    /// The MSN counts a READ, ATOMIC WRITE or FLUSH earlier or later.
    ReadMsn = "read-msn", "IBTA C9-148",
        "a READ may count when it starts or when it is answered";
    /// The rest of a READ that was asked for again comes with a Middle where the other side has a
    /// First, or a Last where it has an Only.
    ReadRetryOpcode = "read-retry-opcode", "IBTA 9.7.5.1.3",
        "a retry from within a READ is answered as a READ of its own, or as the rest of the old one";
    /// The ACK of a request seen before names another PSN.
    DuplicatePsn = "duplicate-psn", "IBTA C9-105",
        "a duplicate is acknowledged with any PSN from its own to the newest that was executed";
    /// What is answered again has the MSN of the first time, or the current one.
    DuplicateMsn = "duplicate-msn", "IBTA C9-105",
        "an answer from what is kept may be the one that was sent";
    /// The request's ICRC is wrong by a mistake of its sender's that the captured responder shares;
    /// it was given to ours as if right.
    SharedIcrc = "shared-icrc", "IBTA 7.8.1",
        "the captured responder computes the ICRC as wrong as the requester, and took the request";
    /// The captured answer shows memory that the peer's WRITEs and earlier answers do not explain.
    OwnerStore = "owner-store", "IBTA 10.6",
        "its owner may store there at any time: ours follows in process, and over a wire is another";
    /// The migration bit differs.
    MigReq = "mig-req", "IBTA 9.2, 17.2.8",
        "the bit tells the state of path migration, which was agreed out of sight";
}

impl fmt::Display for Freedom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Why a difference proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unknown {
    /// The request came before the capture.
    CaptureBegins,
    /// The capture ends where the answer would come.
    CaptureEnds,
    /// One tap, and something was lost: the request may not have arrived, or the answer was lost
    /// before the tap.
    LostBehindTap,
    /// Behind a request that the capture cut, which is never given.
    Cut,
    /// Behind a READ of more than the capture shows answered.
    LongRead,
}

impl Unknown {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::CaptureBegins, Self::CaptureEnds, Self::LostBehindTap, Self::Cut, Self::LongRead];

    /// The name in output.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::CaptureBegins => "capture-begins",
            Self::CaptureEnds => "capture-ends",
            Self::LostBehindTap => "lost-behind-tap",
            Self::Cut => "behind-cut-request",
            Self::LongRead => "behind-long-read",
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
