use core::net::IpAddr;

use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, HeaderKind, Ieth, ImmDt, Opcode,
    OpcodeInfo, Psn, Qpn, Rdeth, Reth, Xrceth,
};
use roce_codec::icrc::{Icrc, IcrcVerdict};
use roce_codec::net::{Ethernet, Ip, Udp};
use roce_codec::{
    Crc, Crc32, EmitError, Frame, FrameBuilder, NibbleTable, Pad, ParseError, SmallTable, Start,
};

crate::instantiate! {
    frame_parse(a: &'static [u8], b: &'static [u8], s: Start) -> Result<Frame<'static>, ParseError> {
        Frame::parse([a, b], s)
    }
    frame_parse_captured(a: &'static [u8], b: &'static [u8], s: Start)
        -> Result<Frame<'static>, ParseError> { Frame::parse_captured([a, b], s) }
    frame_ethernet(frame: &Frame<'_>) -> Option<Ethernet> { frame.ethernet() }
    frame_ip(frame: &Frame<'_>) -> Ip { frame.ip() }
    frame_src(frame: &Frame<'_>) -> IpAddr { frame.src() }
    frame_dst(frame: &Frame<'_>) -> IpAddr { frame.dst() }
    frame_traffic_class(frame: &Frame<'_>) -> u8 { frame.traffic_class() }
    frame_udp(frame: &Frame<'_>) -> Udp { frame.udp() }
    frame_udp_payload_len(frame: &Frame<'_>) -> usize { frame.udp_payload_len() }
    frame_bth(frame: &Frame<'_>) -> Bth { frame.bth() }
    frame_opcode(frame: &Frame<'_>) -> Opcode { frame.opcode() }
    frame_info(frame: &Frame<'_>) -> &'static OpcodeInfo { frame.info() }
    frame_dest_qp(frame: &Frame<'_>) -> Qpn { frame.dest_qp() }
    frame_psn(frame: &Frame<'_>) -> Psn { frame.psn() }
    frame_ext(frame: &Frame<'static>, kind: HeaderKind) -> Option<&'static [u8]> { frame.ext(kind) }
    frame_reth(frame: &Frame<'_>) -> Option<Reth> { frame.reth() }
    frame_aeth(frame: &Frame<'_>) -> Option<Aeth> { frame.aeth() }
    frame_atomic_eth(frame: &Frame<'_>) -> Option<AtomicEth> { frame.atomic_eth() }
    frame_atomic_ack_eth(frame: &Frame<'_>) -> Option<AtomicAckEth> { frame.atomic_ack_eth() }
    frame_imm_dt(frame: &Frame<'_>) -> Option<ImmDt> { frame.imm_dt() }
    frame_deth(frame: &Frame<'_>) -> Option<Deth> { frame.deth() }
    frame_ieth(frame: &Frame<'_>) -> Option<Ieth> { frame.ieth() }
    frame_feth(frame: &Frame<'_>) -> Option<Feth> { frame.feth() }
    frame_rdeth(frame: &Frame<'_>) -> Option<Rdeth> { frame.rdeth() }
    frame_xrceth(frame: &Frame<'_>) -> Option<Xrceth> { frame.xrceth() }
    frame_ext_headers(frame: &Frame<'_>) -> ExtHeaders { frame.ext_headers() }
    frame_payload(frame: &Frame<'static>) -> [&'static [u8]; 2] { frame.payload() }
    frame_payload_len(frame: &Frame<'_>) -> usize { frame.payload_len() }
    frame_pad(frame: &Frame<'_>) -> Pad { frame.pad() }
    frame_icrc(frame: &Frame<'_>) -> [u8; 4] { frame.icrc() }
    frame_missing(frame: &Frame<'_>) -> usize { frame.missing() }
    frame_trailer(frame: &Frame<'static>) -> [&'static [u8]; 2] { frame.trailer() }
    frame_headers(frame: &Frame<'static>) -> &'static [u8] { frame.headers() }
    frame_ext_bytes(frame: &Frame<'static>) -> &'static [u8] { frame.ext_bytes() }
    frame_verify(frame: &Frame<'_>) -> IcrcVerdict { frame.verify_icrc() }
    frame_verify_small(frame: &Frame<'_>) -> IcrcVerdict { frame.verify_icrc_with::<SmallTable>() }
    frame_computed_icrc(frame: &Frame<'_>) -> Option<[u8; 4]> { frame.computed_icrc::<SmallTable>() }
    frame_to_builder(frame: &Frame<'_>) -> FrameBuilder { frame.to_builder() }

    builder_cnp(ethernet: Option<Ethernet>, ip: Ip, port: u16, qp: Qpn) -> FrameBuilder {
        FrameBuilder::cnp(ethernet, ip, port, qp)
    }
    builder_header_len(builder: &FrameBuilder) -> usize { builder.header_len() }
    builder_set_payload_len(builder: &mut FrameBuilder, len: usize) -> Result<(), EmitError> {
        builder.set_payload_len(len)
    }
    builder_emit(builder: &FrameBuilder, a: &[u8], b: &[u8], out: &mut [u8])
        -> Result<usize, EmitError> { builder.emit::<Crc>([a, b], out) }
    builder_emit_small(builder: &FrameBuilder, a: &[u8], b: &[u8], out: &mut [u8])
        -> Result<usize, EmitError> { builder.emit::<SmallTable>([a, b], out) }
    builder_emit_with(builder: &FrameBuilder, len: usize, out: &mut [u8])
        -> Result<(usize, usize), EmitError> {
        builder.emit_with::<SmallTable, _>(len, out, |room, icrc| {
            icrc.update(room);
            room.len()
        })
    }

    icrc_ipv4(headers: &[u8; 40]) -> Icrc { Icrc::ipv4(headers) }
    icrc_ipv6(headers: &[u8; 60]) -> Icrc { Icrc::ipv6(headers) }
    icrc_ipv4_small(headers: &[u8; 40]) -> Icrc<SmallTable> { Icrc::ipv4(headers) }
    icrc_ipv6_small(headers: &[u8; 60]) -> Icrc<SmallTable> { Icrc::ipv6(headers) }
    icrc_update(icrc: &mut Icrc, bytes: &[u8]) -> () { icrc.update(bytes) }
    icrc_copy_update(icrc: &mut Icrc, dst: &mut [u8], src: &[u8]) -> usize {
        icrc.copy_update(dst, src)
    }
    icrc_finish(icrc: &Icrc) -> [u8; 4] { icrc.finish() }
    crc_update(crc: &mut Crc, bytes: &[u8]) -> () { crc.update(bytes) }
    crc_copy_update(crc: &mut Crc, dst: &mut [u8], src: &[u8]) -> usize {
        crc.copy_update(dst, src)
    }
    crc_update_masked(crc: &mut Crc, bytes: &[u8], ones: &[u8; 64]) -> () {
        crc.update_masked(bytes, ones)
    }
    nibble_update(crc: &mut NibbleTable, bytes: &[u8]) -> () { crc.update(bytes) }
    nibble_masked(crc: &mut NibbleTable, bytes: &[u8], ones: &[u8; 64]) -> () {
        crc.update_masked(bytes, ones)
    }
    small_masked(crc: &mut SmallTable, bytes: &[u8], ones: &[u8; 64]) -> () {
        crc.update_masked(bytes, ones)
    }
    small_update(crc: &mut SmallTable, bytes: &[u8]) -> () { crc.update(bytes) }
    small_copy_update(crc: &mut SmallTable, dst: &mut [u8], src: &[u8]) -> usize {
        crc.copy_update(dst, src)
    }
}
