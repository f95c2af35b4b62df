//! Why a frame's ICRC is wrong.

use roce_crc::Crc32;

use super::Frame;
use crate::ib::Operation;
use crate::icrc::{IcrcDiagnosis, Suspect};

impl Frame<'_> {
    /// When the ICRC is wrong: which known mistakes of a sender explain it, the fewest that do.
    /// `None` if it is right, if the packet is cut, or if no known mistake explains it: then it
    /// was damaged on its way, or changed by somebody without a new ICRC.
    ///
    /// Costs a few passes over the packet, so it is for captures and logs, not for the path of
    /// every packet. By chance a damaged packet is explained less than once in two million.
    ///
    /// ```
    /// use roce_codec::icrc::IcrcMistake;
    /// use roce_codec::{Frame, Start};
    ///
    /// let packet = [
    ///     0x45, 0x02, 0, 0x2c, 0, 1, 0x40, 0, 0x40, 0x11, 0xb6, 0xba, 192, 0, 2, 1, 192, 0, 2, 2,
    ///     0xc0, 0, 0x12, 0xb7, 0, 0x18, 0, 0,
    ///     0x04, 0x40, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5,
    ///     // c9 0e 17 92 would be right.
    ///     0x92, 0x17, 0x0e, 0xc9,
    /// ];
    /// let frame = Frame::parse([&packet, &[]], Start::Ip)?;
    /// let diagnosis = frame.diagnose_icrc().unwrap();
    /// assert_eq!(diagnosis.mistake(), IcrcMistake::BigEndian);
    /// assert_eq!(diagnosis.to_string(), "it is stored most significant byte first");
    /// # Ok::<(), roce_codec::ParseError>(())
    /// ```
    #[cold]
    #[must_use]
    pub fn diagnose_icrc(&self) -> Option<IcrcDiagnosis> {
        self.diagnose_icrc_with::<roce_crc::Crc>()
    }

    /// As [`Frame::diagnose_icrc`], with the CRC kernel of your choice.
    #[cold]
    #[must_use]
    pub fn diagnose_icrc_with<C: Crc32>(&self) -> Option<IcrcDiagnosis> {
        let pad = self.pad();
        let suspect = Suspect {
            network: self.network(),
            link: self.link,
            lrh: None,
            headers: self.headers(),
            ext: self.ext_bytes(),
            payload: self.payload(),
            pad: &pad,
            icrc: self.icrc(),
            trailer: self.trailer(),
            is_flush: self.opcode().info().operation == Operation::Flush,
        };
        suspect.diagnose::<C>(self.verify_icrc_with::<C>())
    }
}
