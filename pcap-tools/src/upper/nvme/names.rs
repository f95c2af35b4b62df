//! Names of commands and statuses.

/// Fabrics commands (NVMe over Fabrics 1.1, figure 18).
pub(super) const fn fabrics(fctype: u8) -> Option<&'static str> {
    Some(match fctype {
        0x00 => "Property Set",
        0x01 => "Connect",
        0x04 => "Property Get",
        0x05 => "Authentication Send",
        0x06 => "Authentication Receive",
        0x08 => "Disconnect",
        _ => return None,
    })
}

/// Admin commands (NVM Express base specification).
pub(super) const fn admin(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        0x00 => "Delete I/O Submission Queue",
        0x01 => "Create I/O Submission Queue",
        0x02 => "Get Log Page",
        0x04 => "Delete I/O Completion Queue",
        0x05 => "Create I/O Completion Queue",
        0x06 => "Identify",
        0x08 => "Abort",
        0x09 => "Set Features",
        0x0a => "Get Features",
        0x0c => "Asynchronous Event Request",
        0x0d => "Namespace Management",
        0x10 => "Firmware Commit",
        0x11 => "Firmware Image Download",
        0x14 => "Device Self-test",
        0x15 => "Namespace Attachment",
        0x18 => "Keep Alive",
        0x19 => "Directive Send",
        0x1a => "Directive Receive",
        0x1c => "Virtualization Management",
        0x1d => "NVMe-MI Send",
        0x1e => "NVMe-MI Receive",
        0x7c => "Doorbell Buffer Config",
        0x7f => "Fabrics",
        0x80 => "Format NVM",
        0x81 => "Security Send",
        0x82 => "Security Receive",
        0x84 => "Sanitize",
        0x86 => "Get LBA Status",
        _ => return None,
    })
}

/// I/O commands (NVM command set).
pub(super) const fn io(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        0x00 => "Flush",
        0x01 => "Write",
        0x02 => "Read",
        0x04 => "Write Uncorrectable",
        0x05 => "Compare",
        0x08 => "Write Zeroes",
        0x09 => "Dataset Management",
        0x0c => "Verify",
        0x0d => "Reservation Register",
        0x0e => "Reservation Report",
        0x11 => "Reservation Acquire",
        0x15 => "Reservation Release",
        0x19 => "Copy",
        0x7f => "Fabrics",
        _ => return None,
    })
}

/// Statuses: code type and code.
pub(super) const fn status(code_type: u8, code: u8) -> Option<&'static str> {
    Some(match (code_type, code) {
        (0, 0x00) => "success",
        (0, 0x01) => "invalid command opcode",
        (0, 0x02) => "invalid field in command",
        (0, 0x03) => "command ID conflict",
        (0, 0x04) => "data transfer error",
        (0, 0x05) => "aborted, power loss",
        (0, 0x06) => "internal error",
        (0, 0x07) => "abort requested",
        (0, 0x08) => "aborted, queue deleted",
        (0, 0x0b) => "invalid namespace or format",
        (0, 0x0c) => "command sequence error",
        (0, 0x0d) => "invalid SGL segment descriptor",
        (0, 0x0e) => "invalid number of SGL descriptors",
        (0, 0x0f) => "data SGL length invalid",
        (0, 0x10) => "metadata SGL length invalid",
        (0, 0x11) => "SGL descriptor type invalid",
        (0, 0x16) => "SGL offset invalid",
        (0, 0x18) => "host identifier inconsistent format",
        (0, 0x19) => "keep alive timer expired",
        (0, 0x1a) => "keep alive timeout invalid",
        (0, 0x80) => "LBA out of range",
        (0, 0x81) => "capacity exceeded",
        (0, 0x82) => "namespace not ready",
        (0, 0x83) => "reservation conflict",
        (1, 0x80) => "Connect: incompatible format",
        (1, 0x81) => "Connect: controller busy",
        (1, 0x82) => "Connect: invalid parameters",
        (1, 0x83) => "Connect: restart discovery",
        (1, 0x84) => "Connect: invalid host",
        (1, 0x90) => "discovery: restart",
        (1, 0x91) => "authentication required",
        (2, 0x80) => "write fault",
        (2, 0x81) => "unrecovered read error",
        (2, 0x85) => "compare failure",
        (2, 0x86) => "access denied",
        (3, 0x00) => "internal path error",
        (3, 0x01) => "ANA persistent loss",
        (3, 0x02) => "ANA inaccessible",
        (3, 0x03) => "ANA transition",
        _ => return None,
    })
}

/// Statuses of a refused connection (NVMe RDMA Transport Specification).
pub(super) const fn reject(status: u16) -> Option<&'static str> {
    Some(match status {
        1 => "invalid private data length",
        2 => "invalid RECFMT",
        3 => "invalid queue ID",
        4 => "invalid HSQSIZE",
        5 => "invalid HRQSIZE",
        6 => "no resources",
        7 => "invalid IRD",
        8 => "invalid ORD",
        9 => "invalid CNTLID",
        _ => return None,
    })
}
