//! Several cores find what one finds, in the same order.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use roce_pcap::capture::{Batch, CaptureError, Reader};
use roce_pcap::check::pipeline::{Judged, judge};
use roce_pcap::check::{Checker, Summary};

use crate::support::own_captures;

/// What a file comes to, told as text, and whether an error came.
fn told(file: &[u8], jobs: usize, stop_after: usize) -> (Vec<String>, Summary) {
    let mut reader = Reader::new(file).unwrap();
    let mut checker = Checker::new();
    let mut told = Vec::new();
    let each = |judged: Judged<'_, CaptureError>| {
        match judged {
            Judged::Packet(packet, findings) => {
                told.push(packet.number.to_string());
                told.extend(findings.iter().map(ToString::to_string));
            }
            Judged::Pause => {}
            Judged::Error(error) => told.push(error.to_string()),
        }
        if told.len() >= stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // Batches as small as those of a pipe.
    let fill = |batch: &mut Batch| reader.fill(batch);
    judge(fill, &mut checker, NonZeroUsize::new(jobs).unwrap(), each);
    told.extend(checker.finish().iter().map(ToString::to_string));
    (told, checker.summary())
}

#[test]
fn any_number_of_cores_finds_the_same() {
    for path in own_captures() {
        let whole = std::fs::read(path).unwrap();
        for file in [&whole[..], &whole[..whole.len() - 7]] {
            let one = told(file, 1, usize::MAX);
            assert!(one.0.len() > 20);
            for jobs in [2, 3, 8] {
                assert_eq!(told(file, jobs, usize::MAX), one, "{jobs}");
            }
        }
    }
}

#[test]
fn whoever_has_seen_enough_stops_all() {
    let file = std::fs::read(&own_captures()[5]).unwrap();
    for jobs in [1, 2, 8] {
        let (told, _) = told(&file, jobs, 10);
        assert!((10..14).contains(&told.len()), "{told:?}");
    }
}

/// An error in the midst is told in its place, and what follows is read.
#[test]
fn errors_keep_their_place() {
    let file = std::fs::read(&own_captures()[0]).unwrap();
    for jobs in [1, 2, 5] {
        let mut fills = 0;
        let mut order = Vec::new();
        let fill = |batch: &mut Batch| {
            fills += 1;
            match fills {
                40 => Ok(0),
                _ if fills % 3 == 0 => Err(CaptureError::Empty),
                _ => Reader::new(file.as_slice())?.fill(batch),
            }
        };
        let each = |judged: Judged<'_, CaptureError>| {
            order.push(match judged {
                Judged::Packet(packet, _) if packet.number == 1 => 'p',
                Judged::Packet(..) => return ControlFlow::Continue(()),
                Judged::Pause => '.',
                Judged::Error(_) => 'e',
            });
            ControlFlow::Continue(())
        };
        judge(fill, &mut Checker::new(), NonZeroUsize::new(jobs).unwrap(), each);
        assert_eq!(order.into_iter().collect::<String>(), "p.p.e".repeat(13));
    }
}
