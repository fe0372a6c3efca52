use super::*;
use fabric_core::node::HostState;
use openflow::Mac;

const MAC: Mac = Mac([0x0a, 0x58, 0xa9, 0xfe, 1, 1]);

fn wanted() -> HostState {
    HostState {
        device: "br-fabric".to_owned(),
        mtu: 1450,
        gateway_mac: Some(MAC),
        gateways: vec!["169.254.1.1".parse().unwrap(), "fe80::1".parse().unwrap()],
        routes: ["10.0.0.0/16", "fd00::/48"].iter().map(|prefix| prefix.parse().unwrap()).collect(),
        sources: vec!["192.168.77.1".parse().unwrap()],
        ..HostState::default()
    }
}

fn link() -> Link {
    Link { index: 7, mtu: 1450, up: true, kernel_datapath: false }
}

fn route(prefix: &str, gateway: &str, source: Option<&str>) -> Route {
    Route {
        prefix: prefix.parse().unwrap(),
        device: 7,
        gateway: Some(gateway.parse().unwrap()),
        source: source.map(|source| source.parse().unwrap()),
    }
}

fn neighbour(address: &str) -> Neighbour {
    Neighbour { device: 7, address: address.parse().unwrap(), mac: MAC.0.to_vec() }
}

fn complete() -> Found {
    Found {
        link: Some(link()),
        routes: vec![
            route("10.0.0.0/16", "169.254.1.1", Some("192.168.77.1")),
            route("fd00::/48", "fe80::1", None),
        ],
        neighbours: vec![neighbour("169.254.1.1"), neighbour("fe80::1")],
    }
}

#[test]
fn a_complete_host_needs_nothing() {
    assert_eq!(plan(&wanted(), &complete()), (vec![], vec![]));
}

#[test]
fn a_fresh_device_gets_everything_and_neighbours_before_routes() {
    let found = Found { link: Some(Link { up: false, mtu: 1500, ..link() }), ..Found::default() };
    let (steps, problems) = plan(&wanted(), &found);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        steps,
        [
            Step::SetLink { index: 7, mtu: 1450 },
            Step::AddNeighbour(neighbour("169.254.1.1")),
            Step::AddNeighbour(neighbour("fe80::1")),
            Step::AddRoute(route("10.0.0.0/16", "169.254.1.1", Some("192.168.77.1"))),
            Step::AddRoute(route("fd00::/48", "fe80::1", None)),
        ]
    );
}

#[test]
fn what_is_not_wanted_goes_wherever_it_is() {
    let mut found = complete();
    let old = Route { device: 3, ..route("10.9.0.0/16", "169.254.1.1", None) };
    found.routes.push(old.clone());
    found.neighbours.push(neighbour("169.254.1.9"));
    let (steps, _) = plan(&wanted(), &found);
    assert_eq!(steps, [Step::RemoveRoute(old), Step::RemoveNeighbour(neighbour("169.254.1.9"))]);
}

#[test]
fn a_changed_source_replaces_the_route() {
    let mut state = wanted();
    state.sources = vec!["192.168.77.2".parse().unwrap()];
    let (steps, _) = plan(&state, &complete());
    assert_eq!(
        steps,
        [
            Step::RemoveRoute(route("10.0.0.0/16", "169.254.1.1", Some("192.168.77.1"))),
            Step::AddRoute(route("10.0.0.0/16", "169.254.1.1", Some("192.168.77.2"))),
        ]
    );
}

#[test]
fn a_changed_router_is_replaced_without_a_gap() {
    let mut state = wanted();
    state.gateway_mac = Some(Mac([2, 0, 0, 0, 0, 9]));
    let (steps, _) = plan(&state, &complete());
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|step| matches!(step, Step::AddNeighbour(_))), "{steps:?}");
}

#[test]
fn without_the_device_all_goes_and_nothing_comes() {
    let found = Found { link: None, ..complete() };
    let (steps, problems) = plan(&wanted(), &found);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(steps.len(), 4);
    assert!(steps.iter().all(|step| matches!(step, Step::RemoveRoute(_) | Step::RemoveNeighbour(_))));
}

#[test]
fn a_prefix_without_a_next_hop_is_named() {
    let mut state = wanted();
    state.gateways.truncate(1);
    let (steps, problems) = plan(&state, &Found { link: Some(link()), ..Found::default() });
    assert_eq!(steps.len(), 2);
    assert_eq!(problems, ["route fd00::/48: no next hop of its family on br-fabric"]);
}
