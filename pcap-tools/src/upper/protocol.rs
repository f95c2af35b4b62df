//! The protocols above the transport, and the ports they are known by.

use std::fmt;

use roce_codec::cm::{PortSpace, RdmaCmServiceId, ServiceId};

/// A protocol above the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// NVMe over Fabrics.
    Nvme,
    /// iSCSI Extensions for RDMA.
    Iser,
    /// SMB Direct.
    SmbDirect,
    /// RPC over RDMA: NFS, mostly.
    RpcRdma,
}

impl Protocol {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Nvme, Self::Iser, Self::SmbDirect, Self::RpcRdma];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvme => "NVMe-oF",
            Self::Iser => "iSER",
            Self::SmbDirect => "SMB Direct",
            Self::RpcRdma => "RPC-over-RDMA",
        }
    }

    /// The protocol that has a port of the TCP port space, as IANA registered them.
    #[must_use]
    pub const fn of_port(port: u16) -> Option<Self> {
        Some(match port {
            // nvme, nvme-disc.
            4420 | 8009 => Self::Nvme,
            // iscsi-target.
            3260 => Self::Iser,
            // microsoft-ds, which SMB Direct shares on RoCE; smbdirect.
            445 | 5445 => Self::SmbDirect,
            // nfsrdma.
            20049 => Self::RpcRdma,
            _ => return None,
        })
    }

    /// The protocol that a REQ asks for by its service ID.
    #[must_use]
    pub const fn of_service(service: ServiceId) -> Option<Self> {
        match RdmaCmServiceId::from_service_id(service) {
            Some(RdmaCmServiceId { port_space: PortSpace::TCP, port }) => Self::of_port(port),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_space_proves_nothing() {
        let service = |port_space| ServiceId::from(RdmaCmServiceId { port_space, port: 4420 });
        assert_eq!(Protocol::of_service(service(PortSpace::TCP)), Some(Protocol::Nvme));
        assert_eq!(Protocol::of_service(service(PortSpace::UDP)), None);
        assert_eq!(Protocol::of_service(ServiceId(4420)), None);
    }
}
