//! Requests that are served.

use roce_codec::ib::Opcode;
use roce_engine::Access;

use super::{Aim, Ground, Shot, Siege};
use crate::hostile::target::MTU;

impl Siege<'_> {
    /// Fair requests: a hostile client makes these, too.
    pub(super) fn fair_shot(&mut self, aim: Aim, ground: &Ground) -> Shot {
        let random = &mut self.random;
        let psn = ground.psn;
        match aim {
            Aim::Duplicate => Shot::behind(&[ground.write(psn)], &ground.write(psn)),
            Aim::Write => Shot::new(&ground.write(psn)),
            Aim::Read => Shot::new(&ground.read(psn, 1 + random.below_u32(MTU.bytes()))),
            Aim::Atomic => {
                let area = ground.areas.atomic;
                let va = area.va + 8 * random.below(512);
                Shot::new(&ground.packet(Opcode::RC_FETCH_ADD, psn).atomic(va, area.rkey, 3, 0))
            }
            Aim::AtomicWrite => Shot::new(&ground.atomic_write(psn)),
            Aim::Flush => Shot::new(&ground.flush(psn)),
            Aim::Invalidate => {
                self.target.post_receive(ground.qp, 64, false);
                let rkey = self.target.lend_read_area(Access::REMOTE_INVALIDATE);
                let send = ground.packet(Opcode::RC_SEND_ONLY_INV, psn).ieth(rkey).ask();
                // Its slot comes back, since nobody needs it any more.
                Shot { dies: Some(rkey), ..Shot::new(&send) }
            }
            _ => {
                self.target.post_receive(ground.qp, 64, false);
                Shot::new(&ground.packet(Opcode::RC_SEND_ONLY, psn).payload(vec![12; 64]).ask())
            }
        }
    }
}
