//! Generated histories of edits: after each, the world gives the answers that a plain reading of the objects
//! gives, and the changes it named are those that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use policy::{
    Because, Change, Direction, Edit, Encap, Family, IpClaim, Kind, Labels, Location, Mode, Name, Namespace,
    Network, NetworkChoiceError, Node, Object, ObjectRef, Operator, Pod, PodAnnotations, PodIdent, PodRef,
    Question, Requirement, Resident, Selector, Tenant, Traffic, Verdict, World,
};
use proptest::prelude::*;

/// The addresses that the histories are about: in the Networks, beside them, and in both families.
const ADDRESSES: [&str; 12] = [
    "10.1.0.1",
    "10.1.0.2",
    "10.1.1.1",
    "10.1.200.1",
    "10.2.0.1",
    "10.2.0.2",
    "192.168.77.1",
    "192.168.77.2",
    "8.8.8.8",
    "fd00:1::1",
    "fd00:1::2",
    "fd00:2::1",
];
const CIDRS: [&str; 7] =
    ["10.1.0.0/16", "10.1.0.0/24", "10.1.128.0/17", "10.2.0.0/16", "10.0.0.0/8", "fd00:1::/64", "fd00::/16"];
const NAMESPACES: [&str; 2] = ["a", "b"];
const NODES: [&str; 2] = ["n1", "n2"];
const NETWORKS: [&str; 3] = ["x", "y", "z"];

fn addresses() -> Vec<IpAddr> {
    ADDRESSES.iter().filter_map(|text| text.parse().ok()).collect()
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn name(values: &[&'static str]) -> impl Strategy<Value = Name> + use<> {
    one_of(values).prop_map(Name::from)
}

fn pod_ref() -> impl Strategy<Value = PodRef> {
    (name(&NAMESPACES), name(&["p", "q"])).prop_map(|(namespace, name)| PodRef { namespace, name })
}

fn pod() -> impl Strategy<Value = Object> {
    let identity = (
        pod_ref(),
        name(&["", "u1", "u2"]),
        prop::option::of(name(&NETWORKS)),
        prop::option::of(name(&NODES)),
    );
    let state = (prop::collection::vec(one_of(&addresses()), 0..3), 0u8..10, one_of(&["1", "2"]));
    (identity, state).prop_map(|((reference, uid, network, node), (ips, phase, version))| {
        Object::Pod(Pod {
            reference,
            uid,
            labels: Labels::from_iter([("version", version)]),
            annotations: PodAnnotations { network, ..PodAnnotations::default() },
            node,
            ips,
            host_network: phase == 0,
            finished: phase == 1,
            keeps_addresses: false,
            terminating: false,
            ports: Vec::new(),
        })
    })
}

fn namespace() -> impl Strategy<Value = Object> {
    (name(&NAMESPACES), prop::option::of(name(&NETWORKS)), any::<bool>()).prop_map(
        |(name, network, trusted)| {
            let labels = if trusted { Labels::from_iter([("trusted", "yes")]) } else { Labels::default() };
            let (tenant, log_denied, egress_ips, unreadable) =
                (Tenant::Common, false, Vec::new(), Vec::new());
            Object::Namespace(Namespace { name, labels, tenant, network, log_denied, egress_ips, unreadable })
        },
    )
}

fn node() -> impl Strategy<Value = Object> {
    let ips = prop::collection::vec(one_of(&addresses()), 0..3);
    (name(&NODES), ips, prop::option::of(one_of(&addresses()))).prop_map(
        |(name, addresses, tunnel_address)| {
            Object::Node(Node { name, labels: Labels::default(), addresses, tunnel_address })
        },
    )
}

fn network() -> impl Strategy<Value = Object> {
    let (one, two) = (one_of(&CIDRS[..5]), prop::option::of(one_of(&CIDRS[5..])));
    let created = prop::option::of(name(&["2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"]));
    (name(&NETWORKS), created, one, two, any::<bool>(), any::<bool>()).prop_map(
        |(name, created, one, two, default, open)| {
            let requirement = Requirement { key: "trusted".into(), operator: Operator::Exists };
            Object::Network(Network {
                name,
                created,
                mode: Mode::Overlay { encap: Encap::Vxlan, vni: 1 },
                cidrs: [Some(one), two].into_iter().flatten().filter_map(|text| text.parse().ok()).collect(),
                ranges: Vec::new(),
                exclude: Vec::new(),
                gateway: Vec::new(),
                snat: true,
                snat_except: Vec::new(),
                mtu: None,
                default,
                allowed_namespaces: (!open).then(|| Selector { requirements: vec![requirement] }),
            })
        },
    )
}

fn claim() -> impl Strategy<Value = Object> {
    let pod = prop::option::of((pod_ref(), name(&["", "u1", "u2"])));
    let owner = prop_oneof![4 => Just("c/eth0"), 1 => Just("")];
    (one_of(&addresses()), name(&NETWORKS), name(&NODES), pod, any::<bool>(), owner).prop_map(
        |(ip, network, node, pod, retain, owner)| {
            let pod = pod.map(|(PodRef { namespace, name }, uid)| PodIdent { namespace, name, uid });
            Object::IpClaim(IpClaim {
                ip,
                network,
                mac: [2, 0, 0, 0, 0, 1],
                node,
                pod,
                owner: owner.to_owned(),
                retain,
                since: None,
            })
        },
    )
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![4 => pod(), 1 => namespace(), 1 => node(), 2 => network(), 4 => claim()]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![2 => object().prop_map(Edit::Put), 1 => object().prop_map(|object| Edit::Remove(object.reference()))]
}

/// The objects as they are, read plainly each time.
#[derive(Clone, Default)]
struct Plain(BTreeMap<ObjectRef, Object>);

#[derive(Debug, PartialEq)]
enum Who {
    Pod(PodRef, Name),
    Container,
    Unknown,
    Node(Name),
    Nobody,
}

impl Plain {
    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Put(object) => drop(self.0.insert(object.reference(), object.clone())),
            Edit::Remove(reference) => drop(self.0.remove(reference)),
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.0.values().filter_map(|object| if let Object::Pod(pod) = object { Some(pod) } else { None })
    }

    fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.0
            .values()
            .filter_map(|object| if let Object::Namespace(found) = object { Some(found) } else { None })
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.values().filter_map(|object| if let Object::Node(node) = object { Some(node) } else { None })
    }

    fn claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.0
            .values()
            .filter_map(|object| if let Object::IpClaim(claim) = object { Some(claim) } else { None })
    }

    fn every_network(&self) -> impl Iterator<Item = &Network> {
        self.0
            .values()
            .filter_map(|object| if let Object::Network(network) = object { Some(network) } else { None })
    }

    fn pod(&self, reference: &PodRef) -> Option<&Pod> {
        self.pods().find(|pod| pod.reference == *reference)
    }

    fn namespace(&self, name: &Name) -> Option<&Namespace> {
        self.namespaces().find(|namespace| namespace.name == *name)
    }

    fn claim(&self, ip: IpAddr) -> Option<&IpClaim> {
        self.claims().find(|claim| claim.ip == ip)
    }

    fn node_of(&self, ip: IpAddr) -> Option<&Node> {
        self.nodes().find(|node| node.addresses.contains(&ip) || node.tunnel_address == Some(ip))
    }

    /// The Networks in force, oldest first.
    fn networks(&self) -> Vec<&Network> {
        let mut all: Vec<&Network> = self.every_network().collect();
        all.sort_by_key(|network| (network.created.clone().unwrap_or("~".into()), network.name.clone()));
        let mut standing: Vec<&Network> = Vec::new();
        for network in all {
            let clashes = |other: &&Network| {
                network
                    .cidrs
                    .iter()
                    .any(|a| other.cidrs.iter().any(|b| a.contains(&b.addr()) || b.contains(&a.addr())))
            };
            if !standing.iter().any(clashes) {
                standing.push(network);
            }
        }
        standing
    }

    fn network_of(&self, ip: IpAddr) -> Option<&Network> {
        self.networks().into_iter().find(|network| network.cidrs.iter().any(|cidr| cidr.contains(&ip)))
    }

    fn who(&self, ip: IpAddr) -> Who {
        let live = |pod: &&Pod| !pod.finished && !pod.host_network;
        if let Some(claim) = self.claim(ip) {
            if claim.is_idle() {
                return Who::Nobody;
            }
            let Some(PodIdent { namespace, name, uid }) = &claim.pod else { return Who::Container };
            let reference = PodRef { namespace: namespace.clone(), name: name.clone() };
            let same = |pod: &&Pod| uid.is_empty() || pod.uid.is_empty() || pod.uid == *uid;
            return match self.pod(&reference).filter(live).filter(same) {
                Some(pod) => Who::Pod(reference, pod.uid.clone()),
                None => Who::Unknown,
            };
        }
        if let Some(pod) = self.pods().find(|pod| live(pod) && pod.node.is_some() && pod.ips.contains(&ip)) {
            return Who::Pod(pod.reference.clone(), pod.uid.clone());
        }
        self.node_of(ip).map_or(Who::Nobody, |node| Who::Node(node.name.clone()))
    }

    fn locate(&self, ip: IpAddr) -> Location {
        let who = self.who(ip);
        let pod = if let Who::Pod(reference, _) = &who { Some(reference.clone()) } else { None };
        if let Some(IpClaim { node, network, .. }) = self.claim(ip).filter(|claim| !claim.is_idle()) {
            return Location::Pod { node: node.clone(), network: network.clone(), pod };
        }
        let node = pod.as_ref().and_then(|pod| self.pod(pod)).and_then(|pod| pod.node.clone());
        match (who, self.network_of(ip), node) {
            (_, Some(network), Some(node)) => Location::Pod { node, network: network.name.clone(), pod },
            (Who::Node(node), _, _) => Location::Node(node),
            (_, Some(network), None) => Location::Vacant { network: network.name.clone() },
            (_, None, _) => Location::Outside,
        }
    }

    /// The Network that a pod gets by name, or nothing.
    fn network_for(&self, reference: &PodRef) -> Option<Name> {
        let (pod, namespace) = (self.pod(reference)?, self.namespace(&reference.namespace)?);
        let networks = self.networks();
        let named = pod.annotations.network.as_ref().or(namespace.network.as_ref());
        let network = match named {
            Some(name) => networks.iter().find(|network| network.name == *name)?,
            None => networks.iter().find(|network| network.default)?,
        };
        let allowed = network.allowed_namespaces.is_none() || namespace.labels.get("trusted").is_some();
        allowed.then(|| network.name.clone())
    }

    fn is_outside(&self, net: &IpNet) -> bool {
        let meets = |cidr: &IpNet| cidr.contains(net) || net.contains(cidr);
        !self.networks().iter().any(|network| network.cidrs.iter().any(meets))
            && !addresses()
                .iter()
                .any(|ip| net.contains(ip) && (self.claim(*ip).is_some() || self.node_of(*ip).is_some()))
    }
}

fn who(world: &World, ip: IpAddr) -> Who {
    match world.resident(ip) {
        Resident::Pod(pod, _) => Who::Pod(pod.reference.clone(), pod.uid.clone()),
        Resident::Container(_) => Who::Container,
        Resident::Unknown => Who::Unknown,
        Resident::Node(node) => Who::Node(node.clone()),
        Resident::Nobody => Who::Nobody,
    }
}

fn check_answers(world: &World, plain: &Plain) -> Result<(), TestCaseError> {
    for ip in addresses() {
        prop_assert_eq!(world.locate(ip), plain.locate(ip), "locate {}", ip);
        prop_assert_eq!(world.claim(ip), plain.claim(ip));
        prop_assert_eq!(world.network_of(ip).map(|n| &n.name), plain.network_of(ip).map(|n| &n.name));
        let wanted = match plain.who(ip) {
            Who::Pod(pod, _) if plain.namespace(&pod.namespace).is_none() => Who::Unknown,
            who => who,
        };
        let unknown = matches!(wanted, Who::Unknown | Who::Nobody);
        prop_assert_eq!(who(world, ip), wanted, "resident {}", ip);
        let question = Question {
            direction: Direction::Egress,
            subject: ip,
            peer: ip,
            traffic: Traffic { protocol: 6, port: Some(80) },
        };
        let judgement = world.judge(&question);
        prop_assert!(judgement.region.contains(&question) && judgement.region.is_aligned());
        prop_assert_eq!(judgement.verdict == Verdict::Deny, unknown);
        prop_assert_eq!(judgement.because.is_provisional(), unknown);
        prop_assert_eq!(judgement.because == Because::NoIsolation, !unknown);
        for length in [0, 8, 16, 24, 32, 48, 64, 128] {
            let net = policy::address::prefix(ip, length);
            prop_assert_eq!(world.is_outside(net), plain.is_outside(&net), "outside {}", net);
        }
    }
    for namespace in NAMESPACES {
        for name in ["p", "q"] {
            let pod = PodRef::new(namespace, name);
            prop_assert_eq!(world.pod(&pod), plain.pod(&pod));
            let network = world.network_for(Some(&pod)).ok().map(|network| network.name.clone());
            prop_assert_eq!(network, plain.network_for(&pod), "network for {}", pod);
        }
    }
    let standing: BTreeSet<&Name> = plain.networks().into_iter().map(|network| &network.name).collect();
    prop_assert_eq!(world.networks().map(|network| &network.name).collect::<BTreeSet<_>>(), standing);
    Ok(())
}

/// The changes that an edit must name, by comparing the objects before and after.
fn expected_changes(before: &Plain, after: &Plain, edit: &Edit) -> BTreeSet<Change> {
    let reference = match edit {
        Edit::Put(object) => object.reference(),
        Edit::Remove(reference) => reference.clone(),
    };
    if before.0.get(&reference) == after.0.get(&reference) {
        return BTreeSet::new();
    }
    let ObjectRef { kind, namespace, name } = reference;
    let itself = match kind {
        Kind::Pod => Some(Change::Pod(PodRef { namespace: namespace.unwrap_or_default(), name })),
        Kind::Namespace => Some(Change::Namespace(name)),
        Kind::Node => Some(Change::Node(name)),
        Kind::Network => return network_changes(before, after),
        _ => None,
    };
    let claim = |plain: &Plain, ip| {
        plain.claim(ip).map(|claim| IpClaim { retain: false, since: None, ..claim.clone() })
    };
    let same = |ip: &IpAddr| {
        before.locate(*ip) == after.locate(*ip)
            && before.who(*ip) == after.who(*ip)
            && claim(before, *ip) == claim(after, *ip)
    };
    itself.into_iter().chain(addresses().into_iter().filter(|ip| !same(ip)).map(Change::Address)).collect()
}

fn network_changes(before: &Plain, after: &Plain) -> BTreeSet<Change> {
    let find = |plain: &Plain, name: &str| {
        plain.networks().into_iter().find(|network| network.name == name).cloned()
    };
    let default =
        |plain: &Plain| plain.networks().into_iter().find(|network| network.default).map(|n| n.name.clone());
    let mut names: BTreeSet<Name> =
        NETWORKS.into_iter().filter(|name| find(before, name) != find(after, name)).map(Name::from).collect();
    if default(before) != default(after) {
        names.extend(default(before).into_iter().chain(default(after)));
    }
    names.into_iter().map(Change::Network).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_history_of_edits_is_the_sum_of_its_objects(edits in prop::collection::vec(edit(), 1..60)) {
        let (mut world, mut plain) = (World::new(), Plain::default());
        for edit in edits {
            let before = plain.clone();
            plain.apply(&edit);
            let named = world.apply(edit.clone());
            let changes: BTreeSet<Change> = named.iter().cloned().collect();
            prop_assert_eq!(changes.len(), named.len(), "a change is named twice: {:?}", named);
            prop_assert_eq!(changes, expected_changes(&before, &plain, &edit), "{:?}", edit);
            check_answers(&world, &plain)?;
        }
        // The same objects in another order are the same world.
        let mut other = World::new();
        for object in plain.0.values().rev() {
            other.apply(Edit::Put(object.clone()));
        }
        check_answers(&other, &plain)?;
        prop_assert_eq!(other.problems(), world.problems());
        // Taken apart again, nothing is left.
        for reference in plain.0.keys() {
            world.apply(Edit::Remove(reference.clone()));
        }
        check_answers(&world, &Plain::default())?;
        prop_assert_eq!(world.problems(), []);
    }
}

#[test]
fn a_hundred_thousand_pods() {
    let mut world = World::new();
    let address = |n: u32| IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + n));
    for n in 0..100_000u32 {
        let reference = PodRef::new(format!("ns{}", n % 100), format!("pod-{n}"));
        let labels = Labels::from_iter([("app", format!("app{}", n % 1000))]);
        let pod = Pod {
            reference: reference.clone(),
            uid: Name::from(format!("uid-{n}")),
            labels,
            annotations: PodAnnotations::default(),
            node: Some(Name::from(format!("node-{}", n % 1000))),
            ips: vec![address(n)],
            host_network: false,
            finished: false,
            keeps_addresses: false,
            terminating: false,
            ports: Vec::new(),
        };
        assert_eq!(
            world.apply(Edit::Put(Object::Pod(pod))),
            [Change::Pod(reference), Change::Address(address(n))]
        );
    }
    assert_eq!(world.pods().count(), 100_000);
    let gone = PodRef::new("ns7", "pod-77707");
    let changes = world.apply(Edit::Remove(ObjectRef::from(&gone)));
    assert_eq!(changes, [Change::Pod(gone), Change::Address(address(77_707))]);
}

#[test]
fn says_which_network_stands_and_why_a_pod_gets_none() {
    let network = |name: &str, cidr: &str, created: Option<&str>| {
        let cidrs = cidr.parse().into_iter().collect();
        Network {
            name: name.into(),
            created: created.map(Name::from),
            mode: Mode::Overlay { encap: Encap::Vxlan, vni: 1 },
            cidrs,
            ranges: Vec::new(),
            exclude: Vec::new(),
            gateway: Vec::new(),
            snat: true,
            snat_except: Vec::new(),
            mtu: None,
            default: true,
            allowed_namespaces: None,
        }
    };
    let mut world = World::new();
    assert_eq!(world.network_for(None), Err(NetworkChoiceError::NoDefault));
    world.apply(Edit::Put(Object::Network(network("b", "10.1.0.0/16", None))));
    let changes = world.apply(Edit::Put(Object::Network(network("a", "10.0.0.0/8", None))));
    assert_eq!(changes, [Change::Network("a".into()), Change::Network("b".into())], "a sorts first");
    let changes =
        world.apply(Edit::Put(Object::Network(network("b", "10.1.0.0/16", Some("2024-01-01T00:00:00Z")))));
    assert_eq!(changes, [Change::Network("a".into()), Change::Network("b".into())], "b is older");
    world.apply(Edit::Put(Object::Network(network("c", "fd00::/64", None))));
    let problems: Vec<String> = world.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "world: Network a: spec.cidrs: 10.0.0.0/8 overlaps 10.1.0.0/16 of Network b, which stands: this Network is \
             not in force until one of them gives way",
            "world: Network c: spec.default: Network b is the default one already: set false on one of them",
        ]
    );
    assert_eq!(world.network_for(None).map(|network| network.name.as_str()), Ok("b"));
    assert!(world.network("a").is_none());
    assert_eq!(world.network("c").and_then(|c| c.gateway(Family::V6)), "fd00::1".parse().ok());
}
