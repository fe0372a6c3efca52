//! Addresses that are taken, as runs of neighbours, so that a free one is found without a look at each that is not.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::address::{Family, IpRange, from_number, to_number};

/// The first address of each run, with its last. Two runs are never neighbours.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(BTreeMap<IpAddr, IpAddr>);

impl Runs {
    /// The address is taken.
    pub(super) fn enter(&mut self, ip: IpAddr) {
        if self.of(ip).is_some() {
            return;
        }
        let left = before(ip).and_then(|ip| self.of(ip));
        let right = after(ip).and_then(|ip| self.of(ip));
        if let Some((first, _)) = right {
            self.0.remove(&first);
        }
        let first = left.map_or(ip, |(first, _)| first);
        self.0.insert(first, right.map_or(ip, |(_, last)| last));
    }

    /// The address is free.
    pub(super) fn leave(&mut self, ip: IpAddr) {
        let Some((first, last)) = self.of(ip) else { return };
        self.0.remove(&first);
        if let Some(end) = before(ip).filter(|_| first < ip) {
            self.0.insert(first, end);
        }
        if let Some(start) = after(ip).filter(|_| ip < last) {
            self.0.insert(start, last);
        }
    }

    /// The first addresses in a row, of those within a range, that are free.
    pub(super) fn gap(&self, within: &IpRange) -> Option<IpRange> {
        let first = match self.of(within.first()) {
            Some((_, last)) => after(last)?,
            None => within.first(),
        };
        let next = self.0.range(first..).next().map(|(start, _)| *start);
        let end = next.filter(|start| Family::of(*start) == Family::of(first)).and_then(before);
        IpRange::new(first, end.map_or(within.last(), |end| end.min(within.last())))
    }

    /// The run that an address is in.
    fn of(&self, ip: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let (first, last) = self.0.range(..=ip).next_back()?;
        (*last >= ip).then_some((*first, *last))
    }
}

fn before(ip: IpAddr) -> Option<IpAddr> {
    to_number(ip).checked_sub(1).and_then(|number| from_number(Family::of(ip), number))
}

fn after(ip: IpAddr) -> Option<IpAddr> {
    to_number(ip).checked_add(1).and_then(|number| from_number(Family::of(ip), number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::from(u32::MAX - 31 + u32::from(n)).into()
    }

    proptest::proptest! {
        #[test]
        fn a_gap_is_what_a_look_at_each_address_finds(
            edits in proptest::collection::vec((0..32u8, proptest::bool::ANY), 0..80),
            bounds in (0..32u8, 0..32u8),
        ) {
            let (mut runs, mut taken) = (Runs::default(), BTreeSet::new());
            runs.enter("::".parse().unwrap());
            for (n, enters) in edits {
                if enters {
                    runs.enter(address(n));
                    taken.insert(n);
                } else {
                    runs.leave(address(n));
                    taken.remove(&n);
                }
            }
            let (low, high) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
            let within = IpRange::new(address(low), address(high)).unwrap();
            let first = (low..=high).find(|n| !taken.contains(n));
            let gap = first.map(|first| {
                let end = (first..=high).take_while(|n| !taken.contains(n)).last().unwrap();
                IpRange::new(address(first), address(end)).unwrap()
            });
            proptest::prop_assert_eq!(runs.gap(&within), gap);
            let neighbours = runs.0.values().filter(|last| after(**last).is_some_and(|ip| runs.0.contains_key(&ip)));
            proptest::prop_assert_eq!(neighbours.count(), 0);
        }
    }
}
