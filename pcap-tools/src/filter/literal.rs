//! Values as expressions have them.

use std::net::IpAddr;

use roce_codec::net::MacAddr;

use super::opcode;
use super::test::Prefix;
use crate::check::Rule;
use crate::field::{Kind, nearest};

/// What a value means for a field: ranges of numbers, or one of the others.
pub(super) enum Literal {
    Ranges(Vec<(u64, u64)>),
    Prefix(Prefix),
    Mac(MacAddr),
    Text(String),
}

/// Reads a value for a field of that kind.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub(super) fn read(kind: Kind, word: &str, quoted: bool) -> Result<Literal, String> {
    match kind {
        Kind::Flag => match word {
            "true" | "1" => Ok(one(1)),
            "false" | "0" => Ok(one(0)),
            _ => Err(format!("`{word}` is neither true nor false")),
        },
        Kind::Number | Kind::Key => ranges(word, number),
        Kind::Named => match ranges(word, number) {
            // Its name, in quotes if that has spaces.
            Err(_) if quoted || word.starts_with(char::is_alphabetic) => {
                Ok(Literal::Text(word.to_owned()))
            }
            read => read,
        },
        Kind::Seconds => ranges(word, nanoseconds),
        Kind::Opcode => opcodes(word),
        Kind::Word(words) => words
            .iter()
            .position(|known| known.eq_ignore_ascii_case(word))
            .and_then(|place| u64::try_from(place).ok())
            .map(one)
            .ok_or_else(|| format!("`{word}` is none of {}", words.join(", "))),
        Kind::Address => prefix(word),
        Kind::Mac => mac(word),
        Kind::Rule => match Rule::from_id(word) {
            Some(rule) => Ok(Literal::Text(rule.id().to_owned())),
            None => Err(unknown("rule", word, Rule::ALL.iter().map(|rule| rule.id()))),
        },
        Kind::Text => Ok(Literal::Text(word.to_owned())),
        Kind::Bytes => bytes(word),
    }
}

fn one(value: u64) -> Literal {
    Literal::Ranges(vec![(value, value)])
}

fn unknown(what: &str, word: &str, known: impl Iterator<Item = &'static str>) -> String {
    let mut message = format!("there is no {what} `{word}`");
    let near = nearest(word, known);
    if !near.is_empty() {
        let near: Vec<String> = near.iter().map(|near| format!("`{near}`")).collect();
        message += &format!("; did you mean {}?", near.join(" or "));
    }
    message
}

/// A number, or a range of them.
fn ranges(word: &str, number: fn(&str) -> Result<u64, String>) -> Result<Literal, String> {
    let (low, high) = match word.split_once("..") {
        Some((low, high)) => (number(low)?, number(high)?),
        None => (number(word)?, number(word)?),
    };
    if low > high {
        return Err(format!("the range `{word}` begins above its end"));
    }
    Ok(Literal::Ranges(vec![(low, high)]))
}

fn number(word: &str) -> Result<u64, String> {
    let lower = word.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        _ => (&lower[..], 10),
    };
    // `from_str_radix` would take a sign.
    match u64::from_str_radix(digits, radix) {
        Ok(number) if !digits.starts_with('+') => Ok(number),
        _ if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            let meant =
                if number_fits(word) { format!("; did you mean 0x{word}?") } else { String::new() };
            Err(format!("`{word}` is no number of 64 bits{meant}"))
        }
        _ => Err(format!("`{word}` is no number of 64 bits")),
    }
}

fn number_fits(hex: &str) -> bool {
    hex.len() <= 16
}

/// Seconds with up to nine decimals.
fn nanoseconds(word: &str) -> Result<u64, String> {
    let wrong = || format!("`{word}` is no time in seconds");
    let (seconds, decimals) = word.split_once('.').unwrap_or((word, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !digits(seconds) || !digits(decimals) || decimals.len() > 9 {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let decimals: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(decimals)).ok_or_else(wrong)
}

fn opcodes(word: &str) -> Result<Literal, String> {
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return ranges(word, number);
    }
    let values = opcode::of_name(word);
    if values.is_empty() {
        return Err(unknown("opcode", word, opcode::names()));
    }
    Ok(Literal::Ranges(values.into_iter().map(|value| (value.into(), value.into())).collect()))
}

fn prefix(word: &str) -> Result<Literal, String> {
    let (ip, len) = match word.split_once('/') {
        Some((ip, len)) => {
            (ip, Some(len.parse().map_err(|_| format!("`{len}` is no length of a prefix"))?))
        }
        None => (word, None),
    };
    let ip: IpAddr = ip.parse().map_err(|_| format!("`{ip}` is no IP address"))?;
    let too_long = || format!("`{word}` is longer than the address");
    Prefix::new(ip, len).map(Literal::Prefix).ok_or_else(too_long)
}

fn mac(word: &str) -> Result<Literal, String> {
    let mut parts = word.split(':');
    let mut octets = [0; 6];
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() == 2);
        let part = part.and_then(|part| u8::from_str_radix(part, 16).ok());
        *octet = part.ok_or_else(|| format!("`{word}` is no Ethernet address"))?;
    }
    match parts.next() {
        None => Ok(Literal::Mac(MacAddr(octets))),
        Some(_) => Err(format!("`{word}` is no Ethernet address")),
    }
}

/// Bytes as `0102ff` or `01:02:ff`.
fn bytes(word: &str) -> Result<Literal, String> {
    let digits: String = word.chars().filter(|c| *c != ':').collect();
    let digits = digits.strip_prefix("0x").unwrap_or(&digits);
    if digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(Literal::Text(digits.to_ascii_lowercase()))
    } else {
        Err(format!("`{word}` is no bytes in hexadecimal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(kind: Kind, word: &str) -> Result<Vec<(u64, u64)>, String> {
        match read(kind, word, false)? {
            Literal::Ranges(ranges) => Ok(ranges),
            _ => panic!("no number"),
        }
    }

    #[test]
    fn numbers_of_any_base() {
        for word in ["17", "0x11", "0X11", "0o21", "0b10001"] {
            assert_eq!(numbers(Kind::Number, word), Ok(vec![(17, 17)]));
        }
        assert_eq!(numbers(Kind::Key, "0xffffffffffffffff"), Ok(vec![(u64::MAX, u64::MAX)]));
        for word in ["", "0x", "+1", "-1", "1.5", "0x1_0", "18446744073709551616", "x"] {
            assert!(numbers(Kind::Number, word).is_err(), "{word}");
        }
        assert_eq!(
            numbers(Kind::Number, "ff").unwrap_err(),
            "`ff` is no number of 64 bits; did you mean 0xff?"
        );
        assert_eq!(numbers(Kind::Number, "5..0x10"), Ok(vec![(5, 16)]));
        assert!(numbers(Kind::Number, "6..5").is_err());
    }

    #[test]
    fn times_to_the_nanosecond() {
        assert_eq!(numbers(Kind::Seconds, "1.5"), Ok(vec![(1_500_000_000, 1_500_000_000)]));
        assert_eq!(numbers(Kind::Seconds, "0.000000001"), Ok(vec![(1, 1)]));
        assert_eq!(numbers(Kind::Seconds, "0..1"), Ok(vec![(0, 1_000_000_000)]));
        for word in ["", ".5", "1.0000000001", "1e3", "18446744074", "-1"] {
            assert!(numbers(Kind::Seconds, word).is_err(), "{word}");
        }
    }

    #[test]
    fn what_is_near_is_said() {
        let error = |kind, word| numbers(kind, word).unwrap_err();
        assert_eq!(
            error(Kind::Opcode, "WRITE_FRIST"),
            "there is no opcode `WRITE_FRIST`; did you mean `WRITE_FIRST` or `WRITE_LAST`?"
        );
        assert_eq!(
            error(Kind::Rule, "RC-PSN-GAPS"),
            "there is no rule `RC-PSN-GAPS`; did you mean `RC-PSN-GAP`?"
        );
        assert_eq!(
            error(Kind::Word(&["pass", "fail"]), "failed"),
            "`failed` is none of pass, fail"
        );
    }
}
