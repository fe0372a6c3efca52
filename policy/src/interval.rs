//! Sets of numbers as intervals: ports, and addresses of one family.

/// A number that has neighbours.
pub(crate) trait Number: Copy + Ord {
    /// The next higher one; None for the highest.
    fn next(self) -> Option<Self>;
    /// The next lower one; None for the lowest.
    fn previous(self) -> Option<Self>;
}

macro_rules! number {
    ($($kind:ty)*) => {
        $(impl Number for $kind {
            fn next(self) -> Option<$kind> {
                self.checked_add(1)
            }

            fn previous(self) -> Option<$kind> {
                self.checked_sub(1)
            }
        })*
    };
}

number!(u16 u32 u128);

/// How much of something is in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Nothing of it.
    None,
    /// A part of it.
    Part,
    /// All of it.
    All,
}

/// A set of numbers: the fewest closed intervals that make it up, in ascending order. Equal sets are equal
/// values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intervals<T>(Box<[(T, T)]>);

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals(Box::default())
    }
}

impl<T: Number> Intervals<T> {
    /// The numbers that are in any of the intervals. One whose end is before its beginning is empty.
    pub(crate) fn union(intervals: impl IntoIterator<Item = (T, T)>) -> Intervals<T> {
        let mut sorted: Vec<(T, T)> = intervals.into_iter().filter(|(first, last)| first <= last).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(T, T)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some((_, end)) if end.next().is_none_or(|next| first <= next) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Intervals(merged.into())
    }

    /// The numbers from `first` to `last` that are not in the set.
    pub(crate) fn gaps(&self, first: T, last: T) -> Vec<(T, T)> {
        let mut gaps = Vec::new();
        let mut from = Some(first);
        for (taken, until) in self.iter() {
            let Some(at) = from else { break };
            if let Some(before) =
                taken.previous().map(|before| before.min(last)).filter(|before| at <= *before)
            {
                gaps.push((at, before));
            }
            from = until.next().map(|next| next.max(at));
        }
        gaps.extend(from.filter(|at| *at <= last).map(|at| (at, last)));
        gaps
    }

    /// The intervals, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (T, T)> {
        self.0.iter().copied()
    }

    /// Whether there is no number in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much of the numbers from `first` to `last` is in the set.
    pub(crate) fn share(&self, first: T, last: T) -> Share {
        let at = self.0.partition_point(|(_, end)| *end < first);
        match self.0.get(at) {
            Some((from, until)) if *from <= first && last <= *until => Share::All,
            Some((from, _)) if *from <= last => Share::Part,
            _ => Share::None,
        }
    }
}

#[cfg(test)]
mod tests;
