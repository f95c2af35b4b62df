//! A small eBPF assembler: instructions with labels instead of counted jumps.
//!
//! Encoding: Linux Documentation/bpf/standardization/instruction-set.rst (RFC 9669).

use std::os::fd::{AsRawFd, BorrowedFd};

/// One instruction as `bpf(2)` takes it: opcode, source and destination register in a byte
/// each four bits, offset, immediate.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. R0 returns, R1 to R5 pass arguments and are lost in a call, R6 to R9 are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
}

/// How much a load reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
}

/// The right-hand side of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Reg(Reg),
    Imm(i32),
}

/// A condition for a jump, unsigned.
#[derive(Debug, Clone, Copy)]
pub(super) enum If {
    Equal,
    NotEqual,
    Greater,
    Less,
    /// Any of the bits is set.
    AnyOf,
}

/// An arithmetic operation on 64 bits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Alu {
    Add,
    And,
    ShiftLeft,
    ShiftRight,
    Move,
}

/// A place in the program to jump to, which may be bound after the jump.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label is bound.
    labels: Vec<Option<usize>>,
    /// Jumps and the labels they go to.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn emit(&mut self, opcode: u8, destination: Reg, source: Reg, offset: i16, immediate: i32) {
        // Two bit fields, which C lays out from the other end on big-endian machines.
        let registers = if cfg!(target_endian = "big") {
            number(destination) << 4 | number(source)
        } else {
            number(source) << 4 | number(destination)
        };
        self.instructions.push(Instruction { opcode, registers, offset, immediate });
    }

    /// A label, not bound yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` to the next instruction.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `destination = *(size *)(source + offset)`, in the host's byte order.
    pub(super) fn load(&mut self, size: Size, destination: Reg, source: Reg, offset: i16) {
        let width = match size {
            Size::Word => 0x00,
            Size::Half => 0x08,
            Size::Byte => 0x10,
        };
        self.emit(0x61 | width, destination, source, offset, 0);
    }

    /// `destination = destination op operand`.
    pub(super) fn alu(&mut self, op: Alu, destination: Reg, operand: Operand) {
        let code = match op {
            Alu::Add => 0x00,
            Alu::And => 0x50,
            Alu::ShiftLeft => 0x60,
            Alu::ShiftRight => 0x70,
            Alu::Move => 0xb0,
        };
        match operand {
            Operand::Reg(source) => self.emit(0x07 | 0x08 | code, destination, source, 0, 0),
            Operand::Imm(value) => self.emit(0x07 | code, destination, Reg::R0, 0, value),
        }
    }

    /// Goes to `label` if `condition` holds between `left` and `right`; an immediate is
    /// compared as 32 bits, registers as 64.
    pub(super) fn jump_if(&mut self, condition: If, left: Reg, right: Operand, label: Label) {
        let code = match condition {
            If::Equal => 0x10,
            If::Greater => 0x20,
            If::AnyOf => 0x40,
            If::NotEqual => 0x50,
            If::Less => 0xa0,
        };
        self.jumps.push((self.instructions.len(), label));
        match right {
            Operand::Reg(right) => self.emit(0x05 | 0x08 | code, left, right, 0, 0),
            Operand::Imm(right) => self.emit(0x06 | code, left, Reg::R0, 0, right),
        }
    }

    /// Goes to `label`.
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.emit(0x05, Reg::R0, Reg::R0, 0, 0);
    }

    /// `destination = the map behind this descriptor`.
    pub(super) fn load_map(&mut self, destination: Reg, map: BorrowedFd<'_>) {
        // A 64-bit immediate takes two slots; source 1 says that it is a map's descriptor.
        self.emit(0x18, destination, Reg::R1, 0, map.as_raw_fd());
        self.emit(0x00, Reg::R0, Reg::R0, 0, 0);
    }

    /// Calls a kernel helper by its number.
    pub(super) fn call(&mut self, helper: i32) {
        self.emit(0x85, Reg::R0, Reg::R0, 0, helper);
    }

    /// Returns R0.
    pub(super) fn exit(&mut self) {
        self.emit(0x95, Reg::R0, Reg::R0, 0, 0);
    }

    /// The program, its jumps resolved.
    ///
    /// # Panics
    ///
    /// If a label was used and not bound, or is more than 32,767 instructions away.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, Label(label)) in self.jumps {
            let target = self.labels[label].expect("every label is bound");
            let distance = i64::try_from(target).ok().zip(i64::try_from(at).ok());
            let offset = distance.and_then(|(target, at)| i16::try_from(target - at - 1).ok());
            self.instructions[at].offset = offset.expect("a jump within 32,767 instructions");
        }
        self.instructions
    }
}

const fn number(register: Reg) -> u8 {
    match register {
        Reg::R0 => 0,
        Reg::R1 => 1,
        Reg::R2 => 2,
        Reg::R3 => 3,
        Reg::R4 => 4,
        Reg::R5 => 5,
        Reg::R6 => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the bytes that clang 14 writes for the same instructions.
    #[test]
    fn encodings() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.alu(Alu::Move, Reg::R6, Operand::Reg(Reg::R1));
        asm.load(Size::Word, Reg::R2, Reg::R6, 4);
        asm.load(Size::Half, Reg::R5, Reg::R2, 12);
        asm.load(Size::Byte, Reg::R0, Reg::R2, -1);
        asm.alu(Alu::Add, Reg::R4, Operand::Imm(14));
        asm.jump_if(If::Greater, Reg::R4, Operand::Reg(Reg::R3), end);
        asm.jump_if(If::NotEqual, Reg::R5, Operand::Imm(8), end);
        asm.jump(end);
        asm.call(51);
        asm.bind(end);
        asm.alu(Alu::Move, Reg::R0, Operand::Imm(2));
        asm.exit();
        let bytes: Vec<u8> = asm
            .finish()
            .iter()
            .flat_map(|i| {
                let [o0, o1] = i.offset.to_le_bytes();
                let [a, b, c, d] = i.immediate.to_le_bytes();
                [i.opcode, i.registers, o0, o1, a, b, c, d]
            })
            .collect();
        let clang = [
            "bf16000000000000", // r6 = r1
            "6162040000000000", // r2 = *(u32 *)(r6 + 4)
            "69250c0000000000", // r5 = *(u16 *)(r2 + 12)
            "7120ffff00000000", // r0 = *(u8 *)(r2 - 1)
            "070400000e000000", // r4 += 14
            "2d34030000000000", // if r4 > r3 goto +3
            "5605020008000000", // if w5 != 8 goto +2
            "0500010000000000", // goto +1
            "8500000033000000", // call 51
            "b700000002000000", // r0 = 2
            "9500000000000000", // exit
        ];
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, clang.concat());
    }
}
