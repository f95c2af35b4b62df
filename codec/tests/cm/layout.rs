//! Where each field of each message lies: offset and width typed from the tables of IBTA Vol. 1,
//! chapters 12 and 13. A field set to all ones changes just those bits, and all fields together
//! cover every bit once.

use roce_codec::cm::{
    ApStatus, Apr, AttributeId, CaGuid, ClassPortInfo, CmEmitError, CmError, CommunicationId, Drep,
    Dreq, Eecn, Failover, Gid, IpCmHeader, Lap, MadHeader, Method, MgmtClass, Mra, MraedMessage,
    Rej, RejReason, RejectedMessage, Rep, Req, Rtu, Sap, ServiceId, SidrRep, SidrReq, SidrStatus,
    Spr, Timeout, TransportType,
};
use roce_codec::ib::{PKey, Psn, QKey, Qpn};

/// A piece of a field: byte, bit from the left, bits.
type Piece = (usize, usize, usize);

struct Field<T> {
    name: &'static str,
    pieces: &'static [Piece],
    /// Sets the field to all ones.
    set: fn(&mut T),
}

const ONES: [u8; 232] = [0xff; 232];
const GID_ONES: Gid = Gid([0xff; 16]);
const ID_ONES: CommunicationId = CommunicationId(u32::MAX);
const TIME_ONES: Timeout = Timeout::MAX;

/// Checks a layout of `len` bytes: `zero` is the value whose bytes are all zero.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    len: usize,
    zero: T,
    fields: &[Field<T>],
    parse: impl Fn(&'static [u8]) -> Result<T, CmError>,
    emit: impl Fn(&T, &mut [u8]) -> Result<(), CmEmitError>,
) {
    let emitted = |value: &T| {
        let mut out = vec![0xa5; len + 1];
        emit(value, &mut out).unwrap();
        assert_eq!(out[len], 0xa5, "wrote past the end");
        out.truncate(len);
        out
    };
    // Slices compare by content: the parser's are whole fields.
    let parsed = |bytes: &[u8]| parse(bytes.to_vec().leak()).unwrap();
    let whole_zero = parsed(&vec![0; len]);
    assert_eq!(emitted(&zero), vec![0; len]);
    assert_eq!(emitted(&whole_zero), vec![0; len]);

    let mut covered = vec![0_u8; len];
    for field in fields {
        let mut expected = vec![0_u8; len];
        for (byte, bit, width) in field.pieces {
            for at in byte * 8 + bit..byte * 8 + bit + width {
                let mask = 0x80 >> (at % 8);
                assert_eq!(covered[at / 8] & mask, 0, "{}: bit {at} twice", field.name);
                covered[at / 8] |= mask;
                expected[at / 8] |= mask;
            }
        }
        let mut value = zero;
        (field.set)(&mut value);
        assert_eq!(emitted(&value), expected, "{}", field.name);
        let mut whole = whole_zero;
        (field.set)(&mut whole);
        assert_eq!(parsed(&expected), whole, "{}", field.name);
    }
    assert_eq!(covered, vec![0xff; len], "bits without a field");

    for available in 0..len {
        let cut: &'static [u8] = vec![0; available].leak();
        assert_eq!(parse(cut), Err(CmError::Truncated { needed: len, available }));
        let error = emit(&zero, &mut vec![0; available]);
        assert_eq!(error, Err(CmEmitError::NoRoom { needed: len, available }));
    }
}

/// `name: byte.bit; width`, or several such for a field in pieces, and what is all ones.
macro_rules! fields {
    ($type:ty; $(
        $name:literal: $([$byte:literal . $bit:literal ; $width:literal])+,
        |$it:ident| $set:expr;
    )*) => {
        &[$(Field {
            name: $name,
            pieces: &[$(($byte, $bit, $width)),+],
            set: |$it: &mut $type| { $set; },
        }),*]
    };
}

#[test]
fn mad_header() {
    let zero = MadHeader {
        base_version: 0,
        class: MgmtClass(0),
        class_version: 0,
        method: Method(0),
        status: 0,
        class_specific: 0,
        transaction_id: 0,
        attribute: AttributeId(0),
        resv16: 0,
        attribute_modifier: 0,
    };
    let fields = fields! {
        MadHeader;
        "base version": [0 . 0; 8], |it| it.base_version = 0xff;
        "class": [1 . 0; 8], |it| it.class = MgmtClass(0xff);
        "class version": [2 . 0; 8], |it| it.class_version = 0xff;
        "method": [3 . 0; 8], |it| it.method = Method(0xff);
        "status": [4 . 0; 16], |it| it.status = 0xffff;
        "class specific": [6 . 0; 16], |it| it.class_specific = 0xffff;
        "transaction ID": [8 . 0; 64], |it| it.transaction_id = u64::MAX;
        "attribute ID": [16 . 0; 16], |it| it.attribute = AttributeId(0xffff);
        "reserved": [18 . 0; 16], |it| it.resv16 = 0xffff;
        "attribute modifier": [20 . 0; 32], |it| it.attribute_modifier = u32::MAX;
    };
    check(24, zero, fields, MadHeader::parse, MadHeader::emit);
}

#[test]
fn class_port_info() {
    let mut zero = ClassPortInfo::default();
    zero.redirect.pkey = PKey(0);
    zero.trap.pkey = PKey(0);
    let fields = fields! {
        ClassPortInfo;
        "base version": [0 . 0; 8], |it| it.base_version = 0xff;
        "class version": [1 . 0; 8], |it| it.class_version = 0xff;
        "capability mask": [2 . 0; 16], |it| it.capability_mask = 0xffff;
        "capability mask 2": [4 . 0; 27], |it| it.capability_mask_2 = 0x07ff_ffff;
        "response time value": [7 . 3; 5], |it| it.response_time = TIME_ONES;
        "redirect GID": [8 . 0; 128], |it| it.redirect.gid = GID_ONES;
        "redirect TC": [24 . 0; 8], |it| it.redirect.traffic_class = 0xff;
        "redirect SL": [25 . 0; 4], |it| it.redirect.sl = 0x0f;
        "redirect FL": [25 . 4; 20], |it| it.redirect.flow_label = 0x000f_ffff;
        "redirect LID": [28 . 0; 16], |it| it.redirect.lid = 0xffff;
        "redirect P_Key": [30 . 0; 16], |it| it.redirect.pkey = PKey(0xffff);
        "reserved": [32 . 0; 8], |it| it.redirect.hop_limit = 0xff;
        "redirect QP": [33 . 0; 24], |it| it.redirect.qpn = Qpn::new(u32::MAX);
        "redirect Q_Key": [36 . 0; 32], |it| it.redirect.qkey = QKey(u32::MAX);
        "trap GID": [40 . 0; 128], |it| it.trap.gid = GID_ONES;
        "trap TC": [56 . 0; 8], |it| it.trap.traffic_class = 0xff;
        "trap SL": [57 . 0; 4], |it| it.trap.sl = 0x0f;
        "trap FL": [57 . 4; 20], |it| it.trap.flow_label = 0x000f_ffff;
        "trap LID": [60 . 0; 16], |it| it.trap.lid = 0xffff;
        "trap P_Key": [62 . 0; 16], |it| it.trap.pkey = PKey(0xffff);
        "trap HL": [64 . 0; 8], |it| it.trap.hop_limit = 0xff;
        "trap QP": [65 . 0; 24], |it| it.trap.qpn = Qpn::new(u32::MAX);
        "trap Q_Key": [68 . 0; 32], |it| it.trap.qkey = QKey(u32::MAX);
    };
    check(72, zero, fields, ClassPortInfo::parse, ClassPortInfo::emit);
}

#[test]
fn req() {
    let zero = Req { pkey: PKey(0), ..Req::default() };
    let fields = fields! {
        Req<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "reserved": [4 . 0; 8], |it| it.resv8 = 0xff;
        "vendor ID": [5 . 0; 24], |it| it.vendor_id = 0x00ff_ffff;
        "service ID": [8 . 0; 64], |it| it.service_id = ServiceId(u64::MAX);
        "local CA GUID": [16 . 0; 64], |it| it.local_ca_guid = CaGuid(u64::MAX);
        "reserved": [24 . 0; 32], |it| it.resv32 = u32::MAX;
        "local Q_Key": [28 . 0; 32], |it| it.local_qkey = QKey(u32::MAX);
        "local QPN": [32 . 0; 24], |it| it.local_qpn = Qpn::new(u32::MAX);
        "responder resources": [35 . 0; 8], |it| it.responder_resources = 0xff;
        "local EECN": [36 . 0; 24], |it| it.local_eecn = Eecn::new(u32::MAX);
        "initiator depth": [39 . 0; 8], |it| it.initiator_depth = 0xff;
        "remote EECN": [40 . 0; 24], |it| it.remote_eecn = Eecn::new(u32::MAX);
        "remote CM response timeout": [43 . 0; 5], |it| it.remote_cm_response_timeout = TIME_ONES;
        "transport service type": [43 . 5; 2], |it| it.transport = TransportType::Extended;
        "end-to-end flow control": [43 . 7; 1], |it| it.end_to_end_flow_control = true;
        "starting PSN": [44 . 0; 24], |it| it.starting_psn = Psn::new(u32::MAX);
        "local CM response timeout": [47 . 0; 5], |it| it.local_cm_response_timeout = TIME_ONES;
        "retry count": [47 . 5; 3], |it| it.retry_count = 7;
        "partition key": [48 . 0; 16], |it| it.pkey = PKey(0xffff);
        "path packet payload MTU": [50 . 0; 4], |it| it.path_mtu_code = 15;
        "RDC exists": [50 . 4; 1], |it| it.rdc_exists = true;
        "RNR retry count": [50 . 5; 3], |it| it.rnr_retry_count = 7;
        "max CM retries": [51 . 0; 4], |it| it.max_cm_retries = 15;
        "SRQ": [51 . 4; 1], |it| it.srq = true;
        "extended transport type": [51 . 5; 3], |it| it.extended_transport = 7;
        "primary local port LID": [52 . 0; 16], |it| it.primary.local_lid = 0xffff;
        "primary remote port LID": [54 . 0; 16], |it| it.primary.remote_lid = 0xffff;
        "primary local port GID": [56 . 0; 128], |it| it.primary.local_gid = GID_ONES;
        "primary remote port GID": [72 . 0; 128], |it| it.primary.remote_gid = GID_ONES;
        "primary flow label": [88 . 0; 20], |it| it.primary.flow_label = 0x000f_ffff;
        "reserved": [90 . 4; 6], |it| it.primary.resv6 = 0x3f;
        "primary packet rate": [91 . 2; 6], |it| it.primary.packet_rate = 0x3f;
        "primary traffic class": [92 . 0; 8], |it| it.primary.traffic_class = 0xff;
        "primary hop limit": [93 . 0; 8], |it| it.primary.hop_limit = 0xff;
        "primary SL": [94 . 0; 4], |it| it.primary.sl = 15;
        "primary subnet local": [94 . 4; 1], |it| it.primary.subnet_local = true;
        "reserved": [94 . 5; 3], |it| it.primary.resv3_sl = 7;
        "primary local ACK timeout": [95 . 0; 5], |it| it.primary.local_ack_timeout = TIME_ONES;
        "reserved": [95 . 5; 3], |it| it.primary.resv3_timeout = 7;
        "alternate local port LID": [96 . 0; 16], |it| it.alternate.local_lid = 0xffff;
        "alternate remote port LID": [98 . 0; 16], |it| it.alternate.remote_lid = 0xffff;
        "alternate local port GID": [100 . 0; 128], |it| it.alternate.local_gid = GID_ONES;
        "alternate remote port GID": [116 . 0; 128], |it| it.alternate.remote_gid = GID_ONES;
        "alternate flow label": [132 . 0; 20], |it| it.alternate.flow_label = 0x000f_ffff;
        "reserved": [134 . 4; 6], |it| it.alternate.resv6 = 0x3f;
        "alternate packet rate": [135 . 2; 6], |it| it.alternate.packet_rate = 0x3f;
        "alternate traffic class": [136 . 0; 8], |it| it.alternate.traffic_class = 0xff;
        "alternate hop limit": [137 . 0; 8], |it| it.alternate.hop_limit = 0xff;
        "alternate SL": [138 . 0; 4], |it| it.alternate.sl = 15;
        "alternate subnet local": [138 . 4; 1], |it| it.alternate.subnet_local = true;
        "reserved": [138 . 5; 3], |it| it.alternate.resv3_sl = 7;
        "alternate local ACK timeout": [139 . 0; 5],
            |it| it.alternate.local_ack_timeout = TIME_ONES;
        "SAP supported": [139 . 5; 1], |it| it.sap_supported = true;
        "reserved": [139 . 6; 2], |it| it.alternate.resv3_timeout = 3;
        "private data": [140 . 0; 736], |it| it.private_data = &ONES[..92];
    };
    check(232, zero, fields, Req::parse, Req::emit);
}

#[test]
fn rep() {
    let fields = fields! {
        Rep<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "local Q_Key": [8 . 0; 32], |it| it.local_qkey = QKey(u32::MAX);
        "local QPN": [12 . 0; 24], |it| it.local_qpn = Qpn::new(u32::MAX);
        "vendor ID, H M L": [15 . 0; 8] [19 . 0; 8] [23 . 0; 8], |it| it.vendor_id = 0x00ff_ffff;
        "local EECN": [16 . 0; 24], |it| it.local_eecn = Eecn::new(u32::MAX);
        "starting PSN": [20 . 0; 24], |it| it.starting_psn = Psn::new(u32::MAX);
        "responder resources": [24 . 0; 8], |it| it.responder_resources = 0xff;
        "initiator depth": [25 . 0; 8], |it| it.initiator_depth = 0xff;
        "target ACK delay": [26 . 0; 5], |it| it.target_ack_delay = TIME_ONES;
        "failover accepted": [26 . 5; 2], |it| it.failover = Failover::Reserved;
        "end-to-end flow control": [26 . 7; 1], |it| it.end_to_end_flow_control = true;
        "RNR retry count": [27 . 0; 3], |it| it.rnr_retry_count = 7;
        "SRQ": [27 . 3; 1], |it| it.srq = true;
        "reserved": [27 . 4; 4], |it| it.resv4 = 15;
        "local CA GUID": [28 . 0; 64], |it| it.local_ca_guid = CaGuid(u64::MAX);
        "private data": [36 . 0; 1568], |it| it.private_data = &ONES[..196];
    };
    check(232, Rep::default(), fields, Rep::parse, Rep::emit);
}

/// All ones do not show the order of a field in pieces.
#[test]
fn vendor_ids_in_pieces() {
    let mut out = [0; 232];
    Rep { vendor_id: 0x0012_3456, ..Rep::default() }.emit(&mut out).unwrap();
    assert_eq!([out[15], out[19], out[23]], [0x12, 0x34, 0x56]);
    assert_eq!(Rep::parse(&out).unwrap().vendor_id, 0x0012_3456);
    let mut out = [0; 232];
    SidrRep { vendor_id: 0x0012_3456, ..SidrRep::default() }.emit(&mut out).unwrap();
    assert_eq!([out[6], out[7], out[11]], [0x12, 0x34, 0x56]);
    assert_eq!(SidrRep::parse(&out).unwrap().vendor_id, 0x0012_3456);
}

#[test]
fn rtu_and_drep() {
    let fields = fields! {
        Rtu<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "private data": [8 . 0; 1792], |it| it.private_data = &ONES[..224];
    };
    check(232, Rtu::default(), fields, Rtu::parse, Rtu::emit);
    let fields = fields! {
        Drep<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "private data": [8 . 0; 1792], |it| it.private_data = &ONES[..224];
    };
    check(232, Drep::default(), fields, Drep::parse, Drep::emit);
}

#[test]
fn rej() {
    let fields = fields! {
        Rej<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "message rejected": [8 . 0; 2], |it| it.rejected = RejectedMessage::Reserved;
        "reserved": [8 . 2; 6], |it| it.resv6 = 0x3f;
        "reject info length": [9 . 0; 7], |it| it.ari_len = 0x7f;
        "reserved": [9 . 7; 1], |it| it.resv1 = true;
        "reason": [10 . 0; 16], |it| it.reason = RejReason(0xffff);
        "additional reject information": [12 . 0; 576], |it| it.ari = &ONES[..72];
        "private data": [84 . 0; 1184], |it| it.private_data = &ONES[..148];
    };
    check(232, Rej::default(), fields, Rej::parse, Rej::emit);
}

#[test]
fn mra() {
    let fields = fields! {
        Mra<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "message MRAed": [8 . 0; 2], |it| it.message = MraedMessage::Reserved;
        "reserved": [8 . 2; 6], |it| it.resv6 = 0x3f;
        "service timeout": [9 . 0; 5], |it| it.service_timeout = TIME_ONES;
        "reserved": [9 . 5; 3], |it| it.resv3 = 7;
        "private data": [10 . 0; 1776], |it| it.private_data = &ONES[..222];
    };
    check(232, Mra::default(), fields, Mra::parse, Mra::emit);
}

#[test]
fn dreq() {
    let fields = fields! {
        Dreq<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "remote QPN/EECN": [8 . 0; 24], |it| it.remote_qpn = Qpn::new(u32::MAX);
        "reserved": [11 . 0; 8], |it| it.resv8 = 0xff;
        "private data": [12 . 0; 1760], |it| it.private_data = &ONES[..220];
    };
    check(232, Dreq::default(), fields, Dreq::parse, Dreq::emit);
}

#[test]
fn lap() {
    let fields = fields! {
        Lap<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "reserved": [8 . 0; 32], |it| it.resv32_8 = u32::MAX;
        "remote QPN/EECN": [12 . 0; 24], |it| it.remote_qpn = Qpn::new(u32::MAX);
        "remote CM response timeout": [15 . 0; 5], |it| it.remote_cm_response_timeout = TIME_ONES;
        "reserved": [15 . 5; 3], |it| it.resv3 = 7;
        "reserved": [16 . 0; 32], |it| it.resv32_16 = u32::MAX;
        "alternate local port LID": [20 . 0; 16], |it| it.alternate.local_lid = 0xffff;
        "alternate remote port LID": [22 . 0; 16], |it| it.alternate.remote_lid = 0xffff;
        "alternate local port GID": [24 . 0; 128], |it| it.alternate.local_gid = GID_ONES;
        "alternate remote port GID": [40 . 0; 128], |it| it.alternate.remote_gid = GID_ONES;
        "alternate flow label": [56 . 0; 20], |it| it.alternate.flow_label = 0x000f_ffff;
        "reserved": [58 . 4; 4] [61 . 0; 2], |it| it.alternate.resv6 = 0x3f;
        "alternate traffic class": [59 . 0; 8], |it| it.alternate.traffic_class = 0xff;
        "alternate hop limit": [60 . 0; 8], |it| it.alternate.hop_limit = 0xff;
        "alternate packet rate": [61 . 2; 6], |it| it.alternate.packet_rate = 0x3f;
        "alternate SL": [62 . 0; 4], |it| it.alternate.sl = 15;
        "alternate subnet local": [62 . 4; 1], |it| it.alternate.subnet_local = true;
        "reserved": [62 . 5; 3], |it| it.alternate.resv3_sl = 7;
        "alternate local ACK timeout": [63 . 0; 5], |it| it.alternate.local_ack_timeout = TIME_ONES;
        "reserved": [63 . 5; 3], |it| it.alternate.resv3_timeout = 7;
        "private data": [64 . 0; 1344], |it| it.private_data = &ONES[..168];
    };
    check(232, Lap::default(), fields, Lap::parse, Lap::emit);
}

#[test]
fn apr() {
    let fields = fields! {
        Apr<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "additional information length": [8 . 0; 8], |it| it.info_len = 0xff;
        "AP status": [9 . 0; 8], |it| it.status = ApStatus(0xff);
        "reserved": [10 . 0; 16], |it| it.resv16 = 0xffff;
        "additional information": [12 . 0; 576], |it| it.info = &ONES[..72];
        "private data": [84 . 0; 1184], |it| it.private_data = &ONES[..148];
    };
    check(232, Apr::default(), fields, Apr::parse, Apr::emit);
}

#[test]
fn sap_and_spr() {
    let fields = fields! {
        Sap<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "the rest": [8 . 0; 1792], |it| it.body = &ONES[..224];
    };
    check(232, Sap::default(), fields, Sap::parse, Sap::emit);
    let fields = fields! {
        Spr<'static>;
        "local communication ID": [0 . 0; 32], |it| it.local_comm_id = ID_ONES;
        "remote communication ID": [4 . 0; 32], |it| it.remote_comm_id = ID_ONES;
        "the rest": [8 . 0; 1792], |it| it.body = &ONES[..224];
    };
    check(232, Spr::default(), fields, Spr::parse, Spr::emit);
}

#[test]
fn sidr_req() {
    let zero = SidrReq { pkey: PKey(0), ..SidrReq::default() };
    let fields = fields! {
        SidrReq<'static>;
        "request ID": [0 . 0; 32], |it| it.request_id = u32::MAX;
        "partition key": [4 . 0; 16], |it| it.pkey = PKey(0xffff);
        "reserved": [6 . 0; 16], |it| it.resv16 = 0xffff;
        "service ID": [8 . 0; 64], |it| it.service_id = ServiceId(u64::MAX);
        "private data": [16 . 0; 1728], |it| it.private_data = &ONES[..216];
    };
    check(232, zero, fields, SidrReq::parse, SidrReq::emit);
}

#[test]
fn sidr_rep() {
    let fields = fields! {
        SidrRep<'static>;
        "request ID": [0 . 0; 32], |it| it.request_id = u32::MAX;
        "status": [4 . 0; 8], |it| it.status = SidrStatus(0xff);
        "additional information length": [5 . 0; 8], |it| it.info_len = 0xff;
        "vendor ID, H L": [6 . 0; 16] [11 . 0; 8], |it| it.vendor_id = 0x00ff_ffff;
        "QPN": [8 . 0; 24], |it| it.qpn = Qpn::new(u32::MAX);
        "service ID": [12 . 0; 64], |it| it.service_id = ServiceId(u64::MAX);
        "Q_Key": [20 . 0; 32], |it| it.qkey = QKey(u32::MAX);
        "additional information": [24 . 0; 576], |it| it.info = &ONES[..72];
        "private data": [96 . 0; 1088], |it| it.private_data = &ONES[..136];
    };
    check(232, SidrRep::default(), fields, SidrRep::parse, SidrRep::emit);
}

#[test]
fn ip_cm_header() {
    let fields = fields! {
        IpCmHeader;
        "major version": [0 . 0; 4], |it| it.major_version = 15;
        "minor version": [0 . 4; 4], |it| it.minor_version = 15;
        "IP version": [1 . 0; 4], |it| it.ip_version = 15;
        "reserved": [1 . 4; 4], |it| it.resv4 = 15;
        "source port": [2 . 0; 16], |it| it.src_port = 0xffff;
        "source IP": [4 . 0; 128], |it| it.src = [0xff; 16];
        "destination IP": [20 . 0; 128], |it| it.dst = [0xff; 16];
    };
    check(36, IpCmHeader::default(), fields, IpCmHeader::parse, IpCmHeader::emit);
}

/// What is above a field's width does not run into its neighbours.
#[test]
fn wide_values_are_cut() {
    let wide = Req {
        retry_count: 0xf8,
        path_mtu_code: 0xf0,
        rnr_retry_count: 0xf8,
        max_cm_retries: 0xf0,
        extended_transport: 0xf8,
        vendor_id: 0xff00_0000,
        pkey: PKey(0),
        ..Req::default()
    };
    let mut out = [0xa5; 232];
    wide.emit(&mut out).unwrap();
    assert_eq!(out, [0; 232]);
    let mut wide = Lap { resv3: 0xf8, ..Lap::default() };
    wide.alternate.sl = 0xf0;
    wide.alternate.packet_rate = 0xc0;
    wide.alternate.flow_label = 0xfff0_0000;
    wide.alternate.resv6 = 0xc0;
    wide.alternate.resv3_sl = 0xf8;
    wide.alternate.resv3_timeout = 0xf8;
    let mut out = [0xa5; 232];
    wide.emit(&mut out).unwrap();
    assert_eq!(out, [0; 232]);
    let mut wide = ClassPortInfo { capability_mask_2: 0xf800_0000, ..ClassPortInfo::default() };
    wide.redirect.pkey = PKey(0);
    wide.trap.pkey = PKey(0);
    wide.redirect.sl = 0xf0;
    wide.trap.flow_label = 0xfff0_0000;
    let mut out = [0xa5; 72];
    wide.emit(&mut out).unwrap();
    assert_eq!(out, [0; 72]);
    let wide = IpCmHeader { minor_version: 0xf0, resv4: 0xf0, ..IpCmHeader::default() };
    let mut out = [0xa5; 36];
    wide.emit(&mut out).unwrap();
    assert_eq!(out, [0; 36]);
}
