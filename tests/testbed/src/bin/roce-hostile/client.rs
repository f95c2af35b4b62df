//! perftest's exchange over TCP, from the client's side, as far as the first queue pair.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use roce_codec::ib::{PathMtu, Psn, Qpn, RKey};

use crate::PATIENCE;

/// Path MTU that both ask for: what any Ethernet carries.
pub(crate) const MTU: PathMtu = PathMtu::Mtu1024;
/// READs and atomics that are agreed on, at most.
pub(crate) const OUT_READS: u8 = 4;
/// Bytes of a key message.
const KEY: usize = 108;

/// A queue pair, as one side tells the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) qpn: Qpn,
    pub(crate) psn: Psn,
    pub(crate) rkey: RKey,
    pub(crate) va: u64,
    pub(crate) out_reads: u8,
}

impl Key {
    fn emit(&self, address: Ipv4Addr) -> String {
        let gid: String =
            address.to_ipv6_mapped().octets().iter().map(|byte| format!("{byte:02x}:")).collect();
        format!(
            "{:04x}:{:04x}:{:06x}:{:06x}:{:08x}:{:016x}:{gid}{:08x}:\0",
            0,
            self.out_reads,
            self.qpn.get(),
            self.psn.get(),
            self.rkey.0,
            self.va,
            0
        )
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut fields = text.split(':').map(|field| u64::from_str_radix(field, 16).ok());
        let _lid = fields.next()??;
        let mut number = || u32::try_from(fields.next()??).ok();
        let out_reads = u8::try_from(number()?).unwrap_or(u8::MAX);
        let (qpn, psn, rkey) = (Qpn::new(number()?), Psn::new(number()?), RKey(number()?));
        let va = fields.next()??;
        Some(Self { qpn, psn, rkey, va, out_reads })
    }
}

/// A connected client: the server's queue pair lives as long as this.
#[derive(Debug)]
pub(crate) struct Client {
    tcp: TcpStream,
    /// The server's queue pair.
    pub(crate) server: Key,
}

impl Client {
    /// Connects, and tells the server of a queue pair of ours at `address`.
    pub(crate) fn connect(
        server: (Ipv4Addr, u16),
        address: Ipv4Addr,
        key: &Key,
    ) -> Result<Self, String> {
        let wrong = |what: &str| format!("port {}: {what}", server.1);
        let mut tcp = TcpStream::connect(server).map_err(|error| wrong(&error.to_string()))?;
        let io = |error: std::io::Error| wrong(&error.to_string());
        tcp.set_nodelay(true).map_err(io)?;
        tcp.set_read_timeout(Some(PATIENCE)).map_err(io)?;
        // The server answers each message with one of the same length; they need no turns.
        let mut hello = Vec::new();
        hello.extend(b"6.06\0\0\0\0\0\0\0\0\0\0\0\0");
        hello.extend(0x1000_u32.to_be_bytes());
        hello.extend(0x40_u32.to_be_bytes());
        hello.extend([b'0' + MTU.code(), 0]);
        hello.extend(key.emit(address).bytes());
        tcp.write_all(&hello).map_err(io)?;
        let mut answer = vec![0; hello.len()];
        tcp.read_exact(&mut answer).map_err(io)?;
        let server = answer.last_chunk::<KEY>().and_then(|key| Key::parse(key));
        Ok(Self { tcp, server: server.ok_or_else(|| wrong("no key in its answer"))? })
    }

    /// Whether the server has thrown us out.
    pub(crate) fn is_over(&mut self) -> bool {
        if self.tcp.set_nonblocking(true).is_err() {
            return true;
        }
        match self.tcp.read(&mut [0; 256]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}
