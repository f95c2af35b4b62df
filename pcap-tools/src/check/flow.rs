//! What the checker knows of a flow.

use roce_codec::ib::PathMtu;

use super::agreed::Agreed;
use super::habits::Habits;
use super::request::RequestStream;
use super::response::ResponseStream;
use crate::flow::pairing::Peer;
use crate::flow::{Entry, Paired};
use crate::observed::FlowKey;

pub(super) use crate::flow::FlowId;

/// The flows of a capture.
pub(super) type FlowTable = crate::flow::FlowTable<Flow>;

/// What is known of a flow: a fixed amount, however long it runs.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    /// Rules that have been called unknown here already, a bit each.
    pub(super) told: u64,
    pub(super) mtu: Option<PathMtu>,
    /// What the sender asks of the receiver.
    pub(super) requests: Option<Box<RequestStream>>,
    /// What the sender answers to the receiver's requests.
    pub(super) responses: ResponseStream,
    pub(super) peer: Peer,
    /// What its sender does the same way with every packet.
    pub(super) habits: Habits,
    /// What a CM exchange says of it.
    pub(super) agreed: Option<Box<Agreed>>,
}

impl Entry for Flow {
    fn new(key: FlowKey) -> Self {
        Self {
            key,
            told: 0,
            mtu: None,
            requests: None,
            responses: ResponseStream::default(),
            peer: Peer::default(),
            habits: Habits::default(),
            agreed: None,
        }
    }
    #[inline]
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

impl Paired for Flow {
    #[inline]
    fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }
}
