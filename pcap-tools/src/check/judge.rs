//! Where verdicts are counted and findings are put.

use super::gap::Gap;
use super::profile::Profile;
use super::report::{Counts, Finding};
use super::rule::{Rule, Verdict};
use crate::observed::FlowKey;

/// The packet a verdict speaks of.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) packet: u64,
    pub(super) time_ns: Option<u64>,
    pub(super) flow: Option<FlowKey>,
}

/// What a finding says beyond its rule: expected, found, message.
pub(super) type Words = (String, String, String);

#[derive(Debug)]
pub(super) struct Judge {
    profile: Profile,
    counts: [Counts; Rule::COUNT],
    findings: Vec<Finding>,
}

impl Judge {
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, counts: [Counts::default(); Rule::COUNT], findings: Vec::new() }
    }

    /// What is known of the devices.
    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(super) fn counts(&self) -> &[Counts; Rule::COUNT] {
        &self.counts
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn clear(&mut self) {
        self.findings.clear();
    }

    #[inline]
    pub(super) fn pass(&mut self, rule: Rule) {
        self.counts[rule.index()].pass += 1;
    }

    /// Pass if `kept`, otherwise fail; `words` is only asked for then.
    #[inline]
    pub(super) fn check(&mut self, rule: Rule, at: At, kept: bool, words: impl FnOnce() -> Words) {
        if kept {
            self.pass(rule);
        } else {
            self.fail(rule, at, words());
        }
    }

    #[cold]
    pub(super) fn fail(&mut self, rule: Rule, at: At, words: Words) {
        self.counts[rule.index()].fail += 1;
        self.find(rule, Verdict::Fail, at, words);
    }

    /// An unknown that is a finding each time.
    #[cold]
    pub(super) fn unknown(&mut self, rule: Rule, at: At, words: Words) {
        self.counts[rule.index()].unknown += 1;
        self.find(rule, Verdict::Unknown, at, words);
    }

    /// PSNs are missing: unknown each time, unless a second tap has them.
    #[cold]
    pub(super) fn gap(&mut self, at: At, words: Words, gap: Gap) {
        self.unknown(Rule::RcPsnGap, at, words);
        if let Some(finding) = self.findings.last_mut() {
            finding.gap = Some(gap);
        }
    }

    /// An unknown for want of knowledge, found once: `told` remembers.
    #[inline]
    pub(super) fn unknown_once(
        &mut self,
        rule: Rule,
        at: At,
        told: &mut u64,
        words: impl FnOnce() -> Words,
    ) {
        self.counts[rule.index()].unknown += 1;
        let bit = 1 << rule.index();
        if *told & bit == 0 {
            *told |= bit;
            self.find(rule, Verdict::Unknown, at, words());
        }
    }

    fn find(&mut self, rule: Rule, verdict: Verdict, at: At, words: Words) {
        let (expected, found, message) = words;
        self.findings.push(Finding {
            rule,
            verdict,
            packet: at.packet,
            time_ns: at.time_ns,
            flow: at.flow,
            expected,
            found,
            message,
            gap: None,
        });
    }
}
