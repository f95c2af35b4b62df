//! A map that holds a bounded number of entries: the oldest make room, so that no capture can
//! make it grow.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct Table<K, V> {
    most: usize,
    /// The number of the entry in front of `entries`.
    first: u64,
    entries: VecDeque<(K, V)>,
    numbers: HashMap<K, u64>,
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    /// Holds up to `most` entries.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, first: 0, entries: VecDeque::new(), numbers: HashMap::new() }
    }

    /// The entry of that key, the last one put there.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.by_number(self.number(key)?)
    }

    /// The number of the entry of that key: they count from 0 as they are put in.
    pub(crate) fn number(&self, key: &K) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    /// An entry, unless it made room.
    pub(crate) fn by_number(&self, number: u64) -> Option<&V> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(at).map(|(_, value)| value)
    }

    pub(crate) fn by_number_mut(&mut self, number: u64) -> Option<&mut V> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(at).map(|(_, value)| value)
    }

    /// Puts an entry in and gives its number. An older one of the same key is found no more by it.
    pub(crate) fn insert(&mut self, key: K, value: V) -> u64 {
        if self.entries.len() == self.most
            && let Some((oldest, _)) = self.entries.pop_front()
        {
            if self.numbers.get(&oldest) == Some(&self.first) {
                self.numbers.remove(&oldest);
            }
            self.first += 1;
        }
        let number = self.first + u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        self.entries.push_back((key, value));
        self.numbers.insert(key, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let mut table = Table::new(3);
        for (key, value) in [(1, 'a'), (2, 'b'), (1, 'c')] {
            table.insert(key, value);
        }
        assert_eq!((table.get(&1), table.number(&1)), (Some(&'c'), Some(2)));
        assert_eq!(table.by_number(0), Some(&'a'));
        assert_eq!(table.insert(3, 'd'), 3);
        assert_eq!((table.by_number(0), table.get(&1)), (None, Some(&'c')));
        table.insert(4, 'e');
        assert_eq!((table.get(&2), table.get(&1)), (None, Some(&'c')));
        for key in 5..1000 {
            table.insert(key, 'f');
        }
        assert_eq!((table.entries.len(), table.numbers.len()), (3, 3));
        *table.by_number_mut(999).unwrap() = 'g';
        assert_eq!(table.get(&999), Some(&'g'));
    }
}
