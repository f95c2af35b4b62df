//! The page of each rule.
