use super::*;
use crate::serve::sample::sample;

#[test]
fn a_status_becomes_these_metrics() {
    assert_eq!(exposition(&sample()), include_str!("tests/sample.txt"));
}

#[test]
fn a_value_with_quotes_stays_one_value() {
    let mut text = Exposition::default();
    text.gauge("x", "Y.");
    text.sample(&[("a", "1\"2\\3\n4")], 7);
    assert_eq!(text.text, "# HELP x Y.\n# TYPE x gauge\nx{a=\"1\\\"2\\\\3\\n4\"} 7\n");
}

#[test]
fn every_line_is_a_comment_or_a_sample() {
    for line in exposition(&sample()).lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        assert!(name.starts_with("fabric_"), "{line}");
        assert!(value.parse::<u64>().is_ok(), "{line}");
    }
}
