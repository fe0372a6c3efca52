//! Medians and percentiles of what was measured.

use std::time::Duration;

/// Samples, in the order in which they were taken.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Measured times.
    times: Vec<Duration>,
    /// Tries without a result.
    pub lost: usize,
}

impl Samples {
    /// Adds a sample; `None` is one that was lost.
    pub fn add(&mut self, sample: Option<Duration>) {
        match sample {
            Some(time) => self.times.push(time),
            None => self.lost += 1,
        }
    }

    /// How many there are, without those that were lost.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// The value that this many hundredths of the samples do not exceed, microseconds; 0 without any.
    pub fn percentile(&self, hundredths: usize) -> f64 {
        let mut sorted = self.times.clone();
        sorted.sort();
        let at = (sorted.len().saturating_sub(1) * hundredths).div_ceil(100);
        sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }

    /// The mean, microseconds; 0 without any.
    pub fn mean(&self) -> f64 {
        let sum: Duration = self.times.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let count = self.times.len().max(1) as f64;
        sum.as_secs_f64() * 1e6 / count
    }

    /// The middle value, microseconds.
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }
}

/// The middle of some figures; 0 without any.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        (1..=100).rev().for_each(|us| samples.add(Some(Duration::from_micros(us))));
        samples.add(None);
        assert_eq!((samples.count(), samples.lost), (100, 1));
        assert!((samples.median() - 51.0).abs() < 1e-6, "{}", samples.median());
        assert!((samples.percentile(99) - 100.0).abs() < 1e-6);
        assert!(Samples::default().median().abs() < 1e-9);
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_one() {
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
