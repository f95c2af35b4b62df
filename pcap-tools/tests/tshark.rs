//! tshark as an independent witness of what `decode --format jsonl` says.

use std::path::{Path, PathBuf};
use std::process::Command;

use roce_pcap::capture::{Direction, PcapngWriter, Reader};
use roce_pcap::decode::{Decoder, Style};
use serde_json::Value;

/// Fields compared, under the one name both have for them.
const FIELDS: [&str; 28] = [
    "frame.number",
    "frame.len",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "ip.ttl",
    "ip.dsfield.dscp",
    "ip.dsfield.ecn",
    "udp.srcport",
    "infiniband.bth.opcode",
    "infiniband.bth.se",
    "infiniband.bth.m",
    "infiniband.bth.padcnt",
    "infiniband.bth.tver",
    "infiniband.bth.p_key",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.msn",
    "infiniband.deth.srcqp",
    "infiniband.mad.mgmtclass",
    "infiniband.mad.attributeid",
    "infiniband.invariant.crc",
];

/// More that both know, but that tshark writes in another way.
const OTHER_FIELDS: [&str; 6] = [
    "infiniband.deth.q_key",
    "infiniband.atomiceth.swapdt",
    "infiniband.atomiceth.cmpdt",
    "infiniband.atomicacketh.origremdt",
    "infiniband.immdt",
    "infiniband.ieth",
];

/// Every field of management datagrams that tshark has too, by the name that both use.
fn management_fields() -> impl Iterator<Item = &'static str> {
    const MESSAGES: [&str; 6] = ["req", "rep", "rtu", "rej", "dreq", "drsp"];
    // Those it does not have, and those that it shows in another form: an alternate path's GIDs as
    // bytes.
    const OURS: [&str; 5] = ["vendorid", "service", "sap", "alt_localgid", "alt_remotegid"];
    // It looks for these in the two bytes before them (tshark 4.0).
    const MISREAD: [&str; 2] = ["flowlabel", "pktrate"];
    roce_pcap::field::all().map(|field| field.name).filter(|name| {
        let mut parts = name.strip_prefix("infiniband.").unwrap_or("").splitn(3, '.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("mad"), Some(_), None) => true,
            (Some("cm"), Some(message), None) => MESSAGES[..2].contains(&message),
            (Some("cm"), Some(message), Some(field)) => {
                let field = field.trim_end_matches("_ipv4");
                let misread = MISREAD.iter().any(|name| field.ends_with(name));
                MESSAGES.contains(&message) && !OURS.contains(&field) && !misread
            }
            _ => false,
        }
    })
}

fn tshark(file: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-T", "fields", "-E", "separator=|"]);
    command.args(["-E", "occurrence=f"]);
    // Its guesses at what RDMA carries stumble over short payloads, before they reach the ICRC.
    command.args(["--disable-protocol", "rpcordma", "--disable-protocol", "nvme-rdma"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("passed over: tshark does not run here: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

fn ours(file: &Path) -> Vec<Value> {
    let mut reader = Reader::open(file).unwrap();
    let mut decoder = Decoder::new(Style::JsonLines, true);
    let mut out = Vec::new();
    while let Some(packet) = reader.next_packet() {
        decoder.packet(&packet.unwrap(), &mut out).unwrap();
    }
    out.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// A value as both may write it: a number in any base, or text as it is.
fn plain(text: &str) -> String {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let radix = if digits.len() < text.len() { 16 } else { 10 };
    match u64::from_str_radix(digits, radix) {
        Ok(number) => number.to_string(),
        Err(_) => text.to_owned(),
    }
}

fn our_field(packet: &Value, field: &str) -> String {
    match &packet[field] {
        Value::Null => String::new(),
        Value::Bool(set) => u8::from(*set).to_string(),
        Value::String(text) => plain(text),
        number => number.to_string(),
    }
}

/// What tshark 4.0 is known to get wrong or not to know.
fn is_known_fault(packet: &Value, field: &str) -> bool {
    let opcode = packet["infiniband.bth.opcode"].as_u64();
    // FLUSH, ATOMIC WRITE and the CNP: it knows no header behind their BTH, nor the ICRC.
    let unknown_opcode = matches!(opcode, Some(0x1c | 0x1d | 0x81))
        && !field.starts_with("infiniband.bth")
        && field.starts_with("infiniband");
    // A source port that belongs to another protocol decides before the destination port does.
    let taken_for_tftp = packet["udp.srcport"] == 69 && field.starts_with("infiniband");
    unknown_opcode || taken_for_tftp
}

fn compare(file: &Path) -> Option<usize> {
    let mut fields: Vec<_> = FIELDS.iter().chain(&OTHER_FIELDS).copied().collect();
    for field in management_fields() {
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    let theirs = tshark(file, &fields)?;
    let ours = ours(file);
    assert_eq!(ours.len(), theirs.len(), "{}", file.display());
    let mut compared = 0;
    for (packet, values) in ours.iter().zip(&theirs) {
        if packet["error"].is_string() {
            continue;
        }
        for (field, value) in fields.iter().zip(values) {
            // It shows private data with an IP CM header in that header's fields alone, and takes no
            // SIDR_REQ (0x17) apart.
            let is_sidr = packet["infiniband.mad.attributeid"] == 0x17;
            let is_not_shown = match *field {
                "infiniband.cm.req.private" => true,
                field => is_sidr && field.starts_with("infiniband.cm.req.ip_cm"),
            };
            if value.is_empty() && is_not_shown || is_known_fault(packet, field) {
                continue;
            }
            // Immediate data and keys come as bare hexadecimal.
            let bare = matches!(*field, "infiniband.immdt" | "infiniband.ieth");
            let value = match bare && !value.is_empty() {
                true => plain(&format!("0x{value}")),
                false => plain(value),
            };
            let number = &packet["frame.number"];
            let (ours, value) = (our_field(packet, field), value);
            // Bytes end there where a line of the terminal does.
            if let Some(shown) = value.strip_suffix('…') {
                assert!(ours.starts_with(shown), "{} {number} {field}", file.display());
                continue;
            }
            assert_eq!(ours, value, "{} {number} {field}", file.display());
            compared += usize::from(!value.is_empty());
        }
    }
    Some(compared)
}

fn captures(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "pcap")).collect()
}

#[test]
fn every_field_of_every_capture_is_what_tshark_says() {
    let mut compared = 0;
    for path in
        captures("../tests/captures").iter().chain(&captures("../../shared/public-captures"))
    {
        match compare(path) {
            Some(fields) => compared += fields,
            None => return,
        }
    }
    assert!(compared > 100_000, "{compared} fields");
}

/// What our writer writes is a file that tshark reads as RoCEv2, times and directions included.
#[test]
fn tshark_reads_what_is_written() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures/rxe-atomic.pcap");
    let path = std::env::temp_dir().join(format!("roce-pcap-{}.pcapng", std::process::id()));
    let mut writer =
        PcapngWriter::with_interface(std::fs::File::create(&path).unwrap(), "veth0").unwrap();
    let mut reader = Reader::open(source).unwrap();
    let mut expected = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let time = packet.timestamp_ns.unwrap() + packet.number;
        let (direction, flags) = match packet.number % 2 {
            0 => (Direction::Inbound, "1"),
            _ => (Direction::Outbound, "2"),
        };
        let (head, tail) = packet.data.split_at(packet.data.len() / 2);
        writer.write_packet(time, direction, [head, tail]).unwrap();
        let seconds = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
        expected.push([seconds, flags.into(), "veth0".into(), "RRoCE".into(), String::new()]);
    }
    writer.flush().unwrap();
    drop(writer);
    let fields = [
        "frame.time_epoch",
        "frame.packet_flags_direction",
        "frame.interface_name",
        "_ws.col.Protocol",
        "_ws.malformed",
    ];
    let seen = tshark(&path, &fields);
    std::fs::remove_file(&path).unwrap();
    let Some(seen) = seen else { return };
    assert_eq!(seen.len(), expected.len());
    for (seen, expected) in seen.iter().zip(&expected) {
        let direction = u32::from_str_radix(seen[1].trim_start_matches("0x"), 16).unwrap();
        assert_eq!(direction.to_string(), expected[1]);
        assert_eq!((&seen[0], &seen[2..]), (&expected[0], &expected[2..]));
    }
}
