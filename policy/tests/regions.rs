//! Regions: how wide they are, what they cost, and that they and the fingerprints of programs follow the rules and
//! nothing else.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use common::{Result, address, apply, traffic, world};
use policy::{
    Change, Direction, Edit, Family, Kind, ObjectRef, Question, Region, Tenant, Traffic, Verdict, World,
};

/// Pods `p0`, `p1`, ... of namespace `a` with addresses of both families, on one node.
fn pods(count: usize) -> Result<World> {
    let mut yaml = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n".to_owned();
    for n in 0..count {
        writeln!(
            yaml,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: p{n}, labels: {{n: \"{n}\"}}}}, \
             spec: {{nodeName: n1}}, status: {{podIPs: [{{ip: 10.1.0.{n}}}, {{ip: \"fd00:1::{n}\"}}]}}}}"
        )?;
    }
    world(&yaml)
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{namespace: a, name: {name}}}, spec: {spec}}}"
    )
}

fn question(world: &World, direction: Direction, subject: &str, peer: &str, sent: &str) -> Result<Question> {
    let end = |text| address(world, text, Family::V4);
    Ok(Question { direction, subject: end(subject)?, peer: end(peer)?, traffic: traffic(sent)? })
}

fn region(world: &World, direction: Direction, subject: &str, peer: &str, sent: &str) -> Result<String> {
    let question = question(world, direction, subject, peer, sent)?;
    let Region { peer, .. } = world.judge(&question).region;
    assert!(peer.contains(&question.peer));
    Ok(world.judge(&question).region.to_string())
}

#[test]
fn a_pod_that_no_policy_selects_has_one_region() -> Result<()> {
    let mut world = pods(4)?;
    apply(
        &mut world,
        &policy("p", "{podSelector: {matchLabels: {n: \"1\"}}, policyTypes: [Ingress, Egress]}"),
    )?;
    for direction in [Direction::Ingress, Direction::Egress] {
        assert_eq!(
            region(&world, direction, "10.1.0.0", "10.1.0.2", "TCP 80")?,
            "peer 0.0.0.0/0 protocol any ports all"
        );
        assert_eq!(region(&world, direction, "fd00:1::", "8::8", "58")?, "peer ::/0 protocol any ports all");
    }
    // Isolated from all: as wide as the pod itself lets it be.
    assert_eq!(
        region(&world, Direction::Ingress, "10.1.0.1", "10.1.0.2", "TCP 80")?,
        "peer 10.1.0.2/32 protocol any ports all"
    );
    assert_eq!(
        region(&world, Direction::Egress, "10.1.0.1", "8.8.8.8", "TCP 80")?,
        "peer 8.0.0.0/8 protocol any ports all"
    );
    Ok(())
}

#[test]
fn prefixes_are_as_wide_as_the_rules_let_them() -> Result<()> {
    let mut world = pods(4)?;
    apply(
        &mut world,
        "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.168.77.1}]}}",
    )?;
    apply(
        &mut world,
        &policy(
            "p",
            "{podSelector: {matchLabels: {n: \"1\"}}, ingress: [{from: [{ipBlock: {cidr: 172.16.0.0/12, except: [172.16.9.0/24]}}]}, {from: [{podSelector: {}}], ports: [{port: 80}]}]}",
        ),
    )?;
    let ingress = |peer: &str, sent: &str| region(&world, Direction::Ingress, "10.1.0.1", peer, sent);
    assert_eq!(ingress("172.17.0.1", "TCP 80")?, "peer 172.17.0.0/16 protocol any ports all");
    assert_eq!(ingress("172.16.1.1", "TCP 80")?, "peer 172.16.1.0/24 protocol any ports all");
    assert_eq!(ingress("172.16.9.1", "TCP 80")?, "peer 172.16.9.0/24 protocol any ports all");
    assert_eq!(
        ingress("192.169.0.1", "TCP 80")?,
        "peer 192.169.0.0/16 protocol any ports all",
        "the own node is exempt"
    );
    assert_eq!(ingress("192.168.77.1", "TCP 80")?, "peer 192.168.77.1/32 protocol any ports all");
    assert_eq!(ingress("10.1.0.3", "TCP 80")?, "peer 10.1.0.3/32 protocol 6 ports 80");
    assert_eq!(ingress("10.1.0.3", "UDP 80")?, "peer 10.1.0.3/32 protocol 17 ports all");
    assert_eq!(
        ingress("10.1.0.200", "TCP 80")?,
        "peer 10.1.0.200/32 protocol any ports all",
        "pods are near"
    );
    assert_eq!(ingress("10.2.0.200", "TCP 80")?, "peer 10.2.0.0/16 protocol any ports all");
    Ok(())
}

#[test]
fn a_port_scan_costs_few_regions() -> Result<()> {
    let mut world = pods(2)?;
    apply(
        &mut world,
        &policy("p", "{podSelector: {matchLabels: {n: \"1\"}}, ingress: [{ports: [{port: 8443}]}]}"),
    )?;
    for peer in ["10.1.0.0", "8.8.8.8"] {
        let mut regions = BTreeSet::new();
        let mut allowed = 0;
        for port in 0..=u16::MAX {
            let traffic = Traffic { protocol: 6, port: Some(port) };
            let subject = IpAddr::from([10, 1, 0, 1]);
            let judgement = world.judge(&Question {
                direction: Direction::Ingress,
                subject,
                peer: peer.parse()?,
                traffic,
            });
            allowed += u32::from(judgement.verdict == Verdict::Allow);
            regions.insert(judgement.region);
        }
        assert_eq!((regions.len(), allowed), (61, 1), "{peer}");
    }
    Ok(())
}

/// 500 prefixes of each family, each with an exception, in ascending or descending order.
fn many_blocks(backwards: bool) -> String {
    let mut peers: Vec<String> = Vec::new();
    for n in 0..500 {
        let (high, low) = (n / 250, n % 250);
        peers.push(format!("{{ipBlock: {{cidr: 20.{high}.{low}.0/24, except: [20.{high}.{low}.64/26]}}}}"));
        peers.push(format!(
            "{{ipBlock: {{cidr: \"2001:db8:{n:x}::/48\", except: [\"2001:db8:{n:x}:8000::/49\"]}}}}"
        ));
    }
    if backwards {
        peers.reverse();
    }
    policy(
        "p",
        &format!("{{podSelector: {{}}, policyTypes: [Egress], egress: [{{to: [{}]}}]}}", peers.join(", ")),
    )
}

#[test]
fn a_thousand_blocks_with_exceptions() -> Result<()> {
    let (mut world, mut turned) = (pods(1)?, pods(1)?);
    apply(&mut world, &many_blocks(false))?;
    apply(&mut turned, &many_blocks(true))?;
    let subjects = ["10.1.0.0".parse::<IpAddr>()?, "fd00:1::".parse()?];
    for subject in subjects {
        assert_eq!(world.program(subject, Direction::Egress), turned.program(subject, Direction::Egress));
    }
    let table = [
        ("10.1.0.0", "20.1.7.9", "peer 20.1.7.9/32 protocol any ports all", Verdict::Allow),
        ("10.1.0.0", "20.1.7.70", "peer 20.1.7.70/32 protocol any ports all", Verdict::Deny),
        ("10.1.0.0", "20.2.0.1", "peer 20.2.0.0/16 protocol any ports all", Verdict::Deny),
        ("10.1.0.0", "21.0.0.1", "peer 21.0.0.0/8 protocol any ports all", Verdict::Deny),
        ("fd00:1::", "2001:db8:7::1", "peer 2001:db8:7::/64 protocol any ports all", Verdict::Allow),
        ("fd00:1::", "2001:db8:7:8000::1", "peer 2001:db8:7:8000::/64 protocol any ports all", Verdict::Deny),
        ("fd00:1::", "2001:db9::1", "peer 2001:db9::/32 protocol any ports all", Verdict::Deny),
    ];
    for (subject, peer, wanted, verdict) in table {
        let question = question(&world, Direction::Egress, subject, peer, "TCP 80")?;
        let judgement = world.judge(&question);
        assert_eq!((judgement.region.to_string().as_str(), judgement.verdict), (wanted, verdict), "{peer}");
        assert_eq!(judgement, turned.judge(&question));
        assert_eq!(judgement.because.stable_hash(), turned.judge(&question).because.stable_hash());
    }
    Ok(())
}

#[test]
fn a_program_follows_the_rules_and_nothing_else() -> Result<()> {
    let mut world = pods(2)?;
    let subject = IpAddr::from([10, 1, 0, 1]);
    let both = |world: &World| {
        [Direction::Ingress, Direction::Egress].map(|direction| world.program(subject, direction))
    };
    let empty = both(&world);
    let spec = "{podSelector: {}, ingress: [{ports: [{port: 1}, {port: 2}]}, {from: [{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}]}";
    apply(&mut world, &policy("p", spec))?;
    let first = both(&world);
    assert!(first[0] != empty[0] && first[1] == empty[1], "egress is not concerned");
    // The same in another order; another pod; a policy for another pod.
    apply(
        &mut world,
        &policy(
            "p",
            "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.9.9.9/8}}, {podSelector: {}}]}, {ports: [{port: 2}, {port: 1}]}]}",
        ),
    )?;
    apply(
        &mut world,
        &policy("q", "{podSelector: {matchLabels: {n: \"0\"}}, policyTypes: [Ingress, Egress]}"),
    )?;
    world.apply(Edit::Remove(ObjectRef::namespaced(Kind::Pod, "a", "p0")));
    assert_eq!(both(&world), first);
    // A change, and its undoing.
    apply(
        &mut world,
        &policy("p", "{podSelector: {}, ingress: [{ports: [{port: 1}]}, {from: [{podSelector: {}}]}]}"),
    )?;
    assert_ne!(both(&world)[0], first[0]);
    apply(&mut world, &policy("p", spec))?;
    assert_eq!(both(&world), first);
    // A rule by the name of a port counts with the number that the pod gives it.
    let named = |number: u16| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: p1, labels: {{n: \"1\"}}}}, spec: {{nodeName: n1, \
         containers: [{{ports: [{{name: web, containerPort: {number}}}]}}]}}, status: {{podIP: 10.1.0.1}}}}"
        )
    };
    apply(&mut world, &named(80))?;
    assert_eq!(both(&world), first, "no rule asks for it");
    apply(&mut world, &policy("r", "{podSelector: {}, ingress: [{ports: [{port: web}]}]}"))?;
    let at_80 = both(&world);
    apply(&mut world, &named(81))?;
    assert_ne!(both(&world)[0], at_80[0]);
    // Tenants count once there are some.
    let tenants = |world: &mut World, text: &str| {
        apply(
            world,
            &format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: t, annotations: {{fabric.io/tenant: {text}}}}}}}"
            ),
        )
    };
    let before = both(&world);
    tenants(&mut world, "\"*\"")?;
    assert_eq!(both(&world), before);
    tenants(&mut world, "red")?;
    assert!(both(&world)[0] != before[0] && both(&world)[1] != before[1]);
    Ok(())
}

#[test]
fn whether_there_are_tenants_is_a_change() {
    let namespace = |tenant| {
        let (name, labels, unreadable) = ("t".into(), policy::Labels::default(), Vec::new());
        let (network, log_denied, egress_ips) = (None, false, Vec::new());
        let namespace =
            policy::Namespace { name, labels, tenant, network, log_denied, egress_ips, unreadable };
        Edit::Put(policy::Object::Namespace(namespace))
    };
    let mut world = World::new();
    let both = [Change::Namespace("t".into()), Change::Tenants];
    assert_eq!(world.apply(namespace(Tenant::Shared)), both[..1]);
    assert_eq!(world.apply(namespace(Tenant::Named("x".into()))), both);
    assert_eq!(world.apply(namespace(Tenant::Unreadable)), both[..1]);
    assert_eq!(world.apply(Edit::Remove(ObjectRef::cluster(Kind::Namespace, "t"))), both);
    assert_eq!(world.set_shared_namespaces(["kube-system".into()].into()), []);
    assert_eq!(world.set_shared_namespaces(BTreeSet::new()), [Change::Tenants]);
}

#[test]
fn what_is_probably_not_wanted() -> Result<()> {
    let mut world = pods(2)?;
    apply(
        &mut world,
        &policy(
            "good",
            "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {n: \"0\"}}}], ports: [{port: 80}]}]}",
        ),
    )?;
    assert_eq!(world.lint(), []);
    apply(&mut world, &policy("none", "{podSelector: {matchLabels: {n: \"7\"}}}"))?;
    apply(
        &mut world,
        &policy(
            "odd",
            "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchLabels: {n: \"7\"}}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/9, 10.128.0.0/9]}}], ports: [{port: web}]}, {ports: [{port: 0}]}], egress: [{ports: [{port: web, protocol: UDP}]}]}",
        ),
    )?;
    apply(
        &mut world,
        "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: c}, spec: {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {x: \"1\"}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}, {action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]}], egress: [{action: Deny, to: [{nodes: {}}]}, {action: Pass, to: [{domainNames: [x]}]}]}}",
    )?;
    let found: Vec<String> = world.lint().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "NetworkPolicy a/none: spec.podSelector: selects no pod of namespace a",
            "NetworkPolicy a/odd: spec.ingress[0].from[0]: selects no pod",
            "NetworkPolicy a/odd: spec.ingress[0].from[1].ipBlock: the exceptions leave no address",
            "NetworkPolicy a/odd: spec.ingress[0].ports[0]: no selected pod has a TCP port named web",
            "NetworkPolicy a/odd: spec.ingress[1]: cannot be read, and so matches nothing",
            "NetworkPolicy a/odd: spec.egress[0].ports[0]: no pod among the peers has a UDP port named web",
            "ClusterNetworkPolicy c: spec.subject: selects no pod",
            "ClusterNetworkPolicy c: spec.ingress[1]: rule 1 decides the same packets before it",
            "ClusterNetworkPolicy c: spec.egress[0].to[0]: selects no node",
            "ClusterNetworkPolicy c: spec.egress[1]: cannot be read, or is of a policy that cannot, and so denies everything",
        ]
    );
    Ok(())
}
