//! `defmt::Format`: registers in hexadecimal, kernels by name.

use defmt::{Format, Formatter, write};

use crate::{Crc, Crc32, Kernel, NibbleTable, SmallTable};

macro_rules! register {
    ($($type:ident: $format:literal;)*) => {$(
        impl Format for $type {
            fn format(&self, f: Formatter<'_>) {
                write!(f, $format, self.state());
            }
        }
    )*};
}

register! {
    Crc: "Crc({=u32:#010x})";
    SmallTable: "SmallTable({=u32:#010x})";
    NibbleTable: "NibbleTable({=u32:#010x})";
}

impl Format for Kernel {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{=str}", self.name());
    }
}
