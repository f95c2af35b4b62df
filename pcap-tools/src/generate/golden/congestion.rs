//! Congestion: notifications, marks, and pauses.

use roce_codec::FrameBuilder;
use roce_codec::ib::{Opcode, Qpn};
use roce_codec::net::{Ip, MacAddr, PauseQuanta, Pfc};

use super::script::{Active, Draft, Passive, Script};

/// A congestion notification to the active side.
fn cnp(s: &mut Script) -> Draft {
    let Draft { builder, .. } = s.ack(Passive);
    let FrameBuilder { ethernet, ip, bth, .. } = builder;
    Draft { builder: FrameBuilder::cnp(ethernet, ip, 0, bth.dest_qp), payload: Vec::new() }
}

fn marked(draft: Draft) -> Draft {
    let len = draft.payload.len();
    let draft = draft.with(|builder| {
        if let Ip::V4(ip) = &mut builder.ip {
            ip.dscp_ecn |= 3;
        }
    });
    draft.len(len)
}

const PORT: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn pause(s: &mut Script, pfc: &Pfc) {
    let mut frame = vec![0; 60];
    // It has exactly this length.
    let _ = pfc.emit(&mut frame);
    s.put_bytes(frame);
}

/// SENDs that were marked on their way, each acknowledged.
fn marks(s: &mut Script, count: u32) {
    for _ in 0..count {
        let send = s.request(Active, Opcode::RC_SEND_ONLY, 512);
        s.put(&marked(send));
        let ack = s.ack(Passive);
        s.put(&ack);
    }
}

/// A malformed notification behind a marked packet.
fn malformed(s: &mut Script, change: impl FnOnce(Draft) -> Draft) {
    let send = s.request(Active, Opcode::RC_SEND_ONLY, 512);
    s.put(&marked(send));
    let cnp = change(cnp(s));
    s.put(&cnp);
    let ack = s.ack(Passive);
    s.put(&ack);
}

traces! {
    "cnp", "a marked packet is answered with a congestion notification", [],
        |s| malformed(s, |cnp| cnp);
    "cnp-without-becn", "a congestion notification without BECN", [CnpFormat Fail 2],
        |s| malformed(s, |cnp| cnp.bth(|bth| bth.becn = false));
    "cnp-with-psn", "a congestion notification with a PSN", [CnpFormat Fail 2],
        |s| malformed(s, |cnp| cnp.bth(|bth| bth.psn = bth.psn.next()));
    "cnp-asks-for-ack", "a congestion notification that asks for an acknowledgement", [CnpFormat Fail 2],
        |s| malformed(s, |cnp| cnp.bth(|bth| bth.ack_req = true));
    "cnp-with-migreq", "a congestion notification with MigReq", [CnpFormat Fail 2],
        |s| malformed(s, |cnp| cnp.bth(|bth| bth.mig_req = true));
    "cnp-solicited", "a congestion notification with a solicited event", [CnpFormat Fail 2],
        |s| malformed(s, |cnp| cnp.bth(|bth| bth.solicited = true));
    "cnp-reserved-bytes", "a congestion notification whose reserved bytes are not zero", [CnpFormat Fail 2],
        |s| malformed(s, |cnp| cnp.with(|builder| builder.ext.cnp_reserved = Some([1; 16])));
    "cnp-too-dense", "notifications for one flow two microseconds apart", [CnpSpacing Unknown 3],
        |s| {
            for _ in 0..20 {
                let send = s.request(Active, Opcode::RC_SEND_ONLY, 512);
                s.put(&marked(send));
                let cnp = cnp(s);
                s.put_all(&[cnp.clone(), cnp]);
            }
            let ack = s.ack(Passive);
            s.put(&ack);
        };
    "cnp-without-ce", "a notification though nothing was marked", [CnpCause Unknown 5],
        |s| { s.sends(Active, 2); let cnp = cnp(s); s.put(&cnp); s.sends(Active, 2); };
    "ce-without-cnp", "marks on many packets, and no notification", [EcnCnp Unknown 1],
        |s| marks(s, 50);
    "cnps-unheeded", "twenty notifications, and a sender that is no slower for them", [CnpRate Unknown 2221],
        |s| for number in 0..2_000_u32 {
            let send = s.request(Active, Opcode::RC_SEND_ONLY, 1024);
            s.put(&marked(send));
            if number % 8 == 7 {
                let ack = s.ack(Passive);
                s.put(&ack);
            }
            if number > 1_800 && number % 10 == 9 {
                let cnp = cnp(s);
                s.put(&cnp);
            }
            s.wait_us(3);
        };
    "ce-on-not-ect", "datagrams that cannot be marked, and then one that is marked", [EcnCe Fail 41],
        |s| for number in 0..41_u32 {
            let psn = s.psn(Passive).add(number);
            let datagram = s.draft(Active, Opcode::UD_SEND_ONLY, psn, 64);
            let datagram = datagram.with(|builder| {
                builder.bth.dest_qp = Qpn::new(0x9999);
                if let Ip::V4(ip) = &mut builder.ip {
                    ip.dscp_ecn = if number < 40 { 26 << 2 } else { 26 << 2 | 3 };
                }
            });
            s.put(&datagram.len(64));
        };
    "pfc-to-a-station", "a PFC frame that goes to a station and not to the reserved address", [PfcFrame Fail 1],
        |s| {
            let pfc = Pfc { dst: MacAddr([2, 0, 0, 0, 0, 1]), ..Pfc::new(PORT).with(3, PauseQuanta(100)) };
            pause(s, &pfc);
        };
    "pfc-now-and-then", "a port pauses its peer, and lets it go on", [],
        |s| for quanta in [100, 0, 65535, 0] { pause(s, &Pfc::new(PORT).with(3, PauseQuanta(quanta))); };
    "pfc-storm", "a port pauses its peer without end", [PauseStorm Fail 2501],
        |s| for _ in 0..2_600 {
            pause(s, &Pfc::new(PORT).with(3, PauseQuanta::MAX));
            s.wait_us(38);
        };
}
