//! The table of packets.

use roce_codec::cm::Mad;
use roce_codec::ib::{Bth, Opcode, Qpn};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{Ethernet, Ip, MacAddr, MacControl};
use roce_codec::{Frame, NativeFrame, Transport};

use super::column::{
    Flag, I64, Label, Labels, Maybe, Shown, Time, U8, U16, U32, U64, Word, signed,
};
use super::table::columns;
use super::word;
use crate::capture::LinkType;
use crate::dissect::Dissected;
use crate::field::icrc_word;
use crate::message::Part;
use crate::observed::{FlowKey, Host, Observed};
use crate::upper::Upper;

/// A packet and what is known of it when it comes.
pub(super) struct PacketRow<'r, 'a> {
    pub(super) file: &'r str,
    pub(super) observed: &'r Observed<'a>,
    pub(super) bth: Option<Bth>,
    pub(super) flow: Option<(FlowKey, i64)>,
    pub(super) part: Part,
    pub(super) upper: Option<Upper>,
}

impl<'a> PacketRow<'_, 'a> {
    #[inline]
    fn transport(&self) -> Option<&Transport<'a>> {
        self.observed.transport()
    }

    /// An extension header.
    #[inline]
    fn has<T>(&self, header: fn(&Transport<'a>) -> Option<T>) -> Option<T> {
        header(self.transport()?)
    }

    #[inline]
    fn frame(&self) -> Option<&Frame<'a>> {
        match &self.observed.what {
            Dissected::Roce(frame) => Some(frame),
            _ => None,
        }
    }

    #[inline]
    fn native(&self) -> Option<&NativeFrame<'a>> {
        match &self.observed.what {
            Dissected::Native(frame) => Some(frame),
            _ => None,
        }
    }

    fn ethernet(&self) -> Option<Ethernet> {
        match &self.observed.what {
            Dissected::Roce(frame) => frame.ethernet(),
            Dissected::Native(frame) => frame.ethernet(),
            _ => None,
        }
    }

    fn mac_control(&self) -> Option<&MacControl> {
        match &self.observed.what {
            Dissected::MacControl(frame) => Some(frame),
            _ => None,
        }
    }

    /// Source and destination on the Ethernet.
    fn macs(&self) -> Option<[MacAddr; 2]> {
        match self.mac_control() {
            Some(MacControl::Pause(pause)) => Some([pause.src, pause.dst]),
            Some(MacControl::Pfc(pfc)) => Some([pfc.src, pfc.dst]),
            None => self.ethernet().map(|ethernet| [ethernet.src, ethernet.dst]),
        }
    }

    /// DSCP and ECN, of IP or of the GRH.
    fn traffic_class(&self) -> Option<u8> {
        match self.frame() {
            Some(frame) => Some(frame.traffic_class()),
            None => self.native()?.grh().map(|grh| grh.traffic_class),
        }
    }

    /// Time to live, or hop limit.
    fn ttl(&self) -> Option<u8> {
        match self.frame().map(Frame::ip) {
            Some(Ip::V4(ip)) => Some(ip.ttl),
            Some(Ip::V6(ip)) => Some(ip.hop_limit),
            None => self.native()?.grh().map(|grh| grh.hop_limit),
        }
    }

    fn flow_label(&self) -> Option<u32> {
        match self.frame().map(Frame::ip) {
            Some(Ip::V6(ip)) => Some(ip.flow_label),
            Some(Ip::V4(_)) => None,
            None => self.native()?.grh().map(|grh| grh.flow_label),
        }
    }

    fn ip_id(&self) -> Option<u16> {
        match self.frame()?.ip() {
            Ip::V4(ip) => Some(ip.identification),
            Ip::V6(_) => None,
        }
    }

    /// Address and key: the AtomicETH begins as the RETH does.
    fn memory(&self) -> Option<(u64, u32)> {
        let transport = self.transport()?;
        match transport.reth() {
            Some(reth) => Some((reth.va, reth.rkey.0)),
            None => transport.atomic_eth().map(|atomic| (atomic.va, atomic.rkey.0)),
        }
    }

    /// The connection manager's or another class's attribute.
    fn mad(&self) -> Option<Mad<'a>> {
        let transport = self.transport()?;
        if transport.dest_qp() == Qpn::GSI { Mad::from_frame(transport) } else { None }
    }

    fn expected_icrc(&self) -> Option<u32> {
        match self.observed.icrc? {
            IcrcVerdict::Invalid { expected, .. } => Some(u32::from_be_bytes(expected)),
            _ => None,
        }
    }

    fn icrc_diagnosis(&self) -> Option<String> {
        self.expected_icrc()?;
        Some(self.observed.diagnose_icrc()?.to_string())
    }

    /// The longest time that a PAUSE or PFC frame asks for.
    fn pause_quanta(&self) -> Option<u16> {
        match self.mac_control()? {
            MacControl::Pause(pause) => Some(pause.quanta.0),
            MacControl::Pfc(pfc) => pfc.enabled().map(|(_, quanta)| quanta.0).max(),
        }
    }

    fn pfc_enabled(&self) -> Option<u8> {
        match self.mac_control()? {
            MacControl::Pfc(pfc) => Some(pfc.enabled),
            MacControl::Pause(_) => None,
        }
    }

    fn tunnel(&self) -> Option<String> {
        let outer = self.observed.outer;
        (!outer.is_empty()).then(|| outer.to_string())
    }
}

/// A length in memory as a column has it.
fn len(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

columns! {
    /// What a packet says by itself, and what it is among those before it.
    Packets |row: &PacketRow<'_, '_>|
    file: Label = row.file, "The capture";
    packet: I64 = signed(row.observed.packet.number), "Number in the file, from 1, as Wireshark counts";
    time: Maybe<Time> = row.observed.packet.timestamp_ns, "When it was captured";
    interface: U32 = row.observed.packet.interface, "The interface, as the file numbers them";
    direction: Maybe<Word> = row.observed.packet.direction.map(word::direction), "Which way it passed the capturing machine: inbound, outbound";
    link: Maybe<Shown<LinkType>> = row.observed.packet.link, "The capture's link layer";
    wire_len: U32 = row.observed.packet.orig_len, "Bytes on the wire";
    captured_len: U32 = len(row.observed.packet.data.len()), "Bytes captured";
    kind: Word = word::kind(row.observed), "roce_v2, roce_v1, infiniband, mac_control, malformed, other";
    error: Maybe<Label> = word::error(row.observed).as_deref(), "Why it is not read";
    tunnel: Maybe<Label> = row.tunnel().as_deref(), "What was looked through to find it, outermost first";
    eth_src: Maybe<Shown<MacAddr>> = row.macs().map(|[src, _]| src), "Source on the Ethernet";
    eth_dst: Maybe<Shown<MacAddr>> = row.macs().map(|[_, dst]| dst), "Destination on the Ethernet";
    vlan_id: Maybe<U16> = row.ethernet().and_then(|ethernet| Some(ethernet.vlans.iter().last()?.vid())), "VLAN, the innermost";
    vlan_priority: Maybe<U8> = row.ethernet().and_then(|ethernet| Some(ethernet.vlans.iter().last()?.pcp())), "Its priority";
    pause_quanta: Maybe<U16> = row.pause_quanta(), "PAUSE and PFC: the longest time asked for, of 512 bit times";
    pfc_enabled: Maybe<U8> = row.pfc_enabled(), "PFC: a bit for each priority that is meant";
    src: Maybe<Shown<Host>> = row.flow.map(|(key, _)| key.src), "Who sends: an IP address, a GID or a LID";
    dst: Maybe<Shown<Host>> = row.flow.map(|(key, _)| key.dst), "Who receives";
    dscp: Maybe<U8> = row.traffic_class().map(|class| class >> 2), "DSCP, of IP or the GRH";
    ecn: Maybe<Word> = row.traffic_class().map(word::ecn), "Not-ECT, ECT0, ECT1, CE";
    ttl: Maybe<U8> = row.ttl(), "Time to live or hop limit";
    ip_id: Maybe<U16> = row.ip_id(), "IPv4 identification";
    flow_label: Maybe<U32> = row.flow_label(), "Flow label of IPv6 or the GRH";
    src_port: Maybe<U16> = row.frame().map(|frame| frame.udp().src_port), "UDP source port";
    dst_port: Maybe<U16> = row.frame().map(|frame| frame.udp().dst_port), "UDP destination port";
    udp_len: Maybe<U16> = row.frame().map(|frame| frame.udp().length), "UDP length";
    opcode: Maybe<U8> = row.bth.map(|bth| bth.opcode.0), "BTH: opcode";
    opcode_name: Maybe<Shown<Opcode>> = row.bth.map(|bth| bth.opcode), "BTH: its name, such as RC_RDMA_WRITE_FIRST";
    service: Maybe<Word> = row.transport().map(|transport| word::service(transport.info().service)), "RC, UC, RD, UD, CNP, XRC, other";
    operation: Maybe<Word> = row.transport().map(|transport| word::operation(transport.info().operation)), "SEND, WRITE, READ, READ_RESPONSE, ACKNOWLEDGE and so on";
    solicited: Maybe<Flag> = row.bth.map(|bth| bth.solicited), "BTH: solicited event";
    mig_req: Maybe<Flag> = row.bth.map(|bth| bth.mig_req), "BTH: migration request";
    pad: Maybe<U8> = row.bth.map(|bth| bth.pad_count), "BTH: pad count";
    version: Maybe<U8> = row.bth.map(|bth| bth.version), "BTH: header version";
    pkey: Maybe<U16> = row.bth.map(|bth| bth.pkey.0), "BTH: partition key";
    fecn: Maybe<Flag> = row.bth.map(|bth| bth.fecn), "BTH: FECN";
    becn: Maybe<Flag> = row.bth.map(|bth| bth.becn), "BTH: BECN";
    reserved6: Maybe<U8> = row.bth.map(|bth| bth.resv6), "BTH: six reserved bits";
    dest_qp: Maybe<U32> = row.bth.map(|bth| bth.dest_qp.get()), "BTH: destination queue pair";
    ack_req: Maybe<Flag> = row.bth.map(|bth| bth.ack_req), "BTH: acknowledge request";
    reserved7: Maybe<U8> = row.bth.map(|bth| bth.resv7), "BTH: seven reserved bits";
    psn: Maybe<U32> = row.bth.map(|bth| bth.psn.get()), "BTH: packet sequence number";
    va: Maybe<U64> = row.memory().map(|(va, _)| va), "RETH or AtomicETH: virtual address";
    rkey: Maybe<U32> = row.memory().map(|(_, rkey)| rkey), "RETH or AtomicETH: remote key";
    dma_len: Maybe<U32> = row.has(Transport::reth).map(|header| header.dma_len), "RETH: DMA length";
    swap_add: Maybe<U64> = row.has(Transport::atomic_eth).map(|header| header.swap_add), "AtomicETH: swap or add data";
    compare: Maybe<U64> = row.has(Transport::atomic_eth).map(|header| header.compare), "AtomicETH: compare data";
    original: Maybe<U64> = row.has(Transport::atomic_ack_eth).map(|header| header.original), "AtomicAckETH: original remote data";
    syndrome: Maybe<U8> = row.has(Transport::aeth).map(|header| header.syndrome.0), "AETH: syndrome";
    ack: Maybe<Word> = row.has(Transport::aeth).map(|header| word::acknowledgement(header.syndrome)), "AETH: ACK, NAK, RNR, reserved";
    msn: Maybe<U32> = row.has(Transport::aeth).map(|header| header.msn.get()), "AETH: message sequence number";
    qkey: Maybe<U32> = row.has(Transport::deth).map(|header| header.qkey.0), "DETH: queue key";
    src_qp: Maybe<U32> = row.has(Transport::deth).map(|header| header.src_qp.get()), "DETH: source queue pair";
    imm: Maybe<U32> = row.has(Transport::imm_dt).map(|header| header.0), "ImmDt: immediate data";
    invalidate_rkey: Maybe<U32> = row.has(Transport::ieth).map(|header| header.0.0), "IETH: remote key to invalidate";
    srqn: Maybe<U32> = row.has(Transport::xrceth).map(|header| header.srqn.get()), "XRCETH: shared receive queue";
    eecn: Maybe<U32> = row.has(Transport::rdeth).map(|header| header.eecn.get()), "RDETH: end-to-end context";
    flush_type: Maybe<U8> = row.has(Transport::feth).map(|header| byte(header.placement_type())), "FETH: placement type";
    flush_level: Maybe<U8> = row.has(Transport::feth).map(|header| byte(header.selectivity())), "FETH: selectivity level";
    payload_len: Maybe<U32> = row.transport().map(|transport| len(transport.payload_len())), "Bytes of payload, without pad";
    icrc: Maybe<U32> = row.transport().map(|transport| u32::from_be_bytes(transport.icrc())), "The ICRC found, as a number in wire order";
    icrc_status: Maybe<Word> = row.observed.icrc.map(icrc_word), "valid, invalid, truncated, not filled in, not checkable";
    icrc_expected: Maybe<U32> = row.expected_icrc(), "What a wrong ICRC should be";
    icrc_diagnosis: Maybe<Label> = row.icrc_diagnosis().as_deref(), "The mistakes that explain a wrong ICRC";
    mad_attribute: Maybe<U16> = row.mad().map(|mad| mad.header.attribute.0), "MAD: attribute, such as 0x0010 for a CM REQ";
    upper: Maybe<Word> = row.upper.map(|upper| upper.protocol.name()), "What a SEND carries, where the CM exchange proves it";
    part: Word = word::part(row.part), "request, answer, datagram, notification, damaged (its ICRC is wrong), other";
    arrival: Maybe<Word> = word::arrival(row.part), "A request among those before it: new, late, again, copy";
    flow_id: Maybe<I64> = row.flow.map(|(_, id)| id), "Its flow, the same number in every export";
}

/// What of a packet is known only when others have come after it.
pub(super) struct SettledRow<'a> {
    pub(super) connection: Option<i64>,
    pub(super) fails: u16,
    pub(super) unknowns: u16,
    pub(super) rules: &'a [&'static str],
}

columns! {
    /// The columns behind those of [`Packets`].
    Settled |row: &SettledRow<'_>|
    connection_id: Maybe<I64> = row.connection, "Its connection: this flow and the one in the other direction, once that is known";
    fails: U16 = row.fails, "Rules it breaks, as far as settled within a few ten thousand packets";
    unknowns: U16 = row.unknowns, "Rules that the capture cannot tell of it";
    rules: Labels = row.rules, "The rules it breaks";
}
