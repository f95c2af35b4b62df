//! roce-responder: serves RDMA clients over RoCEv2 without an RDMA NIC or kernel module.
