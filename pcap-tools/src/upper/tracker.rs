//! Which connection speaks which protocol.

use roce_codec::cm::Message;
use roce_codec::ib::Operation;
use roce_codec::icrc::IcrcVerdict;

use super::{Protocol, Upper};
use crate::connection::Connections;
use crate::field::Row;

/// Learns from a capture's CM exchanges which connection speaks which protocol. What it remembers
/// is bounded as [`Connections`] is.
#[derive(Debug, Default)]
pub struct Tracker {
    connections: Connections,
}

impl Tracker {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next packet, and says what it carries if that is known.
    pub fn packet(&mut self, row: &Row<'_>) -> Option<Upper> {
        let (flow, transport) = row.flow().zip(row.transport())?;
        if let Some(mad) = row.mad() {
            self.learn(row, mad.header.transaction_id);
            return None;
        }
        if transport.info().operation != Operation::Send || !transport.info().position.starts() {
            return None;
        }
        let (sender, connection) = self.connections.of_flow(flow)?;
        let protocol = Protocol::of_service(connection.service_id)?;
        Some(Upper { protocol, sender: sender.role })
    }

    /// A damaged message teaches nothing.
    #[cold]
    fn learn(&mut self, row: &Row<'_>, transaction_id: u64) {
        let Some((flow, message)) = row.flow().zip(row.cm()) else { return };
        if !matches!(row.icrc(), Some(IcrcVerdict::Invalid { .. })) {
            let message: &Message<'_> = message;
            self.connections.message(flow.src, flow.dst, transaction_id, message);
        }
    }
}
