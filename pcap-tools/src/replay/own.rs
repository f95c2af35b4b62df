//! What our responder answered, kept until it has been compared.

use roce_codec::ib::{Msn, Psn};
use roce_codec::{Frame, Start};

/// One answer of ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnAnswer {
    /// The place of the request that called for it among the stream's.
    pub(super) request: usize,
    /// Our responder had seen that request before.
    pub(super) duplicate: bool,
    /// The PSN that our responder expected behind that request.
    pub(super) expected: Psn,
    /// READs and their like given since that request, which its MSN may count.
    pub(super) counted: u16,
    at: usize,
    len: usize,
}

/// A request that our responder carried out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Executed {
    pub(super) first: Psn,
    pub(super) last: Psn,
    /// Messages completed with it.
    pub(super) msn: Msn,
    /// Where in the recording it is.
    pub(super) index: usize,
    /// Answered by an acknowledgement, which may stand for others; a READ or atomic is not.
    pub(super) acknowledged: bool,
    /// It asks for that.
    pub(super) asks: bool,
}

/// All answers of a stream.
#[derive(Debug, Default)]
pub(super) struct Own {
    bytes: Vec<u8>,
    pub(super) answers: Vec<OwnAnswer>,
    pub(super) executed: Vec<Executed>,
}

impl Own {
    /// Bytes held.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Keeps a frame from its IP header on; the rest of what is known of it follows by
    /// [`Own::explain`].
    pub(super) fn push(&mut self, request: usize, frame: &[u8]) {
        let (at, len) = (self.bytes.len(), frame.len());
        self.bytes.extend_from_slice(frame);
        let (duplicate, expected, counted) = (false, Psn::new(0), 0);
        self.answers.push(OwnAnswer { request, duplicate, expected, counted, at, len });
    }

    /// Says what the request was to our responder that the answers from `from` on are for.
    pub(super) fn explain(&mut self, from: usize, duplicate: bool, expected: Psn) {
        for answer in self.answers.iter_mut().skip(from) {
            answer.duplicate = duplicate;
            answer.expected = expected;
        }
    }

    /// An answer taken apart.
    pub(super) fn frame(&self, answer: &OwnAnswer) -> Frame<'_> {
        let bytes = self.bytes.get(answer.at..answer.at + answer.len).unwrap_or_default();
        Frame::parse([bytes, &[]], Start::Ip).expect("our responder sends frames")
    }
}
