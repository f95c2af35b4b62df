//! Management datagrams: the common header, and ClassPortInfo.

use roce_codec::cm::{AttributeId, ClassPortInfo, Method};

use super::value::{id, named, number};
use super::{Field, Kind, Row, Shown, Value};

pub(super) static HEADER: &[Field] = &[
    Field::new("infiniband.mad.baseversion", "Base version", Kind::Number, |row| {
        Some(number(row.mad()?.header.base_version))
    }),
    Field::new("infiniband.mad.mgmtclass", "Class", Kind::Named, |row| {
        let class = row.mad()?.header.class;
        Some(named(class.0, class))
    }),
    Field::new("infiniband.mad.classversion", "Class version", Kind::Number, |row| {
        Some(number(row.mad()?.header.class_version))
    }),
    Field::new("infiniband.mad.method", "Method", Kind::Named, |row| {
        let method = row.mad()?.header.method;
        Some(named(method.0, method))
    }),
    Field::new("infiniband.mad.status", "Status", Kind::Number, |row| {
        Some(id(row.mad()?.header.status.into(), 4))
    }),
    Field::new("infiniband.mad.classspecific", "Class specific", Kind::Number, |row| {
        Some(id(row.mad()?.header.class_specific.into(), 4))
    }),
    Field::new("infiniband.mad.transactionid", "Transaction ID", Kind::Key, |row| {
        Some(Value::Key(row.mad()?.header.transaction_id, 16))
    }),
    Field::new("infiniband.mad.attributeid", "Attribute ID", Kind::Named, |row| {
        let attribute = row.mad()?.header.attribute;
        // Of another class, the same number is another attribute.
        match attribute.name() {
            Some(name) if row.mad()?.is_cm() => Some(named(attribute.0, name)),
            _ => Some(id(attribute.0.into(), 4)),
        }
    }),
    Field::new("infiniband.mad.attributemodifier", "Attribute modifier", Kind::Number, |row| {
        Some(id(row.mad()?.header.attribute_modifier, 8))
    }),
    Field::new("cm", "Message in short", Kind::Text, |row| {
        if let Some(message) = row.cm() {
            return Some(Value::Text(format!("CM {message}").into()));
        }
        let header = row.mad()?.header;
        let (class, method, attribute) = (header.class, header.method, header.attribute.0);
        Some(Value::Text(format!("MAD {class} {method} attribute {attribute:#06x}").into()))
    })
    .shown(Shown::Json),
    Field::new("cm.message", "Message", Kind::Text, |row| {
        Some(Value::Text(row.cm()?.attribute().name()?.into()))
    })
    .shown(Shown::Asked),
    Field::new("cm.local", "Local communication ID", Kind::Number, |row| {
        Some(id(row.cm()?.local_comm_id()?.0, 8))
    })
    .shown(Shown::Asked),
    Field::new("cm.remote", "Remote communication ID", Kind::Number, |row| {
        Some(id(row.cm()?.remote_comm_id()?.0, 8))
    })
    .shown(Shown::Asked),
];

/// The answer to a Get of ClassPortInfo, or a Set of it.
fn info(row: &Row<'_>) -> Option<ClassPortInfo> {
    let mad = row.mad()?;
    let header = mad.header;
    let carries = matches!(header.method, Method::GET_RESP | Method::SET);
    // Every class has it under this number.
    if !carries || header.attribute != AttributeId::CLASS_PORT_INFO {
        return None;
    }
    // The performance class keeps it behind 40 reserved bytes.
    let at = if header.class == roce_codec::cm::MgmtClass::PERF { 40 } else { 0 };
    ClassPortInfo::parse(mad.data.get(at..)?).ok()
}

macro_rules! info {
    ($name:literal, $label:literal, $kind:ident, $info:ident => $value:expr) => {
        Field::new(concat!("infiniband.classportinfo.", $name), $label, Kind::$kind, |row| {
            let $info = info(row)?;
            Some($value)
        })
    };
}

pub(super) static CLASS_PORT_INFO: &[Field] = &[
    info!("baseversion", "Base version", Number, info => number(info.base_version)),
    info!("classversion", "Class version", Number, info => number(info.class_version)),
    info!("capabilitymask", "Capability mask", Number, info => id(info.capability_mask.into(), 4)),
    info!("capabilitymask2", "Capability mask 2", Number, info => id(info.capability_mask_2, 7)),
    info!("resptimevalue", "Response time", Named, info =>
        named(info.response_time.code(), info.response_time)),
    info!("redirectgid", "Redirection: GID", Address, info => Value::Ip(info.redirect.gid.ip())),
    info!("redirecttc", "Redirection: traffic class", Number, info =>
        number(info.redirect.traffic_class)),
    info!("redirectsl", "Redirection: service level", Number, info => number(info.redirect.sl)),
    info!("redirectfl", "Redirection: flow label", Number, info =>
        id(info.redirect.flow_label, 5)),
    info!("redirectlid", "Redirection: LID", Number, info => number(info.redirect.lid)),
    info!("redirectpkey", "Redirection: partition key", Number, info =>
        id(info.redirect.pkey.0.into(), 4)),
    info!("redirectqp", "Redirection: queue pair", Number, info =>
        id(info.redirect.qpn.get(), 6)),
    info!("redirectqkey", "Redirection: queue key", Key, info =>
        Value::Key(info.redirect.qkey.0.into(), 8)),
    info!("trapgid", "Traps: GID", Address, info => Value::Ip(info.trap.gid.ip())),
    info!("traptc", "Traps: traffic class", Number, info => number(info.trap.traffic_class)),
    info!("trapsl", "Traps: service level", Number, info => number(info.trap.sl)),
    info!("trapfl", "Traps: flow label", Number, info => id(info.trap.flow_label, 5)),
    info!("traplid", "Traps: LID", Number, info => number(info.trap.lid)),
    info!("trappkey", "Traps: partition key", Number, info => id(info.trap.pkey.0.into(), 4)),
    info!("traphl", "Traps: hop limit", Number, info => number(info.trap.hop_limit)),
    info!("trapqp", "Traps: queue pair", Number, info => id(info.trap.qpn.get(), 6)),
    info!("trapqkey", "Traps: queue key", Key, info => Value::Key(info.trap.qkey.0.into(), 8)),
];
