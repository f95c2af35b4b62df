//! All 256 opcodes, typed from the specification (IBTA Vol. 1, table 38; Annexes A14, A17, A19),
//! not from the code.

use roce_codec::ib::{
    Answer, HeaderKind, Opcode, OpcodeClass, OpcodeInfo, Operation, Position, Service,
};

/// Opcode, service, operation, position, extension headers in wire order (`-` for none), whether
/// payload may follow (`P`), and what answers it.
const TABLE: &str = "
00 Rc Send First - P Acknowledge
01 Rc Send Middle - P Acknowledge
02 Rc Send Last - P Acknowledge
03 Rc Send Last ImmDt P Acknowledge
04 Rc Send Only - P Acknowledge
05 Rc Send Only ImmDt P Acknowledge
06 Rc Write First RETH P Acknowledge
07 Rc Write Middle - P Acknowledge
08 Rc Write Last - P Acknowledge
09 Rc Write Last ImmDt P Acknowledge
0a Rc Write Only RETH P Acknowledge
0b Rc Write Only RETH,ImmDt P Acknowledge
0c Rc ReadRequest Only RETH - ReadResponse
0d Rc ReadResponse First AETH P None
0e Rc ReadResponse Middle - P None
0f Rc ReadResponse Last AETH P None
10 Rc ReadResponse Only AETH P None
11 Rc Acknowledge Only AETH - None
12 Rc AtomicAcknowledge Only AETH,AtomicAckETH - None
13 Rc CompareSwap Only AtomicETH - AtomicAcknowledge
14 Rc FetchAdd Only AtomicETH - AtomicAcknowledge
16 Rc Send Last IETH P Acknowledge
17 Rc Send Only IETH P Acknowledge
1c Rc Flush Only FETH,RETH - ReadResponse
1d Rc AtomicWrite Only RETH P ReadResponse
20 Uc Send First - P None
21 Uc Send Middle - P None
22 Uc Send Last - P None
23 Uc Send Last ImmDt P None
24 Uc Send Only - P None
25 Uc Send Only ImmDt P None
26 Uc Write First RETH P None
27 Uc Write Middle - P None
28 Uc Write Last - P None
29 Uc Write Last ImmDt P None
2a Uc Write Only RETH P None
2b Uc Write Only RETH,ImmDt P None
40 Rd Send First RDETH,DETH P Acknowledge
41 Rd Send Middle RDETH,DETH P Acknowledge
42 Rd Send Last RDETH,DETH P Acknowledge
43 Rd Send Last RDETH,DETH,ImmDt P Acknowledge
44 Rd Send Only RDETH,DETH P Acknowledge
45 Rd Send Only RDETH,DETH,ImmDt P Acknowledge
46 Rd Write First RDETH,DETH,RETH P Acknowledge
47 Rd Write Middle RDETH,DETH P Acknowledge
48 Rd Write Last RDETH,DETH P Acknowledge
49 Rd Write Last RDETH,DETH,ImmDt P Acknowledge
4a Rd Write Only RDETH,DETH,RETH P Acknowledge
4b Rd Write Only RDETH,DETH,RETH,ImmDt P Acknowledge
4c Rd ReadRequest Only RDETH,DETH,RETH - ReadResponse
4d Rd ReadResponse First RDETH,AETH P None
4e Rd ReadResponse Middle RDETH P None
4f Rd ReadResponse Last RDETH,AETH P None
50 Rd ReadResponse Only RDETH,AETH P None
51 Rd Acknowledge Only RDETH,AETH - None
52 Rd AtomicAcknowledge Only RDETH,AETH,AtomicAckETH - None
53 Rd CompareSwap Only RDETH,DETH,AtomicETH - AtomicAcknowledge
54 Rd FetchAdd Only RDETH,DETH,AtomicETH - AtomicAcknowledge
55 Rd Resync Only RDETH,DETH - Acknowledge
5c Rd Flush Only RDETH,DETH,FETH,RETH - ReadResponse
5d Rd AtomicWrite Only RDETH,DETH,RETH P ReadResponse
64 Ud Send Only DETH P None
65 Ud Send Only DETH,ImmDt P None
80 Cnp Cnp Only CNP_reserved_bytes - None
81 Cnp Cnp Only CNP_reserved_bytes - None
a0 Xrc Send First XRCETH P Acknowledge
a1 Xrc Send Middle XRCETH P Acknowledge
a2 Xrc Send Last XRCETH P Acknowledge
a3 Xrc Send Last XRCETH,ImmDt P Acknowledge
a4 Xrc Send Only XRCETH P Acknowledge
a5 Xrc Send Only XRCETH,ImmDt P Acknowledge
a6 Xrc Write First XRCETH,RETH P Acknowledge
a7 Xrc Write Middle XRCETH P Acknowledge
a8 Xrc Write Last XRCETH P Acknowledge
a9 Xrc Write Last XRCETH,ImmDt P Acknowledge
aa Xrc Write Only XRCETH,RETH P Acknowledge
ab Xrc Write Only XRCETH,RETH,ImmDt P Acknowledge
ac Xrc ReadRequest Only XRCETH,RETH - ReadResponse
ad Xrc ReadResponse First AETH P None
ae Xrc ReadResponse Middle - P None
af Xrc ReadResponse Last AETH P None
b0 Xrc ReadResponse Only AETH P None
b1 Xrc Acknowledge Only AETH - None
b2 Xrc AtomicAcknowledge Only AETH,AtomicAckETH - None
b3 Xrc CompareSwap Only XRCETH,AtomicETH - AtomicAcknowledge
b4 Xrc FetchAdd Only XRCETH,AtomicETH - AtomicAcknowledge
b6 Xrc Send Last XRCETH,IETH P Acknowledge
b7 Xrc Send Only XRCETH,IETH P Acknowledge
bc Xrc Flush Only XRCETH,FETH,RETH - ReadResponse
bd Xrc AtomicWrite Only XRCETH,RETH P ReadResponse
";

/// Bytes of each header, from its definition.
const LENGTHS: [(&str, usize); 11] = [
    ("RDETH", 4),
    ("DETH", 8),
    ("XRCETH", 4),
    ("FETH", 4),
    ("RETH", 16),
    ("AtomicETH", 28),
    ("AETH", 4),
    ("AtomicAckETH", 8),
    ("ImmDt", 4),
    ("IETH", 4),
    ("CNP_reserved_bytes", 16),
];

/// A row as the table above writes it.
fn row(opcode: u8, info: &OpcodeInfo) -> String {
    let headers: Vec<String> =
        info.headers.iter().map(|kind| kind.to_string().replace(' ', "_")).collect();
    format!(
        "{opcode:02x} {:?} {:?} {:?} {} {} {:?}",
        info.service,
        info.operation,
        info.position,
        if headers.is_empty() { "-".into() } else { headers.join(",") },
        if info.payload { "P" } else { "-" },
        info.answer(),
    )
}

#[test]
fn every_known_opcode() {
    let mut known = 0;
    for expected in TABLE.lines().filter(|line| !line.is_empty()) {
        let opcode = u8::from_str_radix(&expected[..2], 16).unwrap();
        let info = Opcode(opcode).info();
        assert_eq!(row(opcode, info), expected);
        assert_eq!(info.class, OpcodeClass::Known, "{expected}");
        let len: usize = expected
            .split(' ')
            .nth(4)
            .unwrap()
            .split(',')
            .filter(|name| *name != "-")
            .map(|name| LENGTHS.iter().find(|length| length.0 == name).unwrap().1)
            .sum();
        assert_eq!((info.headers.len(), usize::from(info.headers_len)), (len, len), "{expected}");
        assert_eq!(info.has_immediate(), expected.contains("ImmDt"), "{expected}");
        known += 1;
    }
    // RC and XRC 25 each, UC 12, RD 24, UD 2, CNP 2.
    assert_eq!(known, 90);
}

#[test]
fn every_other_opcode() {
    let known: Vec<u8> = TABLE
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| u8::from_str_radix(&line[..2], 16).unwrap())
        .collect();
    let mut others = [0, 0];
    for opcode in (0..=255).filter(|opcode| !known.contains(opcode)) {
        let info = Opcode(opcode).info();
        let manufacturer = opcode >= 0xc0;
        others[usize::from(manufacturer)] += 1;
        let class = if manufacturer { OpcodeClass::Manufacturer } else { OpcodeClass::Reserved };
        assert_eq!(info.class, class, "{opcode:#04x}");
        assert_eq!((info.operation, info.answer()), (Operation::Other, Answer::None));
        // Whatever lies behind the BTH is payload: nothing is measured by a header of no length.
        assert!(info.headers.is_empty() && info.headers_len == 0 && info.payload);
        assert!(!info.is_request() && !info.is_response());
        assert_eq!(Opcode(opcode).name(), None);
        assert_eq!(Opcode(opcode).to_string(), format!("opcode {opcode:#04x}"));
    }
    assert_eq!(others, [256 - 64 - 90, 64]);
}

/// The three upper bits are a number, whatever the lower five say.
#[test]
fn the_service_of_every_opcode() {
    const SERVICES: [Service; 8] = [
        Service::Rc,
        Service::Uc,
        Service::Rd,
        Service::Ud,
        Service::Cnp,
        Service::Xrc,
        Service::Other,
        Service::Other,
    ];
    for (high, service) in SERVICES.into_iter().enumerate() {
        for low in 0..32 {
            let opcode = Opcode(u8::try_from(high * 32 + low).unwrap());
            assert_eq!(opcode.info().service, service, "{opcode}");
        }
    }
}

/// A request has an answer exactly if its service is reliable; nothing else has one.
#[test]
fn who_answers() {
    for opcode in (0..=255).map(Opcode) {
        let info = opcode.info();
        let reliable = matches!(info.service, Service::Rc | Service::Rd | Service::Xrc);
        assert_eq!(info.answer() != Answer::None, info.is_request() && reliable, "{opcode}");
    }
}

/// From the facts: what is reserved, and what is not where one might look for it.
#[test]
fn opcodes_that_are_easily_mistaken() {
    let class = |opcode| Opcode(opcode).info().class;
    // RESYNC is RD's alone.
    assert_eq!((class(0x15), class(0xb5)), (OpcodeClass::Reserved, OpcodeClass::Reserved));
    assert_eq!(Opcode(0x55), Opcode::RD_RESYNC);
    // Two CNPs: InfiniBand's and RoCEv2's.
    assert_eq!((Opcode(0x80), Opcode(0x81)), (Opcode::IB_CNP, Opcode::CNP));
    assert_eq!(
        [0x1c, 0x5c, 0xbc].map(Opcode),
        [Opcode::RC_FLUSH, Opcode::RD_FLUSH, Opcode::XRC_FLUSH]
    );
    assert_eq!(
        [0x1d, 0x5d, 0xbd].map(Opcode),
        [Opcode::RC_ATOMIC_WRITE, Opcode::RD_ATOMIC_WRITE, Opcode::XRC_ATOMIC_WRITE]
    );
    // UC has no READ, atomic, invalidate, FLUSH or ATOMIC WRITE; UD only SEND.
    for low in 0x0c..0x20 {
        assert_eq!(class(0x20 | low), OpcodeClass::Reserved, "{low:#x}");
    }
    assert!((0xc0..=0xff).all(|opcode| class(opcode) == OpcodeClass::Manufacturer));
    // FETH before RETH.
    let flush = Opcode::RC_FLUSH.info().headers;
    assert_eq!(flush.offset_of(HeaderKind::Feth), Some(0));
    assert_eq!(flush.offset_of(HeaderKind::Reth), Some(4));
    assert_eq!(Opcode::RC_FLUSH.info().position, Position::Only);
}
