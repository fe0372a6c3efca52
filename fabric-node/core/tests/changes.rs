//! The node on a model of its rooms and of two switches: what policies forbid stops, what they allow goes on, and an
//! edit costs what it concerns.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::time::Duration;

use fabric_core::pipeline::vocabulary::{COMMIT, Cookie, Kind as FlowKind, Origin, PEER, RETRY, Table};
use support::cluster::{Cluster, TCP, UDP};
use support::model::Room;
use support::net::Sent;

const DENY: &str = "{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {name: deny, namespace: a}, \
                    spec: {podSelector: {matchLabels: {app: b}}, policyTypes: [Ingress]}}";
const DENY_EGRESS: &str = "{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {name: out, namespace: a}, \
                           spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Egress]}}";
const ONLY_80: &str = "{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {name: deny, namespace: a}, \
                       spec: {podSelector: {matchLabels: {app: b}}, policyTypes: [Ingress], \
                       ingress: [{ports: [{port: 80}]}]}}";

/// Pods `a` and `b` on one node and `c` on the other, in namespace `a`; `x` in namespace `x` beside the first two.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    for (node, namespace, name) in [(0, "a", "a"), (0, "a", "b"), (1, "a", "c"), (0, "x", "x")] {
        cluster.attach(node, namespace, name);
    }
    cluster
}

fn of_kind(cluster: &Cluster, node: usize, kind: FlowKind) -> usize {
    cluster.nodes[node].flows.iter().filter(|flow| Cookie(flow.cookie).kind() == Some(kind)).count()
}

fn established(cluster: &mut Cluster, from: &str, to: &str, protocol: u8, port: u16) -> Sent {
    let sent = cluster.sent(from, to, protocol, 5000, port);
    assert!(cluster.send(sent), "{from} to {to}");
    assert!(cluster.send(sent.answer()), "{to} answers {from}");
    sent
}

#[test]
fn what_an_edit_forbids_stops_and_the_rest_goes_on() {
    let mut cluster = cluster();
    let forbidden = established(&mut cluster, "a", "b", TCP, 22);
    let allowed = established(&mut cluster, "a", "b", TCP, 80);
    let other = established(&mut cluster, "b", "a", UDP, 53);
    let before = cluster.nodes[0].ended.len();
    cluster.put(ONLY_80);
    assert!(cluster.is_settled());
    assert!(!cluster.send(forbidden) && !cluster.send(forbidden.answer()), "neither way");
    assert!(cluster.send(allowed) && cluster.send(allowed.answer()));
    assert!(cluster.send(other) && cluster.send(other.answer()));
    let ended: Vec<_> = cluster.nodes[0].ended[before..].iter().map(|c| c.original.port()).collect();
    assert!(!ended.is_empty() && ended.iter().all(|port| *port == Some(22)), "{ended:?}");
}

#[test]
fn a_receiver_elsewhere_is_asked_before_the_sender_commits() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "c", "b", TCP, 80);
    cluster.put(DENY);
    assert!(!cluster.send(sent) && !cluster.send(sent.answer()));
    assert!(of_kind(&cluster, 1, FlowKind::Gate) == 1, "the way to b leads through a gate");
    let again = cluster.sent("c", "b", TCP, 6000, 80);
    assert!(!cluster.send(again));
    let tracked = (1..10).flat_map(|zone| cluster.nodes[1].connections.zone(zone)).count();
    assert_eq!(tracked, 0, "nothing is left that an answer could use");
    cluster.remove("NetworkPolicy", Some("a"), "deny");
    assert_eq!(of_kind(&cluster, 1, FlowKind::Gate), 0);
    assert!(cluster.send(again));
}

#[test]
fn an_edit_and_its_undoing_leave_nothing_behind() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    let before = cluster.nodes[0].flows.clone();
    cluster.put(DENY);
    assert!(of_kind(&cluster, 0, FlowKind::Ended) > 0);
    assert!(!cluster.send(sent.answer()));
    cluster.remove("NetworkPolicy", Some("a"), "deny");
    assert_eq!(of_kind(&cluster, 0, FlowKind::Ended), 0);
    assert_eq!(cluster.nodes[0].flows, before);
    assert!(cluster.send(sent) && cluster.send(sent.answer()), "the conversation goes on");
}

#[test]
fn an_undoing_in_the_middle_of_a_walk_ends_nothing() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    cluster.nodes[0].silent.insert(Room::Reads);
    cluster.put(DENY);
    assert!(!cluster.is_settled());
    cluster.remove("NetworkPolicy", Some("a"), "deny");
    cluster.nodes[0].wake(Room::Reads);
    assert!(cluster.nodes[0].ended.is_empty() && cluster.is_settled());
    assert!(cluster.send(sent) && cluster.send(sent.answer()));
}

#[test]
fn what_is_opened_by_flows_that_are_gone_is_found_when_the_switch_has_settled() {
    let mut cluster = cluster();
    established(&mut cluster, "a", "b", TCP, 22);
    let late = cluster.sent("a", "b", TCP, 7000, 22);
    let flows = cluster.nodes[0].flows.clone();
    cluster.nodes[0].silent.insert(Room::Settling);
    cluster.put(DENY);
    assert!(!cluster.is_settled(), "not before the switch has");
    // What the switch remembers of them.
    let current = std::mem::replace(&mut cluster.nodes[0].flows, flows);
    assert!(cluster.send(late) && cluster.send(late.answer()));
    cluster.nodes[0].flows = current;
    assert!(cluster.send(late), "as if it were allowed");
    cluster.nodes[0].wake(Room::Settling);
    assert!(!cluster.send(late) && !cluster.send(late.answer()) && cluster.is_settled());
}

#[test]
fn a_switch_that_takes_long_to_list_its_connections_is_asked_less_often() {
    let mut cluster = cluster();
    established(&mut cluster, "a", "b", TCP, 22);
    cluster.nodes[0].silent.extend([Room::Reads, Room::Settling]);
    cluster.put(DENY);
    cluster.pass(Duration::from_millis(400));
    cluster.nodes[0].wake(Room::Reads);
    let reads = cluster.nodes[0].reads;
    cluster.pass(Duration::from_secs(2));
    assert_eq!(cluster.nodes[0].reads, reads, "another would take longer than all that lies between");
    cluster.pass(Duration::from_secs(1));
    assert_eq!(cluster.nodes[0].reads, reads + 1);
}

#[test]
fn what_an_edit_allows_is_settled_when_the_switch_has_forgotten_that_it_was_denied() {
    let mut cluster = cluster();
    cluster.put(DENY);
    let sent = cluster.sent("a", "b", TCP, 5000, 22);
    assert!(!cluster.send(sent) && cluster.is_settled());
    cluster.nodes[0].silent.insert(Room::Settling);
    let reads = cluster.nodes[0].reads;
    cluster.remove("NetworkPolicy", Some("a"), "deny");
    assert!(!cluster.is_settled(), "not before the switch has");
    cluster.nodes[0].wake(Room::Settling);
    assert!(cluster.is_settled());
    assert_eq!(cluster.nodes[0].reads, reads, "it forbids nothing, so no connection is looked for");
    // An edit that turns no verdict round has nothing to forget.
    cluster.nodes[0].silent.insert(Room::Settling);
    cluster.put("{kind: Namespace, apiVersion: v1, metadata: {name: elsewhere}}");
    assert!(cluster.is_settled());
}

#[test]
fn a_connection_that_outlives_its_flow_is_found() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    cluster.expire_verdicts(0);
    assert_eq!(of_kind(&cluster, 0, FlowKind::Ingress), 0);
    let dormant = cluster.nodes[0].node.status(cluster.nodes[0].now).dormant;
    assert!(dormant >= 2, "{dormant} dormant verdicts");
    cluster.put(DENY);
    assert!(!cluster.send(sent) && !cluster.send(sent.answer()));
}

#[test]
fn a_connection_of_an_agent_before_is_found() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    cluster.expire_verdicts(0);
    cluster.restart(0);
    assert!(cluster.nodes[0].ended.is_empty() && cluster.nodes[0].flow_mods.is_empty());
    assert!(cluster.send(sent) && cluster.send(sent.answer()), "a restart interrupts nothing");
    cluster.expire_verdicts(0);
    cluster.put(DENY);
    assert!(!cluster.send(sent) && !cluster.send(sent.answer()));
}

#[test]
fn a_connection_that_was_forbidden_while_no_agent_ran_ends_at_the_start() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    cluster.expire_verdicts(0);
    cluster.put_unheard(DENY);
    cluster.restart(0);
    assert!(!cluster.send(sent) && !cluster.send(sent.answer()));
}

#[test]
fn a_connection_that_outlives_the_number_of_its_port_is_found() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    for name in ["a", "b"] {
        cluster.renumber(name, 1_000);
    }
    assert!(cluster.send(sent) && cluster.send(sent.answer()), "it goes on");
    cluster.put(DENY);
    assert!(!cluster.send(sent) && !cluster.send(sent.answer()));
}

#[test]
fn a_packet_that_was_overtaken_by_an_edit_does_not_go_on() {
    let mut cluster = cluster();
    let (a, b) = (cluster.pods["a"].clone(), cluster.pods["b"].clone());
    let reg0 = Origin::Pod.bit() | RETRY | COMMIT | PEER | u32::from(Table::Ingress.id()) << 20;
    let resumed = |cluster: &mut Cluster| {
        let before = cluster.nodes[0].resumed;
        cluster.nodes[0].punt(reg0, a.place.port, a.address, b.address);
        cluster.nodes[0].resumed > before
    };
    assert!(resumed(&mut cluster));
    cluster.put(DENY_EGRESS);
    assert!(!resumed(&mut cluster), "Egress let it pass before the edit");
}

#[test]
fn dormant_verdicts_go_with_their_connections() {
    let mut cluster = cluster();
    established(&mut cluster, "a", "b", TCP, 22);
    cluster.expire_verdicts(0);
    cluster.nodes[0].connections = openflow::table::Connections::new();
    cluster.put(DENY_EGRESS);
    cluster.remove("NetworkPolicy", Some("a"), "out");
    let view = cluster.nodes[0].node.status(cluster.nodes[0].now);
    assert!(view.dormant <= 1, "{} dormant verdicts", view.dormant);
}

#[test]
fn a_switch_that_does_not_answer_has_the_zone_emptied() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    cluster.nodes[0].deaf = true;
    cluster.put(DENY);
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.send(sent) && cluster.is_settled());
    let problems = cluster.nodes[0].node.status(cluster.nodes[0].now).problems;
    assert!(problems.iter().any(|p| p.contains("the control socket does not answer")), "{problems:?}");
    cluster.nodes[0].deaf = false;
    cluster.remove("NetworkPolicy", Some("a"), "deny");
    cluster.put(DENY_EGRESS);
    assert!(cluster.nodes[0].node.status(cluster.nodes[0].now).problems.is_empty());
}

#[test]
fn an_edit_judges_what_it_concerns_and_sends_what_it_changes() {
    let mut cluster = cluster();
    established(&mut cluster, "a", "b", TCP, 22);
    established(&mut cluster, "a", "c", TCP, 22);
    let judged = |cluster: &Cluster| cluster.nodes[0].node.status(cluster.nodes[0].now).judged;
    let quiet = |cluster: &mut Cluster, edit: &str, what: &str| {
        let (before, reads) = (judged(cluster), cluster.nodes[0].reads);
        cluster.nodes[0].flow_mods.clear();
        cluster.put(edit);
        assert_eq!((judged(cluster) - before, cluster.nodes[0].reads), (0, reads), "{what}");
        assert!(cluster.nodes[0].flow_mods.is_empty(), "{what}: {:?}", cluster.nodes[0].flow_mods);
    };
    let elsewhere = "{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {name: all, namespace: other}, \
                     spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}";
    quiet(&mut cluster, elsewhere, "a policy of a namespace without pods here");
    quiet(&mut cluster, &DENY.replace("app: b", "app: nobody"), "a policy that selects nobody");
    quiet(&mut cluster, &pod("other", "far"), "a pod elsewhere");
    quiet(&mut cluster, "{kind: Namespace, apiVersion: v1, metadata: {name: fresh}}", "a namespace");
    cluster.put(ONLY_80);
    let ports = |ports: &str| ONLY_80.replace("[{port: 80}]", ports);
    cluster.put(&ports("[{port: 80}, {port: 81}]"));
    quiet(&mut cluster, &ports("[{port: 81}, {port: 80}]"), "the same policy in another order");
}

fn pod(namespace: &str, name: &str) -> String {
    format!(
        "{{kind: Pod, apiVersion: v1, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{nodeName: n2}}, \
         status: {{phase: Running, podIPs: [{{ip: 10.244.77.77}}]}}}}"
    )
}

#[test]
fn a_tenant_keeps_apart_what_talked_before() {
    let mut cluster = cluster();
    let sent = established(&mut cluster, "a", "x", UDP, 53);
    let near = established(&mut cluster, "a", "b", UDP, 53);
    cluster
        .put("{kind: Namespace, apiVersion: v1, metadata: {name: x, annotations: {fabric.io/tenant: red}}}");
    assert!(!cluster.send(sent) && !cluster.send(sent.answer()));
    assert!(cluster.send(near) && cluster.send(near.answer()));
    cluster
        .put("{kind: Namespace, apiVersion: v1, metadata: {name: x, annotations: {fabric.io/tenant: '*'}}}");
    assert!(cluster.send(sent));
}

#[test]
fn denied_packets_are_counted_by_rule_and_told_where_it_is_asked_for() {
    let mut cluster = cluster();
    cluster.put(DENY);
    let sent = cluster.sent("a", "b", TCP, 5000, 22);
    assert!(!cluster.send(sent));
    let denied = |cluster: &Cluster| {
        let view = cluster.nodes[0].node.status(cluster.nodes[0].now);
        view.tallies.denied().map(|(because, packets)| (because.to_owned(), packets)).collect::<Vec<_>>()
    };
    let reason = "NetworkPolicy a/deny: no ingress rule matches".to_owned();
    assert_eq!(denied(&cluster), [(reason.clone(), 1)]);
    assert!(cluster.nodes[0].denials.is_empty(), "nobody asked");
    cluster.put(
        "{kind: Namespace, apiVersion: v1, metadata: {name: a, annotations: {fabric.io/log-denied: 'true'}}}",
    );
    let is_ingress = |flow: &&openflow::Flow| Cookie(flow.cookie).kind() == Some(FlowKind::Ingress);
    let verdict = cluster.nodes[0].flows.iter().find(is_ingress).unwrap().key();
    cluster.nodes[0].took.insert(verdict, 5);
    cluster.pass(Duration::from_secs(301));
    assert_eq!(denied(&cluster), [(reason.clone(), 6)]);
    assert!(!cluster.send(cluster.sent("x", "b", TCP, 5000, 22)));
    let denial = cluster.nodes[0].denials.pop().unwrap();
    assert_eq!(denial.from.name.as_deref(), Some("pod x/x"));
    assert_eq!(denial.to.name.as_deref(), Some("pod a/b"));
    assert_eq!((denial.protocol, denial.port, denial.because, denial.audit), (6, Some(22), reason, false));
}

#[test]
fn audit_counts_and_lets_pass() {
    let mut cluster = cluster();
    cluster.put(&DENY.replace("namespace: a}", "namespace: a, annotations: {fabric.io/mode: audit}}"));
    let sent = established(&mut cluster, "a", "b", TCP, 22);
    let view = cluster.nodes[0].node.status(cluster.nodes[0].now);
    let audited: Vec<_> = view.tallies.audited().collect();
    assert_eq!(audited, [("NetworkPolicy a/deny: no ingress rule matches", 1)]);
    assert!(cluster.send(sent));
}

#[test]
fn many_conversations_that_are_forbidden_at_once_take_the_zone_along() {
    let mut cluster = cluster();
    let few = cluster.sent("x", "b", UDP, 5000, 22);
    assert!(cluster.send(few));
    let sent: Vec<Sent> = (10_000u16..11_100).map(|port| cluster.sent("a", "b", UDP, port, 22)).collect();
    assert!(sent.iter().all(|sent| cluster.send(*sent)));
    let before = (cluster.nodes[0].ended.len(), cluster.nodes[0].flushed.len());
    cluster.put(ONLY_80);
    cluster.pass(Duration::from_millis(100));
    assert!(cluster.is_settled());
    let cut = of_kind(&cluster, 0, FlowKind::Ended);
    assert!((1..=2 * 1024).contains(&cut), "{cut} cuts: so many for each zone at most");
    assert_eq!(cluster.nodes[0].ended.len(), before.0, "they are not named one by one");
    assert!(cluster.nodes[0].flushed.len() > before.1);
    assert!(!sent.iter().any(|sent| cluster.send(*sent)) && !cluster.send(few));
}
