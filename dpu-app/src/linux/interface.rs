//! Which addresses an interface has.

use std::net::IpAddr;

use anyhow::{Result, ensure};

use super::os;

/// The addresses to serve at: those asked for, which the interface must have, or all it has.
pub(crate) fn serve_at(interface: &str, asked: &[IpAddr]) -> Result<Vec<IpAddr>> {
    let has = os::addresses_of(interface)?;
    let list = || {
        let names: Vec<_> = has.iter().map(IpAddr::to_string).collect();
        if names.is_empty() { "no address".to_owned() } else { names.join(", ") }
    };
    for address in asked {
        ensure!(
            has.contains(address),
            "{interface}: {address} is not an address of this interface, which has {}; `ip addr \
             add {address}/PREFIX dev {interface}` gives it that one",
            list()
        );
    }
    let addresses = if asked.is_empty() { has.clone() } else { asked.to_vec() };
    ensure!(
        !addresses.is_empty(),
        "{interface}: it has no address; give it one (`ip addr add ADDR/PREFIX dev {interface}`)"
    );
    Ok(addresses)
}
