//! The expressions of `--where`.

use roce_pcap::filter::Filter;

use crate::Outcome;

/// What they can say.
pub(crate) const HELP: &str = "\
Expressions (--where):
  opcode == WRITE_FIRST && dqpn == 0x11     comparison: == != < <= > >= (or eq ne lt le gt ge)
  src == 10.0.0.0/8 and not cnp             addresses and prefixes; && || ! (or and or not); ( )
  psn in {0x100..0x1ff, 7}                  one of several, ranges with both ends included
  reth, ackreq                              the packet has that header; that flag is set
  cm contains \"port 7174\"                   part of a text, a name or hexadecimal bytes
  verdict == fail, severity >= warning,     what the checker says, which then runs alongside
  rule == RC-PSN-GAP
Numbers: 17, 0x11, 0o21, 0b10001. Opcodes: WRITE_FIRST is that of any service, RC_WRITE_FIRST of RC
alone, 0x06 a number. What a packet does not have compares false, with != as well.
`roce-pcap decode --list-fields` lists the fields.";

/// An expression, if there is one. What is wrong with it is said here.
pub(crate) fn parse(text: Option<&str>) -> Result<Option<Filter>, Outcome> {
    text.map(Filter::parse).transpose().map_err(|error| {
        eprintln!("roce-pcap: --where: {error}");
        Outcome::Unusable
    })
}
