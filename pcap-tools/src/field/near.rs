//! Names that were meant, for those that are not there.

use std::fmt;

/// A name that nothing has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Up to three that are near.
    pub near: Vec<&'static str>,
}

impl UnknownName {
    /// Looks for near ones among those there are.
    pub(crate) fn new(name: &str, known: impl Iterator<Item = &'static str>) -> Self {
        Self { name: name.chars().take(64).collect(), near: nearest(name, known) }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not known", self.name)?;
        let mut word = "; did you mean";
        for near in &self.near {
            write!(f, "{word} `{near}`")?;
            word = " or";
        }
        if self.near.is_empty() { Ok(()) } else { f.write_str("?") }
    }
}

impl std::error::Error for UnknownName {}

/// The longest name that is compared, in bytes.
const LONGEST: usize = 64;

/// Up to three of the known names that differ little from one, the nearest first.
pub fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let name = name.to_ascii_lowercase();
    if name.len() > LONGEST {
        return Vec::new();
    }
    let mut near: Vec<(usize, &'static str)> = known
        .filter_map(|candidate| {
            let lower = candidate.to_ascii_lowercase();
            let edits = distance(name.as_bytes(), lower.as_bytes());
            // The last part alone of a long name counts as well: `destqp` of a BTH.
            let part = name.len() >= 3 && lower.rsplit(['.', '_']).next() == Some(&name);
            let edits = if part { 1 } else { edits };
            (edits <= 1 + name.len() / 5).then_some((edits, candidate))
        })
        .collect();
    near.sort_unstable();
    near.truncate(3);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Letters to insert, delete or replace to make one word the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_edits() {
        for (one, other, edits) in
            [("", "", 0), ("psn", "psn", 0), ("psm", "psn", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), edits);
        }
    }

    #[test]
    fn what_is_far_is_not_offered() {
        let known = ["opcode", "psn", "infiniband.bth.destqp"];
        assert_eq!(nearest("opcod", known.into_iter()), ["opcode"]);
        assert_eq!(nearest("destqp", known.into_iter()), ["infiniband.bth.destqp"]);
        assert!(nearest("temperature", known.into_iter()).is_empty());
        assert!(nearest(&"x".repeat(1 << 20), known.into_iter()).is_empty());
    }
}
