//! A service by name: `perftest:TEST[:PORT][,size=BYTES][,iterations=N]`.

use std::fmt;
use std::str::FromStr;

use crate::service::perftest::{DEFAULT_PORT, Test};

/// What to serve, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceSpec {
    /// The test.
    pub test: Test,
    /// The TCP port.
    pub port: u16,
    /// The client's message size, where it is needed and cannot be found out quickly.
    pub size: Option<u32>,
    /// The client's iterations.
    pub iterations: Option<u64>,
}

/// What is wrong with a service's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceSpecError {
    /// Not of the form.
    Form,
    /// No such test.
    Test,
    /// Not a TCP port.
    Port,
    /// Not a setting, or not a number.
    Setting,
}

impl fmt::Display for ServiceSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("it is perftest:TEST[:PORT]"),
            Self::Test => fmt::Display::fmt(&crate::service::perftest::UnknownTest, f),
            Self::Port => f.write_str("the TCP port is a number from 1 to 65535"),
            Self::Setting => f.write_str("the settings are size=BYTES and iterations=N, from 1"),
        }
    }
}

impl std::error::Error for ServiceSpecError {}

impl FromStr for ServiceSpec {
    type Err = ServiceSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let mut names = parts.next().unwrap_or_default().split(':');
        if names.next() != Some("perftest") {
            return Err(ServiceSpecError::Form);
        }
        let test = names.next().ok_or(ServiceSpecError::Form)?;
        let test = test.parse().map_err(|_| ServiceSpecError::Test)?;
        let port = match names.next() {
            None => DEFAULT_PORT,
            Some(port) => {
                port.parse().ok().filter(|port| *port != 0).ok_or(ServiceSpecError::Port)?
            }
        };
        if names.next().is_some() {
            return Err(ServiceSpecError::Form);
        }
        let mut spec = Self { test, port, size: None, iterations: None };
        for setting in parts {
            let (name, value) = setting.split_once('=').ok_or(ServiceSpecError::Setting)?;
            let value: u64 = value.parse().map_err(|_| ServiceSpecError::Setting)?;
            match name {
                _ if value == 0 => return Err(ServiceSpecError::Setting),
                "size" => {
                    spec.size = Some(u32::try_from(value).map_err(|_| ServiceSpecError::Setting)?);
                }
                "iterations" => spec.iterations = Some(value),
                _ => return Err(ServiceSpecError::Setting),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for ServiceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "perftest:{}:{}", self.test, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let spec = |text: &str| text.parse::<ServiceSpec>();
        let plain = ServiceSpec { test: Test::WriteBw, port: 18515, size: None, iterations: None };
        assert_eq!(spec("perftest:write_bw"), Ok(plain));
        assert_eq!(spec("perftest:write_bw:7"), Ok(ServiceSpec { port: 7, ..plain }));
        assert_eq!(
            spec("perftest:write_lat:7,size=65536,iterations=10"),
            Ok(ServiceSpec {
                test: Test::WriteLat,
                port: 7,
                size: Some(65536),
                iterations: Some(10)
            })
        );
        for (text, error) in [
            ("", ServiceSpecError::Form),
            ("perftest", ServiceSpecError::Form),
            ("rping", ServiceSpecError::Form),
            ("perftest:", ServiceSpecError::Test),
            ("perftest:write", ServiceSpecError::Test),
            ("perftest:write_bw:", ServiceSpecError::Port),
            ("perftest:write_bw:0", ServiceSpecError::Port),
            ("perftest:write_bw:65536", ServiceSpecError::Port),
            ("perftest:write_bw:1:2", ServiceSpecError::Form),
            ("perftest:write_bw,", ServiceSpecError::Setting),
            ("perftest:write_bw,size", ServiceSpecError::Setting),
            ("perftest:write_bw,size=0", ServiceSpecError::Setting),
            ("perftest:write_bw,size=4294967296", ServiceSpecError::Setting),
            ("perftest:write_bw,colour=1", ServiceSpecError::Setting),
        ] {
            assert_eq!(spec(text), Err(error), "{text}");
        }
    }
}
