//! Links `dpu-firmware`: where its sections lie in the board's memory, and defmt's strings, which
//! stay in the ELF file.

use std::env;

/// Where the board has its memory.
const SECTIONS: &str = "src/firmware/virt.ld";
/// What defmt logs unless the environment says otherwise (its own choice would be errors alone).
const LEVEL: &str = "info";
/// From the crate `defmt`, which tells the linker where to find it.
const STRINGS: &str = "defmt.x";

fn main() {
    println!("cargo:rerun-if-changed={SECTIONS}");
    if env::var_os("CARGO_FEATURE_FIRMWARE").is_some() {
        println!("cargo:rerun-if-env-changed=DEFMT_LOG");
        let level = env::var("DEFMT_LOG").unwrap_or_else(|_| LEVEL.to_owned());
        println!("cargo:rustc-env=DEFMT_LOG={level}");
        let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        for script in [format!("{here}/{SECTIONS}"), STRINGS.to_owned()] {
            println!("cargo:rustc-link-arg-bin=dpu-firmware=--script={script}");
        }
    }
}
