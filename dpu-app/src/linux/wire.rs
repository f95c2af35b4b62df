//! The port a command line asks for: a wire, what is recorded of it, and what goes wrong on it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use anyhow::Result;
use roce_codec::net::MacAddr;
use roce_dataplane::port::af_xdp::{AfXdpConfig, AfXdpPort};
use roce_dataplane::port::capture::CapturePort;
use roce_dataplane::port::fault::{FaultConfig, FaultCounts, FaultPort};
use roce_dataplane::port::packet::{PacketConfig, PacketPort};
use roce_dataplane::port::{Port, PortCounters, RxBurst, RxToken};

use super::recorder::Recorder;

/// A port by name: `af-xdp:IF` or `packet:IF`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSpec {
    /// AF_XDP sockets on an interface.
    AfXdp(String),
    /// An AF_PACKET socket on an interface.
    Packet(String),
}

impl PortSpec {
    /// The interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        match self {
            Self::AfXdp(interface) | Self::Packet(interface) => interface,
        }
    }
}

impl FromStr for PortSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((_, "")) | None => Err("it is af-xdp:INTERFACE or packet:INTERFACE"),
            Some(("af-xdp", interface)) => Ok(Self::AfXdp(interface.to_owned())),
            Some(("packet", interface)) => Ok(Self::Packet(interface.to_owned())),
            Some(_) => Err("there are the ports af-xdp and packet"),
        }
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfXdp(interface) => write!(f, "af-xdp:{interface}"),
            Self::Packet(interface) => write!(f, "packet:{interface}"),
        }
    }
}

/// Makes a port of an enumeration of ports.
macro_rules! one_of {
    ($enum:ident: $($variant:ident),*) => {
        impl Port for $enum {
            fn mac(&self) -> MacAddr {
                match self { $(Self::$variant(port) => port.mac(),)* }
            }
            fn mtu(&self) -> usize {
                match self { $(Self::$variant(port) => port.mtu(),)* }
            }
            fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
                match self { $(Self::$variant(port) => port.rx_burst(out),)* }
            }
            fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
                match self { $(Self::$variant(port) => port.frame(token),)* }
            }
            fn release(&mut self, token: RxToken) {
                match self { $(Self::$variant(port) => port.release(token),)* }
            }
            fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
                match self { $(Self::$variant(port) => port.tx_reserve(len),)* }
            }
            fn tx_commit(&mut self, len: usize) {
                match self { $(Self::$variant(port) => port.tx_commit(len),)* }
            }
            fn tx_flush(&mut self) {
                match self { $(Self::$variant(port) => port.tx_flush(),)* }
            }
            fn counters(&self) -> PortCounters {
                match self { $(Self::$variant(port) => port.counters(),)* }
            }
            fn wait(&mut self, timeout_ns: u64) {
                match self { $(Self::$variant(port) => port.wait(timeout_ns),)* }
            }
        }
    };
}

one_of!(Wire: AfXdp, Packet);
one_of!(Stack: Plain, Recorded, Faulty, FaultyRecorded);

/// The wire itself.
#[derive(Debug)]
pub(crate) enum Wire {
    AfXdp(Box<AfXdpPort>),
    Packet(Box<PacketPort>),
}

impl Wire {
    /// Opens the port. An AF_XDP port steers only what is for `addresses` to us.
    pub(crate) fn open(spec: &PortSpec, addresses: &[IpAddr]) -> Result<Self> {
        Ok(match spec {
            PortSpec::AfXdp(interface) => {
                let mut config = AfXdpConfig::new(interface);
                config.addresses = addresses.to_vec();
                Self::AfXdp(Box::new(AfXdpPort::open(&config)?))
            }
            PortSpec::Packet(interface) => {
                Self::Packet(Box::new(PacketPort::open(&PacketConfig::new(interface))?))
            }
        })
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfXdp(port) => port.describe().fmt(f),
            Self::Packet(_) => f.write_str("AF_PACKET"),
        }
    }
}

/// A wire, what is recorded of it, and what goes wrong on the way to us: the capture shows the
/// wire's side of the faults.
#[derive(Debug)]
pub(crate) enum Stack {
    Plain(Wire),
    Recorded(Box<CapturePort<Wire, Recorder>>),
    Faulty(Box<FaultPort<Wire>>),
    FaultyRecorded(Box<FaultPort<CapturePort<Wire, Recorder>>>),
}

impl Stack {
    pub(crate) fn new(
        wire: Wire,
        recorder: Option<Recorder>,
        faults: Option<&FaultConfig>,
    ) -> Self {
        match (recorder, faults) {
            (None, None) => Self::Plain(wire),
            (Some(recorder), None) => Self::Recorded(Box::new(CapturePort::new(wire, recorder))),
            (None, Some(faults)) => Self::Faulty(Box::new(FaultPort::new(wire, faults))),
            (Some(recorder), Some(faults)) => {
                let recorded = CapturePort::new(wire, recorder);
                Self::FaultyRecorded(Box::new(FaultPort::new(recorded, faults)))
            }
        }
    }

    /// Faults so far, on received and on sent frames.
    pub(crate) fn faults(&self) -> Option<[FaultCounts; 2]> {
        match self {
            Self::Plain(_) | Self::Recorded(_) => None,
            Self::Faulty(port) => Some(port.faults()),
            Self::FaultyRecorded(port) => Some(port.faults()),
        }
    }

    /// What the wire itself counts.
    pub(crate) fn wire_counters(&self) -> PortCounters {
        match self {
            Self::Plain(wire) => wire.counters(),
            Self::Recorded(port) => port.counters(),
            Self::Faulty(port) => port.inner().counters(),
            Self::FaultyRecorded(port) => port.inner().counters(),
        }
    }

    /// Completes the capture file.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self {
            Self::Plain(_) | Self::Faulty(_) => Ok(()),
            Self::Recorded(port) => port.sink_mut().finish(),
            Self::FaultyRecorded(port) => port.inner_mut().sink_mut().finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_by_name() {
        let port = |text: &str| text.parse::<PortSpec>();
        assert_eq!(port("af-xdp:eth0"), Ok(PortSpec::AfXdp("eth0".to_owned())));
        assert_eq!(port("packet:eth0.7"), Ok(PortSpec::Packet("eth0.7".to_owned())));
        assert_eq!(port("packet:eth0").unwrap().to_string(), "packet:eth0");
        for wrong in ["", "eth0", "packet", "packet:", "af_xdp:eth0", ":eth0"] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }
}
