//! The layers of a packet, each with its fields.

use roce_codec::cm::AttributeId;

use super::{Field, Row, bth, cm, ext, frame, icrc, ip, judged, link, mad, native, tunnel, upper};

macro_rules! layers {
    ($($name:ident = $word:literal, $heading:literal, $fields:expr;)*) => {
        /// A layer of a packet: what its fields are grouped by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Layer {
            $(#[doc = $heading] $name,)*
        }

        impl Layer {
            /// All of them, in the order of the packet.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word by which an expression asks whether a packet has it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// What it is, in words.
            #[must_use]
            pub const fn heading(self) -> &'static str {
                match self { $(Self::$name => $heading,)* }
            }

            /// Its fields.
            #[must_use]
            pub fn fields(self) -> &'static [Field] {
                match self { $(Self::$name => $fields,)* }
            }
        }
    };
}

layers! {
    Frame = "frame", "Packet as captured", frame::FIELDS;
    Tunnels = "tunnels", "Tunnels around the packet", tunnel::TUNNELS;
    Ethernet = "eth", "Ethernet", link::ETHERNET;
    MacControl = "macc", "MAC control", link::MAC_CONTROL;
    Lrh = "lrh", "Local route header", native::LRH;
    Grh = "grh", "Global route header", native::GRH;
    EitherIp = "addressed", "IP or global route header", ip::EITHER;
    Ipv4 = "ip", "IPv4", ip::IPV4;
    Ipv6 = "ipv6", "IPv6", ip::IPV6;
    Udp = "udp", "UDP", ip::UDP;
    Bth = "bth", "Base transport header", bth::BTH;
    Rdeth = "rdeth", "RDETH", ext::RDETH;
    Deth = "deth", "DETH", ext::DETH;
    Xrceth = "xrceth", "XRCETH", ext::XRCETH;
    Feth = "feth", "FETH", ext::FETH;
    Reth = "reth", "RETH or the start of an AtomicETH", ext::RETH;
    AtomicEth = "atomiceth", "AtomicETH", ext::ATOMIC_ETH;
    Aeth = "aeth", "AETH", ext::AETH;
    AtomicAckEth = "atomicacketh", "AtomicAckETH", ext::ATOMIC_ACK_ETH;
    ImmDt = "immdt", "ImmDt", ext::IMM_DT;
    Ieth = "ieth", "IETH", ext::IETH;
    Cnp = "cnp", "Reserved bytes of the CNP", ext::CNP;
    Mad = "mad", "Management datagram", mad::HEADER;
    ClassPortInfo = "classportinfo", "ClassPortInfo", mad::CLASS_PORT_INFO;
    Req = "req", "CM REQ", cm::REQ;
    Mra = "mra", "CM MRA", cm::MRA;
    Rej = "rej", "CM REJ", cm::REJ;
    Rep = "rep", "CM REP", cm::REP;
    Rtu = "rtu", "CM RTU", cm::RTU;
    Dreq = "dreq", "CM DREQ", cm::DREQ;
    Drep = "drep", "CM DREP", cm::DREP;
    SidrReq = "sidr_req", "CM SIDR_REQ", cm::SIDR_REQ;
    SidrRep = "sidr_rep", "CM SIDR_REP", cm::SIDR_REP;
    Lap = "lap", "CM LAP", cm::LAP;
    Apr = "apr", "CM APR", cm::APR;
    Sap = "sap", "CM SAP", cm::SAP;
    Spr = "spr", "CM SPR", cm::SPR;
    IpCm = "ip_cm", "RDMA IP CM private data", cm::IP_CM;
    Upper = "uppers", "Upper-layer protocol", upper::UPPER;
    NvmeCm = "nvme-rdma.cm", "NVMe-oF connection", upper::NVME_CM;
    NvmeCommand = "nvme.cmd", "NVMe command capsule", upper::NVME_COMMAND;
    NvmeCompletion = "nvme.cqe", "NVMe response capsule", upper::NVME_COMPLETION;
    Iser = "iser", "iSER", upper::ISER;
    SmbDirect = "smb_direct", "SMB Direct", upper::SMB_DIRECT;
    RpcCm = "rpcordma.cm", "RPC-over-RDMA connection", upper::RPC_CM;
    RpcRdma = "rpcordma", "RPC-over-RDMA", upper::RPC;
    Payload = "payloads", "Payload", icrc::PAYLOAD;
    Icrc = "icrcs", "ICRC", icrc::ICRC;
    Vcrc = "vcrc", "VCRC", native::VCRC;
    Judged = "judged", "What the checker says", judged::FIELDS;
}

impl Layer {
    /// The protocols above the transport.
    pub(super) const UPPER: [Self; 8] = [
        Self::Upper,
        Self::NvmeCm,
        Self::NvmeCommand,
        Self::NvmeCompletion,
        Self::Iser,
        Self::SmbDirect,
        Self::RpcCm,
        Self::RpcRdma,
    ];

    /// Whether a packet can have it: a quick look that saves asking each of its fields.
    #[must_use]
    pub(crate) fn may_be_in(self, row: &Row<'_>) -> bool {
        use roce_codec::ib::HeaderKind as H;
        let has = |kinds: &[H]| {
            let headers = row.transport().map(|transport| transport.info().headers);
            headers.is_some_and(|headers| kinds.iter().any(|kind| headers.contains(*kind)))
        };
        let is = |attribute| row.cm().is_some_and(|message| message.attribute() == attribute);
        match self {
            Self::Frame | Self::Judged => true,
            Self::Tunnels => !row.outer().is_empty(),
            Self::Ethernet => row.ethernet().is_some() || row.mac_control().is_some(),
            Self::MacControl => row.mac_control().is_some(),
            Self::Lrh | Self::Grh | Self::Vcrc => row.native().is_some(),
            Self::Ipv4 => row.frame().is_some_and(|frame| frame.src().is_ipv4()),
            Self::Ipv6 => row.frame().is_some_and(|frame| frame.src().is_ipv6()),
            Self::Udp => row.frame().is_some(),
            Self::EitherIp | Self::Bth | Self::Payload | Self::Icrc => row.transport().is_some(),
            Self::Rdeth => has(&[H::Rdeth]),
            Self::Deth => has(&[H::Deth]),
            Self::Xrceth => has(&[H::Xrceth]),
            Self::Feth => has(&[H::Feth]),
            Self::Reth => has(&[H::Reth, H::AtomicEth]),
            Self::AtomicEth => has(&[H::AtomicEth]),
            Self::Aeth => has(&[H::Aeth]),
            Self::AtomicAckEth => has(&[H::AtomicAckEth]),
            Self::ImmDt => has(&[H::ImmDt]),
            Self::Ieth => has(&[H::Ieth]),
            Self::Cnp => has(&[H::CnpReserved]),
            Self::Mad | Self::ClassPortInfo => row.mad().is_some(),
            Self::Req => is(AttributeId::REQ),
            Self::Mra => is(AttributeId::MRA),
            Self::Rej => is(AttributeId::REJ),
            Self::Rep => is(AttributeId::REP),
            Self::Rtu => is(AttributeId::RTU),
            Self::Dreq => is(AttributeId::DREQ),
            Self::Drep => is(AttributeId::DREP),
            Self::SidrReq => is(AttributeId::SIDR_REQ),
            Self::SidrRep => is(AttributeId::SIDR_REP),
            Self::Lap => is(AttributeId::LAP),
            Self::Apr => is(AttributeId::APR),
            Self::Sap => is(AttributeId::SAP),
            Self::Spr => is(AttributeId::SPR),
            Self::IpCm => is(AttributeId::REQ) || is(AttributeId::SIDR_REQ),
            Self::Upper
            | Self::NvmeCm
            | Self::NvmeCommand
            | Self::NvmeCompletion
            | Self::Iser
            | Self::SmbDirect
            | Self::RpcCm
            | Self::RpcRdma => row.upper().is_some(),
        }
    }

    /// Whether a packet has it: any of its fields.
    #[must_use]
    pub fn is_in(self, row: &Row<'_>) -> bool {
        self.may_be_in(row) && self.fields().iter().any(|field| field.any(row, |_| true))
    }
}
