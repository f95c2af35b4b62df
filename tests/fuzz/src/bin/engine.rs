//! No list of operations on two connected engines, bent frames among them, breaks an invariant.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| roce_testbed::fuzz::engine(input));
