//! A service by name: `perftest:TEST[:PORT][,size=BYTES][,iterations=N][,access=all]` or
//! `pingpong:TRANSPORT[:PORT][,mtu=BYTES][,iterations=N][,check]`.

use std::fmt;
use std::str::FromStr;

use roce_codec::ib::PathMtu;
use roce_engine::Access;

use crate::service::Session;
use crate::service::cm::CmService;
use crate::service::perftest::{self, Test};
use crate::service::pingpong::{self, Transport};

/// What to serve, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceSpec {
    /// What.
    pub kind: ServiceKind,
    /// The TCP port; with perftest's -R, RDMA CM's.
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
        /// What the client may do beside what the test needs.
        access: Access,
    },
    /// A server of `ibv_rc_pingpong` and its kin.
    Pingpong {
        /// Which of them.
        transport: Transport,
        /// The client's path MTU.
        path_mtu: PathMtu,
        /// The client's iterations.
        iterations: Option<u64>,
        /// Whether its messages are looked at.
        check: bool,
    },
}

/// What is wrong with a service's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceSpecError {
    /// Not of the form.
    Form,
    /// No such test of perftest.
    Test,
    /// No such transport of pingpong.
    Transport,
    /// Not a TCP port.
    Port,
    /// Not a setting of perftest, or not a number.
    PerftestSetting,
    /// Not a setting of pingpong, or not what it takes.
    PingpongSetting,
    /// Not a setting of ucmatose, or not what it takes.
    UcmatoseSetting,
    /// A service without settings.
    NoSetting,
}

impl fmt::Display for ServiceSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "it is perftest:TEST[:PORT], pingpong:TRANSPORT[:PORT], rping[:PORT], \
                 ucmatose[:PORT] or udaddy[:PORT]",
            ),
            Self::Test => fmt::Display::fmt(&perftest::UnknownTest, f),
            Self::Transport => fmt::Display::fmt(&pingpong::UnknownTransport, f),
            Self::Port => f.write_str("the TCP port is a number from 1 to 65535"),
            Self::PerftestSetting => {
                f.write_str("the settings are size=BYTES and iterations=N, from 1, and access=all")
            }
            Self::PingpongSetting => f.write_str(
                "the settings are mtu=BYTES (256, 512, 1024, 2048 or 4096; not for ud), \
                 iterations=N (from 1) and check",
            ),
            Self::UcmatoseSetting => f.write_str(
                "the settings are count=N (1 to 512) and size=BYTES (1 to 65536), as -C and -S at \
                 the client",
            ),
            Self::NoSetting => f.write_str("this service has no settings, only a port"),
        }
    }
}

impl std::error::Error for ServiceSpecError {}

impl ServiceSpec {
    /// A session for a client that has just connected, with messages of up to `region_len` bytes.
    #[must_use]
    pub(crate) fn session(&self, id: u32, region_len: u32) -> Session {
        match self.kind {
            ServiceKind::Perftest { test, size, iterations, access } => {
                let options = perftest::Options { region_len, size, iterations, access };
                Session::Perftest(perftest::Session::new(id, test, options))
            }
            ServiceKind::Pingpong { transport, path_mtu, iterations, check } => {
                let size = region_len;
                let options = pingpong::Options { transport, path_mtu, size, iterations, check };
                Session::Pingpong(pingpong::Session::new(id, options))
            }
        }
    }

    /// The same for clients that come by the connection manager, if it has such: at the same port, of
    /// RDMA CM's.
    #[must_use]
    pub(crate) const fn by_cm(&self, region_len: u32) -> Option<CmService> {
        match self.kind {
            ServiceKind::Perftest { test, size, iterations, access } => {
                let options = perftest::Options { region_len, size, iterations, access };
                Some(CmService::Perftest { port: self.port, test, options })
            }
            ServiceKind::Pingpong { .. } => None,
        }
    }

    /// The longest message that it was told of, if it was.
    #[must_use]
    pub(crate) const fn size(&self) -> Option<u32> {
        match self.kind {
            ServiceKind::Perftest { size, .. } => size,
            ServiceKind::Pingpong { .. } => None,
        }
    }

    /// The path MTU that it uses, where the client does not say.
    #[must_use]
    pub(crate) const fn path_mtu(&self) -> Option<PathMtu> {
        match self.kind {
            ServiceKind::Perftest { .. } => None,
            ServiceKind::Pingpong { transport: Transport::Ud, .. } => None,
            ServiceKind::Pingpong { path_mtu, .. } => Some(path_mtu),
        }
    }
}

impl FromStr for ServiceSpec {
    type Err = ServiceSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (names, settings) = match text.split_once(',') {
            None => (text, None),
            Some((names, settings)) => (names, Some(settings.split(','))),
        };
        let mut names = names.split(':');
        let service = names.next();
        let what = names.next().ok_or(ServiceSpecError::Form)?;
        let settings = settings.into_iter().flatten();
        let (kind, default_port) = match service {
            Some("perftest") => (perftest_kind(what, settings)?, perftest::DEFAULT_PORT),
            Some("pingpong") => (pingpong_kind(what, settings)?, pingpong::DEFAULT_PORT),
            _ => return Err(ServiceSpecError::Form),
        };
        let port = match names.next() {
            None => default_port,
            Some(port) => {
                port.parse().ok().filter(|port| *port != 0).ok_or(ServiceSpecError::Port)?
            }
        };
        if names.next().is_some() {
            return Err(ServiceSpecError::Form);
        }
        Ok(Self { kind, port })
    }
}

fn perftest_kind<'a>(
    test: &str,
    settings: impl Iterator<Item = &'a str>,
) -> Result<ServiceKind, ServiceSpecError> {
    let test = test.parse().map_err(|_| ServiceSpecError::Test)?;
    let (mut size, mut iterations, mut access) = (None, None, Access::NONE);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or(ServiceSpecError::PerftestSetting)?;
        match name {
            "size" => size = positive(value).and_then(|size| u32::try_from(size).ok()),
            "iterations" => iterations = positive(value),
            "access" if value == "all" => access = Access::ALL,
            _ => return Err(ServiceSpecError::PerftestSetting),
        }
        if matches!((name, size, iterations), ("size", None, _) | ("iterations", _, None)) {
            return Err(ServiceSpecError::PerftestSetting);
        }
    }
    Ok(ServiceKind::Perftest { test, size, iterations, access })
}

fn pingpong_kind<'a>(
    transport: &str,
    settings: impl Iterator<Item = &'a str>,
) -> Result<ServiceKind, ServiceSpecError> {
    let transport = transport.parse().map_err(|_| ServiceSpecError::Transport)?;
    let (mut path_mtu, mut iterations, mut check) = (pingpong::DEFAULT_PATH_MTU, None, false);
    for setting in settings {
        match setting.split_once('=') {
            None if setting == "check" => check = true,
            Some(("mtu", bytes)) if transport != Transport::Ud => {
                path_mtu = bytes
                    .parse()
                    .ok()
                    .and_then(PathMtu::from_bytes)
                    .ok_or(ServiceSpecError::PingpongSetting)?;
            }
            Some(("iterations", count)) => {
                iterations = Some(positive(count).ok_or(ServiceSpecError::PingpongSetting)?);
            }
            _ => return Err(ServiceSpecError::PingpongSetting),
        }
    }
    Ok(ServiceKind::Pingpong { transport, path_mtu, iterations, check })
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|value| *value != 0)
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Perftest { test, .. } => write!(f, "perftest:{test}"),
            Self::Pingpong { transport, .. } => write!(f, "pingpong:{transport}"),
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
            let access = Access::NONE;
            Ok(ServiceSpec { kind: ServiceKind::Perftest { test, size, iterations, access }, port })
        };
        assert_eq!(spec("perftest:write_bw"), perftest(Test::WriteBw, 18515, None, None));
        assert_eq!(spec("perftest:write_bw:7"), perftest(Test::WriteBw, 7, None, None));
        assert_eq!(
            spec("perftest:write_lat:7,size=65536,iterations=10"),
            perftest(Test::WriteLat, 7, Some(65536), Some(10))
        );
        let all = spec("perftest:atomic_lat:7,access=all").unwrap().kind;
        assert!(matches!(all, ServiceKind::Perftest { access: Access::ALL, .. }));
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
            ("perftest:write_bw,", ServiceSpecError::PerftestSetting),
            ("perftest:write_bw,size", ServiceSpecError::PerftestSetting),
            ("perftest:write_bw,size=0", ServiceSpecError::PerftestSetting),
            ("perftest:write_bw,size=4294967296", ServiceSpecError::PerftestSetting),
            ("perftest:write_bw,access=none", ServiceSpecError::PerftestSetting),
            ("perftest:write_bw,colour=1", ServiceSpecError::PerftestSetting),
        ] {
            assert_eq!(spec(text), Err(error), "{text}");
        }
    }

    #[test]
    fn names_of_pingpong() {
        let spec = |text: &str| text.parse::<ServiceSpec>();
        let kind = |transport, path_mtu, iterations, check| ServiceKind::Pingpong {
            transport,
            path_mtu,
            iterations,
            check,
        };
        let plain = kind(Transport::Rc, PathMtu::Mtu1024, None, false);
        assert_eq!(spec("pingpong:rc"), Ok(ServiceSpec { kind: plain, port: 18515 }));
        let all = kind(Transport::Uc, PathMtu::Mtu4096, Some(7), true);
        assert_eq!(
            spec("pingpong:uc:9,mtu=4096,iterations=7,check"),
            Ok(ServiceSpec { kind: all, port: 9 })
        );
        assert_eq!(spec("pingpong:uc").unwrap().to_string(), "pingpong:uc:18515");
        for (text, error) in [
            ("pingpong", ServiceSpecError::Form),
            ("pingpong:", ServiceSpecError::Transport),
            ("pingpong:write_bw", ServiceSpecError::Transport),
            ("pingpong:rc:x", ServiceSpecError::Port),
            ("pingpong:rc:1:2", ServiceSpecError::Form),
            ("pingpong:rc,", ServiceSpecError::PingpongSetting),
            ("pingpong:rc,mtu=1000", ServiceSpecError::PingpongSetting),
            ("pingpong:ud,mtu=1024", ServiceSpecError::PingpongSetting),
            ("pingpong:rc,iterations=0", ServiceSpecError::PingpongSetting),
            ("pingpong:rc,check=1", ServiceSpecError::PingpongSetting),
            ("pingpong:rc,size=1", ServiceSpecError::PingpongSetting),
        ] {
            assert_eq!(spec(text), Err(error), "{text}");
        }
    }
}
