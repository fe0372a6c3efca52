use super::*;

fn range(text: &str) -> IpRange {
    text.parse().unwrap()
}

#[test]
fn a_range_is_written_in_three_ways() {
    assert_eq!(range("10.0.0.5 - 10.0.0.9").to_string(), "10.0.0.5-10.0.0.9");
    assert_eq!(range("10.0.0.7/30").to_string(), "10.0.0.4-10.0.0.7");
    assert_eq!(range(" fd00::1").to_string(), "fd00::1");
    for wrong in ["", "10.0.0.9-10.0.0.5", "10.0.0.1-fd00::1", "10.0.0.1-", "10.0.0.0/33", "a"] {
        assert!(wrong.parse::<IpRange>().is_err(), "{wrong}");
    }
}

#[test]
fn a_range_counts_its_addresses() {
    let five = range("10.0.0.254-10.0.1.2");
    assert_eq!(five.size(), 5);
    assert_eq!(five.nth(2), "10.0.1.0".parse().ok());
    assert_eq!(five.nth(5), None);
    assert!(five.contains("10.0.1.2".parse().unwrap()) && !five.contains("10.0.1.3".parse().unwrap()));
    assert!(!range("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").contains("10.0.0.1".parse().unwrap()));
    assert_eq!(range("::/0").size(), u128::MAX);
    assert_eq!(range("::/0").nth(u128::MAX), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().ok());
}

#[test]
fn a_mac_is_six_bytes() {
    assert_eq!(parse_mac("02:00:0a:f4:01:05"), Some([2, 0, 10, 0xf4, 1, 5]));
    assert_eq!(format_mac([2, 0, 10, 0xf4, 1, 5]), "02:00:0a:f4:01:05");
    for wrong in [
        "",
        "02:00:0a:f4:01",
        "02:00:0a:f4:01:05:06",
        "2:0:a:f4:1:5",
        "02:00:0a:f4:01:+5",
        "02-00-0a-f4-01-05",
    ] {
        assert_eq!(parse_mac(wrong), None, "{wrong}");
    }
}

#[test]
fn a_prefix_clears_host_bits_and_ends_with_the_family() {
    assert_eq!(prefix("10.1.2.3".parse().unwrap(), 16).to_string(), "10.1.0.0/16");
    assert_eq!(prefix("10.1.2.3".parse().unwrap(), 64).to_string(), "10.1.2.3/32");
    assert_eq!(prefix("fd00:1:2::3".parse().unwrap(), 32).to_string(), "fd00:1::/32");
}
