#![allow(clippy::disallowed_methods, reason = "a test looks at the clock")]

use std::time::Duration;

use super::*;

#[test]
fn a_flood_is_logged_in_part_and_what_is_left_out_is_told() {
    let start = Instant::now();
    let mut denials = Denials::new(start);
    let logged = (0..200).filter(|_| denials.take(start).is_some()).count();
    assert_eq!(logged, 50);
    assert_eq!(denials.take(start + Duration::from_millis(150)), Some(150));
    assert_eq!(denials.take(start + Duration::from_millis(150)), None);
    assert_eq!(denials.take(start + Duration::from_secs(3600)), Some(1));
}

#[test]
fn ends_have_names_where_they_are_known() {
    let address = [10, 0, 0, 1].into();
    let known = End { address, name: Some("pod default/a".to_owned()) };
    assert_eq!(Who(&known).to_string(), "pod default/a (10.0.0.1)");
    assert_eq!(Who(&End { address, name: None }).to_string(), "10.0.0.1");
}
