//! Moments, as Kubernetes writes them: RFC 3339, in UTC, to the second.

use std::fmt;
use std::str::FromStr;

/// Seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// The text is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a moment such as 2026-11-30T19:16:32Z")]
pub struct ParseTimestampError(pub String);

const DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;
/// Years beyond the four digits that RFC 3339 has are told as the last moment that it can tell.
const LAST: u64 = 253_402_300_799;

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.min(LAST);
        let (year, month, day) = civil(seconds / DAY);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        f.pad(&format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Timestamp, ParseTimestampError> {
        read(text).ok_or_else(|| ParseTimestampError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Timestamp> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let days = (year >= 1970 && (1..=12).contains(&month) && day >= 1).then(|| days(year, month, day))?;
    let exists = civil(days) == (year, month, day) && hour < 24 && minute < 60 && second < 60;
    exists.then_some(Timestamp(days * DAY + hour * 3600 + minute * 60 + second))
}

/// Numbers of these many digits, separated.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.split(separator);
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Days from the epoch to a date of the Gregorian calendar. The year is counted from March, so that the day that a leap
/// year has more is its last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
}

/// The date that many days after the epoch: the inverse of [`days`].
fn civil(days: u64) -> (u64, u64, u64) {
    let (era, of_era) = ((days + EPOCH) / ERA, (days + EPOCH) % ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let (month, day) = ((5 * of_year + 2) / 153, of_year - (153 * ((5 * of_year + 2) / 153) + 2) / 5 + 1);
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments_are_told() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp(seconds).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "1969-01-01T00:00:00Z",
        ]
        .into_iter()
        .chain([
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-1-01T00:00:00Z",
            "2024-01-01T00:00:0+Z",
        ]) {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_moment_is_read_as_it_was_written(seconds in 0..=LAST) {
            prop_assert_eq!(Timestamp(seconds).to_string().parse(), Ok(Timestamp(seconds)));
        }
    }
}
