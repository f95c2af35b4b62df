//! What RDMA carries: a real NVMe-oF capture, and conversations made by hand from the public
//! specifications, read here and by tshark.

mod iser;
mod nvme;
mod rpc_rdma;
mod smb_direct;
mod support;
mod unproven;
