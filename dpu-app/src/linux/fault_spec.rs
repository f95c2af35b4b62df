//! Faults by name: `drop=0.02,duplicate=0.02,reorder=0.02,corrupt=0,delay=0,seed=N`; with `rx-` or
//! `tx-` in front, in that direction alone.

use std::fmt;
use std::str::FromStr;

use roce_dataplane::port::fault::{FaultConfig, FaultRates};

/// Faults on a port.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultSpec {
    /// How often each strikes what comes.
    pub rx: FaultRates,
    /// How often each strikes what goes.
    pub tx: FaultRates,
    /// What decides which frames.
    pub seed: u64,
}

impl FaultSpec {
    /// As a fault port's settings.
    #[must_use]
    pub const fn config(&self) -> FaultConfig {
        FaultConfig { rx: self.rx, tx: self.tx, seed: self.seed }
    }
}

/// What is wrong with a list of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultSpecError {
    /// Not `NAME=NUMBER`, or no such name.
    Form,
    /// Not from 0 to 1.
    Rate,
    /// Not a whole number.
    Seed,
}

impl fmt::Display for FaultSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => {
                "faults are drop, duplicate, reorder, corrupt and delay, each =RATE, for one \
                 direction rx- or tx- before it, and seed=N, with commas between"
            }
            Self::Rate => "a rate is from 0 (never) to 1 (every frame)",
            Self::Seed => "the seed is a whole number",
        })
    }
}

impl std::error::Error for FaultSpecError {}

impl FromStr for FaultSpec {
    type Err = FaultSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or(FaultSpecError::Form)?;
            if name == "seed" {
                spec.seed = value.parse().map_err(|_| FaultSpecError::Seed)?;
                continue;
            }
            let (rx, tx, fault) = match (name.strip_prefix("rx-"), name.strip_prefix("tx-")) {
                (Some(fault), _) => (true, false, fault),
                (_, Some(fault)) => (false, true, fault),
                _ => (true, true, name),
            };
            if rx {
                *rate(&mut spec.rx, fault).ok_or(FaultSpecError::Form)? = parse_rate(value)?;
            }
            if tx {
                *rate(&mut spec.tx, fault).ok_or(FaultSpecError::Form)? = parse_rate(value)?;
            }
        }
        Ok(spec)
    }
}

fn rate<'a>(rates: &'a mut FaultRates, fault: &str) -> Option<&'a mut f64> {
    match fault {
        "drop" => Some(&mut rates.drop),
        "duplicate" => Some(&mut rates.duplicate),
        "reorder" => Some(&mut rates.reorder),
        "corrupt" => Some(&mut rates.corrupt),
        "delay" => Some(&mut rates.delay),
        _ => None,
    }
}

fn parse_rate(value: &str) -> Result<f64, FaultSpecError> {
    let rate = value.parse::<f64>().map_err(|_| FaultSpecError::Rate)?;
    if (0.0..=1.0).contains(&rate) { Ok(rate) } else { Err(FaultSpecError::Rate) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let spec = |text: &str| text.parse::<FaultSpec>();
        let rates = FaultRates { drop: 0.02, reorder: 1.0, ..FaultRates::default() };
        let both = FaultSpec { rx: rates, tx: rates, seed: 7 };
        assert_eq!(spec("drop=0.02,seed=7,reorder=1"), Ok(both));
        assert_eq!(spec("rx-drop=0.02,tx-drop=0.02,seed=7,reorder=1"), Ok(both));
        let one_way = FaultSpec { tx: rates, ..FaultSpec::default() };
        assert_eq!(spec("tx-drop=0.02,tx-reorder=1"), Ok(one_way));
        for (text, error) in [
            ("", FaultSpecError::Form),
            ("drop", FaultSpecError::Form),
            ("lose=1", FaultSpecError::Form),
            ("tx-lose=1", FaultSpecError::Form),
            ("rx-seed=1", FaultSpecError::Form),
            ("rx-tx-drop=1", FaultSpecError::Form),
            ("drop=1.1", FaultSpecError::Rate),
            ("drop=-0.1", FaultSpecError::Rate),
            ("drop=NaN", FaultSpecError::Rate),
            ("drop=x", FaultSpecError::Rate),
            ("seed=1.5", FaultSpecError::Seed),
        ] {
            assert_eq!(spec(text), Err(error), "{text}");
        }
    }
}
