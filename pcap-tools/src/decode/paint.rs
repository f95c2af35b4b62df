//! Colours for the eye, where there is one.

use std::fmt;

use anstyle::{AnsiColor, Style};

pub(super) const PLAIN: Style = Style::new();
pub(super) const NUMBER: Style = Style::new().dimmed();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const NOTICE: Style = AnsiColor::Yellow.on_default();
pub(super) const MANAGEMENT: Style = AnsiColor::Cyan.on_default();
pub(super) const HEADING: Style = Style::new().bold();

/// Something in a style, if colours are wanted.
pub(super) struct Painted<T>(pub(super) bool, pub(super) Style, pub(super) T);

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(color, style, what) = self;
        if *color && *style != PLAIN { write!(f, "{style}{what}{style:#}") } else { what.fmt(f) }
    }
}
