//! A conversation made by hand: CM messages and SENDs in a capture, decoded here and by tshark.

use std::path::{Path, PathBuf};
use std::process::Command;

use roce_codec::cm::{
    CommunicationId, IpCmHeader, MAD_LEN, Message, PortSpace, RdmaCmServiceId, Rej, RejReason, Rep,
    Req,
};
use roce_codec::ib::{Bth, Deth, ExtHeaders, Opcode, Psn, QKey, Qpn};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr};
use roce_codec::{Crc, FrameBuilder};
use roce_pcap::capture::{Direction, PcapngWriter, Reader};
use roce_pcap::decode::{Decoder, Style};
use serde_json::Value;

pub(crate) const CLIENT: [u8; 4] = [192, 0, 2, 1];
pub(crate) const SERVER: [u8; 4] = [192, 0, 2, 2];
/// The client's queue pair and the server's.
pub(crate) const QPS: [u32; 2] = [0x21, 0x52];
/// The PSNs that client and server begin to send with.
pub(crate) const FIRST_PSNS: [u32; 2] = [0x100, 0xfff000];

/// Which side sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Server,
}

/// A packet of a side.
pub(crate) fn frame(from: From, bth: Bth, ext: ExtHeaders, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = match from {
        From::Client => (CLIENT, SERVER),
        From::Server => (SERVER, CLIENT),
    };
    let mac = |host: [u8; 4]| MacAddr([2, 0, 0, 0, 0, host[3]]);
    let ethernet = Ethernet::new(mac(dst), mac(src), EtherType::IPV4);
    let ip = Ip::V4(Ipv4::new(src.into(), dst.into()));
    let mut builder = FrameBuilder::new(Some(ethernet), ip, 0xc123, bth);
    builder.ext = ext;
    builder.set_payload_len(payload.len()).unwrap();
    let mut out = vec![0; 128 + payload.len()];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    out.truncate(len);
    out
}

/// A message of the connection manager.
pub(crate) fn mad(from: From, message: &Message<'_>) -> Vec<u8> {
    let mut bytes = [0; MAD_LEN];
    message.emit(0x77, &mut bytes).unwrap();
    let deth = Deth { qkey: QKey::GSI, resv8: 0, src_qp: Qpn::GSI };
    let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(0));
    frame(from, bth, ExtHeaders { deth: Some(deth), ..ExtHeaders::NONE }, &bytes)
}

/// A REQ for a TCP port, with private data of the consumer.
pub(crate) fn req(port: u16, consumer: &[u8]) -> Vec<u8> {
    let service = RdmaCmServiceId { port_space: PortSpace::TCP, port };
    let mut private = [0; Req::PRIVATE_DATA_LEN];
    IpCmHeader::v4(CLIENT.into(), 40_000, SERVER.into()).emit(&mut private).unwrap();
    private[IpCmHeader::LEN..][..consumer.len()].copy_from_slice(consumer);
    mad(
        From::Client,
        &Message::Req(Req {
            local_comm_id: CommunicationId(1),
            service_id: service.into(),
            local_qpn: Qpn::new(QPS[0]),
            starting_psn: Psn::new(FIRST_PSNS[1]),
            path_mtu_code: 5,
            primary: roce_codec::cm::Path {
                local_gid: std::net::Ipv4Addr::from(CLIENT).into(),
                remote_gid: std::net::Ipv4Addr::from(SERVER).into(),
                ..roce_codec::cm::Path::NONE
            },
            private_data: &private,
            ..Req::default()
        }),
    )
}

/// The REP to it.
pub(crate) fn rep(private_data: &[u8]) -> Vec<u8> {
    mad(
        From::Server,
        &Message::Rep(Rep {
            local_comm_id: CommunicationId(2),
            remote_comm_id: CommunicationId(1),
            local_qpn: Qpn::new(QPS[1]),
            starting_psn: Psn::new(FIRST_PSNS[0]),
            private_data,
            ..Rep::default()
        }),
    )
}

/// The consumer's REJ to it.
pub(crate) fn rej(private_data: &[u8]) -> Vec<u8> {
    mad(
        From::Server,
        &Message::Rej(Rej {
            remote_comm_id: CommunicationId(1),
            reason: RejReason::CONSUMER_REJECT,
            private_data,
            ..Rej::default()
        }),
    )
}

/// The n-th SEND of a side.
pub(crate) fn send(from: From, n: u32, payload: &[u8]) -> Vec<u8> {
    let side = usize::from(from == From::Server);
    let psn = Psn::new(FIRST_PSNS[side]).add(n);
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(QPS[1 - side]), psn);
    frame(from, Bth { ack_req: true, ..bth }, ExtHeaders::NONE, payload)
}

/// What `decode --format jsonl` says of them.
pub(crate) fn decode(packets: &[Vec<u8>]) -> Vec<Value> {
    decode_file(Reader::new(capture(packets).as_slice()).unwrap())
}

pub(crate) fn decode_file<R: std::io::Read>(mut reader: Reader<R>) -> Vec<Value> {
    let mut decoder = Decoder::new(Style::JsonLines, true);
    let mut out = Vec::new();
    while let Some(packet) = reader.next_packet() {
        decoder.packet(&packet.unwrap(), &mut out).unwrap();
    }
    let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    for packet in packets {
        writer.write_packet(0, Direction::Inbound, [packet, &[]]).unwrap();
    }
    writer.into_inner().unwrap()
}

/// Holds what is said here to what tshark says, field by field, of every packet it has the field
/// of. `None` if it does not run here, otherwise how many values were compared.
pub(crate) fn compare(name: &str, packets: &[Vec<u8>], fields: &[&str]) -> Option<usize> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("upper-{name}.pcapng"));
    std::fs::write(&path, capture(packets)).unwrap();
    compare_file(&path, fields)
}

pub(crate) fn compare_file(path: &Path, fields: &[&str]) -> Option<usize> {
    let ours = decode_file(Reader::open(path).unwrap());
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-T", "fields", "-E", "separator=|"]);
    command.args(["-E", "occurrence=f"]);
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
    let mut compared = 0;
    for (packet, line) in ours.iter().zip(text.lines()) {
        for (field, theirs) in fields.iter().zip(line.split('|')) {
            // A steering tag that is not valid is shown there all the same, as the zero it is.
            let is_invalid_tag = field.starts_with("iser.") && packet[*field].is_null();
            let is_absent = theirs.is_empty() || is_invalid_tag && plain(theirs) == "0";
            if !is_absent {
                let number = &packet["frame.number"];
                assert_eq!(plain_json(&packet[*field]), plain(theirs), "{number} {field}");
                compared += 1;
            }
        }
    }
    Some(compared)
}

/// A value as both may write it: a number in any base, a flag as 0 or 1, or text as it is.
fn plain(text: &str) -> String {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let radix = if digits.len() < text.len() { 16 } else { 10 };
    match u64::from_str_radix(digits, radix) {
        Ok(number) => number.to_string(),
        Err(_) => text.to_owned(),
    }
}

fn plain_json(value: &Value) -> String {
    match value {
        Value::Bool(set) => u8::from(*set).to_string(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

pub(crate) fn real(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/captures/{name}.pcap"))
}
