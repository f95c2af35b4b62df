//! The page: it needs nothing else, says nothing twice meant, and takes no markup from a capture.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use roce_pcap::capture::{Packet, Reader};
use roce_pcap::report_html::HtmlReport;
use roce_pcap::stats::Options;

fn capture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    folder.join(name).with_extension("pcap")
}

/// The packets of a capture, their numbers and times changed by `change`.
fn report(name: &str, called: &str, mut change: impl FnMut(&Packet<'_>, &mut Vec<u8>)) -> String {
    let mut reader = Reader::open(capture(name)).unwrap();
    let mut report = HtmlReport::new(called, Options::default());
    let mut data = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        data.clear();
        data.extend_from_slice(packet.data);
        change(&packet, &mut data);
        report.packet(&Packet { data: &data, ..packet });
    }
    report.finish()
}

/// What stands between `start` and `end`, each time.
fn between<'p>(page: &'p str, start: &str, end: &str) -> Vec<&'p str> {
    let parts = page.split(start).skip(1);
    parts.map(|part| part.split(end).next().unwrap()).collect()
}

/// Every element is closed, in order.
fn is_well_formed(page: &str) {
    // What comes before the end of the style sheet.
    let mut open = vec!["html", "head"];
    let body = page.split("<script>").next().unwrap().split("</style>").nth(1).unwrap();
    for tag in between(body, "<", ">") {
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') && name != "input" && name != "meta" {
            open.push(name);
        }
    }
    // These are closed behind the script.
    assert_eq!(open, ["html", "body"]);
}

fn is_self_contained(page: &str) {
    for outside in
        ["http:", "https:", "url(", "@import", "src=", "<link", "<img", "<iframe", "//cdn"]
    {
        assert!(!page.contains(outside), "{outside}");
    }
    let anchors: BTreeSet<&str> = between(page, " id=\"", "\"").into_iter().collect();
    let targets = between(page, "href=\"", "\"");
    assert!(targets.len() > 5);
    for target in targets {
        let name = target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leads out"));
        assert!(anchors.contains(name), "{target} leads nowhere");
    }
}

#[test]
fn pages_need_nothing_else() {
    for name in ["rxe-lossy-client", "rxe-errors", "rxe-cm", "rxe-ecn-server"] {
        let page = report(name, name, |_, _| {});
        is_self_contained(&page);
        is_well_formed(&page);
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("width=device-width"));
        for table in between(&page, "<table", "</table>") {
            assert!(table.contains("<caption><span>"), "a table without a caption");
        }
        for picture in between(&page, "<svg", ">") {
            assert!(picture.contains("role=\"img\"") && picture.contains("aria-label=\""));
            assert!(!picture.contains("NaN") && !picture.contains("inf"));
        }
        assert!(!page.contains("NaN"));
        assert!(page.len() < 300_000, "{name}: {}", page.len());
    }
}

#[test]
fn losses_lead_to_their_packets() {
    let page = report("rxe-lossy-client", "lossy", |_, _| {});
    // A NAK of the capture, and the packet that was sent again for it.
    for packet in ["144", "145"] {
        assert!(page.contains(&format!("<a href=\"#p{packet}\">")), "{packet}");
        assert!(page.contains(&format!("<tr id=\"p{packet}\">")), "{packet}");
    }
    for class in ["mark request", "mark again", "mark nak", "mark ack", "mark response"] {
        assert!(page.contains(&format!("<path class=\"{class}\"")), "{class}");
    }
    assert!(page.contains("<path class=\"bar\""), "latencies");
    assert!(page.contains("All 820 packets are drawn."));
}

/// The private data of CM messages and a file's name are text, whatever they look like.
#[test]
fn nothing_of_a_capture_becomes_markup() {
    let hostile = b"</td></table><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
    let name = String::from_utf8_lossy(hostile);
    let page = report("rxe-cm", &name, |_, data| {
        // Over private data and payload, in front of the ICRC.
        let end = data.len() - 4;
        if end > 54 + 20 + hostile.len() {
            data[end - hostile.len()..end].copy_from_slice(hostile);
        }
    });
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains("<img") && !page.contains("alert(1)</script>"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    is_well_formed(&page);
}

/// A capture of 88,000 packets with 30,000 losses: the page stays small, and says what it left out.
#[test]
fn long_captures_make_no_long_pages() {
    let mut reader = Reader::open(capture("rxe-lossy-client")).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        packets.push((packet.timestamp_ns.unwrap(), packet.orig_len, packet.data.to_vec()));
    }
    let mut report = HtmlReport::new("long", Options::default());
    let template = Packet::new(roce_pcap::capture::LinkType::ETHERNET, &[]);
    let mut number = 0;
    for round in 0..40 {
        for (time_ns, orig_len, data) in &packets {
            number += 1;
            report.packet(&Packet {
                number,
                timestamp_ns: Some(time_ns + round * 3_000_000_000),
                orig_len: *orig_len,
                data,
                ..template
            });
        }
    }
    let page = report.finish();
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert!(page.contains("of each kind the least and the greatest PSN in each"));
    assert!(between(&page, "<tr id=\"p", "\"").len() <= 2_000);
}
