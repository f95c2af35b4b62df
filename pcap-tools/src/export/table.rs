//! Tables: what their columns are, and how a row fills them.

use arrow_array::ArrayRef;
use arrow_schema::Field;

/// The columns of a table, being filled.
pub(super) trait Columns: Default {
    /// Their names, types and meanings, in order.
    fn fields() -> Vec<Field>;

    /// The rows so far, column by column; it is empty afterwards.
    fn finish(&mut self) -> Vec<ArrayRef>;
}

/// Declares the columns of a table: name, type, what a row has there, and what it means.
macro_rules! columns {
    (
        $(#[$doc:meta])*
        $name:ident |$row:ident: $of:ty|
        $($column:ident: $kind:ty = $value:expr, $what:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Default)]
        pub(super) struct $name {
            $($column: $kind,)*
        }

        impl $name {
            /// Adds a row.
            #[inline]
            pub(super) fn append(&mut self, $row: $of) {
                use crate::export::column::Column as _;
                $(self.$column.append($value);)*
            }
        }

        impl crate::export::table::Columns for $name {
            fn fields() -> Vec<arrow_schema::Field> {
                vec![$(crate::export::column::field::<$kind>(stringify!($column), $what),)*]
            }

            fn finish(&mut self) -> Vec<arrow_array::ArrayRef> {
                use crate::export::column::Column as _;
                vec![$(self.$column.finish(),)*]
            }
        }
    };
}

pub(super) use columns;

/// One of the tables of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row a packet.
    Packets,
    /// One row a message: what a requester asked for, to its completion.
    Messages,
    /// One row a loss, or another reason that a requester went back for.
    Recoveries,
    /// One row a finding of the checker.
    Findings,
    /// One row a flow: a sender, a receiver and a destination QP.
    Flows,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Packets, Self::Messages, Self::Recoveries, Self::Findings, Self::Flows];

    /// The start of its files' names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Messages => "messages",
            Self::Recoveries => "recoveries",
            Self::Findings => "findings",
            Self::Flows => "flows",
        }
    }

    /// Its place among them.
    pub(super) const fn index(self) -> usize {
        self as usize
    }
}
