//! A value that a flow keeps for life.

/// What another value of the flow is to the one it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison<T> {
    /// The first one.
    First,
    /// The same.
    Same,
    /// Another than this one.
    Odd(T),
    /// The other one once more: from now on it is the flow's.
    Adopted,
}

/// The value, and the last one that deviated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept<T> {
    value: Option<T>,
    odd: Option<T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { value: None, odd: None }
    }
}

impl<T: Copy + PartialEq> Kept<T> {
    /// The flow's value, once there is one.
    pub(super) fn value(&self) -> Option<T> {
        self.value
    }

    /// Takes the next packet's.
    #[inline]
    pub(super) fn compare(&mut self, found: T) -> Comparison<T> {
        match self.value {
            Some(value) if value == found => {
                self.odd = None;
                Comparison::Same
            }
            None => {
                self.value = Some(found);
                Comparison::First
            }
            Some(_) if self.odd == Some(found) => {
                *self = Self { value: Some(found), odd: None };
                Comparison::Adopted
            }
            Some(value) => {
                self.odd = Some(found);
                Comparison::Odd(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_deviates_and_two_are_a_change() {
        let mut kept = Kept::default();
        let seen = [5, 5, 6, 5, 6, 6, 6, 5].map(|value| kept.compare(value));
        use Comparison::{Adopted, First, Odd, Same};
        assert_eq!(seen, [First, Same, Odd(5), Same, Odd(5), Adopted, Same, Odd(6)]);
        assert_eq!(kept.value(), Some(6));
    }
}
