use super::*;

fn network(cidrs: &[&str]) -> Network {
    Network {
        name: Name::from("net"),
        created: None,
        mode: Mode::Overlay { encap: Encap::Vxlan, vni: 1 },
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        ranges: Vec::new(),
        exclude: Vec::new(),
        gateway: Vec::new(),
        snat: true,
        snat_except: Vec::new(),
        mtu: None,
        default: false,
        allowed_namespaces: None,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_gateway_is_the_first_host_unless_given() {
    let mut net = network(&["10.1.0.0/24", "fd00:1::/64"]);
    assert_eq!(net.gateway(Family::V4), Some(ip("10.1.0.1")));
    assert_eq!(net.gateway(Family::V6), Some(ip("fd00:1::1")));
    net.gateway = vec![ip("10.1.0.254")];
    assert_eq!(net.gateway(Family::V4), Some(ip("10.1.0.254")));
    assert_eq!(net.gateway(Family::V6), Some(ip("fd00:1::1")));
    assert_eq!(network(&["10.1.0.0/24"]).gateway(Family::V6), None);
    assert_eq!(network(&["10.1.0.6/31"]).gateway(Family::V4), Some(ip("10.1.0.6")));
    assert_eq!(network(&["255.255.255.255/32"]).gateway(Family::V4), Some(ip("255.255.255.255")));
}

#[test]
fn edges_gateway_and_exclusions_are_not_usable() {
    let mut net = network(&["10.1.0.0/24", "fd00:1::/64"]);
    net.ranges = vec!["10.1.0.0-10.1.0.20".parse().unwrap(), "10.1.0.240-10.1.0.255".parse().unwrap()];
    net.exclude = vec!["10.1.0.8/30".parse().unwrap(), "fd00:1::ff".parse().unwrap()];
    let usable = |text| net.usable(ip(text));
    for good in
        ["10.1.0.2", "10.1.0.7", "10.1.0.12", "10.1.0.254", "fd00:1::2", "fd00:1::ffff:ffff:ffff:ffff"]
    {
        assert!(usable(good), "{good}");
    }
    for bad in
        ["10.1.0.0", "10.1.0.1", "10.1.0.8", "10.1.0.21", "10.1.0.255", "10.1.1.2", "fd00:1::", "fd00:1::1"]
    {
        assert!(!usable(bad), "{bad}");
    }
    assert!(!usable("fd00:1::ff"));
    assert!(!usable("fd00:2::5"));
}

#[test]
fn point_to_point_prefixes_keep_nothing_back_but_the_gateway() {
    let net = network(&["10.1.0.6/31"]);
    assert!(!net.usable(ip("10.1.0.6")));
    assert!(net.usable(ip("10.1.0.7")));
}

#[test]
fn the_pool_of_a_family_without_a_range_is_its_prefix() {
    let mut net = network(&["10.1.0.0/24", "fd00:1::/64"]);
    net.ranges = vec!["10.1.0.5-10.1.0.9".parse().unwrap()];
    let pool = |family| net.pool(family).map(|range| range.to_string()).collect::<Vec<_>>();
    assert_eq!(pool(Family::V4), ["10.1.0.5-10.1.0.9"]);
    assert_eq!(pool(Family::V6), ["fd00:1::-fd00:1::ffff:ffff:ffff:ffff"]);
}

proptest::proptest! {
    #[test]
    fn the_capacity_is_the_number_of_usable_addresses(
        length in 24..=32u8,
        ranges in proptest::collection::vec((0..256u32, 0..256u32), 0..4),
        exclude in proptest::collection::vec((0..300u32, 0..300u32), 0..4),
        gateway in proptest::option::of(0..256u32),
    ) {
        let address = |n: u32| IpAddr::from(std::net::Ipv4Addr::from(0x0a01_0000 + n));
        let range = |(a, b): &(u32, u32)| IpRange::new(address(*a.min(b)), address(*a.max(b))).unwrap();
        let mut net = network(&[&format!("10.1.0.0/{length}")]);
        net.ranges = ranges.iter().map(range).collect();
        net.exclude = exclude.iter().map(range).collect();
        net.gateway = gateway.map(address).into_iter().collect();
        let usable: Vec<IpAddr> = (0..300).map(address).filter(|ip| net.usable(*ip)).collect();
        proptest::prop_assert_eq!(net.capacity(Family::V4), u128::try_from(usable.len()).unwrap());
        let each = |ranges: Vec<IpRange>| -> Vec<IpAddr> {
            ranges.iter().flat_map(|range| (0..range.size()).filter_map(|n| range.nth(n))).collect()
        };
        proptest::prop_assert_eq!(each(net.free_to_hand_out(&[], Family::V4)), usable);
        let own: Vec<IpRange> = exclude.iter().map(range).collect();
        let may_have = |ip: &IpAddr| {
            net.contains(*ip) && net.reserved(*ip).is_none() && own.iter().any(|range| range.contains(*ip))
        };
        let its_own: Vec<IpAddr> = (0..300).map(address).filter(may_have).collect();
        if !own.is_empty() {
            proptest::prop_assert_eq!(each(net.free_to_hand_out(&own, Family::V4)), its_own);
        }
    }
}

#[test]
fn a_prefix_of_ipv6_has_more_addresses_than_can_be_counted_one_by_one() {
    assert_eq!(network(&["fd00:1::/64"]).capacity(Family::V6), (1 << 64) - 2);
    assert_eq!(network(&["fd00:1::/64"]).capacity(Family::V4), 0);
}
