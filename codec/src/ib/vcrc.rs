//! The variant CRC, which ends every packet of native InfiniBand and which each link computes
//! anew.
//!
//! A CRC-16 of everything from the local route header to the ICRC, as it is on the wire: the
//! polynomial `x^16 + x^12 + x^3 + x + 1` (0x100b), the register all ones at the start and
//! complemented at the end, the least significant bit of each byte first. The two bytes stand on
//! the wire low byte first, as the ICRC's four do. IBTA Vol. 1, 7.8.2.

/// Bytes of the VCRC.
pub const VCRC_LEN: usize = 2;

/// 0x100b with its bits the other way round.
const POLYNOMIAL: u16 = 0xd008;

/// What a half byte becomes in the register once it is shifted out: 32 bytes of read-only data.
///
/// Hardware computes the VCRC; what does it in software reads captures or simulates, so a small
/// table serves better than a fast one.
static NIBBLES: [u16; 16] = {
    let mut table = [0; 16];
    let mut nibble = 0_u16;
    while nibble < 16 {
        let mut register = nibble;
        let mut bit = 0;
        while bit < 4 {
            let carry = register & 1;
            register >>= 1;
            if carry == 1 {
                register ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[nibble as usize] = register;
        nibble += 1;
    }
    table
};

/// A running VCRC.
///
/// ```
/// use roce_codec::ib::Vcrc;
///
/// let mut vcrc = Vcrc::new();
/// vcrc.update(b"1234");
/// vcrc.update(b"56789");
/// assert_eq!(vcrc.finish(), [0x3d, 0x0a]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Vcrc(u16);

impl Vcrc {
    /// Before any byte.
    #[must_use]
    pub const fn new() -> Self {
        Self(0xffff)
    }

    /// Feeds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u16::from(*byte);
            for _ in 0..2 {
                let [low, _] = self.0.to_le_bytes();
                // Below 16, the table's length.
                self.0 = (self.0 >> 4) ^ NIBBLES[usize::from(low & 15)];
            }
        }
    }

    /// The bytes that belong on the wire.
    #[must_use]
    pub const fn finish(self) -> [u8; VCRC_LEN] {
        (!self.0).to_le_bytes()
    }
}

impl Default for Vcrc {
    fn default() -> Self {
        Self::new()
    }
}

/// What checking a VCRC found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum VcrcVerdict {
    /// It is right.
    Valid,
    /// It is wrong.
    Invalid {
        /// What the packet's contents call for, in wire order.
        expected: [u8; VCRC_LEN],
        /// What the packet carries, in wire order.
        found: [u8; VCRC_LEN],
    },
    /// There is none: not native InfiniBand, or the capture left it out.
    Absent,
    /// The capture cut the packet short.
    Truncated,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, bit by bit and the other way round: the polynomial as it is written, every
    /// byte reversed on its way in, the register on its way out.
    fn by_definition(bytes: &[u8]) -> [u8; 2] {
        let mut register = 0xffff_u16;
        for byte in bytes {
            register ^= u16::from(byte.reverse_bits()) << 8;
            for _ in 0..8 {
                let carry = register >> 15;
                register = (register << 1) ^ (0x100b * carry);
            }
        }
        let [high, low] = (!register).to_be_bytes();
        // Highest coefficient first on a wire that sends the low bit of a byte first.
        [high.reverse_bits(), low.reverse_bits()]
    }

    #[test]
    fn table_and_definition_agree() {
        let bytes: Vec<u8> = (0..=255).map(|byte: u8| byte.wrapping_mul(37) ^ 0x5a).collect();
        for len in 0..bytes.len() {
            let mut vcrc = Vcrc::new();
            let (first, second) = bytes[..len].split_at(len / 3);
            vcrc.update(first);
            vcrc.update(second);
            assert_eq!(vcrc.finish(), by_definition(&bytes[..len]), "{len}");
        }
    }

    #[test]
    fn nothing_fed_is_nothing() {
        assert_eq!(Vcrc::default().finish(), [0, 0]);
    }
}
