use core::num::NonZeroU64;

use roce_codec::net::{MacAddr, MacControl, Pause, PauseQuanta, Pfc};
use roce_codec::{EmitError, ParseError};

crate::instantiate! {
    mac_control_parse(bytes: &[u8]) -> Result<MacControl, ParseError> { MacControl::parse(bytes) }
    mac_control_emit(frame: &MacControl, out: &mut [u8]) -> Result<usize, EmitError> {
        frame.emit(out)
    }
    pause_new(src: MacAddr, quanta: PauseQuanta) -> Pause { Pause::new(src, quanta) }
    pause_parse(bytes: &[u8]) -> Result<Pause, ParseError> { Pause::parse(bytes) }
    pause_emit(pause: &Pause, out: &mut [u8]) -> Result<usize, EmitError> { pause.emit(out) }
    pfc_new(src: MacAddr) -> Pfc { Pfc::new(src) }
    pfc_with(pfc: Pfc, priority: u8, quanta: PauseQuanta) -> Pfc { pfc.with(priority, quanta) }
    pfc_enabled(pfc: &Pfc) -> Option<(u8, PauseQuanta)> { pfc.enabled().last() }
    pfc_parse(bytes: &[u8]) -> Result<Pfc, ParseError> { Pfc::parse(bytes) }
    pfc_emit(pfc: &Pfc, out: &mut [u8]) -> Result<usize, EmitError> { pfc.emit(out) }
    quanta_ns(quanta: PauseQuanta, rate: NonZeroU64) -> u64 { quanta.ns(rate) }
}
