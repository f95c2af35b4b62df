//! Decode and judge RoCEv2 captures.
