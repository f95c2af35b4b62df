//! The poll-mode loop's turn: receive burst, engine, transmit burst, timers; bounded work.

use heapless::Vec;
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_engine::{Backing, Engine, Instant, LinkHeader, More, NextHop, Rx, TransmitError};

use crate::port::{BURST, MAX_FRAME, Port, RxBurst};

/// Frames one turn sends, at most: two bursts, so that a READ does not keep the receive queue
/// waiting.
pub const TX_BUDGET: usize = 2 * BURST;

/// Where the link-layer addresses of next hops come from: the kernel's neighbour table, or the
/// slow path where no kernel owns the address.
pub trait NextHops {
    /// The next hop's MAC address and the VLAN tags to reach it by; `None` while unresolved.
    fn link(&self, hop: NextHop) -> Option<(MacAddr, VlanStack)>;
}

/// One neighbour for every hop: a point-to-point wire.
#[derive(Debug, Clone, Copy)]
pub struct OneNeighbour(pub MacAddr);

impl NextHops for OneNeighbour {
    fn link(&self, _: NextHop) -> Option<(MacAddr, VlanStack)> {
        Some((self.0, VlanStack::EMPTY))
    }
}

/// What a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    /// Frames received.
    pub received: usize,
    /// Frames sent.
    pub sent: usize,
    /// Packets dropped because their next hop is not resolved (the requester sends them again).
    pub unresolved: usize,
    /// Whether something is left to do at once: the next turn should not wait.
    pub more: bool,
}

/// One turn of the loop.
pub fn turn<P: Port, B: Backing, H: NextHops>(
    engine: &mut Engine<'_>,
    port: &mut P,
    backing: &B,
    hops: &H,
    now: Instant,
) -> Turn {
    let mut tokens = RxBurst::new();
    let received = port.rx_burst(&mut tokens);
    if !tokens.is_empty() {
        let mut burst = Vec::<_, BURST>::new();
        burst.extend(tokens.iter().map(|token| Rx {
            segments: port.frame(token),
            start: Start::Ethernet,
            icrc_verified: token.meta.icrc_verified,
        }));
        engine.handle_burst(now, &burst, backing);
    }
    for token in tokens {
        port.release(token);
    }
    let timers = engine.handle_timeout(now);

    let mut turn = Turn { received, sent: 0, unresolved: 0, more: received == BURST };
    let src = port.mac();
    for _ in 0..TX_BUDGET {
        let Some(out) = port.tx_reserve(MAX_FRAME) else {
            // The wire is full: what is left waits in the engine.
            turn.more = true;
            break;
        };
        let transmit = engine.poll_transmit(now);
        let Some(transmit) = &transmit else { break };
        let Some((dst, vlans)) = hops.link(transmit.path.next_hop) else {
            turn.unresolved += 1;
            continue;
        };
        match transmit.emit::<Crc, B>(engine, &LinkHeader { dst, src, vlans }, backing, out) {
            Ok(len) => {
                port.tx_commit(len);
                turn.sent += 1;
            }
            Err(TransmitError::Backing(_)) => engine.transmit_failed(transmit),
            // The engine keeps payloads within the path MTU and a port takes MAX_FRAME bytes.
            Err(error) => debug_assert!(false, "{error}"),
        }
    }
    port.tx_flush();
    turn.more |= timers == More::Yes || turn.sent + turn.unresolved == TX_BUDGET;
    turn
}
