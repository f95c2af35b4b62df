//! `--fields`: which columns, in which order.

use crate::field::{self, Field, Needs, UnknownName};

/// Fields chosen by name, long or short, in the order they were asked for.
#[derive(Debug, Clone)]
pub struct Columns(Vec<Column>);

/// A field under the name it was asked for by.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) field: &'static Field,
}

/// What CSV has unless told otherwise: enough to follow every flow with.
const CSV: &str = "frame.number,frame.time_epoch,frame.len,src,dst,udp.srcport,opcode,\
                   infiniband.bth.destqp,infiniband.bth.psn,infiniband.bth.a,payload.len,\
                   infiniband.reth.va,infiniband.reth.r_key,infiniband.reth.dmalen,syndrome,\
                   infiniband.aeth.msn,icrc.status,cm,upper,error";

impl Columns {
    /// From a list with commas, such as `number,src,dst,opcode,psn`.
    ///
    /// # Errors
    /// [`UnknownName`]: the first name that no field has.
    pub fn parse(list: &str) -> Result<Self, UnknownName> {
        let column = |name: &str| {
            let name = name.trim();
            Ok(Column { name: name.to_owned(), field: field::find(name)? })
        };
        list.split(',').map(column).collect::<Result<_, _>>().map(Self)
    }

    /// The columns of CSV that nobody chose.
    pub(super) fn of_csv() -> Self {
        let names = CSV.split(',');
        Self(
            names
                .filter_map(|name| field::find(name).ok().map(|field| (name, field)))
                .map(|(name, field)| Column { name: name.to_owned(), field })
                .collect(),
        )
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Column> {
        self.0.iter()
    }

    /// What rows must know for these columns to be filled.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.0.iter().fold(Needs::default(), |needs, column| needs.and(Needs::of(column.field)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_csv_is_a_field() {
        assert_eq!(Columns::of_csv().iter().count(), CSV.split(',').count());
    }

    #[test]
    fn names_are_kept_as_asked() {
        let columns = Columns::parse("psn, infiniband.bth.destqp,verdict").unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["psn", "infiniband.bth.destqp", "verdict"]);
        assert!(columns.needs().verdicts && !columns.needs().upper);
        assert_eq!(Columns::parse("psn,destqp").unwrap_err().near, ["infiniband.bth.destqp"]);
        assert!(Columns::parse("").is_err());
    }
}
