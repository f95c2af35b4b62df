//! A second capture of the same traffic settles what the first tap could not tell of its gaps.
//!
//! The packets around a gap are found in the second capture, by the matching of [`crate::diff`].
//! What lies between them there, and not at the first tap, was sent, and passed one tap alone.

use std::collections::HashMap;
use std::io::Read;

use roce_codec::ib::{Opcode, Operation, PathMtu, Psn};

use super::gap::{Gap, Missing};
use super::report::Finding;
use super::rule::Verdict;
use crate::capture::{CaptureError, Reader};
use crate::diff::{self, Difference, Place, Side, Told};
use crate::observed::FlowKey;

/// Packets of the second capture that are kept for all gaps together, some 50 MB. What comes then is
/// not looked for.
const MAX_SIGHTINGS: usize = 1 << 20;
/// Gaps are looked up by their PSNs without so many lower bits.
const BLOCK_BITS: u32 = 8;

/// What a second tap has told.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Settled {
    /// RoCEv2 packets that both captures have, the same. Captures that share none are not of the same
    /// traffic.
    pub shared: u64,
    /// Gaps that are explained now.
    pub explained: u64,
    /// Packets missing in gaps that the second tap alone has.
    pub lost: u64,
    /// Why a capture cannot be read further, and which; what came before was used.
    pub errors: Vec<(Side, CaptureError)>,
}

/// Settles findings of the first capture that are gaps ([`Finding::gap`]) by a second capture of the
/// same traffic: [`Verdict::Pass`] where the second tap has all that is missing. Others stay unknown,
/// and their message says what the second tap knows of them.
///
/// `first` is the capture that the findings are of, read once more from its start.
pub fn settle<A: Read, B: Read>(
    findings: &mut [Finding],
    first: Reader<A>,
    second: Reader<B>,
) -> Settled {
    let mut search = Search::new(findings);
    let (_, errors) = diff::compare_all(first, second, |told| search.told(told));
    let mut settled = Settled { shared: search.shared, errors, ..Settled::default() };
    for (finding, sightings) in findings.iter_mut().zip(&search.sightings) {
        let Some(gap) = finding.gap else { continue };
        let bounds = [gap.behind, finding.packet].map(|packet| *search.around.get(&packet)?);
        let message = match bounds {
            [Some(behind), Some(before)] if behind < before => {
                match explain(gap, finding.packet, [behind, before], sightings) {
                    // What was not kept may be what is missing.
                    Some(fates) if fates.unseen == 0 || !search.is_full => {
                        if fates.unseen == 0 {
                            finding.verdict = Verdict::Pass;
                            settled.explained += 1;
                        }
                        settled.lost += fates.lost_packets;
                        fates.message()
                    }
                    _ => continue,
                }
            }
            _ => format!(
                "{}; the second tap does not have the packets on both sides of the gap in this order",
                finding.message
            ),
        };
        finding.message = message;
    }
    settled
}

/// A packet of the second capture that has a PSN which is missing at the first tap.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    /// Its number.
    packet: u64,
    psn: Psn,
    /// Its DMA length if it is a READ request.
    read_len: Option<u32>,
    /// The packet of the first capture that is the same, and whether it was changed.
    twin: Option<(u64, bool)>,
}

/// What is looked for in the second capture.
struct Search {
    /// By packet of the first capture beside a gap: the same in the second.
    around: HashMap<u64, Option<u64>>,
    /// By flow, kind and block of PSNs: the findings whose gap is there.
    gaps: HashMap<(FlowKey, Missing, u32), Vec<(usize, Gap)>>,
    /// By finding.
    sightings: Vec<Vec<Sighting>>,
    kept: usize,
    is_full: bool,
    shared: u64,
}

impl Search {
    fn new(findings: &[Finding]) -> Self {
        let mut around = HashMap::new();
        let mut gaps: HashMap<_, Vec<_>> = HashMap::new();
        for (index, finding) in findings.iter().enumerate() {
            let (Some(gap), Some(flow)) = (finding.gap, finding.flow) else { continue };
            around.insert(gap.behind, None);
            around.insert(finding.packet, None);
            let offset = gap.first.get() & ((1 << BLOCK_BITS) - 1);
            for nth in 0..=(gap.count.saturating_sub(1) + offset) >> BLOCK_BITS {
                let psn = gap.first.sub(offset).add(nth << BLOCK_BITS);
                let key = (flow, gap.missing, psn.get() >> BLOCK_BITS);
                gaps.entry(key).or_default().push((index, gap));
            }
        }
        let sightings = vec![Vec::new(); findings.len()];
        Self { around, gaps, sightings, kept: 0, is_full: false, shared: 0 }
    }

    fn told(&mut self, told: &Told) {
        match told {
            Told::Pair { a, b, changed } => {
                self.shared += u64::from(!changed && a.roce.is_some());
                if let Some(around) = self.around.get_mut(&a.number) {
                    *around = Some(b.number);
                }
                self.sight(b, Some((a.number, *changed)));
            }
            Told::Difference(Difference::Only(Side::B, place)) => self.sight(place, None),
            Told::Difference(_) => {}
        }
    }

    /// Keeps a packet of the second capture for the gaps that it may be missing in.
    fn sight(&mut self, place: &Place, twin: Option<(u64, bool)>) {
        let Some((flow, opcode, psn)) = place.roce else { return };
        let Some(missing) = missing(opcode) else { return };
        let Some(gaps) = self.gaps.get(&(flow, missing, psn.get() >> BLOCK_BITS)) else { return };
        let is_read = opcode.info().operation == Operation::ReadRequest;
        let read_len = place.dma_len.filter(|_| is_read);
        let sighting = Sighting { packet: place.number, psn, read_len, twin };
        for (index, gap) in gaps {
            if !psn.is_within(gap.first, gap.first.add(gap.count.saturating_sub(1))) {
                continue;
            }
            if self.kept >= MAX_SIGHTINGS {
                self.is_full = true;
                return;
            }
            self.kept += 1;
            self.sightings[*index].push(sighting);
        }
    }
}

/// What gaps a packet of that opcode can be missing in.
fn missing(opcode: Opcode) -> Option<Missing> {
    let info = opcode.info();
    if info.is_request() {
        Some(Missing::Requests)
    } else if info.operation == Operation::ReadResponse {
        Some(Missing::ReadResponses)
    } else {
        None
    }
}

/// What became of a PSN that is missing at the first tap. Of several copies the last of these holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Unseen,
    /// The first tap has it behind the gap.
    Late,
    /// The first tap has it in its place, damaged.
    Damaged,
    /// The first tap does not have it.
    Lost,
}

/// What became of the PSNs of a gap.
#[derive(Debug, Default)]
struct Fates {
    unseen: usize,
    late: usize,
    damaged: usize,
    lost: usize,
    lost_packets: u64,
}

/// What the second tap has between the two packets that the gap is between; `None` if it cannot be
/// told how many PSNs a READ takes.
fn explain(
    gap: Gap,
    packet: u64,
    [behind, before]: [u64; 2],
    sightings: &[Sighting],
) -> Option<Fates> {
    // Where copies are alike to the last bit, the first is taken for the one that came through.
    let mut lone: HashMap<Psn, u64> = HashMap::new();
    for sighting in sightings.iter().filter(|sighting| sighting.twin.is_none()) {
        let last = lone.entry(sighting.psn).or_default();
        *last = sighting.packet.max(*last);
    }
    let mut fates = Fates::default();
    let mut of_psn = vec![Fate::Unseen; usize::try_from(gap.count).unwrap_or_default()];
    for sighting in sightings {
        if !(behind < sighting.packet && sighting.packet < before) {
            continue;
        }
        let fate = match sighting.twin {
            None => Fate::Lost,
            Some((twin, changed)) if twin < packet => {
                if changed {
                    Fate::Damaged
                } else {
                    Fate::Unseen
                }
            }
            Some(_) if lone.get(&sighting.psn).is_some_and(|last| *last > sighting.packet) => {
                Fate::Lost
            }
            Some(_) => Fate::Late,
        };
        fates.lost_packets += u64::from(fate == Fate::Lost);
        let psns = match (sighting.read_len, gap.mtu) {
            (None, _) => 1,
            (Some(len), _) if len <= PathMtu::Mtu256.bytes() => 1,
            (Some(len), Some(mtu)) => mtu.packets(len),
            (Some(_), None) => return None,
        };
        let start = sighting.psn.distance_from(gap.first).unsigned_abs();
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let psns = usize::try_from(psns).unwrap_or(usize::MAX);
        for of_psn in of_psn.iter_mut().skip(start).take(psns) {
            *of_psn = fate.max(*of_psn);
        }
    }
    let count = |fate| of_psn.iter().filter(|of_psn| **of_psn == fate).count();
    (fates.unseen, fates.late) = (count(Fate::Unseen), count(Fate::Late));
    (fates.damaged, fates.lost) = (count(Fate::Damaged), count(Fate::Lost));
    Some(fates)
}

impl Fates {
    fn message(&self) -> String {
        let Self { unseen, late, damaged, lost, .. } = *self;
        let seen: Vec<_> = [
            (lost, "lost between the taps or by the first"),
            (damaged, "damaged between the taps"),
            (late, "late at the first"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        let seen = seen.join(", ");
        match (unseen, lost + damaged + late) {
            (0, all) => format!("{all} PSNs are missing that the second tap saw: {seen}"),
            (_, 0) => {
                format!(
                    "{unseen} PSNs are missing at both taps: lost or damaged before both, or \
                     never sent"
                )
            }
            _ => format!(
                "{unseen} PSNs are missing at both taps: lost or damaged before both, or never \
                 sent; others the second tap saw: {seen}"
            ),
        }
    }
}
