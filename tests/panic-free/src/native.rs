use roce_codec::ib::{LinkNextHeader, Lrh, Vcrc, VcrcVerdict};
use roce_codec::icrc::{Icrc, IcrcVerdict};
use roce_codec::net::{Ethernet, Grh};
use roce_codec::{
    Crc, EmitError, NativeBuilder, NativeFrame, NativeStart, ParseError, Route, SmallTable,
    Transport,
};

crate::instantiate! {
    native_parse(a: &'static [u8], b: &'static [u8], s: NativeStart)
        -> Result<NativeFrame<'static>, ParseError> { NativeFrame::parse([a, b], s) }
    native_parse_captured(a: &'static [u8], b: &'static [u8], s: NativeStart)
        -> Result<NativeFrame<'static>, ParseError> { NativeFrame::parse_captured([a, b], s) }
    native_transport(frame: &NativeFrame<'static>) -> Transport<'static> { **frame }
    native_route(frame: &NativeFrame<'_>) -> Route { frame.route() }
    native_lrh(frame: &NativeFrame<'_>) -> Option<Lrh> { frame.lrh() }
    native_grh(frame: &NativeFrame<'_>) -> Option<Grh> { frame.grh() }
    native_ethernet(frame: &NativeFrame<'_>) -> Option<Ethernet> { frame.ethernet() }
    native_computed_icrc(frame: &NativeFrame<'_>) -> Option<[u8; 4]> {
        frame.computed_icrc::<SmallTable>()
    }
    native_verify(frame: &NativeFrame<'_>) -> IcrcVerdict { frame.verify_icrc() }
    native_verify_small(frame: &NativeFrame<'_>) -> IcrcVerdict {
        frame.verify_icrc_with::<SmallTable>()
    }
    native_vcrc(frame: &NativeFrame<'_>) -> Option<[u8; 2]> { frame.vcrc() }
    native_computed_vcrc(frame: &NativeFrame<'_>) -> Option<[u8; 2]> { frame.computed_vcrc() }
    native_verify_vcrc(frame: &NativeFrame<'_>) -> VcrcVerdict { frame.verify_vcrc() }
    native_to_builder(frame: &NativeFrame<'_>) -> NativeBuilder { frame.to_builder() }

    route_header_len(route: &Route) -> usize { route.header_len() }
    route_lrh(route: &Route) -> Option<Lrh> { route.lrh() }
    route_grh(route: &Route) -> Option<Grh> { route.grh() }
    route_ethernet(route: &Route) -> Option<Ethernet> { route.ethernet() }
    native_header_len(builder: &NativeBuilder) -> usize { builder.header_len() }
    native_set_payload_len(builder: &mut NativeBuilder, len: usize) -> Result<(), EmitError> {
        builder.set_payload_len(len)
    }
    native_emit(builder: &NativeBuilder, a: &[u8], b: &[u8], out: &mut [u8])
        -> Result<usize, EmitError> { builder.emit::<Crc>([a, b], out) }
    native_emit_small(builder: &NativeBuilder, a: &[u8], b: &[u8], out: &mut [u8])
        -> Result<usize, EmitError> { builder.emit::<SmallTable>([a, b], out) }

    lrh_parse(bytes: &[u8]) -> Result<Lrh, ParseError> { Lrh::parse(bytes) }
    lrh_emit(lrh: &Lrh, out: &mut [u8]) -> Result<(), EmitError> { lrh.emit(out) }
    lnh_from_bits(bits: u8) -> LinkNextHeader { LinkNextHeader::from_bits(bits) }
    lnh_bits(lnh: LinkNextHeader) -> u8 { lnh.bits() }
    grh_parse(bytes: &[u8]) -> Result<Grh, ParseError> { Grh::parse(bytes) }
    grh_emit(grh: &Grh, out: &mut [u8]) -> Result<(), EmitError> { grh.emit(out) }
    vcrc_update(vcrc: &mut Vcrc, bytes: &[u8]) -> () { vcrc.update(bytes) }
    vcrc_finish(vcrc: Vcrc) -> [u8; 2] { vcrc.finish() }
    icrc_local(headers: &[u8; 20]) -> Icrc { Icrc::local(headers) }
    icrc_global(headers: &[u8; 52]) -> Icrc { Icrc::global(headers) }
}

crate::instantiate! {
    packet_parse(a: &'static [u8], b: &'static [u8])
        -> Result<roce_codec::Packet<'static>, ParseError> {
        roce_codec::Packet::parse_captured([a, b])
    }
}
