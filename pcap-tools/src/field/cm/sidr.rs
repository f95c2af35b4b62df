//! SIDR_REQ and SIDR_REP.

use super::{field, private, service_name};
use crate::field::value::{id, named, number};
use crate::field::{Field, Kind, Value};

pub(in crate::field) static SIDR_REQ: &[Field] = &[
    field!(SidrReq: "infiniband.cm.sidr_req.requestid", "Request ID", Number, m =>
        id(m.request_id, 8)),
    field!(SidrReq: "infiniband.cm.sidr_req.pkey", "Partition key", Number, m =>
        id(m.pkey.0.into(), 4)),
    field!(SidrReq: "infiniband.cm.sidr_req.serviceid", "Service ID", Key, m =>
        Value::Key(m.service_id.0, 16)),
    Field::new("infiniband.cm.sidr_req.service", "Service", Kind::Text, |row| match row.cm()? {
        roce_codec::cm::Message::SidrReq(req) => service_name(req.service_id),
        _ => None,
    }),
    field!(SidrReq: "infiniband.cm.sidr_req.private", "Private data", Bytes, m =>
        private(m.private_data)),
];

pub(in crate::field) static SIDR_REP: &[Field] = &[
    field!(SidrRep: "infiniband.cm.sidr_rep.requestid", "Request ID", Number, m =>
        id(m.request_id, 8)),
    field!(SidrRep: "infiniband.cm.sidr_rep.status", "Status", Named, m =>
        named(m.status.0, m.status)),
    field!(SidrRep: "infiniband.cm.sidr_rep.infolen", "Length of the information", Number, m =>
        number(m.info_len)),
    field!(SidrRep: "infiniband.cm.sidr_rep.vendorid", "Vendor ID", Number, m =>
        id(m.vendor_id, 6)),
    field!(SidrRep: "infiniband.cm.sidr_rep.qpn", "Queue pair", Number, m => id(m.qpn.get(), 6)),
    field!(SidrRep: "infiniband.cm.sidr_rep.serviceid", "Service ID", Key, m =>
        Value::Key(m.service_id.0, 16)),
    field!(SidrRep: "infiniband.cm.sidr_rep.qkey", "Queue key", Key, m =>
        Value::Key(m.qkey.0.into(), 8)),
    field!(SidrRep: "infiniband.cm.sidr_rep.info", "Additional information", Bytes, m =>
        Value::Bytes(m.info_bytes())),
    field!(SidrRep: "infiniband.cm.sidr_rep.private", "Private data", Bytes, m =>
        private(m.private_data)),
];
