use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_codec::Transport;
use roce_codec::cm::{
    ApStatus, Apr, Ari, AttributeId, ClassPortInfo, CmEmitError, CmError, CommunicationId, Drep,
    Dreq, Eecn, Gid, IpCmHeader, Lap, Mad, MadHeader, Message, Method, MgmtClass, Mra, Path,
    RdmaCmServiceId, Rej, RejReason, Rep, Req, Rtu, Sap, ServiceId, SidrRep, SidrReq, SidrStatus,
    Spr, Timeout, is_cm_frame,
};
use roce_codec::ib::{PathMtu, Service};

macro_rules! messages {
    ($($type:ident: $parse:ident $emit:ident,)*) => {$(
        crate::instantiate! {
            $parse(data: &'static [u8]) -> Result<$type<'static>, CmError> { $type::parse(data) }
            $emit(value: &$type<'_>, out: &mut [u8]) -> Result<(), CmEmitError> { value.emit(out) }
        }
    )*};
}

messages! {
    Req: req_parse req_emit,
    Mra: mra_parse mra_emit,
    Rej: rej_parse rej_emit,
    Rep: rep_parse rep_emit,
    Rtu: rtu_parse rtu_emit,
    Dreq: dreq_parse dreq_emit,
    Drep: drep_parse drep_emit,
    SidrReq: sidr_req_parse sidr_req_emit,
    SidrRep: sidr_rep_parse sidr_rep_emit,
    Lap: lap_parse lap_emit,
    Apr: apr_parse apr_emit,
    Sap: sap_parse sap_emit,
    Spr: spr_parse spr_emit,
}

macro_rules! headers {
    ($($type:ident: $parse:ident $emit:ident,)*) => {$(
        crate::instantiate! {
            $parse(bytes: &[u8]) -> Result<$type, CmError> { $type::parse(bytes) }
            $emit(value: &$type, out: &mut [u8]) -> Result<(), CmEmitError> { value.emit(out) }
        }
    )*};
}

headers! {
    MadHeader: mad_header_parse mad_header_emit,
    ClassPortInfo: class_port_info_parse class_port_info_emit,
    IpCmHeader: ip_cm_parse ip_cm_emit,
}

crate::instantiate! {
    mad_parse(bytes: &'static [u8]) -> Result<Mad<'static>, CmError> { Mad::parse(bytes) }
    mad_from_frame(packet: &Transport<'static>) -> Option<Mad<'static>> { Mad::from_frame(packet) }
    mad_is_cm(mad: &Mad<'_>) -> bool { mad.is_cm() }
    mad_header_cm(attribute: AttributeId, id: u64) -> MadHeader { MadHeader::cm(attribute, id) }
    frame_is_cm(packet: &Transport<'_>) -> bool { is_cm_frame(packet) }
    class_name(class: MgmtClass) -> Option<&'static str> { class.name() }
    method_name(method: Method) -> Option<&'static str> { method.name() }
    method_is_response(method: Method) -> bool { method.is_response() }
    attribute_name(attribute: AttributeId) -> Option<&'static str> { attribute.name() }

    message_parse(mad: &Mad<'static>) -> Result<Message<'static>, CmError> { Message::parse(mad) }
    message_emit(message: &Message<'_>, id: u64, out: &mut [u8]) -> Result<(), CmEmitError> {
        message.emit(id, out)
    }
    message_emit_under(message: &Message<'_>, header: &MadHeader, out: &mut [u8])
        -> Result<(), CmEmitError> { message.emit_under(header, out) }
    message_attribute(message: &Message<'_>) -> AttributeId { message.attribute() }
    message_local(message: &Message<'_>) -> Option<CommunicationId> { message.local_comm_id() }
    message_remote(message: &Message<'_>) -> Option<CommunicationId> { message.remote_comm_id() }

    req_path_mtu(req: &Req<'_>) -> Option<PathMtu> { req.path_mtu() }
    req_service(req: &Req<'_>) -> Option<Service> { req.service() }
    req_ip_cm(req: &Req<'static>) -> Option<(IpCmHeader, &'static [u8])> { req.ip_cm() }
    sidr_req_ip_cm(req: &SidrReq<'static>) -> Option<(IpCmHeader, &'static [u8])> { req.ip_cm() }
    rej_ari(rej: &Rej<'static>) -> &'static [u8] { rej.ari_bytes() }
    apr_info(apr: &Apr<'static>) -> &'static [u8] { apr.info_bytes() }
    sidr_rep_info(rep: &SidrRep<'static>) -> &'static [u8] { rep.info_bytes() }
    reason_name(reason: RejReason) -> Option<&'static str> { reason.name() }
    reason_ari(reason: RejReason) -> Option<Ari> { reason.ari() }
    ap_status_name(status: ApStatus) -> Option<&'static str> { status.name() }
    sidr_status_name(status: SidrStatus) -> Option<&'static str> { status.name() }
    path_is_present(path: &Path) -> bool { path.is_present() }

    ip_cm_v4(src: Ipv4Addr, port: u16, dst: Ipv4Addr) -> IpCmHeader {
        IpCmHeader::v4(src, port, dst)
    }
    ip_cm_v6(src: &Ipv6Addr, port: u16, dst: &Ipv6Addr) -> IpCmHeader {
        IpCmHeader::v6(*src, port, *dst)
    }
    ip_cm_src(header: &IpCmHeader) -> Option<IpAddr> { header.src_ip() }
    ip_cm_dst(header: &IpCmHeader) -> Option<IpAddr> { header.dst_ip() }
    rdma_cm_service(id: ServiceId) -> Option<RdmaCmServiceId> {
        RdmaCmServiceId::from_service_id(id)
    }
    service_of_rdma_cm(id: RdmaCmServiceId) -> ServiceId { id.to_service_id() }
    gid_ip(gid: &Gid) -> IpAddr { gid.ip() }
    gid_of_ip(ip: &IpAddr) -> Gid { Gid::from(*ip) }
    eecn_new(value: u32) -> Eecn { Eecn::new(value) }
    timeout_ns(timeout: Timeout) -> u64 { timeout.ns() }
    timeout_at_least(ns: u64) -> Timeout { Timeout::at_least_ns(ns) }
}
