"""Reads what tests/panic-free and tests/size want to know of a linked program, of any
architecture: its sections, its symbols, and which function refers to which."""

import bisect
import collections
import struct

Section = collections.namedtuple("Section", "name kind flags address offset size link info each")
Symbol = collections.namedtuple("Symbol", "name value size kind section")

SHF_ALLOC = 2
SHT_SYMTAB, SHT_RELA, SHT_REL = 2, 4, 9
STT_FUNC = 2
SHN_UNDEF = 0
EM_ARM, EM_X86_64 = 40, 62
# Reckoned from the end of the four bytes that hold it: R_X86_64_PC32, R_X86_64_PLT32.
X86_64_RELATIVE = (2, 4)


class Elf:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:4] != b"\x7fELF":
            raise ValueError(f"{path} is not an ELF file")
        self.wide = self.data[4] == 2
        self.order = "<" if self.data[5] == 1 else ">"
        word = "Q" if self.wide else "I"
        header = self.unpack("HHI" + 3 * word + "IHHHHHH", 16)
        self.machine, self.entry = header[1], header[3]
        at, each, count, names = header[5], header[10], header[11], header[12]
        rows = [self.unpack("II" + 4 * word + "II" + 2 * word, at + each * i)
                for i in range(count)]
        # Order of the fields: name type flags addr offset size link info align entsize.
        strings = rows[names][4]
        self.sections = [
            Section(self.text(strings + row[0]), row[1], row[2], row[3], row[4], row[5], row[6],
                    row[7], row[9]) for row in rows]
        self.symbols = self.read_symbols()

    def unpack(self, layout, offset):
        return struct.unpack_from(self.order + layout, self.data, offset)

    def text(self, offset):
        return self.data[offset:self.data.index(b"\0", offset)].decode()

    def read_symbols(self):
        symbols = []
        for table in self.sections:
            if table.kind != SHT_SYMTAB:
                continue
            strings = self.sections[table.link].offset
            for offset in range(table.offset, table.offset + table.size, table.each):
                if self.wide:
                    name, info, _, section, value, size = self.unpack("IBBHQQ", offset)
                else:
                    name, value, size, info, _, section = self.unpack("IIIBBH", offset)
                if self.machine == EM_ARM and info & 15 == STT_FUNC:
                    value &= ~1  # which only says: Thumb
                symbols.append(Symbol(self.text(strings + name), value, size, info & 15, section))
        return symbols

    def size_of(self, *prefixes):
        """Bytes of the sections in memory whose names start with one of `prefixes`."""
        return sum(section.size for section in self.sections
                   if section.flags & SHF_ALLOC and section.name.startswith(prefixes))

    def functions(self):
        """The functions, by address."""
        return sorted((symbol for symbol in self.symbols
                       if symbol.kind == STT_FUNC and symbol.section != SHN_UNDEF),
                      key=lambda symbol: symbol.value)

    def references(self):
        """(function, name referred to), from the relocations that `--emit-relocs` leaves."""
        functions = self.functions()
        starts = [function.value for function in functions]
        named = {function.value: function.name for function in functions}
        pairs = set()
        for table in self.sections:
            if table.kind not in (SHT_REL, SHT_RELA):
                continue
            for offset in range(table.offset, table.offset + table.size, table.each):
                if self.wide:
                    at, info, addend = self.unpack("QQq", offset)
                    index = info >> 32
                    if self.machine == EM_X86_64 and info & 0xffffffff in X86_64_RELATIVE:
                        addend += 4
                else:
                    at, info = self.unpack("II", offset)
                    addend, index = 0, info >> 8
                place = bisect.bisect_right(starts, at) - 1
                if place < 0 or at >= starts[place] + max(functions[place].size, 1):
                    continue
                symbol = self.symbols[index]
                # A local function may be named by its section and where it lies in it.
                target = symbol.name or named.get(symbol.value + addend)
                if target:
                    pairs.add((functions[place].name, target))
        return pairs
