//! What clients left in memory, written to files.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use roce_dataplane::host_memory::HostMemory;
use serde_json::json;

use crate::service::memory::SharedRegion;

const PAGE: usize = 4096;

/// A directory of dumps.
#[derive(Debug)]
pub(crate) struct MemoryDump {
    directory: PathBuf,
    index: File,
}

impl MemoryDump {
    /// Makes the directory if need be, and begins its index anew.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let index = directory.join("index.jsonl");
        std::fs::create_dir_all(directory)
            .and_then(|()| File::create(&index))
            .map(|index| Self { directory: directory.to_owned(), index })
            .with_context(|| format!("{}: cannot write memory dumps there", directory.display()))
    }

    /// Writes a region of a session.
    pub(crate) fn write(
        &mut self,
        service: &str,
        session: u32,
        region: &SharedRegion,
        memory: &HostMemory,
    ) -> Result<()> {
        let qpn = region.qpn.get();
        let kind = service.replace(':', "-");
        let path = self.directory.join(format!("{session}-{kind}-qp{qpn:06x}.bin"));
        write_sparse(&path, region, memory)
            .and_then(|()| self.append(&path, service, session, region))
            .with_context(|| format!("{}: the memory dump failed", path.display()))
    }

    fn append(
        &mut self,
        path: &Path,
        service: &str,
        session: u32,
        shared: &SharedRegion,
    ) -> std::io::Result<()> {
        let SharedRegion { qpn, exposed, receives } = shared;
        let region = exposed.region;
        let mut line = json!({
            "file": path.to_string_lossy(),
            "service": service,
            "session": session,
            "qpn": qpn.get(),
            "rkey": exposed.mr.rkey.0,
            "va": region.va,
            "length": region.len,
        });
        if *receives > 0 {
            let len = region.len / u64::from(*receives);
            let pieces = (0..u64::from(*receives)).map(|place| [region.va + place * len, len]);
            line["receives"] = pieces.collect();
        }
        writeln!(self.index, "{line}")
    }
}

/// Writes a region so that pages of zeroes are holes in the file.
fn write_sparse(path: &Path, shared: &SharedRegion, memory: &HostMemory) -> std::io::Result<()> {
    let region = shared.exposed.region;
    let mut file = File::create(path)?;
    file.set_len(region.len)?;
    let mut page = [0; PAGE];
    let mut offset = 0;
    while offset < region.len {
        let len = usize::try_from(region.len - offset).unwrap_or(PAGE).min(PAGE);
        let piece = page.get_mut(..len).unwrap_or_default();
        let at = shared.exposed.addr(offset);
        memory
            .read(at, piece)
            .map_err(|_| std::io::Error::other("the region is shorter than it was"))?;
        if piece.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(piece)?;
        }
        offset += u64::try_from(len).unwrap_or(region.len);
    }
    Ok(())
}
