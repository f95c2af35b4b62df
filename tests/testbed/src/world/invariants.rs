//! What holds after every turn.

use roce_engine::QpState;

use super::World;
use super::host::Host;
use super::lifecycle::Chain;

impl World<'_, '_> {
    /// Counters add up, the engines' books agree with each other, nothing goes backwards, and
    /// nobody believes what has not happened.
    pub(super) fn check_invariants(&mut self) -> Result<(), String> {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            host.engine.audit().map_err(|fault| format!("host {number}: {fault}"))?;
            host.check_gap().map_err(|what| format!("host {number}: {what}"))?;
            let counters = host.engine.counters();
            if counters.received != host.received
                || counters.received != counters.acted_on + counters.dropped_total()
            {
                return Err(format!("host {number}: {} received; {counters:?}", host.received));
            }
            if host.engine.lost_events() > 0 {
                return Err(format!("host {number}: events were lost"));
            }
        }
        for chain in &mut self.chains {
            check_chain(&self.hosts, chain)?;
        }
        Ok(())
    }
}

fn check_chain(hosts: &[Host<'_>], chain: &mut Chain<'_>) -> Result<(), String> {
    let Some(ends) = &mut chain.ends else { return Ok(()) };
    for end in ends.iter_mut() {
        let info = hosts[end.host].engine.query_qp(end.qp).map_err(|error| error.to_string())?;
        if info.state == QpState::Reset {
            return Err(format!("{} was reset", end.qp));
        }
        if end.ready && end.una.advance(info.unacknowledged_psn)? {
            end.passes = 0;
        }
        end.expected.advance(info.expected_psn)?;
        if info.state != QpState::Error && end.ready {
            let next = end.una.of(info.next_psn);
            if next != end.direction.end() {
                return Err(format!("{}: {next} packets posted, not as planned", end.qp));
            }
        }
    }
    let [a, b] = &*ends;
    for (end, peer) in [(a, b), (b, a)] {
        let (una, executed, posted) = (end.una.packets, peer.expected.packets, end.direction.end());
        if una > executed || executed > posted {
            return Err(format!(
                "{}: {una} acknowledged of {executed} executed of {posted} posted",
                end.qp
            ));
        }
        let info = hosts[peer.host].engine.query_qp(peer.qp).map_err(|error| error.to_string())?;
        let messages = end.direction.messages_before(executed);
        if u32::try_from(messages).ok() != Some(info.msn.get()) {
            return Err(format!("{}: MSN {} after {messages} messages", peer.qp, info.msn));
        }
    }
    Ok(())
}
