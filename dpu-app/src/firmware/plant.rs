//! Failures on request, to show that they are noticed: `-semihosting-config arg=…,arg=plant=NAME`.

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Nothing.
    Nothing,
    /// A bit of memory flips once an operation has gone well.
    Corrupt,
    /// The program panics.
    Panic,
    /// The stack overflows.
    Overflow,
    /// The program never ends.
    Hang,
    /// A word that means none of these.
    Unknown,
}

impl Plant {
    /// What the command line asks for, in its last word.
    pub(crate) fn of(arguments: &[u8]) -> Self {
        let word = arguments.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        match word.strip_prefix(b"plant=") {
            None => Self::Nothing,
            Some(b"corrupt") => Self::Corrupt,
            Some(b"panic") => Self::Panic,
            Some(b"overflow") => Self::Overflow,
            Some(b"hang") => Self::Hang,
            Some(_) => Self::Unknown,
        }
    }

    /// Lets it go wrong, if it is to right now.
    pub(crate) fn strike(self) {
        match self {
            Self::Nothing | Self::Corrupt => {}
            Self::Panic => panic!("planted"),
            Self::Overflow => {
                dive(0);
            }
            Self::Hang => loop {
                core::hint::spin_loop();
            },
            Self::Unknown => panic!("plant= takes corrupt, panic, overflow or hang"),
        }
    }
}

/// Calls itself for as long as there is a stack.
#[expect(unconditional_recursion, reason = "it is to run out of stack")]
fn dive(depth: u64) -> u64 {
    let frame = core::hint::black_box([depth; 128]);
    let [.., last] = frame;
    dive(last.wrapping_add(1)).wrapping_add(last)
}
