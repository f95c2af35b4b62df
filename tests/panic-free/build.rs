//! Links without a start file, drops what nothing refers to, and refuses symbols that nobody
//! defines. `memcpy` and its like come from the C library, and on bare metal from Rust's own.

fn main() {
    let bare = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "none");
    // The relocations stay in the program, so that its calls can be read without a disassembler.
    let arguments = if bare {
        ["--gc-sections", "--emit-relocs", "--entry=instances"].as_slice()
    } else {
        &["-nostartfiles", "-Wl,--gc-sections,--emit-relocs,--entry=instances", "-lc"]
    };
    for argument in arguments {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
