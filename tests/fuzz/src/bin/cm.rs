//! MADs: of whatever packet or bytes, each message is an error or values that give back the same
//! bytes, and says only what lies in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_codec::cm::{
    AttributeId, ClassPortInfo, IpCmHeader, MAD_LEN, Mad, MadHeader, Message, is_cm_frame,
};
use roce_codec::{Frame, Start};

fuzz_target!(|input: &[u8]| {
    let (bytes, [attribute, force]) = roce_fuzz::parameters(input);
    if let Ok(frame) = Frame::parse_captured([bytes, &[]], Start::Ethernet) {
        let mad = Mad::from_frame(&frame);
        assert_eq!(is_cm_frame(&frame), mad.is_some_and(|mad| mad.is_cm()));
        if let Some(mad) = mad {
            check(frame.payload()[0], mad, attribute, force);
        }
    }
    match Mad::parse(bytes) {
        Ok(mad) => check(bytes, mad, attribute, force),
        Err(_) => assert!(bytes.len() < MAD_LEN),
    }
});

/// `wire` starts with `mad`. With `force` set it is taken for a message whatever its header says.
fn check(wire: &[u8], mut mad: Mad<'_>, attribute: u8, force: u8) {
    let mut out = [0xa5; MAD_LEN + 1];
    mad.header.emit(&mut out).expect("there is room");
    assert_eq!(out[..24], wire[..24]);

    let info = ClassPortInfo::parse(mad.data).expect("it is long enough");
    let mut attribute_bytes = [0xa5; ClassPortInfo::LEN];
    info.emit(&mut attribute_bytes).expect("there is room");
    assert_eq!(attribute_bytes, wire[24..24 + ClassPortInfo::LEN]);

    if force & 1 == 1 {
        let attribute = AttributeId(0x10 + u16::from(attribute) % 14);
        mad.header = MadHeader::cm(attribute, mad.header.transaction_id);
    }
    let message = match Message::parse(&mad) {
        Ok(message) => message,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    message.emit_under(&mad.header, &mut out).expect("there is room");
    assert_eq!(out[24..MAD_LEN], wire[24..MAD_LEN]);
    assert_eq!(out[MAD_LEN], 0xa5, "wrote past the end");
    assert_eq!(MadHeader::parse(&out), Ok(mad.header));
    assert!(message.emit(1, &mut out[..MAD_LEN - 1]).is_err());
    assert!(!format!("{message} {message:?}").is_empty());

    let ip_cm = match message {
        Message::Req(req) => req.ip_cm().map(|it| (it, req.private_data)),
        Message::SidrReq(req) => req.ip_cm().map(|it| (it, req.private_data)),
        Message::Rej(rej) => {
            assert!(rej.ari_bytes().len() <= usize::from(rej.ari_len).min(72));
            None
        }
        _ => None,
    };
    if let Some(((header, consumer), private_data)) = ip_cm {
        let mut again = [0xa5; IpCmHeader::LEN];
        header.emit(&mut again).expect("there is room");
        assert_eq!([&again, consumer].concat(), private_data);
    }
}
