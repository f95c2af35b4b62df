"""Turns what firmware logs by defmt into text, with the strings in its ELF file.

A frame is rzcobs and a zero byte; in it are the index of a format string, the timestamp's
arguments and the string's own. A string's index is its symbol's address, and the symbol's name has
it as JSON. Of the format only what is met here is known; anything else is an error. The project's own
decoder, the crate defmt-decoder, is not used because it depends on one under the MPL.
"""

import json
import re
import struct

VERSION, ENCODING = "_defmt_version_ = 4", "_defmt_encoding_ = rzcobs"
NUMBERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q"}
PARAMETER = re.compile(r"\{\{|\}\}|\{(\d*)(?:=([^:}]+))?(?::([^}]*))?\}")
BYTES = re.compile(r"\[u8; *(\d+)\]")


class Malformed(Exception):
    pass


def rzcobs(frame):
    """The bytes that `frame`, its zero byte taken off, stands for. It is read from its end."""
    rest, decoded = list(frame), []

    def copy(count):
        if count > len(rest):
            raise Malformed("a frame is cut short")
        for _ in range(count):
            decoded.append(rest.pop())

    while rest:
        code = rest.pop()
        if code == 0:
            raise Malformed("a zero byte within a frame")
        if code < 0x80:
            for bit in range(6, -1, -1):
                if code >> bit & 1:
                    decoded.append(0)
                else:
                    copy(1)
        elif code < 0xff:
            decoded.append(0)
            copy((code & 0x7f) + 7)
        else:
            copy(134)
    return bytes(reversed(decoded))


class Arguments:
    def __init__(self, data):
        self.data = data

    def take(self, count):
        if count > len(self.data):
            raise Malformed("a frame has too few bytes for its format string")
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self, kind):
        layout = NUMBERS[kind]
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self):
        """Text that ends in 0xff, which is not UTF-8."""
        text, end, self.data = self.data.partition(b"\xff")
        if not end:
            raise Malformed("text without an end")
        return text.decode()


class Table:
    """The strings of a linked program."""

    def __init__(self, elf):
        names = {symbol.name for symbol in elf.symbols}
        for name in (VERSION, ENCODING):
            if name not in names:
                raise Malformed(f"the program has no symbol {name!r}")
        self.strings, self.timestamp = {}, ""
        for symbol in elf.symbols:
            if not symbol.name.startswith("{"):
                continue
            entry = json.loads(symbol.name)
            if entry["tag"] == "defmt_timestamp":
                self.timestamp = entry["data"]
            self.strings[symbol.value] = (entry["tag"], entry["data"])

    def lines(self, log):
        """(level, line) of each frame."""
        *frames, rest = log.split(b"\0")
        for frame in frames:
            if frame:
                yield self.line(rzcobs(frame))
        if rest:
            raise Malformed("the last frame has no end")

    def line(self, data):
        arguments = Arguments(data)
        tag, text = self.string(arguments)
        time = self.format(self.timestamp, arguments)
        line = self.format(text, arguments)
        # The encoding fills up its last group of seven.
        if len(arguments.data) > 6 or any(arguments.data):
            raise Malformed(f"{len(arguments.data)} bytes are left behind {line!r}")
        level = tag.removeprefix("defmt_").upper()
        return level, f"{time} {level:<5} {line}"

    def string(self, arguments):
        index = arguments.number("u16")
        if index not in self.strings:
            raise Malformed(f"no string has index {index}")
        return self.strings[index]

    def format(self, text, arguments):
        variants = text.split("|")
        if len(variants) > 1:
            text = variants[arguments.number("u8")]
        parts, end = [], 0
        for found in PARAMETER.finditer(text):
            parts.append(text[end:found.start()])
            end = found.end()
            if found[0] in ("{{", "}}"):
                parts.append(found[0][0])
            elif found[1]:
                raise Malformed(f"parameters by number in {text!r}")
            else:
                parts.append(self.argument(found[2] or "?", found[3] or "", arguments))
        return "".join(parts) + text[end:]

    def argument(self, kind, hint, arguments):
        array = BYTES.fullmatch(kind)
        if kind in NUMBERS:
            return number(arguments.number(kind), hint)
        if kind == "str":
            return arguments.take(arguments.number("u32")).decode()
        if kind == "?":
            return self.format(self.string(arguments)[1], arguments)
        if kind == "bool":
            return "true" if arguments.number("u8") else "false"
        if kind in ("__internal_Display", "__internal_Debug"):
            return arguments.text()
        if kind == "__internal_FormatSequence":
            parts = []
            while arguments.data[:2] != b"\0\0":
                parts.append(self.argument("?", "", arguments))
            arguments.take(2)
            return "".join(parts)
        if array:
            return "[" + ", ".join(number(byte, hint) for byte in arguments.take(int(array[1]))) + "]"
        raise Malformed(f"a parameter of type {kind}")


def number(value, hint):
    if hint == "us":
        return f"{value // 1_000_000}.{value % 1_000_000:06}"
    if hint in ("", "?"):
        return str(value)
    if re.fullmatch(r"#?0?\d*x", hint):
        return format(value, hint)
    raise Malformed(f"a number shown as {hint!r}")
