//! What the command line may ask to serve: over TCP, or by the connection manager.

use std::fmt;
use std::str::FromStr;

use super::service_spec::{ServiceSpec, ServiceSpecError};
use crate::service::cm::CmService;
use crate::service::rping;

/// A service by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// One whose clients begin over TCP.
    Tcp(ServiceSpec),
    /// One whose clients begin by the connection manager: `rping[:PORT]`.
    Cm(CmService),
}

impl FromStr for Served {
    type Err = ServiceSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, port) = match text.split_once(':') {
            None => (text, None),
            Some((name, port)) => (name, Some(port)),
        };
        let port = |default| match port {
            None => Ok(default),
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or(ServiceSpecError::Port),
        };
        match name {
            "rping" => Ok(Self::Cm(CmService::Rping { port: port(rping::DEFAULT_PORT)? })),
            _ => text.parse().map(Self::Tcp),
        }
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(service) => service.fmt(f),
            Self::Cm(service) => service.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let rping = |port| Ok(Served::Cm(CmService::Rping { port }));
        assert_eq!("rping".parse(), rping(7174));
        assert_eq!("rping:9".parse(), rping(9));
        for wrong in ["rping:", "rping:0", "rping:65536", "rping:1:2"] {
            assert_eq!(wrong.parse::<Served>(), Err(ServiceSpecError::Port), "{wrong}");
        }
        let tcp = "perftest:write_bw:7";
        assert_eq!(tcp.parse().map(Served::Tcp), tcp.parse::<Served>());
        assert_eq!("rpings".parse::<Served>(), Err(ServiceSpecError::Form));
    }
}
