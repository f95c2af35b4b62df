//! Opcodes by name.

use roce_codec::ib::Opcode;

/// The services that a name may begin with.
const SERVICES: [&str; 5] = ["RC_", "UC_", "RD_", "UD_", "XRC_"];

/// The opcodes that a name means: in any case of letters, with its service or without, and with
/// the `RDMA_` of WRITE and READ or without. `ACK` and `NAK` packets are acknowledges.
pub(super) fn of_name(name: &str) -> Vec<u8> {
    let name = name.to_ascii_uppercase();
    let wanted = canonical(&name);
    let (service, bare) = split(&wanted);
    (0..=u8::MAX)
        .filter(|value| {
            let Some(known) = Opcode(*value).name() else { return false };
            let known = canonical(known);
            match service {
                "" => split(&known).1 == bare,
                _ => known == wanted,
            }
        })
        .collect()
}

/// Every name, for finding near ones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    (0..=u8::MAX).filter_map(|value| {
        let name = Opcode(value).name()?;
        // One of each kind without its service, the others would only crowd the list.
        let name = name.strip_prefix("RC_").unwrap_or(name);
        Some(name.strip_prefix("RDMA_").unwrap_or(name))
    })
}

fn split(name: &str) -> (&str, &str) {
    for service in SERVICES {
        if let Some(bare) = name.strip_prefix(service) {
            return (service, bare);
        }
    }
    ("", name)
}

fn canonical(name: &str) -> String {
    let (service, bare) = split(name);
    let bare = bare.strip_prefix("RDMA_").unwrap_or(bare);
    let bare = match bare {
        "ACK" => "ACKNOWLEDGE",
        "ATOMIC_ACK" => "ATOMIC_ACKNOWLEDGE",
        "CMP_SWAP" | "COMPARE_AND_SWAP" => "COMPARE_SWAP",
        "FETCH_AND_ADD" => "FETCH_ADD",
        bare => bare,
    };
    format!("{service}{bare}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_their_service() {
        assert_eq!(of_name("WRITE_FIRST"), [0x06, 0x26, 0x46, 0xa6]);
        assert_eq!(of_name("rdma_write_first"), [0x06, 0x26, 0x46, 0xa6]);
        assert_eq!(of_name("RC_WRITE_FIRST"), [0x06]);
        assert_eq!(of_name("XRC_RDMA_WRITE_FIRST"), [0xa6]);
        assert_eq!(of_name("ACK"), [0x11, 0x51, 0xb1]);
        assert_eq!(of_name("CNP"), [0x81]);
        assert_eq!(of_name("UD_SEND_ONLY"), [0x64]);
        assert_eq!(of_name("SEND_ONLY"), [0x04, 0x24, 0x44, 0x64, 0xa4]);
        assert!(of_name("WRITE").is_empty() && of_name("").is_empty());
    }

    #[test]
    fn every_name_is_found_under_itself() {
        for value in 0..=u8::MAX {
            if let Some(name) = Opcode(value).name() {
                assert!(of_name(name).contains(&value), "{name}");
            }
        }
    }
}
