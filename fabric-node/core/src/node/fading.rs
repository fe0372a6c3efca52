//! What is remembered of addresses for a while.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

/// Entries that are kept before any is looked through for being over.
const FEW: usize = 1024;

/// Something known of each address until a moment. What is over is let go whenever the number of entries has doubled:
/// that costs each entry the same, and there are never many more than twice those that count.
#[derive(Debug)]
pub(super) struct Fading<V> {
    entries: BTreeMap<IpAddr, (V, Instant)>,
    /// As many as there were when those that were over were last let go.
    kept: usize,
}

impl<V> Default for Fading<V> {
    fn default() -> Self {
        Fading { entries: BTreeMap::new(), kept: 0 }
    }
}

impl<V> Fading<V> {
    /// Notes something of an address, in the place of what was known before.
    pub fn note(&mut self, ip: IpAddr, value: V, until: Instant, now: Instant) {
        if self.entries.len() >= 2 * self.kept + FEW {
            self.entries.retain(|_, (_, until)| *until > now);
            self.kept = self.entries.len();
        }
        self.entries.insert(ip, (value, until));
    }

    /// What is known of an address.
    pub fn get(&self, ip: IpAddr, now: Instant) -> Option<&V> {
        self.entries.get(&ip).filter(|(_, until)| *until > now).map(|(value, _)| value)
    }

    /// The addresses that something is known of, in order.
    pub fn addresses(&self, now: Instant) -> impl Iterator<Item = IpAddr> + '_ {
        self.entries.iter().filter(move |(_, (_, until))| *until > now).map(|(ip, _)| *ip)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

    use std::net::Ipv6Addr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_over_takes_no_room() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut fading = Fading::default();
        // A day of an address each second, each known for 30 seconds.
        for n in 0..86_400_u32 {
            let now = start + second * n;
            fading.note(Ipv6Addr::from(u128::from(n)).into(), n, now + second * 30, now);
            assert!(fading.entries.len() <= 2 * 30 + FEW, "{} after {n}", fading.entries.len());
        }
        let now = start + second * (86_400 - 1);
        assert_eq!(fading.addresses(now).count(), 30);
        let last: IpAddr = Ipv6Addr::from(86_400 - 1_u128).into();
        assert_eq!((fading.get(last, now), fading.get(last, now + second * 30)), (Some(&86_399), None));
    }

    #[test]
    fn many_that_count_are_not_looked_through_for_each() {
        let now = Instant::now();
        let mut fading = Fading::default();
        let began = Instant::now();
        for n in 0..200_000_u128 {
            fading.note(Ipv6Addr::from(n).into(), (), now + Duration::from_secs(60), now);
        }
        assert_eq!(fading.addresses(now).count(), 200_000);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
