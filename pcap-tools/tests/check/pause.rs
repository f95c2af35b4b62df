//! Flow control frames: their form, and pauses without end.

use roce_codec::net::{MacAddr, MacControl, Pause, PauseQuanta, Pfc};
use roce_pcap::capture::{LinkType, Reader};
use roce_pcap::check::{Checker, Profile, Rule, Verdict};

use crate::support::{Owned, judge, judge_with};

const NIC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const US: u64 = 1000;

fn at(time_ns: u64, frame: &MacControl) -> Owned {
    let mut data = vec![0; MacControl::LEN];
    frame.emit(&mut data).unwrap();
    Owned {
        timestamp_ns: Some(1_000_000_000 + time_ns),
        link: Some(LinkType::ETHERNET),
        orig_len: 60,
        data,
    }
}

fn pfc(quanta: u16) -> MacControl {
    MacControl::Pfc(Pfc::new(NIC).with(3, PauseQuanta(quanta)))
}

/// A priority paused for as long as can be said, `count` times, `every` nanoseconds.
fn refreshed(count: u64, every: u64) -> Vec<Owned> {
    (0..count).map(|n| at(n * every, &pfc(0xffff))).collect()
}

fn verdicts(profile: Profile, packets: &[Owned]) -> Vec<(Rule, Verdict, u64)> {
    let (_, findings) = judge_with(profile, packets);
    findings.iter().map(|finding| (finding.rule, finding.verdict, finding.packet)).collect()
}

#[test]
fn each_fault_of_form_is_found() {
    let clean = || {
        let mut frames = refreshed(12, 40_000 * US);
        frames[5] = at(200_000 * US, &MacControl::Pause(Pause::new(NIC, PauseQuanta(9))));
        frames
    };
    assert_eq!(verdicts(Profile::default(), &clean()), []);
    type Fault = (&'static str, fn(&mut [u8]));
    let faults: [Fault; 8] = [
        ("another group", |f| f[5] = 2),
        ("a PFC frame to a station", |f| f[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9])),
        ("from a group", |f| f[6] |= 1),
        ("an opcode that is none", |f| f[14..16].copy_from_slice(&[0x02, 0x01])),
        ("class-enable above the priorities", |f| f[16] = 1),
        ("a reserved byte", |f| f[40] = 1),
        ("the last reserved byte", |f| f[59] = 0x80),
        ("a tag", |f| {
            f.copy_within(12..56, 16);
            f[12..16].copy_from_slice(&[0x81, 0, 0x60, 0]);
        }),
    ];
    for (name, change) in faults {
        for place in [1, 6, 11] {
            let mut frames = clean();
            change(&mut frames[place].data);
            let expected = [(Rule::PfcFrame, Verdict::Fail, place as u64 + 1)];
            assert_eq!(verdicts(Profile::default(), &frames), expected, "{name}");
        }
    }
    // Another station may be paused by its address; the gates of passive optical networks are
    // no flow control.
    let mut frames = clean();
    frames[5].data[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frames[7].data[14..16].copy_from_slice(&[0, 2]);
    assert_eq!(verdicts(Profile::default(), &frames), [(Rule::PfcFrame, Verdict::Unknown, 8)]);
}

/// Renewed every 40 us: in time on any Ethernet. After 100 ms it is a storm, told once.
#[test]
fn a_storm_is_found() {
    let storm = refreshed(3000, 40 * US);
    let found = [(Rule::PauseStorm, Verdict::Fail, 2501)];
    assert_eq!(verdicts(Profile::default(), &storm), found);
    // The same storm three times, after others have let go.
    for begins in [0, 700, 2400] {
        let mut packets: Vec<Owned> = (0..begins)
            .map(|n| at(n * 40 * US, &pfc(if n % 50 == 49 { 0 } else { 900 })))
            .collect();
        let offset = (begins + 100) * 40 * US;
        packets.extend((0..2600).map(|n| at(offset + n * 40 * US, &pfc(0xffff))));
        let found = [(Rule::PauseStorm, Verdict::Fail, begins + 2501)];
        assert_eq!(verdicts(Profile::default(), &packets), found, "{begins}");
    }
}

#[test]
fn a_pause_that_ends_is_no_storm() {
    // XON every 50 ms.
    let mut packets = refreshed(10_000, 40 * US);
    for packet in packets.iter_mut().step_by(1250) {
        let time = packet.timestamp_ns.unwrap() - 1_000_000_000;
        *packet = at(time, &pfc(0));
    }
    assert_eq!(verdicts(Profile::default(), &packets), []);
    // 31 us at 1 Gb/s: it has run out before it is renewed on any link.
    let short: Vec<Owned> = (0..10_000).map(|n| at(n * 40 * US, &pfc(60))).collect();
    assert_eq!(verdicts(Profile::default(), &short), []);
}

/// Renewed every millisecond: a break at 100 Gb/s (335 us), none at 10 (3.4 ms).
#[test]
fn the_rate_of_the_link_decides() {
    let packets = refreshed(300, 1000 * US);
    let with_rate = |gbps: Option<u64>| {
        let link_gbps = gbps.and_then(std::num::NonZero::new);
        verdicts(Profile { link_gbps, ..Profile::default() }, &packets)
    };
    assert_eq!(with_rate(None), [(Rule::PauseStorm, Verdict::Unknown, 101)]);
    assert_eq!(with_rate(Some(100)), []);
    assert_eq!(with_rate(Some(10)), [(Rule::PauseStorm, Verdict::Fail, 101)]);
    let patient = Profile { pause_storm_ns: 1_000_000_000, ..Profile::default() };
    assert_eq!(verdicts(patient, &packets), []);
}

/// The frames as pcapng, from an interface of that speed in bits a second.
fn pcapng(packets: &[Owned], speed: Option<u64>) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let len = u32::try_from(12 + body.len()).unwrap().to_le_bytes();
        [&kind.to_le_bytes(), &len, body, &len].concat()
    };
    let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat();
    // Ethernet, no snap length, nanoseconds.
    let mut interface = vec![1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0];
    if let Some(speed) = speed {
        interface.extend([8, 0, 8, 0]);
        interface.extend(speed.to_le_bytes());
    }
    interface.extend([0; 4]);
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for packet in packets {
        let time_ns = packet.timestamp_ns.unwrap();
        let len = packet.data.len() as u64;
        let mut body = vec![0; 4];
        for word in [time_ns >> 32, time_ns & 0xffff_ffff, len, len] {
            body.extend(u32::try_from(word).unwrap().to_le_bytes());
        }
        body.extend(&packet.data);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

/// What an interface says of its speed goes before what the profile says of all.
#[test]
fn the_speed_of_the_interface_decides() {
    let packets = refreshed(300, 1000 * US);
    let found = |speed, profile_gbps: Option<u64>| {
        let link_gbps = profile_gbps.and_then(std::num::NonZero::new);
        let mut checker = Checker::with_profile(Profile { link_gbps, ..Profile::default() });
        let file = pcapng(&packets, speed);
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut found = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let findings = checker.packet(&packet.unwrap());
            found.extend(findings.iter().map(|it| (it.rule, it.verdict, it.packet)));
        }
        found
    };
    let storm = |verdict| vec![(Rule::PauseStorm, verdict, 101)];
    let gbps = |gbps: u64| Some(gbps * 1_000_000_000);
    assert_eq!(found(gbps(10), None), storm(Verdict::Fail));
    assert_eq!(found(gbps(100), None), []);
    assert_eq!(found(gbps(10), Some(100)), storm(Verdict::Fail));
    assert_eq!(found(gbps(100), Some(10)), []);
    // Not stated, or stated as not known.
    for unknown in [None, Some(0)] {
        assert_eq!(found(unknown, None), storm(Verdict::Unknown));
        assert_eq!(found(unknown, Some(10)), storm(Verdict::Fail));
        assert_eq!(found(unknown, Some(100)), []);
    }
}

/// Without times, or with a file out of order, nothing is said of how long a pause lasts.
#[test]
fn without_times_there_is_no_storm() {
    let mut packets = refreshed(5000, 40 * US);
    packets.reverse();
    assert_eq!(judge(&packets).0.fail, 0);
    for packet in &mut packets {
        packet.timestamp_ns = None;
    }
    assert_eq!(judge(&packets).0.fail, 0);
}
