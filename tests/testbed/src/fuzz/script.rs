//! Bytes read as choices.

/// What is left of an input.
#[derive(Debug)]
pub(super) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 at the end.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A number below `end`, at most 65,536.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let number = if end > 256 {
            usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
        } else {
            usize::from(self.byte())
        };
        number.checked_rem(end).unwrap_or(0)
    }

    pub(super) fn side(&mut self) -> usize {
        usize::from(self.byte() & 1)
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}
