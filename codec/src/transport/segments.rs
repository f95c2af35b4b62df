//! A packet in one piece or two.

/// Two pieces read as one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segments<'a>(pub(crate) [&'a [u8]; 2]);

impl<'a> Segments<'a> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0[0].len() + self.0[1].len()
    }

    /// The part that starts at `from`, up to `len` bytes of it, as far as it exists.
    #[inline]
    pub(crate) fn range(self, from: usize, len: usize) -> [&'a [u8]; 2] {
        let [a, b] = self.0;
        let end = from.saturating_add(len);
        // Most packets are in one piece.
        if let Some(part) = a.get(from..end) {
            return [part, &[]];
        }
        let part = |piece: &'a [u8], start: usize| {
            let low = from.saturating_sub(start).min(piece.len());
            let high = end.saturating_sub(start).min(piece.len());
            piece.get(low..high).unwrap_or_default()
        };
        [part(a, 0), part(b, a.len())]
    }

    /// Copies what starts at `from` into `out`, as far as it exists.
    #[inline]
    pub(crate) fn copy_to(self, from: usize, out: &mut [u8]) {
        let [a, b] = self.range(from, out.len());
        if a.len() == out.len() {
            // As `copy_from_slice`, whose own check of the lengths opt-level z would leave in.
            for (to, byte) in out.iter_mut().zip(a) {
                *to = *byte;
            }
            return;
        }
        for (to, byte) in out.iter_mut().zip(a.iter().chain(b)) {
            *to = *byte;
        }
    }
}
