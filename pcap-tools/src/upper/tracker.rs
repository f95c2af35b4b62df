//! Which connection speaks which protocol, and the messages it carries.

use roce_codec::cm::Message;
use roce_codec::ib::{Operation, Psn, Qpn, Service};
use roce_codec::icrc::IcrcVerdict;

use super::nvme::{self, Kind, Queue};
use super::{Evidence, Iser, Protocol, RpcConnect, RpcRdma, SmbDirect, Upper, UpperMessage};
use crate::connection::table::Table;
use crate::connection::{ConnectionId, Connections, Role};
use crate::field::Row;
use crate::observed::FlowKey;

/// Flows remembered that a payload gave away.
const MAX_FLOWS: usize = 8192;
/// Queues of NVMe connections remembered.
const MAX_QUEUES: usize = 8192;
/// Commands remembered until they are answered: the oldest are forgotten first.
const MAX_COMMANDS: usize = 65_536;

/// Learns from a capture which connection speaks which protocol, and takes its messages apart.
/// What it remembers is bounded, however many connections a capture has.
#[derive(Debug)]
pub struct Tracker {
    connections: Connections,
    /// The queue of an NVMe connection, by its REQ.
    queues: Table<ConnectionId, Queue>,
    /// Commands by who will be answered: the connection's number, or the flow's.
    commands: Table<(ConnectionId, u16), Kind>,
    /// What a payload gave away.
    flows: Table<FlowKey, Protocol>,
    /// The newest of those, so that a flow in full speed is found without hashing.
    last: Option<(FlowKey, Protocol)>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

/// What is known of the connection that a SEND belongs to.
struct Known {
    protocol: Protocol,
    evidence: Evidence,
    /// Of a connection whose CM exchange was seen.
    connection: Option<(ConnectionId, Role, Option<Psn>)>,
}

impl Tracker {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connections: Connections::new(),
            queues: Table::new(MAX_QUEUES),
            commands: Table::new(MAX_COMMANDS),
            flows: Table::new(MAX_FLOWS),
            last: None,
        }
    }

    /// Takes the next packet, and says what it carries if that is known.
    #[inline]
    pub fn packet(&mut self, row: &Row<'_>) -> Option<Upper> {
        let transport = row.transport()?;
        let info = transport.info();
        if info.operation != Operation::Send || !info.position.starts() {
            return None;
        }
        if transport.dest_qp() == Qpn::GSI {
            return self.mad(row);
        }
        // None of these protocols runs over datagrams.
        if info.service == Service::Ud {
            return None;
        }
        self.send(row, transport.payload()[0], transport.psn())
    }

    /// A message of the connection manager: teaches, and may carry private data of a protocol.
    #[cold]
    fn mad(&mut self, row: &Row<'_>) -> Option<Upper> {
        let (flow, mad) = row.flow().zip(row.mad())?;
        let message = row.cm()?;
        // A damaged message teaches nothing.
        if is_damaged(row) {
            return None;
        }
        let step = self.connections.message(flow.src, flow.dst, mad.header.transaction_id, message);
        let id = match step {
            crate::connection::Step::Advanced(id) | crate::connection::Step::Repeated(id) => id,
            _ => return None,
        };
        let protocol = Protocol::of_service(self.connections.get(id)?.service_id)?;
        let message = match (protocol, message) {
            (Protocol::Nvme, Message::Req(req)) => {
                let request = nvme::ConnectRequest::parse(req.ip_cm()?.1)?;
                self.queues.insert(id, Queue::of_id(request.queue_id));
                UpperMessage::NvmeRequest(request)
            }
            (Protocol::Nvme, Message::Rep(rep)) => {
                UpperMessage::NvmeAccept(nvme::ConnectAccept::parse(rep.private_data)?)
            }
            (Protocol::Nvme, Message::Rej(rej)) if rej.reason.0 == CONSUMER_REJECT => {
                UpperMessage::NvmeReject(nvme::ConnectReject::parse(rej.private_data)?)
            }
            (Protocol::RpcRdma, Message::Req(req)) => {
                UpperMessage::RpcConnect(RpcConnect::parse(req.ip_cm()?.1)?)
            }
            (Protocol::RpcRdma, Message::Rep(rep)) => {
                UpperMessage::RpcConnect(RpcConnect::parse(rep.private_data)?)
            }
            _ => return None,
        };
        Some(Upper { protocol, evidence: Evidence::Connection, message: Some(message) })
    }

    fn send(&mut self, row: &Row<'_>, payload: &[u8], psn: Psn) -> Option<Upper> {
        let flow = row.flow()?;
        let known = match self.known(flow) {
            Some(known) => known,
            None => {
                // The other protocols' payloads begin with none of these bytes by chance alone.
                let protocol = signature(payload)?;
                if is_damaged(row) {
                    return None;
                }
                self.flows.insert(flow, protocol);
                self.last = Some((flow, protocol));
                Known { protocol, evidence: Evidence::Payload, connection: None }
            }
        };
        if is_damaged(row) {
            return None;
        }
        let message = match known.protocol {
            Protocol::Nvme => self.nvme(&known, payload),
            Protocol::Iser => Iser::parse(payload).map(UpperMessage::Iser),
            Protocol::SmbDirect => smb_direct(&known, payload, psn).map(UpperMessage::SmbDirect),
            Protocol::RpcRdma => RpcRdma::parse(payload).map(UpperMessage::RpcRdma),
        };
        Some(Upper { protocol: known.protocol, evidence: known.evidence, message })
    }

    /// What is known of a flow before its payload is looked at.
    fn known(&self, flow: FlowKey) -> Option<Known> {
        // A port that nobody registered proves nothing either way.
        if let Some((sender, connection)) = self.connections.of_flow(flow)
            && let Some(protocol) = Protocol::of_service(connection.service_id)
        {
            let first = connection.first_psn(sender.role);
            let connection = Some((sender.id, sender.role, first));
            return Some(Known { protocol, evidence: Evidence::Connection, connection });
        }
        let protocol = match self.last {
            Some((last, protocol)) if last == flow => protocol,
            _ => *self.flows.get(&flow)?,
        };
        Some(Known { protocol, evidence: Evidence::Payload, connection: None })
    }

    fn nvme(&mut self, known: &Known, payload: &[u8]) -> Option<UpperMessage> {
        let Some((id, role, _)) = known.connection else {
            // Who sends a Connect sends commands; on which queue, its own number says.
            return nvme::Command::parse(payload, None).map(UpperMessage::NvmeCommand);
        };
        if role == Role::Active {
            let command = nvme::Command::parse(payload, self.queues.get(&id).copied())?;
            self.commands.insert((id, command.cid), command.kind);
            return Some(UpperMessage::NvmeCommand(command));
        }
        let completion = nvme::Completion::parse(payload)?;
        let command = self.commands.get(&(id, completion.cid)).copied();
        Some(UpperMessage::NvmeCompletion(nvme::Completion { command, ..completion }))
    }
}

/// The reason of a REJ that the consumer gives.
const CONSUMER_REJECT: u16 = 28;

fn is_damaged(row: &Row<'_>) -> bool {
    matches!(row.icrc(), Some(IcrcVerdict::Invalid { .. }))
}

/// The protocol that a payload can only belong to.
fn signature(payload: &[u8]) -> Option<Protocol> {
    if nvme::Command::is_connect(payload) {
        Some(Protocol::Nvme)
    } else if Iser::is_login(payload) {
        Some(Protocol::Iser)
    } else if SmbDirect::is_negotiate_request(payload) || SmbDirect::is_smb2(payload) {
        Some(Protocol::SmbDirect)
    } else if RpcRdma::is_message(payload) {
        Some(Protocol::RpcRdma)
    } else {
        None
    }
}

/// The first SEND of each side negotiates. Where the first was not seen, what looks like nothing
/// but a Negotiate Request is one.
fn smb_direct(known: &Known, payload: &[u8], psn: Psn) -> Option<SmbDirect> {
    match known.connection {
        Some((_, Role::Active, Some(first))) if psn == first => {
            SmbDirect::negotiate_request(payload)
        }
        Some((_, Role::Passive, Some(first))) if psn == first => {
            SmbDirect::negotiate_response(payload)
        }
        None if SmbDirect::is_negotiate_request(payload) => SmbDirect::negotiate_request(payload),
        _ => SmbDirect::data(payload),
    }
}
