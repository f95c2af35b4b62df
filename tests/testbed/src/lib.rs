//! The whole stack on a virtual clock: worlds of engines, faulty wires, seeds.
