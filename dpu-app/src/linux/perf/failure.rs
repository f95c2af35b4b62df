//! What keeps a measurement from its end.

use std::fmt;
use std::process::ExitCode;

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// It could not begin: the command line, the interface, the privileges. Exit status 2.
    Setup(anyhow::Error),
    /// It began and failed: the server, the network. Exit status 1.
    Run(anyhow::Error),
}

impl Failure {
    /// The status to exit with.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Setup(_) => 2,
            Self::Run(_) => 1,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Setup(error) | Self::Run(error)) = self;
        write!(f, "{error:#}")
    }
}

impl std::error::Error for Failure {}
