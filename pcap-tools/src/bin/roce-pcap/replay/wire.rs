//! `roce-pcap replay --port`: out of an interface, to a responder elsewhere.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use roce_codec::net::MacAddr;
use roce_pcap::replay::{Replay, Report, SendOptions, Speed, Target};

#[derive(clap::Args)]
pub(crate) struct WireArgs {
    /// Send the requests out of an interface, to a responder elsewhere: packet:IF (CAP_NET_RAW) or
    /// af-xdp:IF (also CAP_NET_ADMIN and CAP_BPF). `roce-responder replay-target` is one
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<PortSpec>,
    /// Put one address in place of another: the requester's becomes the interface's own, the
    /// responder's the target's (repeat)
    #[arg(long, value_name = "CAPTURED=NEW", requires = "port")]
    map: Vec<Pair<Address>>,
    /// Whose requests are sent, by the captured address; the first requester's unless given
    #[arg(long, value_name = "ADDRESS", requires = "port")]
    from: Option<IpAddr>,
    /// The target's queue pair for a captured one (repeat)
    #[arg(long, value_name = "CAPTURED=NEW", requires = "port")]
    qpn: Vec<Pair<Number>>,
    /// The queue pair that the target's answers come to, for a captured one (repeat)
    #[arg(long, value_name = "CAPTURED=NEW", requires = "port")]
    peer_qpn: Vec<Pair<Number>>,
    /// The PSN that the target expects first, for a captured queue pair (repeat)
    #[arg(long, value_name = "QPN=PSN", requires = "port")]
    psn: Vec<Pair<Number>>,
    /// The target's R_Key for a captured one (repeat)
    #[arg(long, value_name = "CAPTURED=NEW", requires = "port")]
    rkey: Vec<Pair<Number>>,
    /// Where virtual addresses from a captured one on lie at the target (repeat)
    #[arg(long, value_name = "CAPTURED=NEW", requires = "port")]
    va: Vec<Pair<Number>>,
    /// The next hop's MAC address; the kernel's neighbour table is asked unless given
    #[arg(long, value_name = "MAC", requires = "port")]
    mac: Option<Mac>,
    /// original, max (each request when what came before it in the capture has been answered), or a
    /// factor: 2 is twice as fast. In process, time is the capture's and takes none
    #[arg(long, value_name = "SPEED", default_value = "original")]
    speed: SpeedArg,
    /// Milliseconds that an answer is waited for
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    timeout: u64,
}

/// A port by name: `packet:IF` or `af-xdp:IF`.
#[derive(Debug, Clone)]
pub(crate) enum PortSpec {
    Packet(String),
    AfXdp(String),
}

impl FromStr for PortSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("packet", interface)) if !interface.is_empty() => {
                Ok(Self::Packet(interface.to_owned()))
            }
            Some(("af-xdp", interface)) if !interface.is_empty() => {
                Ok(Self::AfXdp(interface.to_owned()))
            }
            _ => Err("it is packet:INTERFACE or af-xdp:INTERFACE"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Address(IpAddr);

impl FromStr for Address {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Decimal, or hexadecimal behind `0x`.
#[derive(Debug, Clone, Copy)]
struct Number(u64);

impl FromStr for Number {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        }
        .map(Self)
    }
}

#[derive(Debug, Clone, Copy)]
struct Mac(MacAddr);

impl FromStr for Mac {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().and_then(|part| u8::from_str_radix(part, 16).ok());
            *byte = part.ok_or("it is six bytes in hexadecimal, 52:54:00:12:34:56")?;
        }
        match parts.next() {
            None => Ok(Self(MacAddr(bytes))),
            Some(_) => Err("it is six bytes, no more"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct SpeedArg(Speed);

impl FromStr for SpeedArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let speed = match text {
            "original" => Speed::Times(1.0),
            "max" => Speed::Max,
            factor => match factor.parse() {
                Ok(times) if (1e-3..=1e6).contains(&times) => Speed::Times(times),
                _ => return Err("it is original, max, or a factor from 0.001 to 1000000"),
            },
        };
        Ok(Self(speed))
    }
}

/// `A=B`.
#[derive(Debug, Clone, Copy)]
struct Pair<T>(T, T);

impl<T: FromStr<Err: std::fmt::Display>> FromStr for Pair<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, to) = text.split_once('=').ok_or("it is CAPTURED=NEW")?;
        let parse = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
        Ok(Self(parse(from)?, parse(to)?))
    }
}

/// Pairs of numbers of so many bits.
fn narrow<C: FromIterator<(u32, u32)>>(
    what: &str,
    bits: u32,
    pairs: &[Pair<Number>],
) -> Result<C, String> {
    let fits = |Number(number): Number| {
        let narrow = u32::try_from(number).ok().filter(|number| bits == 32 || number >> bits == 0);
        narrow.ok_or_else(|| format!("--{what}: {number:#x} has more than {bits} bits"))
    };
    pairs.iter().map(|Pair(from, to)| Ok::<_, String>((fits(*from)?, fits(*to)?))).collect()
}

impl WireArgs {
    fn options(&self) -> Result<SendOptions, String> {
        let target = Target {
            addresses: self.map.iter().map(|Pair(from, to)| (from.0, to.0)).collect(),
            qpns: narrow("qpn", 24, &self.qpn)?,
            peer_qpns: narrow("peer-qpn", 24, &self.peer_qpn)?,
            first_psns: narrow("psn", 24, &self.psn)?,
            rkeys: narrow("rkey", 32, &self.rkey)?,
            vas: self.va.iter().map(|Pair(from, to)| (from.0, to.0)).collect(),
        };
        let mut options = SendOptions::new(target);
        options.from = self.from;
        options.speed = self.speed.0;
        options.timeout = Duration::from_millis(self.timeout);
        Ok(options)
    }
}

/// Sends, and says what came back.
#[cfg(target_os = "linux")]
pub(crate) fn send(args: &WireArgs, spec: &PortSpec, replay: &Replay) -> Result<Report, String> {
    use roce_dataplane::port::af_xdp::{AfXdpConfig, AfXdpPort};
    use roce_dataplane::port::packet::{PacketConfig, PacketPort};

    let options = args.options()?;
    match spec {
        PortSpec::Packet(interface) => {
            let config = PacketConfig::new(interface);
            let mut port = PacketPort::open(&config).map_err(|error| error.to_string())?;
            send_on(&mut port, interface, args, replay, &options)
        }
        PortSpec::AfXdp(interface) => {
            let config = AfXdpConfig::new(interface);
            let mut port = AfXdpPort::open(&config).map_err(|error| error.to_string())?;
            send_on(&mut port, interface, args, replay, &options)
        }
    }
}

#[cfg(target_os = "linux")]
fn send_on<P: roce_dataplane::port::Port>(
    port: &mut P,
    interface: &str,
    args: &WireArgs,
    replay: &Replay,
    options: &SendOptions,
) -> Result<Report, String> {
    use roce_codec::net::VlanStack;
    use roce_dataplane::neighbour::Neighbours;
    use std::time::Instant;

    /// How long a neighbour is looked for.
    const PATIENCE: Duration = Duration::from_secs(3);

    let mut neighbours = match args.mac {
        Some(_) => None,
        None => Some(Neighbours::open(interface, 64).map_err(|error| error.to_string())?),
    };
    let link = |there: IpAddr| {
        if let Some(Mac(mac)) = args.mac {
            return Some((mac, VlanStack::EMPTY));
        }
        let neighbours = neighbours.as_mut()?;
        let hop = neighbours.resolve(there, None).ok()?;
        let begun = Instant::now();
        loop {
            neighbours.poll();
            if let Some(mac) = neighbours.get(hop) {
                return Some((mac, VlanStack::EMPTY));
            }
            if begun.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    replay.send(port, link, P::wait, options).map_err(|error| error.to_string())
}

/// Sends, and says what came back.
#[cfg(not(target_os = "linux"))]
pub(crate) fn send(args: &WireArgs, _: &PortSpec, _: &Replay) -> Result<Report, String> {
    args.options()?;
    Err("--port needs Linux".into())
}
