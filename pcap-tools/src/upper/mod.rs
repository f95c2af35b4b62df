//! What RDMA carries.
use roce_codec::cm::ServiceId;
use std::fmt;

/// A protocol above the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// x
    Nvme,
}
impl Protocol {
    /// name
    #[must_use]
    pub fn name(self) -> &'static str {
        "NVMe-oF"
    }
    pub(crate) fn of_service(_: ServiceId) -> Option<Self> {
        None
    }
}
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
/// x
#[derive(Debug)]
pub struct Upper<'a> {
    /// x
    pub protocol: Protocol,
    /// y
    pub bytes: &'a [u8],
}
impl fmt::Display for Upper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol.name())
    }
}
/// x
#[derive(Debug, Default)]
pub struct Tracker;
impl Tracker {
    /// n
    #[must_use]
    pub fn new() -> Self {
        Self
    }
    /// p
    pub fn packet<'a>(&mut self, _: &crate::field::Row<'a>) -> Option<Upper<'a>> {
        None
    }
}
