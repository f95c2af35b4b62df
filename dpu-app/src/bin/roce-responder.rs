//! Serves RDMA clients over RoCEv2.
fn main() {}
