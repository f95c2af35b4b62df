//! Answers to messages that belong to no connection: written from a few numbers, sent once,
//! forgotten. The peer asks again if one is lost.

use roce_codec::cm::{
    ApStatus, Apr, AttributeId, CommunicationId, Drep, MAD_LEN, Message, Rej, RejReason,
    RejectedMessage, ServiceId, SidrRep, SidrStatus,
};

use super::slot::AnswerSlot;
use crate::qp::Path;

#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) path: Path,
    pub(super) transaction_id: u64,
    pub(super) says: Says,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Says {
    Rej {
        local: CommunicationId,
        remote: CommunicationId,
        rejected: RejectedMessage,
        reason: RejReason,
        ari: Ari,
    },
    Drep {
        local: CommunicationId,
        remote: CommunicationId,
    },
    Apr {
        local: CommunicationId,
        remote: CommunicationId,
        status: ApStatus,
    },
    SidrRep {
        request_id: u32,
        service_id: ServiceId,
        status: SidrStatus,
    },
}

/// Additional reject information, as much of it as answers here carry.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ari {
    None,
    Byte([u8; 1]),
    Gid([u8; 16]),
}

impl Ari {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Byte(byte) => byte,
            Self::Gid(gid) => gid,
        }
    }
}

impl Answer {
    pub(super) fn mad(&self) -> (AttributeId, [u8; MAD_LEN]) {
        let message = match &self.says {
            Says::Rej { local, remote, rejected, reason, ari } => Message::Rej(Rej {
                local_comm_id: *local,
                remote_comm_id: *remote,
                rejected: *rejected,
                reason: *reason,
                ari_len: u8::try_from(ari.bytes().len()).unwrap_or(0),
                ari: ari.bytes(),
                ..Rej::default()
            }),
            Says::Drep { local, remote } => Message::Drep(Drep {
                local_comm_id: *local,
                remote_comm_id: *remote,
                private_data: &[],
            }),
            Says::Apr { local, remote, status } => Message::Apr(Apr {
                local_comm_id: *local,
                remote_comm_id: *remote,
                status: *status,
                ..Apr::default()
            }),
            Says::SidrRep { request_id, service_id, status } => Message::SidrRep(SidrRep {
                request_id: *request_id,
                status: *status,
                service_id: *service_id,
                ..SidrRep::default()
            }),
        };
        let mut mad = [0; MAD_LEN];
        // There is room for the whole, and none of these carries more than its fields hold.
        let _ = message.emit(self.transaction_id, &mut mad);
        (message.attribute(), mad)
    }
}

/// Answers owed, oldest first, in lent slots.
#[derive(Debug)]
pub(super) struct Answers<'s> {
    slots: &'s mut [AnswerSlot],
    head: usize,
    len: usize,
}

impl<'s> Answers<'s> {
    pub(super) fn new(slots: &'s mut [AnswerSlot]) -> Self {
        Self { slots, head: 0, len: 0 }
    }

    /// Owes an answer; `false` if no slot is left.
    pub(super) fn push(&mut self, answer: Answer) -> bool {
        if self.len >= self.slots.len() {
            return false;
        }
        let at = (self.head + self.len) % self.slots.len();
        match self.slots.get_mut(at) {
            Some(slot) => *slot = AnswerSlot(Some(answer)),
            None => return false,
        }
        self.len += 1;
        true
    }

    pub(super) fn pop(&mut self) -> Option<Answer> {
        if self.len == 0 {
            return None;
        }
        let answer = self.slots.get_mut(self.head)?.0.take();
        self.head = (self.head + 1) % self.slots.len();
        self.len -= 1;
        answer
    }
}
