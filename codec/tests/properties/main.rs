//! Properties that hold for every header and every packet, and sweeps over every opcode and every
//! length.

mod arbitrary;
mod frames;
mod headers;
mod native;
