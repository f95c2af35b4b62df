//! Copying a capture with comments added: everything else in it stays as it is.

use std::io::{self, Read, Write};

use super::byte_order::ByteOrder;
use super::compression::Feed;
use super::pcapng::{MAGIC, options, section_order};
use super::reader::unpacked;
use super::source::Source;
use super::{
    CaptureError, Damage, InterfaceInfo, MAX_PACKET, PacketRecord, PcapngWriter, Reader, SNAPLEN,
    SectionInfo, size,
};

const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Type and length in front, length behind.
const FRAMING: usize = 12;
/// Fixed fields of an enhanced packet block and of its obsolete forerunner.
const PACKET_FIELDS: usize = 20;
const SECTION_FIELDS: usize = 16;
const COMMENT: u16 = 1;

/// Why a capture was not copied to its end.
#[derive(Debug)]
pub enum CopyError {
    /// It could not be read; what was read before has been copied.
    Read(CaptureError),
    /// The copy could not be written.
    Write(io::Error),
}

impl From<CaptureError> for CopyError {
    fn from(error: CaptureError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Copies a capture as pcapng, adding a comment on the whole and comments to packets, by their
/// numbers from 1. A packet that `comments` has `None` for is left out.
///
/// Of a pcapng file all blocks come out as they are, those without packets included: a packet that
/// gets no comment keeps its bytes, one that does gets them behind the options it has. Another
/// format is turned into pcapng with the same link type, times and directions. A simple packet
/// block has no room for comments: with one it becomes an enhanced one, at the time 0.
///
/// # Errors
/// [`CopyError`].
pub fn copy_with_comments<R: Read, W: Write>(
    inner: R,
    mut out: W,
    about: &str,
    mut comments: impl FnMut(u64) -> Option<Vec<String>>,
) -> Result<(), CopyError> {
    let (source, first) = unpacked(inner)?;
    if first == MAGIC {
        let mut copier = Copier { source, order: ByteOrder::Little, packets: 0, first: true };
        while copier.block(&mut out, about, &mut comments)? {}
        out.flush()?;
        return Ok(());
    }
    let mut reader = Reader::of_source(source, first)?;
    let mut writer = PcapngWriter::start(out, &SectionInfo { comment: about, application: "" })?;
    let mut declared = None;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.inspect_err(|_| drop(writer.flush()))?;
        let link = packet.link.unwrap_or(super::LinkType::ETHERNET);
        let info = InterfaceInfo { link, name: "", snaplen: SNAPLEN, fcs_len: packet.fcs_len };
        let interface = match declared {
            Some((known, number)) if known == (link, packet.fcs_len) => number,
            _ => writer.add_interface(&info)?,
        };
        declared = Some(((link, packet.fcs_len), interface));
        let Some(comments) = comments(packet.number) else { continue };
        let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
        writer.write(&PacketRecord {
            interface,
            comments: &comments,
            ..PacketRecord::of(&packet)
        })?;
    }
    writer.flush()?;
    Ok(())
}

struct Copier<R> {
    source: Source<Feed<R>>,
    order: ByteOrder,
    packets: u64,
    /// No section has begun yet.
    first: bool,
}

impl<R: Read> Copier<R> {
    /// Copies the next block; `false` at the end of the file.
    fn block(
        &mut self,
        out: &mut impl Write,
        about: &str,
        comments: &mut impl FnMut(u64) -> Option<Vec<String>>,
    ) -> Result<bool, CopyError> {
        let offset = self.source.offset();
        let truncated = |needed, available| CaptureError::Truncated { offset, needed, available };
        let damaged = |damage| CaptureError::Damaged { offset, damage };
        match self.source.fill(FRAMING)? {
            0 => return Ok(false),
            available if available < FRAMING => return Err(truncated(FRAMING, available).into()),
            _ => {}
        }
        let is_section = self.source.bytes().starts_with(&MAGIC);
        if is_section {
            self.order = section_order(self.source.bytes()).map_err(damaged)?;
        }
        let field = |at| self.order.u32(self.source.bytes(), at).unwrap_or_default();
        let (kind, front) = (field(0), field(4));
        let len = size(front);
        if len < FRAMING || !len.is_multiple_of(4) {
            return Err(damaged(Damage::BlockLength(front)).into());
        }
        let is_packet = matches!(kind, PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
        if !is_packet && !is_section {
            self.verbatim(len, offset, out)?;
            return Ok(true);
        }
        if front > MAX_PACKET + (1 << 20) {
            return Err(damaged(Damage::BlockLength(front)).into());
        }
        let available = self.source.fill(len)?;
        if available < len {
            return Err(truncated(len, available).into());
        }
        let taken = self.source.take(len);
        let block = self.source.buffer().get(taken).unwrap_or_default();
        let back = self.order.u32(block, len - 4).unwrap_or_default();
        if back != front {
            return Err(damaged(Damage::BlockLengths { front, back }).into());
        }
        let body = block.get(8..len - 4).unwrap_or_default();
        if is_section {
            let about = if self.first { vec![about.to_owned()] } else { Vec::new() };
            self.first = false;
            return Ok(self.section(body, &about, out).map(|()| true)?);
        }
        self.packets += 1;
        let Some(comments) = comments(self.packets) else { return Ok(true) };
        if comments.is_empty() {
            out.write_all(block)?;
        } else {
            self.packet(kind, body, &comments, out)?.ok_or(damaged(Damage::BlockContents))?;
        }
        Ok(true)
    }

    /// A section's length is no longer what it was: it is left open.
    fn section(&self, body: &[u8], about: &[String], out: &mut impl Write) -> io::Result<()> {
        let (fields, options) = body.split_at(SECTION_FIELDS.min(body.len()));
        let mut fields = fields.to_vec();
        if let Some(length) = fields.get_mut(8..) {
            length.fill(0xff);
        }
        let about: Vec<_> = about.iter().filter(|text| !text.is_empty()).cloned().collect();
        let options = if about.is_empty() { options.to_vec() } else { self.add(options, &about) };
        self.write(u32::from_be_bytes(MAGIC), &fields, &options, out)
    }

    /// A packet with comments; `None` if the block is too short for what it says it holds.
    fn packet(
        &self,
        kind: u32,
        body: &[u8],
        comments: &[String],
        out: &mut impl Write,
    ) -> io::Result<Option<()>> {
        if kind == SIMPLE_PACKET {
            let Some(data) = body.get(4..) else { return Ok(None) };
            let orig_len = self.order.u32(body, 0).unwrap_or_default();
            let captured = orig_len.min(u32::try_from(data.len()).unwrap_or(u32::MAX));
            let mut fields = vec![0; 12];
            fields.extend(self.order.bytes32(captured));
            fields.extend(self.order.bytes32(orig_len));
            fields.extend(data);
            self.write(ENHANCED_PACKET, &fields, &self.add(&[], comments), out)?;
            return Ok(Some(()));
        }
        let Some(captured) = self.order.u32(body, 12) else { return Ok(None) };
        let end = PACKET_FIELDS.saturating_add(size(captured)).next_multiple_of(4);
        let Some((fields, options)) = body.split_at_checked(end) else { return Ok(None) };
        self.write(kind, fields, &self.add(options, comments), out)?;
        Ok(Some(()))
    }

    /// The options of a block with comments behind them.
    fn add(&self, before: &[u8], comments: &[String]) -> Vec<u8> {
        let mut all = Vec::with_capacity(before.len() + 128);
        let mut push = |code: u16, value: &[u8]| {
            all.extend(self.order.bytes16(code));
            all.extend(self.order.bytes16(u16::try_from(value.len()).unwrap_or(u16::MAX)));
            all.extend(value);
            all.resize(all.len().next_multiple_of(4), 0);
        };
        for (code, value) in options(self.order, before) {
            push(code, value);
        }
        for comment in comments {
            push(COMMENT, super::writer::text(comment).as_bytes());
        }
        push(0, &[]);
        all
    }

    fn write(
        &self,
        kind: u32,
        fields: &[u8],
        options: &[u8],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let len = fields.len() + options.len() + FRAMING;
        let len = self.order.bytes32(u32::try_from(len).map_err(io::Error::other)?);
        out.write_all(&self.order.bytes32(kind))?;
        out.write_all(&len)?;
        out.write_all(fields)?;
        out.write_all(options)?;
        out.write_all(&len)
    }

    /// A block that says nothing of packets, however long it is.
    fn verbatim(&mut self, len: usize, offset: u64, out: &mut impl Write) -> Result<(), CopyError> {
        let mut left = len;
        while left > 0 {
            let available = self.source.fill(1)?;
            if available == 0 {
                let available = len - left;
                return Err(CaptureError::Truncated { offset, needed: len, available }.into());
            }
            let taken = self.source.take(left.min(available));
            left -= taken.len();
            out.write_all(self.source.buffer().get(taken).unwrap_or_default())?;
        }
        Ok(())
    }
}
