//! Columns being filled: typed as narrowly as what they hold.

use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int32Builder, ListBuilder, PrimitiveBuilder, StringBuilder,
    StringDictionaryBuilder, TimestampNanosecondBuilder,
};
use arrow_array::types::{
    ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, DictionaryArray};
use arrow_schema::{DataType, Field, TimeUnit};

/// A column of one type.
pub(super) trait Column: Default {
    /// What a row holds.
    type Item<'a>;

    /// Whether a row may hold nothing.
    const NULLABLE: bool = false;

    /// Its type as Arrow and Parquet have it.
    fn data_type() -> DataType;

    /// Adds a row.
    fn append(&mut self, item: Self::Item<'_>);

    /// Adds a row that holds nothing; only [`Maybe`] lets that come to a file.
    fn append_null(&mut self);

    /// The rows so far; it is empty afterwards.
    fn finish(&mut self) -> ArrayRef;
}

/// The column's name, type and meaning.
pub(super) fn field<C: Column>(name: &str, what: &str) -> Field {
    let metadata = HashMap::from([("description".to_owned(), what.to_owned())]);
    Field::new(name, C::data_type(), C::NULLABLE).with_metadata(metadata)
}

/// A column whose rows may hold nothing.
#[derive(Default)]
pub(super) struct Maybe<C>(C);

impl<C: Column> Column for Maybe<C> {
    type Item<'a> = Option<C::Item<'a>>;

    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        C::data_type()
    }

    #[inline]
    fn append(&mut self, item: Self::Item<'_>) {
        match item {
            Some(item) => self.0.append(item),
            None => self.0.append_null(),
        }
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }
}

/// Numbers.
pub(super) struct Number<T: ArrowPrimitiveType>(PrimitiveBuilder<T>);

pub(super) type U8 = Number<UInt8Type>;
pub(super) type U16 = Number<UInt16Type>;
pub(super) type U32 = Number<UInt32Type>;
/// What has 64 bits on the wire.
pub(super) type U64 = Number<UInt64Type>;
/// Packet numbers, bytes and nanoseconds: every engine has signed 64 bits, few have unsigned.
pub(super) type I64 = Number<Int64Type>;

impl<T: ArrowPrimitiveType> Default for Number<T> {
    fn default() -> Self {
        Self(PrimitiveBuilder::new())
    }
}

impl<T: ArrowPrimitiveType> Column for Number<T> {
    type Item<'a> = T::Native;

    fn data_type() -> DataType {
        T::DATA_TYPE
    }

    #[inline]
    fn append(&mut self, item: T::Native) {
        self.0.append_value(item);
    }

    #[inline]
    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// A packet number, a count or nanoseconds in 63 bits: what is beyond them is no number of these.
#[inline]
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Times, in nanoseconds since 1970. They are UTC and do not say so: of times that do, some engines
/// keep the microseconds alone.
#[derive(Default)]
pub(super) struct Time(TimestampNanosecondBuilder);

impl Column for Time {
    type Item<'a> = u64;

    fn data_type() -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, None)
    }

    #[inline]
    fn append(&mut self, item: u64) {
        self.0.append_value(signed(item));
    }

    #[inline]
    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// True or false.
#[derive(Default)]
pub(super) struct Flag(BooleanBuilder);

impl Column for Flag {
    type Item<'a> = bool;

    fn data_type() -> DataType {
        DataType::Boolean
    }

    #[inline]
    fn append(&mut self, item: bool) {
        self.0.append_value(item);
    }

    #[inline]
    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// Text that is the same in many rows.
#[derive(Default)]
pub(super) struct Label(StringDictionaryBuilder<Int32Type>);

/// The type of all text: each batch has every different one once.
fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

impl Column for Label {
    type Item<'a> = &'a str;

    fn data_type() -> DataType {
        dictionary()
    }

    #[inline]
    fn append(&mut self, item: &str) {
        self.0.append_value(item);
    }

    #[inline]
    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// Values that few rows differ in, shown as text once a batch: addresses, opcodes, words.
pub(super) struct Shown<K> {
    keys: Int32Builder,
    values: StringBuilder,
    known: HashMap<K, i32>,
    last: Option<(K, i32)>,
}

/// One of a few words.
pub(super) type Word = Shown<&'static str>;

impl<K> Default for Shown<K> {
    fn default() -> Self {
        Self {
            keys: Int32Builder::new(),
            values: StringBuilder::new(),
            known: HashMap::new(),
            last: None,
        }
    }
}

impl<K: Copy + Eq + Hash + Display> Shown<K> {
    /// The key's place, which is its text's; text that is not there yet is added.
    #[cold]
    fn place(&mut self, key: K) -> i32 {
        let next = i32::try_from(self.known.len()).unwrap_or(i32::MAX);
        *self.known.entry(key).or_insert_with(|| {
            // Writing to a builder cannot fail.
            let _ = write!(self.values, "{key}");
            self.values.append_value("");
            next
        })
    }
}

impl<K: Copy + Eq + Hash + Display> Column for Shown<K> {
    type Item<'a> = K;

    fn data_type() -> DataType {
        dictionary()
    }

    #[inline]
    fn append(&mut self, item: K) {
        let place = match self.last {
            Some((last, place)) if last == item => place,
            _ => self.place(item),
        };
        self.last = Some((item, place));
        self.keys.append_value(place);
    }

    #[inline]
    fn append_null(&mut self) {
        self.keys.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        self.known.clear();
        self.last = None;
        let values = Arc::new(self.values.finish());
        // Every key is the place of a value, or null.
        Arc::new(DictionaryArray::new(self.keys.finish(), values))
    }
}

/// Several labels a row.
pub(super) struct Labels(ListBuilder<StringDictionaryBuilder<Int32Type>>);

impl Default for Labels {
    fn default() -> Self {
        let item = Field::new("item", dictionary(), false);
        Self(ListBuilder::new(StringDictionaryBuilder::new()).with_field(item))
    }
}

impl Labels {
    /// Adds a row with each of these.
    pub(super) fn append_all<'a>(&mut self, labels: impl Iterator<Item = &'a str>) {
        labels.for_each(|label| self.0.values().append_value(label));
        self.0.append(true);
    }
}

impl Column for Labels {
    type Item<'a> = &'a [&'a str];

    fn data_type() -> DataType {
        DataType::List(Arc::new(Field::new("item", dictionary(), false)))
    }

    fn append(&mut self, item: &[&str]) {
        self.append_all(item.iter().copied());
    }

    fn append_null(&mut self) {
        self.0.append(false);
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// Text that differs from row to row.
#[derive(Default)]
pub(super) struct Text(StringBuilder);

impl Column for Text {
    type Item<'a> = &'a str;

    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn append(&mut self, item: &str) {
        self.0.append_value(item);
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// A column's type in a word; `?` behind it says that a row may hold nothing.
pub(super) fn kind(field: &Field) -> String {
    let kind = match field.data_type() {
        DataType::Dictionary(..) | DataType::Utf8 => "text".to_owned(),
        DataType::List(_) => "list of text".to_owned(),
        DataType::Timestamp(..) => "time".to_owned(),
        DataType::Boolean => "flag".to_owned(),
        DataType::UInt8 => "u8".to_owned(),
        DataType::UInt16 => "u16".to_owned(),
        DataType::UInt32 => "u32".to_owned(),
        DataType::UInt64 => "u64".to_owned(),
        DataType::Int64 => "i64".to_owned(),
        other => other.to_string(),
    };
    if field.is_nullable() { kind + "?" } else { kind }
}
