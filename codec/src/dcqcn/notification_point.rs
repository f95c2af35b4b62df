//! The notification point: when a receiver answers congestion marks with a CNP.

use core::net::IpAddr;

use zerocopy::TryFromBytes;

use super::{Knob, Params};
use crate::ib::{OpcodeClass, OpcodeInfo, Operation};
use crate::net::Ecn;

/// The pace of CNPs for one flow.
///
/// A marked packet is answered at once, unless a CNP was sent less than
/// `min_time_between_cnps_us` before; there is no CNP at the end of that time for what was marked
/// within. So CNPs are fewer than marks, by a factor that says nothing about a fault.
///
/// What a flow is, is the caller's choice: a queue pair, a pair of addresses, a port. NICs differ.
///
/// 16 bytes, and [`NotificationPoint::new`] is `const`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, TryFromBytes)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotificationPoint {
    sent_at_ns: u64,
    has_sent: bool,
}

const _: () = assert!(size_of::<NotificationPoint>() <= 16);

impl NotificationPoint {
    /// A flow that no CNP was sent for.
    #[must_use]
    pub const fn new() -> Self {
        Self { sent_at_ns: 0, has_sent: false }
    }

    /// A packet of the flow has come at `now_ns`, and `ce` says whether it
    /// [may cause a CNP](may_cause_cnp). Returns whether to send one now; it then counts as sent.
    ///
    /// A time before that of the last CNP is taken as that.
    #[inline]
    #[must_use]
    pub fn on_packet(&mut self, params: &Params, now_ns: u64, ce: bool) -> bool {
        let now_ns = now_ns.max(self.sent_at_ns);
        let since_ns = now_ns.saturating_sub(self.sent_at_ns);
        let sends = ce && (!self.has_sent || since_ns >= params.ns(Knob::MinTimeBetweenCnps));
        if sends {
            *self = Self { sent_at_ns: now_ns, has_sent: true };
        }
        sends
    }
}

/// Whether a packet that came for a valid queue pair may be answered with a CNP: it is marked
/// congestion experienced, of a known opcode, to one receiver, and neither an acknowledgement nor
/// a CNP (IBTA A17.9; in native InfiniBand A10 says the same of FECN).
///
/// READ responses may: the CNP then goes to the responder that sends them, and is no
/// acknowledgement. So may ATOMIC acknowledgements, as they carry data. Of the ECN field alone
/// CE counts: a switch cannot set it on Not-ECT, and a FECN bit in the BTH is not consulted.
#[must_use]
pub fn may_cause_cnp(opcode: &OpcodeInfo, ecn: Ecn, destination: IpAddr) -> bool {
    let one_receiver = match destination {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_multicast(),
    };
    ecn == Ecn::Ce
        && one_receiver
        && opcode.class == OpcodeClass::Known
        && !matches!(opcode.operation, Operation::Acknowledge | Operation::Cnp)
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::ib::Opcode;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn times(params: &Params, packets: &[(u64, bool)]) -> Vec<u64> {
        let mut np = NotificationPoint::new();
        let sent = packets.iter().filter(|&&(at_ns, ce)| np.on_packet(params, at_ns, ce));
        sent.map(|&(at_ns, _)| at_ns).collect()
    }

    #[test]
    fn a_cnp_at_once_and_then_one_each_50_us() {
        let packets = [
            (0, false),
            (1_000, true),    // the first mark, at once
            (50_999, true),   // 49.999 µs after it
            (51_000, true),   // 50 µs
            (60_000, true),   // and none is sent at 101 µs for this one
            (150_000, false), // no mark, no CNP
            (200_000, true),
        ];
        assert_eq!(times(&Params::PAPER, &packets), [1_000, 51_000, 200_000]);
    }

    #[test]
    fn a_mark_at_time_zero_counts() {
        assert_eq!(times(&Params::PAPER, &[(0, true), (1, true), (50_000, true)]), [0, 50_000]);
    }

    #[test]
    fn without_a_minimum_each_mark_is_answered() {
        let params = Params { min_time_between_cnps_us: 0, ..Params::PAPER };
        assert_eq!(times(&params, &[(7, true), (7, true), (8, true)]), [7, 7, 8]);
    }

    #[test]
    fn time_that_goes_back_neither_sends_nor_moves_the_window() {
        let packets = [(100_000, true), (10_000, true), (149_999, true), (150_000, true)];
        assert_eq!(times(&Params::PAPER, &packets), [100_000, 150_000]);
        assert_eq!(times(&Params::PAPER, &[(u64::MAX, true), (0, true)]), [u64::MAX]);
    }

    /// Marks outnumber CNPs: 121,321 marked packets, one each 0.8 µs, are 97 ms.
    #[test]
    fn marks_coalesce() {
        let packets: Vec<_> = (0..121_321).map(|i| (i * 800, true)).collect();
        // One each ⌈50/0.8⌉ = 63 packets: ⌈121321/63⌉.
        assert_eq!(times(&Params::PAPER, &packets).len(), 1926);
    }

    #[test]
    fn acknowledgements_cnps_and_multicast_cause_none() {
        let may = |opcode: Opcode, to| may_cause_cnp(opcode.info(), Ecn::Ce, to);
        for opcode in [Opcode::RC_ACKNOWLEDGE, Opcode::XRC_ACKNOWLEDGE, Opcode::RD_ACKNOWLEDGE] {
            assert!(!may(opcode, HERE), "{opcode}");
        }
        assert!(!may(Opcode::CNP, HERE));
        assert!(!may(Opcode::IB_CNP, HERE));
        assert!(!may(Opcode(0x15), HERE), "reserved");
        assert!(!may(Opcode(0xc0), HERE), "manufacturer");
        for opcode in [
            Opcode::RC_SEND_MIDDLE,
            Opcode::RC_RDMA_WRITE_ONLY,
            Opcode::RC_RDMA_READ_REQUEST,
            Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            Opcode::RC_ATOMIC_ACKNOWLEDGE,
            Opcode::UC_SEND_ONLY,
            Opcode::UD_SEND_ONLY,
        ] {
            assert!(may(opcode, HERE), "{opcode}");
            assert!(may(opcode, IpAddr::V6(Ipv6Addr::LOCALHOST)));
            assert!(!may(opcode, IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1))));
            assert!(!may(opcode, IpAddr::V4(Ipv4Addr::BROADCAST)));
            assert!(!may(opcode, IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1))));
        }
    }

    #[test]
    fn only_ce_counts() {
        let send = Opcode::RC_SEND_ONLY.info();
        for (ecn, may) in
            [(Ecn::NotEct, false), (Ecn::Ect0, false), (Ecn::Ect1, false), (Ecn::Ce, true)]
        {
            assert_eq!(may_cause_cnp(send, ecn, HERE), may, "{ecn:?}");
        }
        // A type of service of 0x68 is DSCP 26 and Not-ECT; marked data of that DSCP has 0x6b.
        assert!(!may_cause_cnp(send, Ecn::of_traffic_class(0x68), HERE));
        assert!(may_cause_cnp(send, Ecn::of_traffic_class(0x6b), HERE));
    }
}
