//! Faults by name: `drop=0.02,duplicate=0.02,reorder=0.02,corrupt=0,delay=0,seed=N`.

use std::fmt;
use std::str::FromStr;

use roce_dataplane::port::fault::{FaultConfig, FaultRates};

/// Faults on a port, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultSpec {
    /// How often each strikes.
    pub rates: FaultRates,
    /// What decides which frames.
    pub seed: u64,
}

impl FaultSpec {
    /// As a fault port's settings.
    #[must_use]
    pub const fn config(&self) -> FaultConfig {
        FaultConfig { rx: self.rates, tx: self.rates, seed: self.seed }
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
                "faults are drop, duplicate, reorder, corrupt and delay, each =RATE, and seed=N, \
                 with commas between"
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
            let rates = &mut spec.rates;
            let rate = match name {
                "seed" => {
                    spec.seed = value.parse().map_err(|_| FaultSpecError::Seed)?;
                    continue;
                }
                "drop" => &mut rates.drop,
                "duplicate" => &mut rates.duplicate,
                "reorder" => &mut rates.reorder,
                "corrupt" => &mut rates.corrupt,
                "delay" => &mut rates.delay,
                _ => return Err(FaultSpecError::Form),
            };
            let value = value.parse::<f64>().map_err(|_| FaultSpecError::Rate)?;
            if !(0.0..=1.0).contains(&value) {
                return Err(FaultSpecError::Rate);
            }
            *rate = value;
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let spec = |text: &str| text.parse::<FaultSpec>();
        let rates = FaultRates { drop: 0.02, reorder: 1.0, ..FaultRates::default() };
        assert_eq!(spec("drop=0.02,seed=7,reorder=1"), Ok(FaultSpec { rates, seed: 7 }));
        for (text, error) in [
            ("", FaultSpecError::Form),
            ("drop", FaultSpecError::Form),
            ("lose=1", FaultSpecError::Form),
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
