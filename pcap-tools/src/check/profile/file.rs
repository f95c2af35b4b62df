//! Profiles as files, and those built in.

use std::fmt;

use super::Profile;

impl Profile {
    /// The profiles built in: name and file.
    pub const BUILT_IN: &[(&str, &str)] = &[
        ("irdma", include_str!("../../../profiles/irdma.toml")),
        ("mlx5", include_str!("../../../profiles/mlx5.toml")),
        ("rockhopper", include_str!("../../../profiles/rockhopper.toml")),
        ("rxe", include_str!("../../../profiles/rxe.toml")),
        ("strict", include_str!("../../../profiles/strict.toml")),
    ];

    /// The profile built in under that name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (name, text) = Self::BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Self::parse(name, text).ok()
    }

    /// Reads a profile's file; `name` is what findings call it.
    ///
    /// # Errors
    /// [`ProfileError`]: no TOML, a key that is not one of [`Profile`]'s fields, or a value of
    /// another type.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        match toml::from_str::<Self>(text) {
            Ok(profile) => Ok(Self { name: name.into(), ..profile }),
            Err(error) => Err(ProfileError::new(text, &error)),
        }
    }
}

/// What is wrong with a profile's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl ProfileError {
    fn new(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.as_bytes().get(..start).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Self { line, message: error.message().trim_end().replace('\n', ": ") }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ProfileError {}

#[cfg(test)]
mod tests {
    use super::super::{CnpScope, KnownIcrcMistake};
    use super::*;

    #[test]
    fn what_is_built_in_can_be_read() {
        for (name, text) in Profile::BUILT_IN {
            let profile = Profile::parse(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(Profile::built_in(name), Some(profile.clone()));
            assert_eq!(profile.name, *name);
            assert!(!profile.description.is_empty());
        }
        assert_eq!(Profile::built_in("cx9"), None);
    }

    #[test]
    fn a_file_says_what_it_says() {
        let text = "cnp_scope = 'queue-pair'\nicrc_mistakes = ['headers-twice']\n\
                    cnp_min_interval_ns = 4_000\nheeds_cnps = false\n";
        let expected = Profile {
            name: "mine".into(),
            cnp_scope: Some(CnpScope::QueuePair),
            icrc_mistakes: vec![KnownIcrcMistake::HeadersTwice],
            cnp_min_interval_ns: Some(4000),
            heeds_cnps: Some(false),
            ..Profile::default()
        };
        assert_eq!(Profile::parse("mine", text), Ok(expected));
        assert_eq!(Profile::parse("", ""), Ok(Profile::default()));
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, line, part) in [
            ("sends_cnps = true\ncnp_interval = 5\n", 2, "cnp_interval"),
            ("\n\nsends_cnps = 7\n", 3, "boolean"),
            ("cnp_scope = 'planet'\n", 1, "planet"),
            ("pause_storm_ns = -1\n", 1, "u64"),
            ("heeds_cnps = true\nheeds_cnps = true\n", 2, "duplicate"),
            ("sends_cnps\n", 1, ""),
            ("icrc_mistakes = ['none']\n", 1, "none"),
        ] {
            let error = Profile::parse("", text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.message.contains(part), "{error}");
        }
    }
}
