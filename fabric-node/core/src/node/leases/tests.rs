#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

use policy::manifest::{Source, admit};
use policy::{Edit, IpClaim, Object};
use serde_json::{Value, json};

use super::*;

fn network(spec: Value) -> Network {
    let manifest = json!({"apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": {"name": "pods"}, "spec": spec});
    match admit(&Source::api(), manifest).object {
        Some(Object::Network(network)) => network,
        other => unreachable!("{other:?}"),
    }
}

fn claim(world: &mut World, ip: IpAddr) {
    let owner = "c/eth0".to_owned();
    let (network, node) = ("pods".into(), "n1".into());
    let claim = IpClaim { ip, network, mac: [2; 6], node, pod: None, owner, retain: false, since: None };
    world.apply(Edit::Put(Object::IpClaim(claim)));
}

fn v4(number: u32) -> IpAddr {
    std::net::Ipv4Addr::from(number).into()
}

#[test]
fn a_pool_with_a_million_addresses_taken_is_picked_from_at_once() {
    let network =
        network(json!({"mode": "overlay", "cidrs": ["10.0.0.0/8"], "ranges": ["10.16.0.0-10.32.0.9"]}));
    let mut world = World::new();
    for number in 0..1 << 20 {
        claim(&mut world, v4(0x0a10_0000 + number));
    }
    let now = Instant::now();
    let mut leases = Leases::new(Duration::from_secs(30), 7);
    leases.freed(v4(0x0a20_0003), now);
    let mut picked = BTreeSet::new();
    let began = Instant::now();
    while let Some(ip) = leases.pick(&network, &[], Family::V4, &world, now) {
        picked.insert(ip);
    }
    let each = began.elapsed() / 10;
    let all: BTreeSet<IpAddr> = (0..10).filter(|n| *n != 3).map(|n| v4(0x0a20_0000 + n)).collect();
    assert_eq!(picked, all, "every free one, and none that rests");
    assert!(each < Duration::from_millis(1), "{each:?} for an address");
}

#[test]
fn the_last_free_address_is_found_in_a_prefix_of_any_size() {
    let network = network(json!({"mode": "overlay", "cidrs": ["fd00:1::/64"]}));
    let mut world = World::new();
    let base = 0xfd00_0001_u128 << 96;
    let v6 = |number: u128| IpAddr::from(std::net::Ipv6Addr::from(base + number));
    let own =
        [IpRange::new(v6(0x1000), v6(0x10ff)), IpRange::new(v6(0x2000), v6(0x20ff))].map(Option::unwrap);
    for number in (0x1000..0x1100).chain(0x2000..0x2100).filter(|number| *number != 0x10ff) {
        claim(&mut world, v6(number));
    }
    let now = Instant::now();
    let mut leases = Leases::new(Duration::from_secs(30), 7);
    assert_eq!(leases.pick(&network, &own, Family::V6, &world, now), Some(v6(0x10ff)));
    assert_eq!(leases.pick(&network, &own, Family::V6, &world, now), None, "it is asked for");
    leases.settle(v6(0x10ff));
    assert_eq!(leases.pick(&network, &own, Family::V6, &world, now), Some(v6(0x10ff)));
}
