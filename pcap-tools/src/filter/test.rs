//! What is asked of a field's value.

use std::net::IpAddr;

use roce_codec::net::MacAddr;

use crate::field::Value;

/// What is asked of a value. Every comparison of numbers is a list of ranges by the time it gets
/// here: opcodes, words, flags and times are numbers too.
#[derive(Debug, Clone)]
pub(super) enum Test {
    /// The number lies in one of these, both ends included.
    Within(Vec<(u64, u64)>),
    /// The address is (or is not) in one of these prefixes.
    Prefix { prefixes: Vec<Prefix>, within: bool },
    /// The Ethernet address is (or is not) one of these.
    Mac { addresses: Vec<MacAddr>, one_of: bool },
    /// The text is (or is not) one of these, in any case of letters.
    Text { texts: Vec<String>, one_of: bool },
    /// The text has that part, in lower case.
    Contains(String),
}

impl Test {
    #[inline]
    pub(super) fn holds(&self, value: &Value<'_>) -> bool {
        match self {
            Self::Within(ranges) => value.number().is_some_and(|number| {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&number))
            }),
            Self::Prefix { prefixes, within } => match value {
                Value::Ip(ip) => prefixes.iter().any(|prefix| prefix.holds(*ip)) == *within,
                _ => false,
            },
            Self::Mac { addresses, one_of } => match value {
                Value::Mac(mac) => addresses.contains(mac) == *one_of,
                _ => false,
            },
            Self::Text { texts, one_of } => {
                let found = value.text();
                texts.iter().any(|text| text.eq_ignore_ascii_case(&found)) == *one_of
            }
            Self::Contains(part) => contains(&value.text(), part),
        }
    }
}

fn contains(text: &str, part: &str) -> bool {
    text.to_ascii_lowercase().contains(part)
}

/// The addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    bits: u128,
    len: u32,
    v4: bool,
}

impl Prefix {
    /// `None` if the length is beyond the address's.
    pub(super) fn new(ip: IpAddr, len: Option<u32>) -> Option<Self> {
        let (bits, most) = bits(ip);
        let len = len.unwrap_or(most);
        (len <= most).then(|| Self { bits: keep(bits, len), len, v4: ip.is_ipv4() })
    }

    fn holds(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.v4 && keep(bits(ip).0, self.len) == self.bits
    }
}

/// The bits of an address, the first one highest, and how many there are.
fn bits(ip: IpAddr) -> (u128, u32) {
    match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

fn keep(bits: u128, len: u32) -> u128 {
    bits & u128::MAX.checked_shl(128 - len).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_their_addresses() {
        let prefix = |ip: &str, len| Prefix::new(ip.parse().unwrap(), len).unwrap();
        let holds = |prefix: Prefix, ip: &str| prefix.holds(ip.parse().unwrap());
        assert!(holds(prefix("10.1.2.3", Some(8)), "10.255.0.0"));
        assert!(!holds(prefix("10.0.0.0", Some(8)), "11.0.0.0"));
        assert!(holds(prefix("0.0.0.0", Some(0)), "255.255.255.255"));
        assert!(!holds(prefix("0.0.0.0", Some(0)), "::1"));
        assert!(holds(prefix("fe80::", Some(10)), "febf::1"));
        assert!(!holds(prefix("fe80::", Some(10)), "fec0::1"));
        assert!(holds(prefix("::1", None), "::1") && !holds(prefix("::1", None), "::2"));
        assert_eq!(Prefix::new("10.0.0.0".parse().unwrap(), Some(33)), None);
        assert_eq!(Prefix::new("::".parse().unwrap(), Some(129)), None);
    }
}
