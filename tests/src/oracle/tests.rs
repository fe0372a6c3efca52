//! The oracle on worlds whose answers were worked out by hand.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Answer, Cluster, Direction};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/cases")
}

fn cluster(yaml: &str) -> Cluster {
    let options = || serde_saphyr::options! { strict_booleans: true };
    let read = |part| serde_saphyr::from_str_with_options::<Value>(part, options()).unwrap();
    Cluster::from_manifests(yaml.split("---\n").filter(|part| part.contains("kind:")).map(read).collect())
}

/// `NAMESPACE/NAME` or an address.
fn address(cluster: &Cluster, text: &str) -> IpAddr {
    let pod = cluster.pods().into_iter().find(|(name, _)| name == text);
    pod.map_or_else(|| text.parse().unwrap(), |(_, address)| address)
}

fn wrong_answers(directory: &Path) -> (usize, Vec<String>) {
    let cluster = cluster(&fs::read_to_string(directory.join("world.yaml")).unwrap());
    let questions = fs::read_to_string(directory.join("questions.csv")).unwrap();
    let (mut asked, mut wrong) = (0, Vec::new());
    for line in questions.lines().skip(1) {
        let parts: Vec<&str> = line.split(',').collect();
        let [from, to, protocol, port, verdict] = parts.as_slice() else { panic!("{line}") };
        let protocol = match *protocol {
            "TCP" => 6,
            "UDP" => 17,
            "SCTP" => 132,
            other => panic!("{other}"),
        };
        let (from, to) = (address(&cluster, from), address(&cluster, to));
        let answer = cluster.verdict(from, to, protocol, Some(port.parse().unwrap()));
        asked += 1;
        if answer.to_string() != *verdict {
            wrong.push(format!("{}: {line}: {answer}", directory.display()));
        }
    }
    (asked, wrong)
}

#[test]
fn every_question_of_the_cases_is_answered() {
    let (mut asked, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(cases()).unwrap() {
        let (some, found) = wrong_answers(&entry.unwrap().path());
        asked += some;
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(asked >= 87, "{asked} questions");
}

/// Two namespaces with a pod each, their node, and what the test adds.
fn small(more: Vec<Value>) -> Cluster {
    let pod = |namespace: &str, ip: &str| {
        json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": "p", "uid": namespace, "labels": {"app": namespace}},
            "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
            "status": {"podIPs": [{"ip": ip}]}})
    };
    let namespace = |name: &str| json!({"kind": "Namespace", "metadata": {"name": name}});
    let node = json!({"kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "z"}},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.77.1"}]}});
    let mut all = vec![namespace("a"), namespace("b"), pod("a", "10.0.0.1"), pod("b", "10.0.0.2"), node];
    all.extend(more);
    Cluster::from_manifests(all)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn in_policy(spec: Value) -> Value {
    json!({"kind": "NetworkPolicy", "metadata": {"namespace": "b", "name": "p"}, "spec": spec})
}

fn admin(tier: &str, priority: u16, rules: Value) -> Value {
    json!({"kind": "ClusterNetworkPolicy", "metadata": {"name": format!("{tier}{priority}").to_lowercase()},
        "spec": {"tier": tier, "priority": priority, "subject": {"namespaces": {}}, "egress": rules, "ingress": []}})
}

fn asked(cluster: &Cluster, to: &str, port: u16) -> Answer {
    cluster.verdict(ip("10.0.0.1"), ip(to), 6, Some(port))
}

#[test]
fn what_cannot_be_read_never_opens() {
    let broken = [
        json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/33"}}]}]}),
        json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}]}),
        json!({"podSelector": {}, "ingress": [{"ports": [{"port": 90, "endPort": 80}]}]}),
        json!({"podSelector": {}, "ingress": [{"ports": [{"port": "web", "endPort": 9000}]}]}),
        json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}, "ingress": [{}]}),
        json!({"podSelector": {}, "ingress": [{"from": [{}]}]}),
        json!({"podSelector": {}, "ingress": "all"}),
    ];
    for spec in broken {
        let text = spec.to_string();
        assert_eq!(asked(&small(vec![in_policy(spec)]), "10.0.0.2", 8080), Answer::Deny, "{text}");
    }
    let open = in_policy(json!({"podSelector": {}, "ingress": [{}]}));
    assert_eq!(asked(&small(vec![open]), "10.0.0.2", 8080), Answer::Allow);
}

#[test]
fn tiers_are_asked_in_order() {
    let to_b = json!([{"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}]);
    let rule = |action: &str| json!([{"action": action, "to": to_b}]);
    assert_eq!(asked(&small(vec![admin("Admin", 1, rule("Deny"))]), "10.0.0.2", 1), Answer::Deny);
    let both = vec![admin("Admin", 5, rule("Deny")), admin("Admin", 1, rule("Accept"))];
    assert_eq!(asked(&small(both), "10.0.0.2", 1), Answer::Allow);
    let passed = vec![admin("Admin", 1, rule("Pass")), admin("Admin", 5, rule("Deny"))];
    assert_eq!(asked(&small(passed), "10.0.0.2", 1), Answer::Allow);
    let last = vec![admin("Admin", 1, rule("Pass")), admin("Baseline", 5, rule("Deny"))];
    assert_eq!(asked(&small(last.clone()), "10.0.0.2", 1), Answer::Deny);
    let own = json!({"kind": "NetworkPolicy", "metadata": {"namespace": "a", "name": "p"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": "web"}]}]}});
    let isolated = small([last, vec![own]].concat());
    assert_eq!(asked(&isolated, "10.0.0.2", 8080), Answer::Allow);
    assert_eq!(asked(&isolated, "10.0.0.2", 8081), Answer::Deny);
    assert_eq!(asked(&isolated, "10.0.0.9", 8080), Answer::Deny, "a port of nobody has no name");
}

#[test]
fn an_unreadable_cluster_policy_denies_what_it_does_not_accept() {
    let to = json!([{"networks": ["10.0.0.0/8"]}]);
    let odd = json!([{"action": "Accept", "to": [{"domainNames": ["x"]}]}, {"action": "Pass", "to": to}]);
    assert_eq!(asked(&small(vec![admin("Admin", 1, odd)]), "10.0.0.2", 1), Answer::Allow);
    let odd = json!([{"action": "Pass", "to": [{"domainNames": ["x"]}]}]);
    assert_eq!(asked(&small(vec![admin("Admin", 1, odd)]), "8.8.8.8", 1), Answer::Deny);
    let accepts = json!([{"action": "Accept", "to": to}]);
    let denies = json!([{"action": "Deny", "to": [{"networks": ["11.0.0.0/8"]}]}]);
    assert_eq!(asked(&small(vec![admin("Middle", 1, accepts)]), "10.0.0.2", 1), Answer::Allow);
    assert_eq!(asked(&small(vec![admin("Middle", 1, denies)]), "10.0.0.2", 1), Answer::Deny);
}

#[test]
fn an_own_node_comes_in_and_nothing_else_does() {
    let other = json!({"kind": "Node", "metadata": {"name": "n2"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.77.2"}]}});
    let cluster =
        small(vec![in_policy(json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})), other]);
    let way = |from: &str, to: &str| cluster.verdict(ip(from), ip(to), 1, None);
    assert_eq!(way("192.168.77.1", "10.0.0.2"), Answer::Allow);
    assert_eq!(way("192.168.77.2", "10.0.0.2"), Answer::Deny);
    assert_eq!(way("10.0.0.2", "192.168.77.1"), Answer::Deny);
    assert_eq!(way("10.0.0.2", "10.0.0.2"), Answer::Allow);
}

#[test]
fn a_fragment_passes_where_a_port_does() {
    let cluster = small(vec![in_policy(json!({"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}))]);
    assert_eq!(cluster.verdict(ip("10.0.0.1"), ip("10.0.0.2"), 6, None), Answer::Allow);
    assert_eq!(cluster.verdict(ip("10.0.0.1"), ip("10.0.0.2"), 17, None), Answer::Deny);
    assert_eq!(cluster.verdict(ip("10.0.0.1"), ip("10.0.0.2"), 1, None), Answer::Deny);
}

#[test]
fn a_claim_says_who_is_there() {
    let claim = |uid: &str| {
        json!({"kind": "IPClaim", "metadata": {"name": "0a000009"},
            "spec": {"ip": "10.0.0.9", "node": "n1", "pod": {"namespace": "b", "name": "p", "uid": uid}}})
    };
    let closed = in_policy(json!({"podSelector": {}}));
    assert_eq!(asked(&small(vec![claim("b"), closed.clone()]), "10.0.0.9", 80), Answer::Deny);
    assert_eq!(asked(&small(vec![claim("b")]), "10.0.0.9", 80), Answer::Allow);
    assert_eq!(
        asked(&small(vec![claim("earlier")]), "10.0.0.9", 80),
        Answer::Deny,
        "another pod of the name"
    );
    let mut cluster = small(vec![claim("b"), closed]);
    cluster.remove("NetworkPolicy", "b", "p");
    assert_eq!(asked(&cluster, "10.0.0.9", 80), Answer::Allow);
    assert_eq!(cluster.end(Direction::Egress, ip("10.0.0.8"), ip("10.0.0.9"), 6, Some(1)), Answer::Deny);
}

#[test]
fn a_watched_policy_denies_nothing() {
    let mut watched = in_policy(json!({"podSelector": {}}));
    if let Some(metadata) = watched.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), json!({"fabric.io/mode": "audit"}));
    }
    let cluster = small(vec![watched]);
    let (from, to) = (ip("10.0.0.1"), ip("10.0.0.2"));
    assert_eq!(cluster.verdict(from, to, 6, Some(80)), Answer::Allow);
    assert_eq!(cluster.end_with_audit(Direction::Ingress, to, from, 6, Some(80)), Answer::Deny);
}

#[test]
fn the_matrix_has_every_pair() {
    let matrix = small(vec![in_policy(json!({"podSelector": {}}))]).allowed_matrix(6, Some(80));
    let answers: Vec<(&str, &str, Answer)> =
        matrix.iter().map(|pair| (pair.from.as_str(), pair.to.as_str(), pair.answer)).collect();
    let expected = [
        ("a/p", "a/p", Answer::Allow),
        ("a/p", "b/p", Answer::Deny),
        ("b/p", "a/p", Answer::Allow),
        ("b/p", "b/p", Answer::Allow),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn a_policy_without_a_readable_name_counts() {
    let mut nameless = in_policy(json!({"podSelector": {}}));
    nameless["metadata"] = json!({"namespace": "b", "name": "Bad_Name"});
    let open = in_policy(json!({"podSelector": {"matchLabels": {"app": "z"}}}));
    assert_eq!(asked(&small(vec![nameless, open]), "10.0.0.2", 80), Answer::Deny);
    let mut accepts = admin("Admin", 1, json!([{"action": "Pass", "to": [{"networks": ["11.0.0.0/8"]}]}]));
    assert_eq!(asked(&small(vec![accepts.clone()]), "10.0.0.2", 80), Answer::Allow);
    accepts["metadata"] = json!({});
    assert_eq!(asked(&small(vec![accepts]), "10.0.0.2", 80), Answer::Deny);
}
