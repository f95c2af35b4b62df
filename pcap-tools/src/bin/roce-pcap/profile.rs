//! `--profile NAME|FILE`.

use roce_pcap::check::Profile;

/// A profile built in, or the one in that file.
pub(crate) fn parse(argument: &str) -> Result<Profile, String> {
    if let Some(profile) = Profile::built_in(argument) {
        return Ok(profile);
    }
    let text = std::fs::read_to_string(argument).map_err(|error| {
        let names: Vec<_> = Profile::BUILT_IN.iter().map(|(name, _)| *name).collect();
        format!("no such profile ({}), and no such file: {error}", names.join(", "))
    })?;
    Profile::parse(argument, &text).map_err(|error| error.to_string())
}
