use super::*;

#[test]
fn quantities_are_read_as_kubernetes_writes_them() {
    let table = [
        ("0", Some(0)),
        ("1500000", Some(1_500_000)),
        ("10M", Some(10_000_000)),
        ("1.5G", Some(1_500_000_000)),
        ("100k", Some(100_000)),
        ("1Ki", Some(1024)),
        ("1.5Mi", Some(1_572_864)),
        ("2e3", Some(2000)),
        ("2E3", Some(2000)),
        ("1E", Some(1_000_000_000_000_000_000)),
        ("25e-1", Some(3)),
        ("1500m", Some(2)),
        ("1n", Some(1)),
        (".5k", Some(500)),
        ("5.", Some(5)),
        ("16Ei", None),
        ("20E", None),
        ("", None),
        (".", None),
        ("k", None),
        ("-1", None),
        ("+1", None),
        ("1K", None),
        ("1 M", None),
        ("1.2.3", None),
        ("1e", None),
        ("1e99", None),
        ("99999999999999999999999999999999999999999", None),
    ];
    for (text, wanted) in table {
        assert_eq!(quantity(text), wanted, "{text:?}");
    }
}

#[test]
fn names_of_objects() {
    for good in ["a", "kube-system", "n1", "a.b-c", "0"] {
        assert!(is_object_name(good), "{good}");
    }
    let long = "a".repeat(254);
    for bad in ["", "A", "-a", "a-", "a/b", "a b", "ä", long.as_str()] {
        assert!(!is_object_name(bad), "{bad}");
    }
}

#[test]
fn one_address_per_family_with_ipv4_first() {
    let ips = |text: &str| text.split(',').map(|part| part.parse().unwrap()).collect::<Vec<IpAddr>>();
    assert_eq!(one_per_family(ips("fd00::1,10.0.0.1")), Some(ips("10.0.0.1,fd00::1")));
    assert_eq!(one_per_family(ips("fd00::1,fd00::2")), None);
    assert_eq!(one_per_family(ips("fd00::1,10.0.0.1,10.0.0.1")), None);
}
