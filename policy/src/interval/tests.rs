use proptest::prelude::*;

use super::*;

fn pairs() -> impl Strategy<Value = Vec<(u16, u16)>> {
    let edge = prop_oneof![0u16..40, Just(0), Just(u16::MAX), (u16::MAX - 40)..];
    prop::collection::vec((edge.clone(), edge), 0..8)
}

fn is_in(pairs: &[(u16, u16)], number: u16) -> bool {
    pairs.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

proptest! {
    /// A set has the numbers of its intervals, its gaps have the others, and neighbours are merged.
    #[test]
    fn sets_are_what_they_are_made_of(pairs in pairs(), a in 0u16..60, b in (u16::MAX - 60)..) {
        let set = Intervals::union(pairs.clone());
        let gaps = set.gaps(a, b);
        for number in (0..100).chain((u16::MAX - 100)..=u16::MAX) {
            prop_assert_eq!(set.share(number, number) == Share::All, is_in(&pairs, number));
            let wanted = a <= number && number <= b && !is_in(&pairs, number);
            prop_assert_eq!(is_in(&gaps, number), wanted, "{}", number);
        }
        let apart = set.iter().zip(set.iter().skip(1)).all(|((_, last), (first, _))| u32::from(last) + 1 < u32::from(first));
        prop_assert!(apart, "{:?}", set);
        prop_assert_eq!(&Intervals::union(set.iter()), &set);
    }

    /// How much of a stretch is in a set, by counting.
    #[test]
    fn shares_are_counted(pairs in pairs(), first in 0u16..60, length in 0u16..60) {
        let last = first + length;
        let inside = (first..=last).filter(|number| is_in(&pairs, *number)).count();
        let wanted = match inside {
            0 => Share::None,
            all if all == usize::from(length) + 1 => Share::All,
            _ => Share::Part,
        };
        prop_assert_eq!(Intervals::union(pairs).share(first, last), wanted);
    }
}

#[test]
fn the_ends_of_the_numbers_are_no_trap() {
    let all = Intervals::union([(0, 9), (10, u16::MAX)]);
    assert_eq!(all, Intervals::union([(0, u16::MAX)]));
    assert_eq!(all.gaps(0, u16::MAX), []);
    assert_eq!(Intervals::<u16>::default().gaps(0, u16::MAX), [(0, u16::MAX)]);
    assert_eq!(Intervals::union([(5u128, 4)]), Intervals::default());
    assert_eq!(Intervals::union([(0u32, 0), (u32::MAX, u32::MAX)]).gaps(0, u32::MAX), [(1, u32::MAX - 1)]);
}
