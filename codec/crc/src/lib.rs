//! CRC-32 kernels for the RoCEv2 invariant CRC, plain and fused with the copy.
