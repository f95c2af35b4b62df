//! Findings for programs: JSON lines, JUnit XML, SARIF, and the annotations of GitHub's actions.

mod github;
mod json;
mod junit;
mod sarif;

pub use junit::Junit;
pub use sarif::Sarif;
