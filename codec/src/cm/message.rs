//! Any message of the connection manager.

use core::fmt;

use super::{
    Apr, AttributeId, CmEmitError, CmError, CommunicationId, Drep, Dreq, Lap, Mad, MadHeader,
    Method, MgmtClass, Mra, RdmaCmServiceId, Rej, Rep, Req, Rtu, Sap, ServiceId, SidrRep, SidrReq,
    Spr,
};

/// A message of the connection manager: what a MAD of its class and method Send carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Message<'a> {
    /// A request for communication.
    Req(Req<'a>),
    /// A message has come, its answer will take a while.
    Mra(Mra<'a>),
    /// A rejection.
    Rej(Rej<'a>),
    /// The reply to a REQ.
    Rep(Rep<'a>),
    /// Ready to use.
    Rtu(Rtu<'a>),
    /// A request to disconnect.
    Dreq(Dreq<'a>),
    /// The reply to a DREQ.
    Drep(Drep<'a>),
    /// A service ID resolution request.
    SidrReq(SidrReq<'a>),
    /// The response to a SIDR_REQ.
    SidrRep(SidrRep<'a>),
    /// Load an alternate path.
    Lap(Lap<'a>),
    /// The response to a LAP.
    Apr(Apr<'a>),
    /// A suggestion of an alternate path.
    Sap(Sap<'a>),
    /// The response to a SAP.
    Spr(Spr<'a>),
}

impl<'a> Message<'a> {
    /// Takes a MAD apart by its attribute ID. What of the header is not checked here, status and
    /// reserved bits say, stays in [`Mad::header`].
    ///
    /// # Errors
    /// [`CmError`]: another class, version, method or attribute. [`ClassPortInfo`] is no message:
    /// its own `parse` reads it from [`Mad::data`].
    ///
    /// [`ClassPortInfo`]: super::ClassPortInfo
    pub fn parse(mad: &Mad<'a>) -> Result<Self, CmError> {
        let expected = MadHeader::cm(mad.header.attribute, mad.header.transaction_id);
        if mad.header.base_version != expected.base_version {
            return Err(CmError::BaseVersion(mad.header.base_version));
        }
        if mad.header.class != MgmtClass::COM_MGT {
            return Err(CmError::Class(mad.header.class));
        }
        if mad.header.class_version != expected.class_version {
            return Err(CmError::ClassVersion(mad.header.class_version));
        }
        if mad.header.method != Method::SEND {
            return Err(CmError::Method(mad.header.method));
        }
        let data = mad.data;
        Ok(match mad.header.attribute {
            AttributeId::REQ => Self::Req(Req::parse(data)?),
            AttributeId::MRA => Self::Mra(Mra::parse(data)?),
            AttributeId::REJ => Self::Rej(Rej::parse(data)?),
            AttributeId::REP => Self::Rep(Rep::parse(data)?),
            AttributeId::RTU => Self::Rtu(Rtu::parse(data)?),
            AttributeId::DREQ => Self::Dreq(Dreq::parse(data)?),
            AttributeId::DREP => Self::Drep(Drep::parse(data)?),
            AttributeId::SIDR_REQ => Self::SidrReq(SidrReq::parse(data)?),
            AttributeId::SIDR_REP => Self::SidrRep(SidrRep::parse(data)?),
            AttributeId::LAP => Self::Lap(Lap::parse(data)?),
            AttributeId::APR => Self::Apr(Apr::parse(data)?),
            AttributeId::SAP => Self::Sap(Sap::parse(data)?),
            AttributeId::SPR => Self::Spr(Spr::parse(data)?),
            attribute => return Err(CmError::Attribute(attribute)),
        })
    }

    /// Writes a whole MAD of 256 bytes at the front of `out`, under [`MadHeader::cm`].
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data or information.
    pub fn emit(&self, transaction_id: u64, out: &mut [u8]) -> Result<(), CmEmitError> {
        self.emit_under(&MadHeader::cm(self.attribute(), transaction_id), out)
    }

    /// Writes a whole MAD under a header of your own: with a vendor's options in its attribute
    /// modifier, or exactly as parsed.
    ///
    /// # Errors
    /// As [`Message::emit`].
    pub fn emit_under(&self, header: &MadHeader, out: &mut [u8]) -> Result<(), CmEmitError> {
        let available = out.len();
        let no_room = CmEmitError::NoRoom { needed: super::MAD_LEN, available };
        let mad = out.get_mut(..super::MAD_LEN).ok_or(no_room)?;
        let (head, data) = mad.split_at_mut_checked(MadHeader::LEN).ok_or(no_room)?;
        header.emit(head)?;
        match self {
            Self::Req(message) => message.emit(data),
            Self::Mra(message) => message.emit(data),
            Self::Rej(message) => message.emit(data),
            Self::Rep(message) => message.emit(data),
            Self::Rtu(message) => message.emit(data),
            Self::Dreq(message) => message.emit(data),
            Self::Drep(message) => message.emit(data),
            Self::SidrReq(message) => message.emit(data),
            Self::SidrRep(message) => message.emit(data),
            Self::Lap(message) => message.emit(data),
            Self::Apr(message) => message.emit(data),
            Self::Sap(message) => message.emit(data),
            Self::Spr(message) => message.emit(data),
        }
    }

    /// The attribute ID that says which message it is.
    #[must_use]
    pub const fn attribute(&self) -> AttributeId {
        match self {
            Self::Req(_) => AttributeId::REQ,
            Self::Mra(_) => AttributeId::MRA,
            Self::Rej(_) => AttributeId::REJ,
            Self::Rep(_) => AttributeId::REP,
            Self::Rtu(_) => AttributeId::RTU,
            Self::Dreq(_) => AttributeId::DREQ,
            Self::Drep(_) => AttributeId::DREP,
            Self::SidrReq(_) => AttributeId::SIDR_REQ,
            Self::SidrRep(_) => AttributeId::SIDR_REP,
            Self::Lap(_) => AttributeId::LAP,
            Self::Apr(_) => AttributeId::APR,
            Self::Sap(_) => AttributeId::SAP,
            Self::Spr(_) => AttributeId::SPR,
        }
    }

    /// What the sender calls the connection; `None` in a service ID resolution, which makes none.
    #[must_use]
    pub const fn local_comm_id(&self) -> Option<CommunicationId> {
        Some(match self {
            Self::Req(message) => message.local_comm_id,
            Self::Mra(message) => message.local_comm_id,
            Self::Rej(message) => message.local_comm_id,
            Self::Rep(message) => message.local_comm_id,
            Self::Rtu(message) => message.local_comm_id,
            Self::Dreq(message) => message.local_comm_id,
            Self::Drep(message) => message.local_comm_id,
            Self::Lap(message) => message.local_comm_id,
            Self::Apr(message) => message.local_comm_id,
            Self::Sap(message) => message.local_comm_id,
            Self::Spr(message) => message.local_comm_id,
            Self::SidrReq(_) | Self::SidrRep(_) => return None,
        })
    }

    /// What the receiver calls the connection; `None` in a REQ, whose receiver has not heard of
    /// it, and in a service ID resolution.
    #[must_use]
    pub const fn remote_comm_id(&self) -> Option<CommunicationId> {
        Some(match self {
            Self::Mra(message) => message.remote_comm_id,
            Self::Rej(message) => message.remote_comm_id,
            Self::Rep(message) => message.remote_comm_id,
            Self::Rtu(message) => message.remote_comm_id,
            Self::Dreq(message) => message.remote_comm_id,
            Self::Drep(message) => message.remote_comm_id,
            Self::Lap(message) => message.remote_comm_id,
            Self::Apr(message) => message.remote_comm_id,
            Self::Sap(message) => message.remote_comm_id,
            Self::Spr(message) => message.remote_comm_id,
            Self::Req(_) | Self::SidrReq(_) | Self::SidrRep(_) => return None,
        })
    }
}

/// The message's name and the numbers by which connections are followed.
impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.attribute())?;
        if let Some(id) = self.local_comm_id() {
            write!(f, " local={id}")?;
        }
        if let Some(id) = self.remote_comm_id() {
            write!(f, " remote={id}")?;
        }
        match self {
            Self::Req(req) => {
                write!(f, " qpn={} starting_psn={}", req.local_qpn, req.starting_psn)?;
                service(f, req.service_id)
            }
            Self::Rep(rep) => write!(f, " qpn={} starting_psn={}", rep.local_qpn, rep.starting_psn),
            Self::Rej(rej) => write!(f, " reason={} ({})", rej.reason.0, rej.reason),
            Self::Mra(mra) => write!(f, " service_timeout={}", mra.service_timeout),
            Self::Dreq(dreq) => write!(f, " remote_qpn={}", dreq.remote_qpn),
            Self::Lap(lap) => write!(f, " remote_qpn={}", lap.remote_qpn),
            Self::Apr(apr) => write!(f, " status={} ({})", apr.status.0, apr.status),
            Self::SidrReq(req) => {
                write!(f, " request={:#010x}", req.request_id)?;
                service(f, req.service_id)
            }
            Self::SidrRep(rep) => write!(
                f,
                " request={:#010x} status={} ({}) qpn={} q_key={:#010x}",
                rep.request_id, rep.status.0, rep.status, rep.qpn, rep.qkey.0
            ),
            Self::Rtu(_) | Self::Drep(_) | Self::Sap(_) | Self::Spr(_) => Ok(()),
        }
    }
}

fn service(f: &mut fmt::Formatter<'_>, id: ServiceId) -> fmt::Result {
    match RdmaCmServiceId::from_service_id(id) {
        Some(service) => write!(f, " service={service}"),
        None => write!(f, " service={id}"),
    }
}
