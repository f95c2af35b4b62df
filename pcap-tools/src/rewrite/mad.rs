//! The connection manager's messages with other addresses in them, and without what their users
//! tell each other.

use roce_codec::cm::{
    CmEmitError, IpCmHeader, MAD_LEN, Mad, MadHeader, Message, Path, RdmaCmServiceId, ServiceId,
};

use super::mask::Mask;

/// A MAD of the connection manager with masked addresses; private data is left out unless it is to
/// be `kept`. A MAD that is not known through and through loses everything behind its header.
pub(super) fn rewritten(mad: &Mad<'_>, mask: Option<&mut Mask>, kept: bool) -> [u8; MAD_LEN] {
    let mut out = [0; MAD_LEN];
    let known = Message::parse(mad).ok().and_then(|message| {
        let mut private = [0; 256];
        let message = changed(message, mask, kept, &mut private)?;
        message.emit_under(&mad.header, &mut out).ok()
    });
    if known.is_none() {
        out = [0; MAD_LEN];
        let emitted: Result<(), CmEmitError> =
            MadHeader { attribute_modifier: 0, ..mad.header }.emit(&mut out);
        debug_assert_eq!(emitted, Ok(()), "a header fits a MAD");
    }
    out
}

/// The message with other values; `None` if it holds what cannot be taken apart.
fn changed<'b>(
    message: Message<'b>,
    mut mask: Option<&mut Mask>,
    kept: bool,
    private: &'b mut [u8; 256],
) -> Option<Message<'b>> {
    let mut message = message;
    let mut guid = |guid: &mut roce_codec::cm::CaGuid| {
        if let Some(mask) = mask.as_deref_mut() {
            *guid = mask.guid(*guid);
        }
    };
    match &mut message {
        Message::Req(req) => guid(&mut req.local_ca_guid),
        Message::Rep(rep) => guid(&mut rep.local_ca_guid),
        _ => {}
    }
    match &mut message {
        Message::Req(req) => {
            if let Some(mask) = mask.as_deref_mut() {
                path(&mut req.primary, mask);
                path(&mut req.alternate, mask);
            }
            req.private_data = ip_private(req.service_id, req.private_data, mask, kept, private)?;
        }
        Message::SidrReq(req) => {
            req.private_data = ip_private(req.service_id, req.private_data, mask, kept, private)?;
        }
        Message::Lap(lap) => {
            if let Some(mask) = mask {
                path(&mut lap.alternate, mask);
            }
            scrub(&mut lap.private_data, kept);
        }
        Message::Rep(rep) => scrub(&mut rep.private_data, kept),
        Message::Rtu(rtu) => scrub(&mut rtu.private_data, kept),
        Message::Dreq(dreq) => scrub(&mut dreq.private_data, kept),
        Message::Drep(drep) => scrub(&mut drep.private_data, kept),
        Message::Mra(mra) => scrub(&mut mra.private_data, kept),
        Message::SidrRep(rep) => {
            scrub(&mut rep.private_data, kept);
            scrub(&mut rep.info, false);
        }
        Message::Rej(rej) => {
            scrub(&mut rej.private_data, kept);
            // It may be a GID or a GUID.
            scrub(&mut rej.ari, mask.is_none());
        }
        Message::Apr(apr) => {
            scrub(&mut apr.private_data, kept);
            scrub(&mut apr.info, mask.is_none());
        }
        _ => return None,
    }
    Some(message)
}

fn scrub(data: &mut &[u8], kept: bool) {
    if !kept {
        *data = &[];
    }
}

fn path(path: &mut Path, mask: &mut Mask) {
    if path.is_present() {
        path.local_gid = mask.gid(path.local_gid);
        path.remote_gid = mask.gid(path.remote_gid);
    }
}

/// Private data whose front says who asks, in terms of IP.
fn ip_private<'b>(
    service: ServiceId,
    data: &'b [u8],
    mask: Option<&mut Mask>,
    kept: bool,
    private: &'b mut [u8; 256],
) -> Option<&'b [u8]> {
    if RdmaCmServiceId::from_service_id(service).is_none() {
        return Some(if kept { data } else { &[] });
    }
    let mut header = IpCmHeader::parse(data).ok()?;
    if let Some(mask) = mask {
        for field in [&mut header.src, &mut header.dst] {
            *field = masked(*field, header.ip_version, mask);
        }
    }
    header.emit(private).ok()?;
    let len = if kept { data.len() } else { IpCmHeader::LEN };
    let room = private.get_mut(IpCmHeader::LEN..len)?;
    room.copy_from_slice(data.get(IpCmHeader::LEN..len)?);
    private.get(..len)
}

/// An address field: IPv4 stands in its last four bytes.
fn masked(field: [u8; 16], version: u8, mask: &mut Mask) -> [u8; 16] {
    let mut out = field;
    if version == 4 {
        if let Some(last) = field.last_chunk::<4>()
            && let std::net::IpAddr::V4(masked) = mask.ip((*last).into())
            && let Some(room) = out.last_chunk_mut::<4>()
        {
            *room = masked.octets();
        }
    } else if let std::net::IpAddr::V6(masked) = mask.ip(field.into()) {
        out = masked.octets();
    }
    out
}
