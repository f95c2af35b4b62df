//! Out of a real interface: one end of a veth pair, watched from the other by tcpdump, and read by
//! tshark. It needs root, and passes over without.

use std::process::Command;

use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Frame, Start};
use roce_pcap::capture::Reader;

use crate::support::path;

/// In a network namespace that ends with the script. `tcpdump` is ours, by its number.
const SCRIPT: &str = r#"
set -e
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
ip link set v0 up
ip link set v1 up
ip address add 192.0.2.1/24 dev v0
tcpdump -i v1 --immediate-mode -B 16384 -U -s 0 -w "$OUT/seen.pcap" 'udp dst port 4791' 2> "$OUT/tcpdump" &
watcher=$!
tries=0
until grep -q listening "$OUT/tcpdump"; do
    tries=$((tries + 1))
    test $tries -lt 100
    sleep 0.05
done
status=0
"$TOOL" replay "$CAPTURE" --port packet:v0 --mac 02:00:00:00:00:02 \
    --map 10.77.1.3=192.0.2.1 --map 10.77.1.2=192.0.2.7 --qpn 0x11=0x1234 --psn 0x11=0xfffff0 \
    --rkey 0x27d=0xabcdef --va 0x55e58cc84000=0x1000 --speed max --timeout 50 \
    > "$OUT/report" || status=$?
sleep 0.5
kill -INT $watcher
wait $watcher || true
exit $status
"#;

#[test]
fn frames_leave_with_the_numbers_of_the_target() {
    let out = std::env::temp_dir().join(format!("roce-replay-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", SCRIPT])
        .env("OUT", &out)
        .env("TOOL", env!("CARGO_BIN_EXE_roce-pcap"))
        .env("CAPTURE", path("rxe-write"))
        .output();
    let errors = output.as_ref().map(|output| String::from_utf8_lossy(&output.stderr));
    let Ok(report) = std::fs::read_to_string(out.join("report")) else {
        println!("passed over: needs root, unshare, ip and tcpdump: {errors:?}");
        std::fs::remove_dir_all(&out).unwrap();
        return;
    };
    assert!(report.contains("48 requests sent"), "{report} {errors:?}");
    // Nobody answered.
    assert_eq!(output.unwrap().status.code(), Some(1), "{report}");

    let seen = out.join("seen.pcap");
    let mut reader = Reader::open(&seen).unwrap();
    let mut frames = 0_u32;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let frame = Frame::parse([packet.data, &[]], Start::Ethernet).unwrap();
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
        assert_eq!(frame.dst().to_string(), "192.0.2.7");
        let psn = 0xff_fff0_u32.wrapping_add(frames) & 0xff_ffff;
        assert_eq!((frame.dest_qp().get(), frame.psn().get()), (0x1234, psn));
        if let Some(reth) = frame.reth() {
            assert_eq!((reth.va, reth.rkey.0, reth.dma_len), (0x1000, 0xab_cdef, 3000));
        }
        frames += 1;
    }
    assert_eq!(frames, 48);

    // An implementation that shares nothing with ours.
    let fields = ["ip.src", "infiniband.bth.destqp", "infiniband.reth.va", "ip.checksum.status"];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let tshark = Command::new("tshark")
        .args(["-o", "ip.check_checksum:TRUE", "-T", "fields", "-r"])
        .arg(&seen)
        .args(fields)
        .output();
    match tshark {
        Ok(tshark) => {
            let text = String::from_utf8(tshark.stdout).unwrap();
            let first = text.lines().next().unwrap();
            assert_eq!(first, "192.0.2.1\t0x001234\t0x0000000000001000\t1", "{text}");
            assert_eq!(text.lines().count(), 48);
            assert!(text.lines().all(|line| line.ends_with("\t1")), "checksums: {text}");
        }
        Err(error) => println!("passed over: tshark: {error}"),
    }
    std::fs::remove_dir_all(&out).unwrap();
}
