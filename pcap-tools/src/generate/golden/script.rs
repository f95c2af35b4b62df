//! What golden traces are written in: two hosts, one connection, every field open to mischief.

use roce_codec::cm::CommunicationId;
use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, Ieth, ImmDt, Msn, Opcode,
    Operation, PKey, PathMtu, Psn, QKey, Qpn, RKey, Reth, Service, Syndrome,
};
use roce_codec::net::{
    Ip, datagram_source_port, flow_label_from_cm_ports, source_port_from_flow_label,
};
use roce_codec::{Crc, FrameBuilder};

use super::super::handshake::{Agreement, LISTEN_PORT, Party, Step};
use super::super::host::{DATA_TRAFFIC_CLASS, Host, Route};
use super::super::planned::{Side, Tail, opcode, position};
use super::super::random::Random;

pub(super) use super::super::planned::Side::{Active, Passive};

const START_NS: u64 = 1_700_000_000_000_000_000;
/// Between two packets, unless the script waits.
const STEP_NS: u64 = 2_000;
/// The path MTU of every trace, in bytes.
pub(super) const MTU: usize = 1024;

/// A packet that is about to be put on the wire.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) builder: FrameBuilder,
    pub(super) payload: Vec<u8>,
}

impl Draft {
    /// With something changed; the lengths are those of before.
    pub(super) fn with(mut self, change: impl FnOnce(&mut FrameBuilder)) -> Self {
        change(&mut self.builder);
        self
    }

    pub(super) fn bth(self, change: impl FnOnce(&mut Bth)) -> Self {
        self.with(|builder| change(&mut builder.bth))
    }

    pub(super) fn aeth(self, syndrome: u8, msn_ahead: u32) -> Self {
        self.with(|builder| {
            let msn = builder.ext.aeth.map_or(0, |aeth| aeth.msn.get());
            let msn = Msn::new(msn.wrapping_add(msn_ahead));
            builder.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn });
        })
    }

    /// Another opcode, or the same; the lengths are made to fit.
    pub(super) fn opcode(mut self, opcode: Opcode) -> Self {
        self.builder.bth.opcode = opcode;
        let len = self.payload.len();
        self.len(len)
    }

    /// With so much payload.
    pub(super) fn len(mut self, len: usize) -> Self {
        self.payload.resize(len, b'R');
        // At most some thousand bytes.
        let _ = self.builder.set_payload_len(len);
        self
    }

    /// From the IP header on, with a right ICRC.
    fn emit(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.payload.len() + 256];
        let len = self.builder.emit::<Crc>([&self.payload, &[]], &mut bytes).unwrap_or_default();
        bytes.truncate(len);
        bytes
    }
}

/// One end of the connection.
#[derive(Debug, Clone, Copy)]
struct End {
    host: Host,
    qpn: Qpn,
    /// The PSN of its next request.
    psn: Psn,
    /// Messages that it has asked the other end for.
    messages: u32,
    comm_id: CommunicationId,
    gsi_psn: Psn,
    rkey: u32,
    va: u64,
}

/// A trace in the making.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) packets: Vec<(u64, Vec<u8>)>,
    ends: [End; 2],
    now_ns: u64,
    route: Route,
    port: u16,
    transaction_id: u64,
    identification: u16,
    /// Whether the connections that begin from now on agree on credits.
    pub(super) credits: bool,
    pool: Vec<u8>,
}

impl Script {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pool = vec![0; 8192];
        random.letters(&mut pool);
        let first_host = u16::try_from(random.below(200)).unwrap_or_default();
        let ends = [0, 1].map(|number| End {
            host: Host::new(first_host + number),
            qpn: Qpn::new(0x100 + random.below(0x1000) * 2 + u32::from(number)),
            psn: Psn::new(random.u32()),
            messages: 0,
            comm_id: CommunicationId(random.u32() | 1),
            gsi_psn: Psn::new(0),
            rkey: random.u32() | 0x100,
            va: 0x7f00_0000_0000 + u64::from(random.below(1 << 16)) * 4096,
        });
        let port = 0x8000 | u16::try_from(random.below(0x7fff)).unwrap_or_default();
        let route = Route { v6: false, vlan: None, flow_label: 0 };
        let transaction_id = random.u64();
        Self {
            packets: Vec::new(),
            ends,
            now_ns: START_NS,
            route,
            port,
            transaction_id,
            identification: 0,
            credits: false,
            pool,
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        let [active, passive] = &mut self.ends;
        match side {
            Active => active,
            Passive => passive,
        }
    }

    /// The PSN of the next request of that side.
    pub(super) fn psn(&mut self, side: Side) -> Psn {
        self.end(side).psn
    }

    /// The PSN of the next request becomes another.
    pub(super) fn set_psn(&mut self, side: Side, psn: Psn) {
        self.end(side).psn = psn;
    }

    pub(super) fn wait_us(&mut self, us: u64) {
        self.now_ns += us * 1_000;
    }

    /// Puts bytes on the wire.
    pub(super) fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.packets.push((self.now_ns, bytes));
        self.now_ns += STEP_NS;
    }

    pub(super) fn put(&mut self, draft: &Draft) {
        self.put_changed(draft, |_| ());
    }

    /// Puts a packet twice, as two mirrors show it.
    pub(super) fn put_mirrored(&mut self, draft: &Draft) {
        self.put(draft);
        let copy = self.packets.last().map(|(_, bytes)| bytes.clone());
        self.put_bytes(copy.unwrap_or_default());
    }

    /// Puts a packet with its bytes changed, from the IP header on; its ICRC is that of before.
    pub(super) fn put_changed(&mut self, draft: &Draft, change: impl FnOnce(&mut Vec<u8>)) {
        // Each packet has an identification of its own, one that is sent again included.
        self.identification = self.identification.wrapping_add(1);
        let identification = self.identification;
        let mut bytes = draft
            .clone()
            .with(|builder| {
                if let Ip::V4(ip) = &mut builder.ip {
                    ip.identification = identification;
                    ip.checksum = ip.computed_checksum();
                }
            })
            .emit();
        let link_len = draft.builder.ethernet.map_or(0, |ethernet| ethernet.header_len());
        let mut packet = bytes.split_off(link_len.min(bytes.len()));
        change(&mut packet);
        bytes.extend(packet);
        self.put_bytes(bytes);
    }

    /// Any packet of the connection; the payload is `len` bytes.
    pub(super) fn draft(&mut self, from: Side, opcode: Opcode, psn: Psn, len: usize) -> Draft {
        let [end, peer] = [*self.end(from), *self.end(from.other())];
        let info = opcode.info();
        let answers = info.is_response();
        let dma_len = u32::try_from(len).unwrap_or(u32::MAX);
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: Msn::new(peer.messages) };
        let atomic = AtomicEth { va: peer.va, rkey: RKey(peer.rkey), swap_add: 1, compare: 0 };
        let ext = ExtHeaders {
            feth: Some(Feth(1)),
            reth: Some(Reth { va: peer.va, rkey: RKey(peer.rkey), dma_len }),
            atomic_eth: Some(atomic),
            aeth: answers.then_some(aeth),
            atomic_ack_eth: Some(AtomicAckEth { original: 7 }),
            imm_dt: Some(ImmDt(0x1234)),
            ieth: Some(Ieth(RKey(peer.rkey))),
            deth: Some(Deth { qkey: QKey(0x1111_1111), resv8: 0, src_qp: end.qpn }),
            ..ExtHeaders::NONE
        };
        let label = flow_label_from_cm_ports(self.port, LISTEN_PORT);
        let src_port = source_port_from_flow_label(label);
        let ip = self.route.ip(&end.host, &peer.host, DATA_TRAFFIC_CLASS, 0);
        let ethernet = self.route.ethernet(&end.host, &peer.host);
        let bth = Bth { mig_req: true, ..Bth::new(opcode, peer.qpn, psn) };
        let builder = FrameBuilder::new(Some(ethernet), ip, src_port, bth);
        let payload = self.pool.get(..len).unwrap_or_default().to_vec();
        Draft { builder: FrameBuilder { ext, ..builder }, payload }.len(len)
    }

    /// The next request of a side, AckReq set where it ends a message that is acknowledged.
    pub(super) fn request(&mut self, from: Side, opcode: Opcode, len: usize) -> Draft {
        let psn = self.psn(from);
        let info = opcode.info();
        let end = self.end(from);
        end.psn = psn.next();
        end.messages += u32::from(info.position.ends());
        let asks = info.position.ends()
            && info.service == Service::Rc
            && matches!(info.operation, Operation::Send | Operation::Write);
        self.draft(from, opcode, psn, len).bth(|bth| bth.ack_req = asks)
    }

    /// A READ of `len` bytes.
    pub(super) fn read(&mut self, from: Side, len: u32) -> Draft {
        let draft = self.request(from, Opcode::RC_RDMA_READ_REQUEST, 0);
        let end = self.end(from);
        end.psn = draft.builder.bth.psn.add(PathMtu::Mtu1024.packets(len));
        draft.with(|builder| {
            if let Some(reth) = &mut builder.ext.reth {
                reth.dma_len = len;
            }
        })
    }

    /// The answers to a READ: `len` bytes from `psn` on.
    pub(super) fn read_answers(&mut self, from: Side, psn: Psn, len: usize) -> Vec<Draft> {
        let count = len.div_ceil(MTU).max(1);
        let mut drafts = Vec::new();
        for index in 0..count {
            let opcode = match (index == 0, index + 1 == count) {
                (true, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
                (true, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
                (false, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
                (false, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            };
            let part = (len - index * MTU).min(MTU);
            let psn = psn.add(u32::try_from(index).unwrap_or_default());
            drafts.push(self.draft(from, opcode, psn, part));
        }
        drafts
    }

    /// The packets of a SEND or WRITE of `len` bytes.
    pub(super) fn message(&mut self, from: Side, operation: Operation, len: usize) -> Vec<Draft> {
        let count = len.div_ceil(MTU).max(1);
        let [total, packets] = [len, count].map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        let mut drafts = Vec::new();
        for index in 0..packets {
            let opcode = opcode(Service::Rc, operation, position(index, packets), Tail::None);
            let before = usize::try_from(index).unwrap_or_default() * MTU;
            let draft = self.request(from, opcode, (len - before).min(MTU));
            drafts.push(draft.with(|builder| {
                if let Some(reth) = &mut builder.ext.reth {
                    reth.dma_len = total;
                }
            }));
        }
        drafts
    }

    pub(super) fn put_all(&mut self, drafts: &[Draft]) {
        for draft in drafts {
            self.put(draft);
        }
    }

    /// An acknowledgement of everything that the other side has asked for.
    pub(super) fn ack(&mut self, from: Side) -> Draft {
        let psn = self.psn(from.other()).sub(1);
        self.draft(from, Opcode::RC_ACKNOWLEDGE, psn, 0)
    }

    /// A refusal of the packet with that PSN, `unfinished` messages of those asked for undone.
    pub(super) fn nak(&mut self, from: Side, syndrome: u8, psn: Psn, unfinished: u32) -> Draft {
        let draft = self.draft(from, Opcode::RC_ACKNOWLEDGE, psn, 0);
        draft.aeth(syndrome, 0_u32.wrapping_sub(unfinished))
    }

    /// SENDs that are answered as they should be.
    pub(super) fn sends(&mut self, from: Side, count: u32) {
        for _ in 0..count {
            let send = self.request(from, Opcode::RC_SEND_ONLY, 64);
            self.put(&send);
            let ack = self.ack(from.other());
            self.put(&ack);
        }
    }

    /// The connection manager's message of a step.
    pub(super) fn mad(&mut self, step: Step, from: Side) -> Draft {
        let agreement = self.agreement();
        let mad = agreement.mad(step, from).map_or_else(|_| Vec::new(), |mad| mad.to_vec());
        let end = self.end(from);
        let psn = end.gsi_psn;
        end.gsi_psn = psn.next();
        let draft = self.draft(from, Opcode::UD_SEND_ONLY, psn, 256);
        let mut draft = draft.with(|builder| {
            builder.bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, psn);
            builder.udp.src_port = datagram_source_port(Qpn::GSI);
            let deth = Deth { qkey: QKey::GSI, resv8: 0, src_qp: Qpn::GSI };
            builder.ext = ExtHeaders { deth: Some(deth), ..ExtHeaders::NONE };
        });
        draft.payload = mad;
        draft.len(256)
    }

    fn agreement(&self) -> Agreement {
        let parties = self.ends.map(|end| Party {
            host: end.host,
            qpn: end.qpn,
            psn: end.psn,
            comm_id: end.comm_id,
            resources: 2,
        });
        Agreement {
            service: Service::Rc,
            parties,
            v6: false,
            mtu: PathMtu::Mtu1024,
            pkey: PKey::DEFAULT,
            flow_label: flow_label_from_cm_ports(self.port, LISTEN_PORT),
            port: self.port,
            credits: self.credits,
            transaction_id: self.transaction_id,
        }
    }

    /// What every trace starts with.
    pub(super) fn preamble(&mut self) {
        for (step, from) in [(Step::Req, Active), (Step::Rep, Passive), (Step::Rtu, Active)] {
            let mad = self.mad(step, from);
            self.put(&mad);
            self.wait_us(200);
        }
        self.sends(Active, 10);
        self.sends(Passive, 10);
        // One that shows the path MTU.
        let message = self.message(Active, Operation::Send, 2 * MTU);
        self.put_all(&message);
        let ack = self.ack(Passive);
        self.put(&ack);
    }

    /// Another connection between the two hosts begins: new queue pairs' numbers and PSNs, unless
    /// they are to be kept.
    pub(super) fn reconnect(&mut self, keep_qpns: bool) {
        self.transaction_id = self.transaction_id.wrapping_add(16);
        for end in &mut self.ends {
            end.qpn = if keep_qpns { end.qpn } else { Qpn::new(end.qpn.get() + 0x1000) };
            end.psn = end.psn.add(1 << 20);
            end.messages = 0;
            end.comm_id = CommunicationId(end.comm_id.0.wrapping_add(2));
        }
    }
}
