//! What an Ethernet frame of a RoCE network is: [`Packet`].

use crate::net::{EtherType, MacControl};
use crate::{Frame, Layer, NativeFrame, NativeStart, ParseError, Start};

/// An Ethernet frame that a RoCE network sees: for tools, which look at whatever a capture holds.
///
/// ```
/// use roce_codec::net::{MacAddr, MacControl, Pause, PauseQuanta};
/// use roce_codec::Packet;
///
/// let mut bytes = [0; 60];
/// Pause::new(MacAddr([2, 0, 0, 0, 0, 1]), PauseQuanta(100)).emit(&mut bytes)?;
/// match Packet::parse_captured([&bytes, &[]])? {
///     Packet::MacControl(MacControl::Pause(pause)) => assert_eq!(pause.quanta.0, 100),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Packet<'a> {
    /// RoCEv2.
    RoceV2(Frame<'a>),
    /// RoCE v1.
    RoceV1(NativeFrame<'a>),
    /// PAUSE or PFC.
    MacControl(MacControl),
}

impl<'a> Packet<'a> {
    /// Parses an Ethernet frame, the payload of which a capture may have cut short.
    ///
    /// # Errors
    /// [`ParseError`]; of a frame with another EtherType, what [`Frame::parse_captured`] says of it.
    #[inline]
    pub fn parse_captured(segments: [&'a [u8]; 2]) -> Result<Self, ParseError> {
        match Frame::parse_captured(segments, Start::Ethernet) {
            Ok(frame) => Ok(Self::RoceV2(frame)),
            Err(error) => Self::other(segments, error),
        }
    }

    /// What is no RoCEv2, and why.
    #[cold]
    fn other(segments: [&'a [u8]; 2], error: ParseError) -> Result<Self, ParseError> {
        let ParseError::NotRoce { layer: Layer::Ethernet, found } = error else {
            return Err(error);
        };
        match EtherType(found) {
            EtherType::ROCE_V1 => {
                NativeFrame::parse_captured(segments, NativeStart::Ethernet).map(Self::RoceV1)
            }
            EtherType::MAC_CONTROL => match MacControl::parse(segments[0]) {
                Err(ParseError::Truncated { .. }) if !segments[1].is_empty() => {
                    Err(ParseError::SplitHeaders)
                }
                result => result.map(Self::MacControl),
            },
            _ => Err(error),
        }
    }
}
