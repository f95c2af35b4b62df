//! Figures against an independent witness, hand-made traffic and known truths.

mod captures;
mod command;
mod dcqcn;
mod html;
mod traffic;
mod wire;
