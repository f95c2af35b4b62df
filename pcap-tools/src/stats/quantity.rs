//! Quantities as people read them, three or four digits and a unit.

use std::fmt;

use super::rate::float;

/// Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration(pub u64);

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Bits a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(self.0, &["ns", "us", "ms", "s"], f)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(self.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"], f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(self.0, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s", "Eb/s"], f)
    }
}

fn scaled(value: u64, units: &[&str], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut rest = float(value);
    let mut names = units.iter();
    let mut unit = names.next().copied().unwrap_or_default();
    // 999.95 would be written as 1000.0.
    while rest >= 999.95
        && let Some(larger) = names.next()
    {
        (rest, unit) = (rest / 1000.0, larger);
    }
    let text = if unit == units[0] {
        format!("{value} {unit}")
    } else if rest < 9.995 {
        format!("{rest:.2} {unit}")
    } else {
        format!("{rest:.1} {unit}")
    };
    f.pad(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_units() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_994, "9.99 us"),
            (9_995, "10.0 us"),
            (999_949, "999.9 us"),
            (999_950, "1.00 ms"),
            (72_300_000, "72.3 ms"),
            (5_000_000_000_000, "5000.0 s"),
        ] {
            assert_eq!(Duration(ns).to_string(), text);
        }
        assert_eq!(Bytes(327_680).to_string(), "327.7 kB");
        assert_eq!(format!("{:>10}", Rate(100_000_000_000)), "100.0 Gb/s");
    }
}
