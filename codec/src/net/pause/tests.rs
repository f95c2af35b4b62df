use super::*;

const SRC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0a]);

/// `0180c2000001`, the source, EtherType and opcode, then `parameters`, then zeroes.
fn frame(opcode: u16, parameters: &[u8]) -> [u8; 60] {
    let mut bytes = [0; 60];
    bytes[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    bytes[6..12].copy_from_slice(&SRC.0);
    bytes[12..14].copy_from_slice(&[0x88, 0x08]);
    bytes[14..16].copy_from_slice(&opcode.to_be_bytes());
    bytes[16..16 + parameters.len()].copy_from_slice(parameters);
    bytes
}

/// Priorities 0 and 5 paused for 0x4321 and 0x1234 quanta.
const PFC: [u8; 18] = [0x00, 0x21, 0x43, 0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 0];

#[test]
fn pfc_as_published() {
    let pfc = Pfc::new(SRC).with(0, PauseQuanta(0x4321)).with(5, PauseQuanta(0x1234));
    let mut out = [0xa5; 61];
    assert_eq!(pfc.emit(&mut out), Ok(60));
    assert_eq!(out[..60], frame(0x0101, &PFC));
    assert_eq!(out[60], 0xa5);
    assert_eq!(Pfc::parse(&out), Ok(pfc));
    assert_eq!(MacControl::parse(&out), Ok(MacControl::Pfc(pfc)));
    assert!(pfc.enabled().eq([(0, PauseQuanta(0x4321)), (5, PauseQuanta(0x1234))]));
    assert_eq!(Pause::parse(&out), Err(ParseError::MacControlOpcode(0x0101)));
}

#[test]
fn pause() {
    let pause = Pause::new(SRC, PauseQuanta(0xfffe));
    let mut out = [0xa5; 61];
    assert_eq!(MacControl::Pause(pause).emit(&mut out), Ok(60));
    assert_eq!(out[..60], frame(0x0001, &[0xff, 0xfe]));
    assert_eq!(out[60], 0xa5);
    assert_eq!(Pause::parse(&out), Ok(pause));
    assert_eq!(Pfc::parse(&out), Err(ParseError::MacControlOpcode(0x0001)));
}

#[test]
fn priorities_have_a_bit_and_a_place_each() {
    for priority in 0..8 {
        let pfc = Pfc::new(SRC).with(priority, PauseQuanta(7));
        let mut out = [0; 60];
        pfc.emit(&mut out).unwrap();
        assert_eq!(out[16..18], [0, 1 << priority]);
        let at = 18 + 2 * usize::from(priority);
        assert_eq!(out[at..at + 2], [0, 7]);
        assert_eq!(out[18..].iter().map(|byte| u32::from(*byte)).sum::<u32>(), 7);
        assert!(pfc.enabled().eq([(priority, PauseQuanta(7))]));
    }
    assert_eq!(Pfc::new(SRC).with(8, PauseQuanta(7)), Pfc::new(SRC));
    // A pause of nothing is not the same as nothing about it: it ends one.
    assert_eq!(Pfc::new(SRC).with(3, PauseQuanta(0)).enabled, 8);
}

#[test]
fn every_bit_behind_the_opcode_survives() {
    for opcode in [0x0001, 0x0101] {
        let bytes = frame(opcode, &PFC);
        for bit in (0..96).chain(128..480) {
            let mut changed = bytes;
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            let mut out = [0xa5; 60];
            MacControl::parse(&changed).unwrap().emit(&mut out).unwrap();
            assert_eq!(out, changed, "bit {bit}");
        }
    }
}

#[test]
fn every_truncation() {
    for (opcode, needed) in [(0x0001, 18), (0x0101, 34)] {
        let bytes = frame(opcode, &PFC);
        for len in 0..60 {
            let parsed = MacControl::parse(&bytes[..len]);
            if len < needed {
                let needed = if len < 16 { 16 } else { needed };
                let layer = Layer::MacControl;
                assert_eq!(parsed, Err(ParseError::Truncated { layer, needed, available: len }));
            } else if opcode == 0x0101 {
                // Only reserved bytes are missing, and they are zeroes.
                assert_eq!(parsed, MacControl::parse(&bytes));
            } else {
                assert!(matches!(parsed, Ok(MacControl::Pause(_))), "{len}");
            }
            let whole = MacControl::parse(&bytes).unwrap();
            let short = EmitError::NoRoom { needed: 60, available: len };
            assert_eq!(whole.emit(&mut [0; 60][..len]), Err(short));
        }
    }
}

#[test]
fn what_it_is_not_is_named() {
    // 0002 to 0006 are the GATE family of passive optical networks.
    for opcode in [0x0000, 0x0002, 0x0006, 0x0100, 0x0102, 0xfffe] {
        let error = MacControl::parse(&frame(opcode, &PFC)).unwrap_err();
        assert_eq!(error, ParseError::MacControlOpcode(opcode));
    }
    let error = MacControl::parse(&frame(0x0102, &PFC)).unwrap_err();
    assert_eq!(error.to_string(), "MAC control opcode 0x0102 is neither PAUSE nor PFC");

    for tags in 1..=3 {
        let mut tagged = frame(0x0101, &PFC)[..12].to_vec();
        for _ in 0..tags {
            tagged.extend([0x81, 0x00, 0x60, 0x00]);
        }
        tagged.extend(&frame(0x0101, &PFC)[12..]);
        let error = MacControl::parse(&tagged).unwrap_err();
        assert_eq!(error, ParseError::TaggedMacControl);
        assert_eq!(error.to_string(), "a MAC control frame with a VLAN tag, which 802.3 forbids");
    }
    let mut other = frame(0x0001, &PFC);
    other[12] = 0x08;
    let not = ParseError::NotRoce { layer: Layer::Ethernet, found: 0x0808 };
    assert_eq!(MacControl::parse(&other), Err(not));
    // A tagged frame of another protocol.
    other[12..18].copy_from_slice(&[0x81, 0, 0, 5, 0x08, 0]);
    let not = ParseError::NotRoce { layer: Layer::Ethernet, found: 0x8100 };
    assert_eq!(MacControl::parse(&other), Err(not));
}
