//! A service by name: `perftest:TEST[:PORT][,size=BYTES][,iterations=N]`.

use std::fmt;
use std::str::FromStr;

use crate::service::Session;
use crate::service::perftest;
use crate::service::perftest::{DEFAULT_PORT, Test};

/// What to serve, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceSpec {
    /// What.
    pub kind: ServiceKind,
    /// The TCP port.
    pub port: u16,
}

/// What to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceKind {
    /// A server of perftest.
    Perftest {
        /// The test.
        test: Test,
        /// The client's message size, where it is needed and cannot be found out quickly.
        size: Option<u32>,
        /// The client's iterations.
        iterations: Option<u64>,
    },
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
            Self::Test => fmt::Display::fmt(&perftest::UnknownTest, f),
            Self::Port => f.write_str("the TCP port is a number from 1 to 65535"),
            Self::Setting => f.write_str("the settings are size=BYTES and iterations=N, from 1"),
        }
    }
}

impl std::error::Error for ServiceSpecError {}

impl ServiceSpec {
    /// A session for a client that has just connected, with regions of `region_len` bytes.
    #[must_use]
    pub(crate) fn session(&self, id: u32, region_len: u32) -> Session {
        match self.kind {
            ServiceKind::Perftest { test, size, iterations } => {
                let options = perftest::Options { region_len, size, iterations };
                Session::Perftest(perftest::Session::new(id, test, options))
            }
        }
    }

    /// The longest message that it was told of, if it was.
    #[must_use]
    pub(crate) const fn size(&self) -> Option<u32> {
        match self.kind {
            ServiceKind::Perftest { size, .. } => size,
        }
    }
}

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
        let (mut size, mut iterations) = (None, None);
        for setting in parts {
            let (name, value) = setting.split_once('=').ok_or(ServiceSpecError::Setting)?;
            let value: u64 = value.parse().map_err(|_| ServiceSpecError::Setting)?;
            match name {
                _ if value == 0 => return Err(ServiceSpecError::Setting),
                "size" => {
                    size = Some(u32::try_from(value).map_err(|_| ServiceSpecError::Setting)?);
                }
                "iterations" => iterations = Some(value),
                _ => return Err(ServiceSpecError::Setting),
            }
        }
        Ok(Self { kind: ServiceKind::Perftest { test, size, iterations }, port })
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Perftest { test, .. } => write!(f, "perftest:{test}"),
        }
    }
}

impl fmt::Display for ServiceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let spec = |text: &str| text.parse::<ServiceSpec>();
        let perftest = |test, port, size, iterations| {
            Ok(ServiceSpec { kind: ServiceKind::Perftest { test, size, iterations }, port })
        };
        assert_eq!(spec("perftest:write_bw"), perftest(Test::WriteBw, 18515, None, None));
        assert_eq!(spec("perftest:write_bw:7"), perftest(Test::WriteBw, 7, None, None));
        assert_eq!(
            spec("perftest:write_lat:7,size=65536,iterations=10"),
            perftest(Test::WriteLat, 7, Some(65536), Some(10))
        );
        assert_eq!(spec("perftest:read_lat:9").unwrap().to_string(), "perftest:read_lat:9");
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
