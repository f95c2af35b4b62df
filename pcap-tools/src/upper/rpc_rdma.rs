//! RPC-over-RDMA version 1 (RFC 8166), its private data in the CM exchange (RFC 8797), and the
//! header of the RPC message that follows (RFC 5531). Everything is XDR: big-endian words.
//!
//! ```text
//!  word
//!    0  XID
//!    1  version, 1
//!    2  credits
//!    3  procedure: 0 RDMA_MSG, 1 RDMA_NOMSG, 2 RDMA_MSGP, 3 RDMA_DONE, 4 RDMA_ERROR
//!    4  read list, write list, reply chunk; the RPC message
//! ```

use std::fmt;

use super::bytes::{be16, be32};

/// Segments of chunks that are counted; a longer list is believed to be none.
const MAX_SEGMENTS: u32 = 4096;

/// An RPC-over-RDMA message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcRdma {
    /// Transaction ID.
    pub xid: u32,
    /// Version of the protocol.
    pub version: u32,
    /// Credits asked for, or granted.
    pub credits: u32,
    /// What it is, as a number.
    pub procedure: u32,
    /// The chunk lists, where there are some and they are whole.
    pub chunks: Option<Chunks>,
    /// Of an RDMA_ERROR: 1 is a wrong version, 2 a bad chunk.
    pub error: Option<u32>,
    /// The RPC message that follows.
    pub rpc: Option<Rpc>,
}

/// What the chunk lists hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chunks {
    /// Segments of the read list.
    pub reads: u32,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Chunks of the write list.
    pub writes: u32,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Segments of the reply chunk.
    pub reply: u32,
    /// Bytes of it.
    pub reply_bytes: u64,
}

/// The header of an RPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// Transaction ID.
    pub xid: u32,
    /// What it is.
    pub body: RpcBody,
}

/// A call or a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcBody {
    /// A call.
    Call {
        /// The program, such as 100003, NFS.
        program: u32,
        /// Its version.
        version: u32,
        /// The procedure.
        procedure: u32,
    },
    /// A reply.
    Reply {
        /// It was accepted.
        accepted: bool,
    },
}

impl RpcRdma {
    /// Parses the payload of a SEND; `None` if it is too short for one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut message = Self {
            xid: be32(bytes, 0)?,
            version: be32(bytes, 4)?,
            credits: be32(bytes, 8)?,
            procedure: be32(bytes, 12)?,
            chunks: None,
            error: None,
            rpc: None,
        };
        if message.version != 1 {
            return Some(message);
        }
        // RDMA_MSGP has two words, of padding, before its lists.
        let lists_at = if message.procedure == 2 { 24 } else { 16 };
        match message.procedure {
            0..=2 => {
                if let Some((chunks, end)) = Chunks::parse(bytes, lists_at) {
                    message.chunks = Some(chunks);
                    if message.procedure != 1 {
                        message.rpc = bytes.get(end..).and_then(Rpc::parse);
                    }
                }
            }
            4 => message.error = be32(bytes, 16),
            _ => {}
        }
        Some(message)
    }

    /// Whether those bytes can be nothing but RPC-over-RDMA with an RPC message in it: the
    /// version, whole chunk lists, and behind them the same XID and a call of RPC version 2 or a
    /// reply.
    pub(super) fn is_message(bytes: &[u8]) -> bool {
        Self::parse(bytes).is_some_and(|message| {
            message.version == 1
                && message.procedure == 0
                && message.credits > 0
                && message.rpc.is_some_and(|rpc| rpc.xid == message.xid)
        })
    }

    /// The name of what it is.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self.procedure {
            0 => "RDMA_MSG",
            1 => "RDMA_NOMSG",
            2 => "RDMA_MSGP",
            3 => "RDMA_DONE",
            4 => "RDMA_ERROR",
            _ => return None,
        })
    }
}

impl Chunks {
    /// The three lists, and where they end.
    fn parse(bytes: &[u8], at: usize) -> Option<(Self, usize)> {
        let mut words = Words { bytes, at };
        let mut chunks = Self::default();
        while words.flag()? {
            words.word()?;
            chunks.read_bytes += words.segment()?;
            chunks.reads += 1;
        }
        while words.flag()? {
            let count = words.word().filter(|count| *count <= MAX_SEGMENTS)?;
            for _ in 0..count {
                chunks.write_bytes += words.segment()?;
            }
            chunks.writes += 1;
        }
        if words.flag()? {
            chunks.reply = words.word().filter(|count| *count <= MAX_SEGMENTS)?;
            for _ in 0..chunks.reply {
                chunks.reply_bytes += words.segment()?;
            }
        }
        Some((chunks, words.at))
    }
}

struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn word(&mut self) -> Option<u32> {
        let word = be32(self.bytes, self.at)?;
        self.at += 4;
        Some(word)
    }

    /// Whether another one follows.
    fn flag(&mut self) -> Option<bool> {
        match self.word()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Handle, length, offset of 64 bits; gives the length.
    fn segment(&mut self) -> Option<u64> {
        self.word()?;
        let len = self.word()?;
        self.word()?;
        self.word()?;
        Some(u64::from(len))
    }
}

impl Rpc {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let xid = be32(bytes, 0)?;
        let body = match (be32(bytes, 4)?, be32(bytes, 8)?) {
            (0, 2) => RpcBody::Call {
                program: be32(bytes, 12)?,
                version: be32(bytes, 16)?,
                procedure: be32(bytes, 20)?,
            },
            (1, state @ 0..=1) => RpcBody::Reply { accepted: state == 0 },
            _ => return None,
        };
        Some(Self { xid, body })
    }
}

impl RpcBody {
    /// The program's name.
    #[must_use]
    pub const fn program_name(&self) -> Option<&'static str> {
        match self {
            Self::Call { program: 100_000, .. } => Some("PORTMAP"),
            Self::Call { program: 100_003, .. } => Some("NFS"),
            Self::Call { program: 100_005, .. } => Some("MOUNT"),
            Self::Call { program: 100_021, .. } => Some("NLM"),
            Self::Call { program: 100_227, .. } => Some("NFSACL"),
            _ => None,
        }
    }

    /// The procedure's name, of NFS versions 3 and 4.
    #[must_use]
    pub fn procedure_name(&self) -> Option<&'static str> {
        const NFS3: [&str; 22] = [
            "NULL",
            "GETATTR",
            "SETATTR",
            "LOOKUP",
            "ACCESS",
            "READLINK",
            "READ",
            "WRITE",
            "CREATE",
            "MKDIR",
            "SYMLINK",
            "MKNOD",
            "REMOVE",
            "RMDIR",
            "RENAME",
            "LINK",
            "READDIR",
            "READDIRPLUS",
            "FSSTAT",
            "FSINFO",
            "PATHCONF",
            "COMMIT",
        ];
        match *self {
            Self::Call { procedure: 0, .. } => Some("NULL"),
            Self::Call { program: 100_003, version: 3, procedure } => {
                NFS3.get(usize::try_from(procedure).ok()?).copied()
            }
            Self::Call { program: 100_003, version: 4, procedure: 1 } => Some("COMPOUND"),
            _ => None,
        }
    }
}

/// What both sides can do, in the private data of REQ and REP (RFC 8797).
///
/// ```text
///  byte
///    0  format identifier 0xf6ab0e18
///    4  version 8, Resv7, remote invalidation 1
///    6  send size 8, receive size 8: KiB, less one
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpcConnect {
    /// Version.
    pub version: u8,
    /// The sender lets its keys be invalidated by SEND with invalidate.
    pub remote_invalidation: bool,
    /// The longest SEND it makes, in bytes.
    pub send_size: u32,
    /// The longest SEND it takes, in bytes.
    pub receive_size: u32,
}

impl RpcConnect {
    const FORMAT: u32 = 0xf6ab_0e18;

    /// From private data, behind the IP CM header of a REQ; `None` unless it begins with the
    /// format identifier.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        if be32(data, 0)? != Self::FORMAT {
            return None;
        }
        let [version, flags] = be16(data, 4)?.to_be_bytes();
        let [send, receive] = be16(data, 6)?.to_be_bytes();
        let bytes = |size: u8| (u32::from(size) + 1) * 1024;
        Some(Self {
            version,
            remote_invalidation: flags & 1 != 0,
            send_size: bytes(send),
            receive_size: bytes(receive),
        })
    }
}

impl fmt::Display for RpcConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { send_size, receive_size, .. } = self;
        write!(f, "connect send_size={send_size} receive_size={receive_size}")
    }
}

impl fmt::Display for RpcRdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) if self.version == 1 => f.write_str(name)?,
            _ => write!(f, "version {} procedure {}", self.version, self.procedure)?,
        }
        write!(f, " xid={:#010x} credits={}", self.xid, self.credits)?;
        if let Some(chunks) = self.chunks {
            for (name, bytes, some) in [
                ("read", chunks.read_bytes, chunks.reads > 0),
                ("write", chunks.write_bytes, chunks.writes > 0),
                ("reply", chunks.reply_bytes, chunks.reply > 0),
            ] {
                if some {
                    write!(f, " {name}={bytes}")?;
                }
            }
        }
        match self.rpc.map(|rpc| rpc.body) {
            Some(body @ RpcBody::Call { program, version, procedure }) => {
                match body.program_name() {
                    Some(name) => write!(f, " call {name}v{version}")?,
                    None => write!(f, " call {program} v{version}")?,
                }
                match body.procedure_name() {
                    Some(name) => write!(f, " {name}"),
                    None => write!(f, " procedure {procedure}"),
                }
            }
            Some(RpcBody::Reply { accepted: true }) => f.write_str(" reply"),
            Some(RpcBody::Reply { accepted: false }) => f.write_str(" reply, denied"),
            None => match self.error {
                Some(1) => f.write_str(" ERR_VERS"),
                Some(2) => f.write_str(" ERR_CHUNK"),
                Some(error) => write!(f, " error {error}"),
                None => Ok(()),
            },
        }
    }
}
