//! The JSON Schema of the figures.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::measure::measures;

/// Writes the schema of what `stats` writes: of the object of `--format json`, and of each line of
/// `--format jsonl`, which has the same rows and says which table each is of.
///
/// # Errors
/// What `out` says.
pub fn write_schema(out: &mut dyn Write) -> io::Result<()> {
    let names = ["total", "host", "flow", "loss", "pause", "interval"];
    let mut any = vec![json!({"$ref": "#/$defs/document"})];
    let mut defs = Map::new();
    for name in names {
        let mut line = row(name);
        line.insert("table".into(), json!({"const": name}));
        line.insert("file".into(), json!({"type": "string"}));
        defs.insert(name.into(), object(&row(name)));
        defs.insert(format!("{name}_line"), object(&line));
        any.push(json!({"$ref": format!("#/$defs/{name}_line")}));
    }
    defs.insert("document".into(), object(&document()));
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What roce-pcap stats writes as json, or as a line of jsonl",
        "oneOf": any,
        "$defs": defs,
    });
    serde_json::to_writer_pretty(&mut *out, &schema)?;
    out.write_all(b"\n")
}

fn document() -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("file".into(), json!({"type": "string"}));
    fields.insert("total".into(), json!({"$ref": "#/$defs/total"}));
    let tables = [("hosts", "host"), ("flows", "flow"), ("losses", "loss"), ("pauses", "pause")];
    for (name, of) in tables.into_iter().chain([("intervals", "interval")]) {
        let rows = json!({"type": "array", "items": {"$ref": format!("#/$defs/{of}")}});
        fields.insert(name.into(), rows);
    }
    fields
}

/// Its fields are all there are. Those that a row may lack are `other_flows`, which stands in the
/// sum of the flows that there was no room for, and what such a sum cannot have.
fn object(fields: &Map<String, Value>) -> Value {
    let of_one_flow = ["src", "dst", "dest_qp", "src_qp", "dcqcn_rate_bps"];
    let is_sum_possible = fields.contains_key("other_flows");
    let required: Vec<_> = fields
        .keys()
        .filter(|name| name.as_str() != "other_flows")
        .filter(|name| !(is_sum_possible && of_one_flow.contains(&name.as_str())))
        .cloned()
        .collect();
    json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": fields,
    })
}

/// What a value is.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    /// A count, or `null` where it is not known.
    MaybeCount,
    Text,
    /// A number that need not be whole, such as seconds since 1970, or `null`.
    MaybeNumber,
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Count => json!({"type": "integer", "minimum": 0}),
            Self::MaybeCount => json!({"type": ["integer", "null"], "minimum": 0}),
            Self::Text => json!({"type": "string"}),
            Self::MaybeNumber => json!({"type": ["number", "null"]}),
        }
    }
}

const FLOW: [(&str, Kind); 3] =
    [("src", Kind::Text), ("dst", Kind::Text), ("dest_qp", Kind::Count)];

fn row(name: &str) -> Map<String, Value> {
    use Kind::{Count, MaybeCount, MaybeNumber, Text};
    let own: &[(&str, Kind)] = match name {
        "total" => {
            &[("capture_packets", Count), ("link_bps", MaybeCount), ("losses_dropped", Count)]
        }
        "host" => &[("host", Text), ("received_packets", Count), ("received_wire_bytes", Count)],
        "flow" => &[("src_qp", MaybeCount), ("dcqcn_rate_bps", MaybeCount), ("other_flows", Count)],
        "loss" => &[
            ("cause", Text),
            ("psn", Count),
            ("stalled", MaybeNumber),
            ("detected", MaybeNumber),
            ("detected_packet", Count),
            ("resent", MaybeNumber),
            ("resent_packet", MaybeCount),
            ("recovered", MaybeNumber),
            ("recovered_packet", MaybeCount),
            ("recovery_ns", MaybeCount),
            ("packets_resent", Count),
            ("rounds", Count),
        ],
        "pause" => &[
            ("priority", MaybeCount),
            ("frames", Count),
            ("resumes", Count),
            ("quanta", Count),
            ("paused_ns", MaybeCount),
        ],
        _ => &[
            ("since_start_ns", Count),
            ("width_ns", Count),
            ("sent_bps", Count),
            ("dcqcn_bps", MaybeCount),
            ("dcqcn_alpha", MaybeNumber),
            ("ce_packets", Count),
            ("cnp_packets", Count),
        ],
    };
    let of_flow = matches!(name, "flow" | "loss" | "interval");
    let flow = FLOW.iter().filter(|_| of_flow);
    let mut fields: Map<String, Value> =
        flow.chain(own).map(|(name, kind)| ((*name).to_owned(), kind.schema())).collect();
    if name == "pause" {
        fields.insert("src".into(), json!({"type": ["string", "null"]}));
    }
    if matches!(name, "total" | "host" | "flow") {
        fields.extend(measures().map(|(name, _)| ((*name).to_owned(), MaybeCount.schema())));
    }
    fields
}
