//! Figures against an independent witness, hand-made traffic and known truths.

mod captures;
