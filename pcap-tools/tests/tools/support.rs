//! Captures in memory, and tshark's view of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that is removed when it goes out of scope.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    /// With these contents; the name ends in `suffix`.
    pub(crate) fn new(suffix: &str, contents: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("roce-pcap-tools-{}-{number}{suffix}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, contents).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Fields of every packet, as tshark sees them; `None`, saying so, where there is no tshark.
pub(crate) fn tshark(path: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    // Only what lies in the file is to be looked at, in this program's process alone.
    command.args(["-n", "-r"]).arg(path).args(["-Y", filter, "-T", "fields"]);
    command.args(["-E", "separator=\t", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("passed over: tshark cannot be run: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}
