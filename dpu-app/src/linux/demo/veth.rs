//! A veth pair in a network namespace of this process's own. The kernel removes both when the
//! process ends, however it ends.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::linux::os;

/// The requester's end.
pub(super) const REQUESTER: &str = "requester";
/// The responder's end.
pub(super) const RESPONDER: &str = "responder";

/// Enters a new network namespace and makes the pair there.
pub(super) fn make() -> Result<()> {
    os::enter_new_network_namespace().context(
        "cannot make a network namespace for --port af-xdp, which needs CAP_SYS_ADMIN: run as root",
    )?;
    ip(&["link", "add", REQUESTER, "type", "veth", "peer", "name", RESPONDER])?;
    for end in [REQUESTER, RESPONDER] {
        ip(&["link", "set", end, "up"])?;
    }
    Ok(())
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .context("cannot run `ip`; it is in the package iproute2")?;
    ensure!(
        output.status.success(),
        "`ip {}`: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
