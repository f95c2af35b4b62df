//! SMB Direct ([MS-SMBD]), and the command of the SMB2 message that it may carry ([MS-SMB2]).
//! Everything is little-endian.
//!
//! ```text
//!  byte  Negotiate Request      Negotiate Response       Data Transfer
//!    0   MinVersion 16          MinVersion 16            CreditsRequested 16
//!    2   MaxVersion 16          MaxVersion 16            CreditsGranted 16
//!    4   Reserved 16            NegotiatedVersion 16     Flags 16
//!    6   CreditsRequested 16    Reserved 16              Reserved 16
//!    8   PreferredSendSize 32   CreditsRequested 16,     RemainingDataLength 32
//!   10                          CreditsGranted 16
//!   12   MaxReceiveSize 32      Status 32                DataOffset 32
//!   16   MaxFragmentedSize 32   MaxReadWriteSize 32      DataLength 32
//!   20                          PreferredSendSize 32     padding to the data
//!   24                          MaxReceiveSize 32
//!   28                          MaxFragmentedSize 32
//! ```

use std::fmt;

use super::bytes::{array, le16, le32, le64};

/// The only version there is.
const VERSION: u16 = 0x0100;

/// An SMB Direct message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmbDirect {
    /// The first message of who connects.
    NegotiateRequest {
        /// Lowest version.
        min_version: u16,
        /// Highest version.
        max_version: u16,
        /// Credits asked for.
        credits_requested: u16,
        /// Bytes it would like to send at once.
        preferred_send_size: u32,
        /// Bytes it receives at once.
        max_receive_size: u32,
        /// Bytes it puts together.
        max_fragmented_size: u32,
    },
    /// The first message of who was connected to.
    NegotiateResponse {
        /// Lowest version.
        min_version: u16,
        /// Highest version.
        max_version: u16,
        /// The version chosen.
        negotiated_version: u16,
        /// Credits asked for.
        credits_requested: u16,
        /// Credits given.
        credits_granted: u16,
        /// 0, or an NTSTATUS.
        status: u32,
        /// Bytes it reads or writes by RDMA at once.
        max_read_write_size: u32,
        /// Bytes it would like to send at once.
        preferred_send_size: u32,
        /// Bytes it receives at once.
        max_receive_size: u32,
        /// Bytes it puts together.
        max_fragmented_size: u32,
    },
    /// Data, or credits alone.
    Data {
        /// Credits asked for.
        credits_requested: u16,
        /// Credits given.
        credits_granted: u16,
        /// Bit 0: an answer is wanted at once.
        flags: u16,
        /// Bytes of the same message that follow in others.
        remaining_len: u32,
        /// Where the data begins.
        data_offset: u32,
        /// Bytes of data.
        data_len: u32,
        /// The SMB2 message that begins there.
        smb2: Option<Smb2>,
    },
}

impl SmbDirect {
    /// Parses the first message of who connects.
    #[must_use]
    pub fn negotiate_request(bytes: &[u8]) -> Option<Self> {
        Some(Self::NegotiateRequest {
            min_version: le16(bytes, 0)?,
            max_version: le16(bytes, 2)?,
            credits_requested: le16(bytes, 6)?,
            preferred_send_size: le32(bytes, 8)?,
            max_receive_size: le32(bytes, 12)?,
            max_fragmented_size: le32(bytes, 16)?,
        })
    }

    /// Parses the first message of who was connected to.
    #[must_use]
    pub fn negotiate_response(bytes: &[u8]) -> Option<Self> {
        Some(Self::NegotiateResponse {
            min_version: le16(bytes, 0)?,
            max_version: le16(bytes, 2)?,
            negotiated_version: le16(bytes, 4)?,
            credits_requested: le16(bytes, 8)?,
            credits_granted: le16(bytes, 10)?,
            status: le32(bytes, 12)?,
            max_read_write_size: le32(bytes, 16)?,
            preferred_send_size: le32(bytes, 20)?,
            max_receive_size: le32(bytes, 24)?,
            max_fragmented_size: le32(bytes, 28)?,
        })
    }

    /// Parses any later message.
    #[must_use]
    pub fn data(bytes: &[u8]) -> Option<Self> {
        let data_offset = le32(bytes, 12)?;
        let data_len = le32(bytes, 16)?;
        let start = usize::try_from(data_offset).ok()?;
        let carried = bytes.get(start..).filter(|_| data_len > 0);
        Some(Self::Data {
            credits_requested: le16(bytes, 0)?,
            credits_granted: le16(bytes, 2)?,
            flags: le16(bytes, 4)?,
            remaining_len: le32(bytes, 8)?,
            data_offset,
            data_len,
            smb2: carried.and_then(Smb2::parse),
        })
    }

    /// Whether those bytes can be nothing but a Negotiate Request: 20 of them, the one version
    /// twice, and sizes that the specification allows.
    pub(super) fn is_negotiate_request(bytes: &[u8]) -> bool {
        let reserved = le16(bytes, 4);
        bytes.len() == 20
            && reserved == Some(0)
            && matches!(
                Self::negotiate_request(bytes),
                Some(Self::NegotiateRequest {
                    min_version: VERSION,
                    max_version: VERSION,
                    credits_requested: 1..,
                    preferred_send_size: 128..,
                    max_receive_size: 128..,
                    max_fragmented_size: 131_072..,
                })
            )
    }

    /// Whether those bytes can be nothing but data that begins an SMB2 message: the lengths agree,
    /// and its protocol identifier and header length stand where they should.
    pub(super) fn is_smb2(bytes: &[u8]) -> bool {
        let Some(Self::Data { data_offset: 24, data_len, flags: 0 | 1, smb2: Some(_), .. }) =
            Self::data(bytes)
        else {
            return false;
        };
        usize::try_from(data_len).is_ok_and(|len| bytes.len() == 24 + len)
    }
}

/// The start of an SMB2 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Smb2 {
    /// The command.
    pub command: u16,
    /// NTSTATUS of a response.
    pub status: u32,
    /// It is a response.
    pub is_response: bool,
    /// Which request it is or answers.
    pub message_id: u64,
}

impl Smb2 {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let magic: [u8; 4] = array(bytes, 0)?;
        if magic != *b"\xfeSMB" || le16(bytes, 4)? != 64 {
            return None;
        }
        Some(Self {
            status: le32(bytes, 8)?,
            command: le16(bytes, 12)?,
            is_response: le32(bytes, 16)? & 1 != 0,
            message_id: le64(bytes, 24)?,
        })
    }

    /// The command's name.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        const NAMES: [&str; 19] = [
            "NEGOTIATE",
            "SESSION_SETUP",
            "LOGOFF",
            "TREE_CONNECT",
            "TREE_DISCONNECT",
            "CREATE",
            "CLOSE",
            "FLUSH",
            "READ",
            "WRITE",
            "LOCK",
            "IOCTL",
            "CANCEL",
            "ECHO",
            "QUERY_DIRECTORY",
            "CHANGE_NOTIFY",
            "QUERY_INFO",
            "SET_INFO",
            "OPLOCK_BREAK",
        ];
        NAMES.get(usize::from(self.command)).copied()
    }
}

impl fmt::Display for SmbDirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegotiateRequest { credits_requested, .. } => {
                write!(f, "Negotiate Request credits={credits_requested}")
            }
            Self::NegotiateResponse { status, credits_granted, .. } => {
                write!(f, "Negotiate Response status={status:#010x} granted={credits_granted}")
            }
            Self::Data { data_len: 0, credits_granted, .. } => {
                write!(f, "credits granted={credits_granted}")
            }
            Self::Data { data_len, remaining_len, smb2, .. } => {
                match smb2 {
                    Some(smb2) => match smb2.name() {
                        Some(name) => write!(f, "SMB2 {name}")?,
                        None => write!(f, "SMB2 command {}", smb2.command)?,
                    },
                    None => f.write_str("data")?,
                }
                if smb2.is_some_and(|smb2| smb2.is_response) {
                    f.write_str(" response")?;
                }
                write!(f, " len={data_len} remaining={remaining_len}")
            }
        }
    }
}
