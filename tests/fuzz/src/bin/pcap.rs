//! No file makes the capture reader, the decoder or the checker panic or run without end, and
//! what it says of packets adds up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_pcap::capture::Reader;

fuzz_target!(|input: &[u8]| {
    let Ok(reader) = Reader::new(input) else { return };
    let report = roce_pcap::check(reader);
    let summary = report.summary;
    assert!(summary.roce_packets <= summary.packets);
    let judged = summary.icrc_valid + summary.icrc_invalid + summary.icrc_uncheckable;
    assert!(judged <= summary.roce_packets);
    let least = u64::try_from(input.len() / 16).unwrap_or(u64::MAX);
    assert!(summary.packets <= least, "a packet takes 16 bytes of record header");
});
