//! The XDP program that steers RoCEv2 to the sockets and leaves everything else to the kernel.
//!
//! It takes unfragmented IPv4 (with options or without) and IPv6 UDP to port 4791, behind up to
//! two VLAN tags, to one of the addresses it was made for, and redirects it to the socket of the
//! receive queue; where that queue has no socket, the frame goes on to the kernel like all others.
//! IPv6 extension headers are not followed: RoCEv2 has none.
//!
//! The headers lie in the first buffer of a frame that spans several; the program looks no
//! further.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6};
use super::assembler::{Alu, Assembler, If, Instruction, Label, Operand, Size};
use super::bpf;

/// Addresses a program can be made for, at most; each costs one or four instructions.
pub(super) const MAX_ADDRESSES: usize = 64;

/// The program's name, as `bpftool prog` and `ip link` show it.
const NAME: [u8; 16] = *b"roce_steer\0\0\0\0\0\0";

/// `XDP_PASS` of `enum xdp_action`.
const XDP_PASS: i32 = 2;
/// `bpf_redirect_map` of the helpers.
const REDIRECT_MAP: i32 = 51;

/// `struct xdp_md`.
const CTX_DATA: i16 = 0;
const CTX_DATA_END: i16 = 4;
const CTX_RX_QUEUE: i16 = 16;

const VLAN_TAGS: usize = 2;

/// The loaded program and its map.
#[derive(Debug)]
pub(super) struct Steering {
    program: OwnedFd,
    map: OwnedFd,
    /// Whether it takes frames in several buffers.
    pub(super) fragments: bool,
}

impl Steering {
    /// Loads the program for queues 0 to `queues` - 1 and these addresses, or for any if empty.
    pub(super) fn load(queues: u32, addresses: &[IpAddr]) -> io::Result<Self> {
        let map = bpf::create_xsk_map(queues)?;
        let instructions = assemble(map.as_fd(), addresses);
        let (program, fragments) = match bpf::load_program(NAME, &instructions, true) {
            Ok(program) => (program, true),
            // Linux before 5.18 knows no such flag.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (bpf::load_program(NAME, &instructions, false)?, false)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { program, map, fragments })
    }

    /// Sends the frames of `queue` to `socket`.
    pub(super) fn steer(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        bpf::update_xsk_map(self.map.as_fd(), queue, socket)
    }

    /// Attaches to an interface for as long as the descriptor returned is open.
    pub(super) fn attach(&self, ifindex: u32, flag: bpf::AttachFlag) -> io::Result<OwnedFd> {
        bpf::attach(self.program.as_fd(), ifindex, flag)
    }
}

/// A 16-bit field's value on the wire, as a load in host order gives it.
fn wire16(value: u16) -> Operand {
    Operand::Imm(i32::from(u16::from_ne_bytes(value.to_be_bytes())))
}

/// Four bytes on the wire, as a load in host order gives them.
fn wire32(bytes: [u8; 4]) -> Operand {
    Operand::Imm(i32::from_ne_bytes(bytes))
}

/// R6 keeps the context, R3 the frame's end; R4 is where the next header starts.
fn assemble(map: BorrowedFd<'_>, addresses: &[IpAddr]) -> Vec<Instruction> {
    // The verifier refuses code that is never reached, so a version without addresses has none.
    let takes_ipv4 = addresses.is_empty() || addresses.iter().any(IpAddr::is_ipv4);
    let takes_ipv6 = addresses.is_empty() || addresses.iter().any(IpAddr::is_ipv6);
    let mut asm = Assembler::default();
    let [ipv4, ipv6, udp, pass] = std::array::from_fn(|_| asm.label());

    asm.alu(Alu::Move, R6, Operand::Reg(R1));
    asm.load(Size::Word, R2, R6, CTX_DATA);
    asm.load(Size::Word, R3, R6, CTX_DATA_END);
    ethernet_header(&mut asm, pass);
    if takes_ipv4 {
        asm.jump_if(If::Equal, R5, wire16(0x0800), ipv4);
    }
    if takes_ipv6 {
        asm.jump_if(If::Equal, R5, wire16(0x86dd), ipv6);
    }
    asm.jump(pass);
    if takes_ipv4 {
        asm.bind(ipv4);
        ipv4_header(&mut asm, addresses, pass);
        asm.jump(udp);
    }
    if takes_ipv6 {
        asm.bind(ipv6);
        ipv6_header(&mut asm, addresses, pass);
    }
    asm.bind(udp);
    require(&mut asm, 8, pass);
    asm.load(Size::Half, R5, R4, 2);
    asm.jump_if(If::NotEqual, R5, wire16(4791), pass);
    asm.load(Size::Word, R2, R6, CTX_RX_QUEUE);
    asm.load_map(R1, map);
    // What to return for a queue without a socket.
    asm.alu(Alu::Move, R3, Operand::Imm(XDP_PASS));
    asm.call(REDIRECT_MAP);
    asm.exit();

    asm.bind(pass);
    asm.alu(Alu::Move, R0, Operand::Imm(XDP_PASS));
    asm.exit();
    asm.finish()
}

/// Goes to `pass` unless `length` bytes from R4 on are in the frame's first buffer.
fn require(asm: &mut Assembler, length: i32, pass: Label) {
    asm.alu(Alu::Move, R1, Operand::Reg(R4));
    asm.alu(Alu::Add, R1, Operand::Imm(length));
    asm.jump_if(If::Greater, R1, Operand::Reg(R3), pass);
}

/// From R2 at the frame's start, past the VLAN tags, to R4 behind the EtherType, which is in R5.
fn ethernet_header(asm: &mut Assembler, pass: Label) {
    let network = asm.label();
    asm.alu(Alu::Move, R4, Operand::Reg(R2));
    require(asm, 14, pass);
    asm.alu(Alu::Add, R4, Operand::Imm(14));
    asm.load(Size::Half, R5, R4, -2);
    for _ in 0..VLAN_TAGS {
        let tag = asm.label();
        asm.jump_if(If::Equal, R5, wire16(0x8100), tag);
        asm.jump_if(If::NotEqual, R5, wire16(0x88a8), network);
        asm.bind(tag);
        require(asm, 4, pass);
        asm.alu(Alu::Add, R4, Operand::Imm(4));
        asm.load(Size::Half, R5, R4, -2);
    }
    asm.bind(network);
}

/// From R4 at an IPv4 header to R4 at its UDP header.
fn ipv4_header(asm: &mut Assembler, addresses: &[IpAddr], pass: Label) {
    require(asm, 20, pass);
    asm.load(Size::Byte, R0, R4, 0);
    asm.alu(Alu::Move, R1, Operand::Reg(R0));
    asm.alu(Alu::ShiftRight, R1, Operand::Imm(4));
    asm.jump_if(If::NotEqual, R1, Operand::Imm(4), pass);
    asm.load(Size::Byte, R1, R4, 9);
    asm.jump_if(If::NotEqual, R1, Operand::Imm(17), pass);
    // More fragments to come, or not the first.
    asm.load(Size::Half, R1, R4, 6);
    asm.jump_if(If::AnyOf, R1, wire16(0x3fff), pass);
    if !addresses.is_empty() {
        let ours = asm.label();
        asm.load(Size::Word, R1, R4, 16);
        for address in addresses {
            if let IpAddr::V4(address) = address {
                asm.jump_if(If::Equal, R1, wire32(address.octets()), ours);
            }
        }
        asm.jump(pass);
        asm.bind(ours);
    }
    asm.alu(Alu::And, R0, Operand::Imm(0x0f));
    asm.jump_if(If::Less, R0, Operand::Imm(5), pass);
    asm.alu(Alu::ShiftLeft, R0, Operand::Imm(2));
    asm.alu(Alu::Add, R4, Operand::Reg(R0));
}

/// From R4 at an IPv6 header to R4 at its UDP header.
fn ipv6_header(asm: &mut Assembler, addresses: &[IpAddr], pass: Label) {
    require(asm, 40, pass);
    asm.load(Size::Byte, R0, R4, 0);
    asm.alu(Alu::ShiftRight, R0, Operand::Imm(4));
    asm.jump_if(If::NotEqual, R0, Operand::Imm(6), pass);
    asm.load(Size::Byte, R0, R4, 6);
    asm.jump_if(If::NotEqual, R0, Operand::Imm(17), pass);
    if !addresses.is_empty() {
        let ours = asm.label();
        for (register, offset) in [(R0, 24), (R1, 28), (R2, 32), (R5, 36)] {
            asm.load(Size::Word, register, R4, offset);
        }
        for address in addresses {
            if let IpAddr::V6(address) = address {
                let other = asm.label();
                let octets = address.octets();
                let (words, _) = octets.as_chunks::<4>();
                for (register, word) in [R0, R1, R2, R5].into_iter().zip(words) {
                    asm.jump_if(If::NotEqual, register, wire32(*word), other);
                }
                asm.jump(ours);
                asm.bind(other);
            }
        }
        asm.jump(pass);
        asm.bind(ours);
    }
    asm.alu(Alu::Add, R4, Operand::Imm(40));
}

#[cfg(test)]
mod tests;
