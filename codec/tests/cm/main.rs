//! MADs and the connection manager: layouts typed from the specification, every captured message,
//! tshark as the oracle of fields, properties.

mod captures;
mod facts;
mod layout;
#[path = "../packets/mod.rs"]
mod packets;
mod properties;
mod tshark;
