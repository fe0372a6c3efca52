//! What a pod may send and receive, on a model of the node's rooms.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::{Cookie, Kind, RateMeters, rate_in, rate_out};
use openflow::{FlowMod, FlowModCommand};
use support::cluster::Cluster;

/// A cluster with two pods of node 0.
fn started() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.attach(0, "shop", "web");
    cluster.attach(0, "shop", "other");
    cluster
}

/// The annotations of the pod `web` become these.
fn annotate(cluster: &mut Cluster, annotations: &str) {
    let before = cluster.nodes[0].flow_mods.len();
    cluster.put(&format!(
        "{{kind: Pod, apiVersion: v1, metadata: {{name: web, namespace: shop, uid: u-web, labels: {{app: web}}, \
         annotations: {{{annotations}}}}}, spec: {{nodeName: n1}}, status: {{phase: Running}}}}"
    ));
    let zone = zone(cluster, "web");
    let others: Vec<&FlowMod> = cluster.nodes[0].flow_mods[before..]
        .iter()
        .filter(|change| Cookie(change.flow.cookie) != Cookie::new(Kind::Pod, zone.into()))
        .filter(|change| change.command == FlowModCommand::Add)
        .collect();
    assert!(others.is_empty(), "what is nobody's but {zone}: {others:?}");
}

fn zone(cluster: &Cluster, name: &str) -> u16 {
    let attachments = cluster.nodes[0].node.status(cluster.nodes[0].now).attachments;
    attachments.iter().find(|a| a.key.container_id == name).unwrap().zone
}

/// Rates of the meters of `web`, in kilobits per second: out and into.
fn rates(cluster: &Cluster) -> (Option<u32>, Option<u32>) {
    let zone = zone(cluster, "web");
    let rate = |of: RateMeters| {
        let [large, all] =
            [of.large, of.all].map(|id| cluster.nodes[0].meters.band(id).map(|(rate, _)| rate));
        assert!(large.is_none() == all.is_none() && large <= all, "{large:?}, {all:?}");
        large
    };
    (rate(rate_out(zone)), rate(rate_in(zone)))
}

/// How many flows count for a meter.
fn counting(cluster: &Cluster, meters: RateMeters) -> usize {
    let counts = format!("meter:{},", meters.all);
    cluster.nodes[0].flows.iter().filter(|flow| flow.to_string().contains(&counts)).count()
}

/// Every flow that a pod has whatever its rates: which tables know it.
fn pod_flow_count(cluster: &Cluster) -> usize {
    let cookie = Cookie::new(Kind::Pod, zone(cluster, "web").into());
    cluster.nodes[0].flows.iter().filter(|flow| Cookie(flow.cookie) == cookie).count()
}

#[test]
fn a_running_pod_gets_other_rates_and_none_without_a_moment_of_no_flows() {
    let mut cluster = started();
    let free = pod_flow_count(&cluster);
    assert_eq!(rates(&cluster), (None, None));
    annotate(&mut cluster, "kubernetes.io/egress-bandwidth: 10M");
    assert_eq!(rates(&cluster), (Some(10_400), None));
    assert_eq!(counting(&cluster, rate_out(zone(&cluster, "web"))), 4, "two addresses, and two sizes");
    assert_eq!(pod_flow_count(&cluster), free + 2);
    annotate(&mut cluster, "kubernetes.io/egress-bandwidth: 20M, kubernetes.io/ingress-bandwidth: 1M");
    assert_eq!(rates(&cluster), (Some(20_800), Some(1_040)));
    assert_eq!(pod_flow_count(&cluster), free + 4, "two that count what it receives");
    let before = cluster.nodes[0].flow_mods.len();
    annotate(&mut cluster, "kubernetes.io/egress-bandwidth: 30M, kubernetes.io/ingress-bandwidth: 1M");
    assert_eq!(rates(&cluster), (Some(31_200), Some(1_040)));
    assert_eq!(cluster.nodes[0].flow_mods.len(), before, "the meter alone changes");
    annotate(&mut cluster, "");
    assert_eq!((rates(&cluster), pod_flow_count(&cluster)), ((None, None), free));
}

#[test]
fn rates_that_changed_while_no_agent_ran_are_those_of_the_next() {
    let mut cluster = started();
    annotate(&mut cluster, "kubernetes.io/egress-bandwidth: 10M, kubernetes.io/ingress-bandwidth: 10M");
    cluster.put_unheard(
        "{kind: Pod, apiVersion: v1, metadata: {name: web, namespace: shop, uid: u-web, labels: {app: web}, \
         annotations: {kubernetes.io/egress-bandwidth: 5M}}, spec: {nodeName: n1}, status: {phase: Running}}",
    );
    cluster.restart(0);
    assert_eq!(rates(&cluster).0, Some(5_200));
    assert_eq!(counting(&cluster, rate_in(zone(&cluster, "web"))), 0);
}

#[test]
fn meters_that_are_lost_with_the_switch_come_back_and_go_with_the_pod() {
    let mut cluster = started();
    annotate(&mut cluster, "kubernetes.io/egress-bandwidth: 10M, kubernetes.io/ingress-bandwidth: 10M");
    let zone = zone(&cluster, "web");
    let node = &mut cluster.nodes[0];
    node.handle(Event::Switch(SwitchEvent::Disconnected));
    (node.flows, node.meters) = Default::default();
    node.connect();
    assert_eq!(rates(&cluster), (Some(10_400), Some(10_400)));
    let key = AttachmentKey { container_id: "web".into(), ifname: "eth0".into() };
    cluster.nodes[0].request(Request::Detach(key));
    for meters in [rate_out(zone), rate_in(zone)] {
        assert_eq!([meters.all, meters.large].map(|id| cluster.nodes[0].meters.band(id)), [None, None]);
    }
}
