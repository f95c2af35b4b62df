//! The ICRC: verdicts with reasons, and why a wrong one is wrong.

mod chip;
mod diagnosis;
mod flight;
mod native;
mod verdicts;

/// Bytes in hexadecimal, spaces as you like.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|d| u8::try_from(d).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
