//! What the command line may ask to serve: over TCP, or by the connection manager.

use std::fmt;
use std::str::FromStr;

use super::service_spec::{ServiceSpec, ServiceSpecError};
use crate::service::cm::CmService;
use crate::service::ucmatose::{self, Traffic};
use crate::service::{rping, udaddy};

/// A service by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// One whose clients begin over TCP.
    Tcp(ServiceSpec),
    /// One whose clients begin by the connection manager: `rping[:PORT]`, `udaddy[:PORT]`,
    /// `ucmatose[:PORT][,count=N][,size=BYTES]`.
    Cm(CmService),
}

impl FromStr for Served {
    type Err = ServiceSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (names, settings) = match text.split_once(',') {
            None => (text, None),
            Some((names, settings)) => (names, Some(settings)),
        };
        let (name, port) = match names.split_once(':') {
            None => (names, None),
            Some((name, port)) => (name, Some(port)),
        };
        let port = |default| match port {
            None => Ok(default),
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or(ServiceSpecError::Port),
        };
        match name {
            "rping" | "udaddy" if settings.is_some() => Err(ServiceSpecError::NoSetting),
            "rping" => Ok(Self::Cm(CmService::Rping { port: port(rping::DEFAULT_PORT)? })),
            "udaddy" => Ok(Self::Cm(CmService::Udaddy { port: port(udaddy::DEFAULT_PORT)? })),
            "ucmatose" => {
                let (port, traffic) = (port(ucmatose::DEFAULT_PORT)?, traffic(settings)?);
                Ok(Self::Cm(CmService::Ucmatose { port, traffic }))
            }
            _ => text.parse().map(Self::Tcp),
        }
    }
}

/// `count=N,size=BYTES`, either or none.
fn traffic(settings: Option<&str>) -> Result<Traffic, ServiceSpecError> {
    let mut traffic = Traffic::DEFAULT;
    for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
        let (name, value) = setting.split_once('=').ok_or(ServiceSpecError::UcmatoseSetting)?;
        let (place, most) = match name {
            "count" => (&mut traffic.count, ucmatose::MAX_COUNT),
            "size" => (&mut traffic.size, ucmatose::MAX_SIZE),
            _ => return Err(ServiceSpecError::UcmatoseSetting),
        };
        let value = value.parse().ok().filter(|value| (1..=most).contains(value));
        *place = value.ok_or(ServiceSpecError::UcmatoseSetting)?;
    }
    Ok(traffic)
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
        assert_eq!("rping,x".parse::<Served>(), Err(ServiceSpecError::NoSetting));
        assert_eq!("udaddy".parse(), Ok(Served::Cm(CmService::Udaddy { port: 7174 })));
        let ucmatose = |port, count, size| {
            let traffic = Traffic { count, size };
            Ok(Served::Cm(CmService::Ucmatose { port, traffic }))
        };
        assert_eq!("ucmatose".parse(), ucmatose(7471, 10, 100));
        assert_eq!("ucmatose:5,count=3,size=65536".parse(), ucmatose(5, 3, 65536));
        for wrong in ["count=0", "count=513", "size=65537", "size", "", "colour=1"] {
            let text = format!("ucmatose,{wrong}");
            assert_eq!(text.parse::<Served>(), Err(ServiceSpecError::UcmatoseSetting), "{text}");
        }
        let tcp = "perftest:write_bw:7";
        assert_eq!(tcp.parse().map(Served::Tcp), tcp.parse::<Served>());
        assert_eq!("rpings".parse::<Served>(), Err(ServiceSpecError::Form));
    }
}
