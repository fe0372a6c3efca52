use std::sync::Arc;

use super::*;
use crate::name::PodRef;
use crate::object::{
    Enforcement, IpBlock, NamedPort, NetworkPolicy, Peer, Pod, PodAnnotations, PolicyRule, Port, PortMatch,
    Protocol, Readable, Subject as Isolated,
};
use crate::selector::{Operator, Requirement};

fn pod(ports: &[(&str, Protocol, u16)]) -> Pod {
    let named = |(name, protocol, port): &(&str, Protocol, u16)| NamedPort {
        name: (*name).into(),
        protocol: *protocol,
        port: *port,
    };
    Pod {
        reference: PodRef::new("a", "p"),
        uid: "".into(),
        labels: Labels::from_iter([("app", "web")]),
        annotations: PodAnnotations::default(),
        node: None,
        ips: Vec::new(),
        host_network: false,
        finished: false,
        keeps_addresses: false,
        terminating: false,
        ports: ports.iter().map(named).collect(),
    }
}

fn block(cidr: &str, except: &[&str]) -> Peer {
    Peer::Block(IpBlock {
        cidr: cidr.parse().unwrap(),
        except: except.iter().map(|net| net.parse().unwrap()).collect(),
    })
}

fn policy(rules: Vec<PolicyRule>) -> Policy {
    Policy::from(&NetworkPolicy {
        namespace: "a".into(),
        name: "p".into(),
        subject: Isolated::Pods(Selector::everything()),
        ingress: Some(rules.into_iter().map(Readable::Read).collect()),
        egress: None,
        enforcement: Enforcement::Enforce,
    })
}

#[test]
fn an_exception_takes_nothing_from_other_peers() {
    let peers = peers_of(
        &"a".into(),
        &[
            block("10.0.0.0/8", &["10.1.0.0/16", "10.1.2.0/24"]),
            block("10.1.2.0/25", &[]),
            block("fd00::/16", &["fd00:0:0:1::/64"]),
        ],
    );
    let at = |address: &str| peers.at(address.parse().unwrap(), &Identity::Nobody);
    assert_eq!([at("10.0.255.255"), at("10.1.2.127"), at("fd00::1")], [Match::Yes; 3]);
    assert_eq!(
        [at("10.1.0.0"), at("10.1.2.128"), at("11.0.0.0"), at("fd00:0:0:1::"), at("::10.0.0.1")],
        [Match::No; 5]
    );
    let within = |net: &str, free| {
        let net = net.parse().unwrap();
        peers.within(&Around { net, free_of_pods: free, free_of_nodes: free })
    };
    assert_eq!(within("10.2.0.0/16", false), Match::Yes);
    assert_eq!(within("10.0.0.0/8", true), Match::Split);
    assert_eq!(within("10.1.3.0/24", false), Match::No);
    let pods =
        peers_of(&"a".into(), &[Peer::Pods { namespaces: None, pods: None }, block("10.0.0.0/8", &[])]);
    let around =
        |net: &str, free_of_pods| Around { net: net.parse().unwrap(), free_of_pods, free_of_nodes: false };
    assert_eq!(pods.within(&around("11.0.0.0/8", false)), Match::Split, "a pod may be there");
    assert_eq!(pods.within(&around("11.0.0.0/8", true)), Match::No);
    assert_eq!(pods.within(&around("10.0.0.0/8", false)), Match::Yes, "whoever is there");
}

#[test]
fn ports_are_asked_one_by_one_and_many_at_once() {
    let range = |protocol, first, last| PortMatch { protocol, port: Port::Range(first, last) };
    let named = |name: &str| PortMatch { protocol: Protocol::Tcp, port: Port::Named(name.into()) };
    let ports = ports_of(&[range(Protocol::Tcp, 80, 89), range(Protocol::Tcp, 90, 95), named("web")]);
    let own = pod(&[("web", Protocol::Tcp, 8080), ("web", Protocol::Udp, 53)]);
    let at = |sent| ports.at(sent, Destination::Pod(&own));
    let tcp = |first, last| Sent::To(Protocol::Tcp, first, last);
    assert_eq!([at(tcp(80, 95)), at(tcp(8080, 8080))], [Match::Yes; 2]);
    assert_eq!(
        [at(tcp(80, 96)), at(tcp(8064, 8095)), at(tcp(0, u16::MAX)), at(Sent::Everything)],
        [Match::Split; 4]
    );
    assert_eq!([at(tcp(96, 96)), at(Sent::To(Protocol::Udp, 53, 53)), at(Sent::Portless)], [Match::No; 3]);
    assert_eq!(ports.at(tcp(8080, 8080), Destination::NoPod), Match::No);
    assert_eq!(ports.at(tcp(8080, 8080), Destination::Unknown), Match::Unknown);
    assert_eq!(ports.at(tcp(80, 80), Destination::Unknown), Match::Yes);
    assert_eq!(ports.at(tcp(8080, 8080), Destination::Several), Match::Split);
    assert_eq!(ports.at(Sent::To(Protocol::Udp, 1, 1), Destination::Unknown), Match::No, "another protocol");
    let unnamed = ports_of(&[named("none")]);
    assert_eq!(unnamed.at(Sent::Everything, Destination::Pod(&own)), Match::No);
}

/// Two ways to write one thing.
fn same(one: Vec<PolicyRule>, other: Vec<PolicyRule>) {
    let print = |rules| Program::of(vec![Arc::new(policy(rules))]).side(Direction::Ingress).fingerprint;
    assert_eq!(print(one.clone()), print(other.clone()), "{one:?}\n{other:?}");
}

#[test]
fn order_makes_no_difference_and_content_does() {
    let values = |values: &[&str]| Operator::In(values.iter().map(|value| (*value).into()).collect());
    let requirement = |key: &str, operator| Requirement { key: key.into(), operator };
    let pods = |requirements| Peer::Pods { namespaces: None, pods: Some(Selector { requirements }) };
    let port = |number| PortMatch { protocol: Protocol::Tcp, port: Port::Range(number, number) };
    let first = PolicyRule {
        peers: vec![
            pods(vec![requirement("a", values(&["1", "2"])), requirement("b", Operator::Exists)]),
            block("10.0.0.0/8", &["10.1.0.0/16", "10.2.0.0/16"]),
        ],
        ports: vec![port(80), port(443)],
    };
    let turned = PolicyRule {
        peers: vec![
            block("10.0.0.0/8", &["10.2.0.0/16", "10.1.0.0/16"]),
            pods(vec![requirement("b", Operator::Exists), requirement("a", values(&["2", "1"]))]),
        ],
        ports: vec![port(443), port(80)],
    };
    let second = PolicyRule { peers: vec![block("fd00::/8", &[])], ports: Vec::new() };
    same(vec![first.clone(), second.clone()], vec![second.clone(), turned.clone()]);
    let mut prints = Vec::new();
    let mut variants = vec![vec![first.clone()], vec![second.clone()], vec![first.clone(), second], vec![]];
    for change in [
        |rule: &mut PolicyRule| rule.ports.clear(),
        |rule: &mut PolicyRule| rule.peers.clear(),
        |rule: &mut PolicyRule| drop(rule.peers.pop()),
        |rule: &mut PolicyRule| drop(rule.ports.pop()),
    ] {
        let mut changed = first.clone();
        change(&mut changed);
        variants.push(vec![changed]);
    }
    for rules in variants {
        prints.push(Program::of(vec![Arc::new(policy(rules))]).side(Direction::Ingress).fingerprint);
    }
    let count = prints.len();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), count);
}
