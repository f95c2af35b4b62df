//! What the checker says of real captures, of captures with one fault put into them, and of
//! captures that taps and networks have disturbed.

mod captures;
mod cm;
mod congestion;
mod coverage;
mod fabric_faults;
mod false_alarms;
mod faults;
mod icrc;
mod limits;
mod mutations;
mod native;
mod pause;
mod pipeline;
mod recovery;
mod robustness;
mod second_tap;
mod support;
mod unknown;
mod vectors;
