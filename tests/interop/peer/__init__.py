"""A real Linux RDMA peer in QEMU, and the checks that judge what passed between it and the responder."""
