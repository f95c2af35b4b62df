//! The register behind the BTH under each hypothesis about what comes before.

use roce_crc::Crc32;

use super::field::{Field, Fields, LONGEST_HEAD, LRH, Network};
use super::hypothesis::{Before, First, Head};
use super::suspect::Suspect;
use crate::ib::Bth;

/// Bytes of the two Ethernet addresses.
const ADDRESSES: usize = 12;

/// Computes the registers of one packet's heads.
///
/// Most heads cover the same bytes and differ in what is masked. A CRC being linear, setting a
/// field changes the register by a difference that does not depend on the other fields: those
/// heads cost an XOR a field.
pub(super) struct Heads<'p, 'a> {
    suspect: &'p Suspect<'a>,
    /// LRH, or the ones that stand for it, to the end of the BTH, as the packet has them.
    bytes: [u8; LONGEST_HEAD],
    /// The register if nothing is masked and all is covered that should be.
    unmasked: u32,
    /// What changes in the register when a field is set to ones, and to zeroes.
    differences: [Differences; 2],
}

type Differences = [u32; Field::ALL.len()];

impl<'p, 'a> Heads<'p, 'a> {
    pub(super) fn new<C: Crc32>(suspect: &'p Suspect<'a>) -> Self {
        let mut bytes = [0xff; LONGEST_HEAD];
        let (lrh, rest) = bytes.split_at_mut(LRH);
        lrh.copy_from_slice(&suspect.lrh.unwrap_or([0xff; LRH]));
        for (to, from) in rest.iter_mut().zip(suspect.headers) {
            *to = *from;
        }
        let end = suspect.network.bth_at() + Bth::LEN;
        let covered = bytes.get(..end).unwrap_or_default();
        let mut crc = C::new();
        crc.update(covered);
        let differences = [0xff, 0x00].map(|value| {
            Field::ALL.map(|field| difference::<C>(covered, field, suspect.network, value))
        });
        Self { suspect, bytes, unmasked: crc.state(), differences }
    }

    /// The register behind the BTH; `None` if the packet has nothing that this head speaks of.
    pub(super) fn register<C: Crc32>(&self, head: &Head, reflected: bool) -> Option<u32> {
        if reflected && head.covers_all() {
            let [ones, zeroes] = &self.differences;
            return Some(self.unmasked ^ sum(ones, head.ones) ^ sum(zeroes, head.zeroes));
        }
        self.computed::<C>(head, reflected)
    }

    /// The same, byte by byte.
    fn computed<C: Crc32>(&self, head: &Head, reflected: bool) -> Option<u32> {
        let network = self.suspect.network;
        let end = network.bth_at() + Bth::LEN;
        let mut bytes = self.bytes;
        for (fields, value) in [(head.ones, 0xff), (head.zeroes, 0x00)] {
            for (at, mask) in fields.iter().filter_map(|field| field.place(network)) {
                for (byte, mask) in bytes.get_mut(at..)?.iter_mut().zip(mask) {
                    *byte = *byte & !mask | value & mask;
                }
            }
        }
        let (lrh, _) = bytes.split_first_chunk::<LRH>()?;
        let before: &[u8] = match head.before {
            Before::Lrh => lrh,
            Before::Nothing => &[],
            Before::Zeroes => &[0; LRH],
        };
        let link = self.suspect.link;
        let (link, start) = match head.first {
            First::Ethernet => (link, LRH),
            First::Vlan => (link.get(ADDRESSES..)?, LRH),
            First::Network => (&[][..], LRH),
            First::Udp => (&[][..], network.udp_at()?),
            // The packet starts there anyway.
            First::Bth if network.bth_at() == LRH => return None,
            First::Bth => (&[][..], network.bth_at()),
            First::BehindBth => (&[][..], end),
        };
        // A link layer of nothing but an EtherType has no tag to cover.
        if matches!(head.first, First::Ethernet | First::Vlan) && link.len() <= size_of::<u16>() {
            return None;
        }
        let mut crc = C::resume(head.seed);
        for piece in [before, link, bytes.get(start..end)?] {
            feed(&mut crc, piece, reflected);
        }
        Some(crc.state())
    }
}

/// What changes in the register behind `bytes` when a field of theirs is set to ones or zeroes.
fn difference<C: Crc32>(bytes: &[u8], field: Field, network: Network, value: u8) -> u32 {
    let Some((at, mask)) = field.place(network) else { return 0 };
    let mut changed = [0; LONGEST_HEAD];
    let from = bytes.get(at..).unwrap_or_default();
    for ((to, byte), mask) in changed.iter_mut().zip(from).zip(mask) {
        *to = (byte ^ value) & mask;
    }
    // Leading zeroes do not move a register of zero.
    let mut crc = C::resume(0);
    crc.update(changed.get(..from.len()).unwrap_or_default());
    crc.state()
}

fn sum(differences: &Differences, fields: Fields) -> u32 {
    fields.indices().filter_map(|index| differences.get(index)).fold(0, |sum, next| sum ^ next)
}

/// Feeds bytes, the bits of each in either order.
pub(super) fn feed<C: Crc32>(crc: &mut C, bytes: &[u8], reflected: bool) {
    if reflected {
        crc.update(bytes);
        return;
    }
    for chunk in bytes.chunks(64) {
        let mut mirrored = [0; 64];
        for (to, from) in mirrored.iter_mut().zip(chunk) {
            *to = from.reverse_bits();
        }
        crc.update(mirrored.get(..chunk.len()).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::hypothesis::heads;
    use roce_crc::{Crc, SmallTable};

    #[test]
    fn differences_say_what_computing_says() {
        for (network, len) in
            [(Network::Ipv4, 40), (Network::Ipv6, 60), (Network::Lrh, 12), (Network::Grh, 52)]
        {
            let headers: Vec<u8> = (1..=len).map(|byte: u8| byte.wrapping_mul(73)).collect();
            let suspect = Suspect {
                network,
                link: &[],
                lrh: Some([0x20, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2]),
                headers: &headers,
                ext: &[],
                payload: [&[], &[]],
                pad: &[],
                icrc: [0; 4],
                trailer: [&[], &[]],
                is_flush: false,
            };
            let registers = Heads::new::<Crc>(&suspect);
            for head in heads(network) {
                assert_eq!(
                    registers.register::<Crc>(&head, true),
                    registers.computed::<SmallTable>(&head, true),
                    "{network:?} {head:?}"
                );
            }
        }
    }
}
