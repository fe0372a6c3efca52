//! How many flows a node has, for whom, and what remains when a pod goes.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::{Cookie, Kind, REG_OUTPUT};
use fabric_tests::lab::agent;
use fabric_tests::lab::command::command;
use fabric_tests::lab::world::{documents, pods};
use fabric_tests::lab::{Lab, Spec};
use fabric_tests::traffic::{self, PATIENCE};
use openflow::{Field, Flow, FlowKey};

/// Pods on other nodes that nobody talks to.
const ELSEWHERE: usize = 200;
/// Design §11: flows of an idle node, and of each local pod.
const IDLE: usize = 40;
const PER_POD: usize = 16;

fn manifest(name: &str, node: &str) -> String {
    format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: {node}}}\n")
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn flows(lab: &Lab, node: &str) -> Vec<Flow> {
    lab.dump_flows(node).unwrap().into_iter().map(|stats| stats.flow).collect()
}

fn keys(lab: &Lab, node: &str) -> BTreeSet<FlowKey> {
    flows(lab, node).iter().map(Flow::key).collect()
}

/// The text of flows that are not among those keys.
fn beyond(lab: &Lab, node: &str, known: &BTreeSet<FlowKey>) -> Vec<String> {
    let new = flows(lab, node).into_iter().filter(|flow| !known.contains(&flow.key()));
    new.map(|flow| flow.to_string()).collect()
}

/// A pod as its node's flows show it.
#[derive(Debug)]
struct Local {
    name: String,
    netns: String,
    addresses: Vec<IpAddr>,
    port: u32,
    zone: u16,
}

fn local(lab: &Lab, name: &str) -> Local {
    let record = lab.pod(&format!("default/{name}")).unwrap();
    let status = agent::status(lab.node(&record.node).unwrap(), lab.programs().unwrap()).unwrap();
    let of_pod = |attachment: &&fabric_api::Attachment| attachment.container == record.container;
    let attachment = status.attachments.iter().find(of_pod).unwrap();
    Local {
        name: name.to_owned(),
        netns: record.netns.clone(),
        addresses: attachment.addresses.clone(),
        port: attachment.ofport.unwrap(),
        zone: attachment.zone,
    }
}

impl Local {
    fn address(&self, like: &IpAddr) -> IpAddr {
        *self.addresses.iter().find(|address| address.is_ipv4() == like.is_ipv4()).unwrap()
    }

    /// Whether a flow is about this pod: by port, by address, or by its zone.
    fn is_in(&self, flow: &Flow) -> bool {
        let exact = |field: Field| flow.matches.exact(field);
        let port = [Field::IN_PORT, REG_OUTPUT].into_iter().any(|f| exact(f) == Some(self.port.into()));
        port || self.is_named_in(flow) || Cookie(flow.cookie) == Cookie::new(Kind::Pod, self.zone.into())
    }

    /// Whether a flow names an address of this pod.
    fn is_named_in(&self, flow: &Flow) -> bool {
        let fields = [
            Field::IPV4_SRC,
            Field::IPV4_DST,
            Field::IPV6_SRC,
            Field::IPV6_DST,
            Field::ARP_SPA,
            Field::ARP_TPA,
        ];
        let values = self.addresses.iter().map(|address| match address {
            IpAddr::V4(v4) => u128::from(u32::from(*v4)),
            IpAddr::V6(v6) => u128::from(*v6),
        });
        let values: Vec<u128> = values.collect();
        fields.iter().filter_map(|field| flow.matches.exact(*field)).any(|value| values.contains(&value))
    }
}

/// Connections that a node's switch tracks in a zone.
fn connections(lab: &Lab, node: &str, zone: u16) -> Vec<String> {
    let mut dump = command(["ovs-appctl", "-t", "ovs-vswitchd", "dpctl/dump-conntrack"]);
    let output = lab.exec_node(node, &mut dump).unwrap();
    assert!(output.status.success(), "{output:?}");
    let dump = String::from_utf8(output.stdout).unwrap();
    let of_zone = format!("zone={zone}");
    dump.lines().filter(|line| line.split(',').any(|part| part == of_zone)).map(str::to_owned).collect()
}

/// Pods of n2 whom this cluster knows, as kubelet and the other agents tell of them.
fn elsewhere() -> String {
    (0..ELSEWHERE).fold(String::new(), |mut text, n| {
        writeln!(
            text,
            "{}status: {{phase: Running, podIPs: [{{ip: 10.244.200.{n}}}, {{ip: 'fd44::2:{n:x}'}}]}}",
            manifest(&format!("elsewhere-{n}"), "n2")
        )
        .unwrap();
        text
    })
}

fn talk(from: &Local, to: &Local, family: &str) {
    let address = to.address(&family.parse().unwrap());
    assert!(traffic::exchange(&from.netns, &to.netns, address, 1000).unwrap().is_whole());
}

#[test]
fn flows_are_those_of_the_conversations_and_go_with_the_pods() {
    let mut lab = Lab::up(&Spec::for_test("raflows", 2).unwrap()).unwrap();
    let idle = ["n1", "n2"].map(|node| keys(&lab, node));
    assert!(idle.iter().all(|keys| keys.len() <= IDLE), "{} and {} flows", idle[0].len(), idle[1].len());
    let manifests = manifest("a", "n1") + &manifest("b", "n1") + &manifest("far", "n2");
    lab.write_manifest("pods.yaml", &manifests).unwrap();
    for pod in pods(&documents(&manifests)) {
        lab.attach(&pod, PATIENCE).unwrap();
    }
    let (a, b, far) = (local(&lab, "a"), local(&lab, "b"), local(&lab, "far"));
    let quiet = keys(&lab, "n1");
    assert!(quiet.len() <= idle[0].len() + 2 * PER_POD, "{:?}", beyond(&lab, "n1", &idle[0]));
    pods_elsewhere_cost_nothing(&lab, &quiet);
    conversations_cost_their_own(&lab, &quiet, (&a, &b, &far));
    for (node, pod) in [("n1", &a), ("n1", &b), ("n2", &far)] {
        assert!(!connections(&lab, node, pod.zone).is_empty(), "{} has talked", pod.name);
    }
    // The pod goes: on its node everything at once, elsewhere as soon as its claim is seen to be gone.
    for (pod, node, other) in [(&a, "n1", "n2"), (&b, "n1", "n2"), (&far, "n2", "n1")] {
        lab.remove_pod(&format!("default/{}", pod.name)).unwrap();
        let left: Vec<String> =
            flows(&lab, node).iter().filter(|f| pod.is_in(f)).map(Flow::to_string).collect();
        assert!(left.is_empty(), "of {} on {node}:\n{}", pod.name, left.join("\n"));
        assert_eq!(connections(&lab, node, pod.zone), Vec::<String>::new(), "of {}", pod.name);
        let what = format!("{other} forgets {}", pod.name);
        wait(&what, || !flows(&lab, other).iter().any(|flow| pod.is_named_in(flow)));
    }
    for (node, idle) in ["n1", "n2"].into_iter().zip(&idle) {
        assert_eq!(beyond(&lab, node, idle), Vec::<String>::new(), "{node} is idle again");
        assert_eq!(keys(&lab, node), *idle);
    }
}

fn pods_elsewhere_cost_nothing(lab: &Lab, quiet: &BTreeSet<FlowKey>) {
    lab.write_manifest("elsewhere.yaml", &elsewhere()).unwrap();
    let node = lab.node("n1").unwrap();
    wait("the agent knows all pods", || {
        let known = agent::status(node, lab.programs().unwrap()).unwrap().world.pods;
        known >= u64::try_from(ELSEWHERE).unwrap() + 3
    });
    assert_eq!(beyond(lab, "n1", quiet), Vec::<String>::new());
}

fn conversations_cost_their_own(lab: &Lab, quiet: &BTreeSet<FlowKey>, (a, b, far): (&Local, &Local, &Local)) {
    let mut known = quiet.clone();
    // To the other node: may a send, whose is what comes back, which way. To the pod beside: may b receive.
    for (from, to, family, cost) in [
        (a, far, "0.0.0.0", 3),
        (a, far, "::", 3),
        (a, b, "0.0.0.0", 1),
        (a, b, "::", 1),
        (a, far, "0.0.0.0", 0),
        (b, a, "0.0.0.0", 2),
    ] {
        talk(from, to, family);
        let new: Vec<Flow> =
            flows(lab, "n1").into_iter().filter(|flow| !known.contains(&flow.key())).collect();
        let text: Vec<String> = new.iter().map(Flow::to_string).collect();
        assert_eq!(new.len(), cost, "{} to {} ({family}):\n{}", from.name, to.name, text.join("\n"));
        assert!(new.iter().all(|flow| Cookie(flow.cookie).kind().is_some_and(Kind::is_learned)), "{text:?}");
        assert!(new.iter().all(|flow| from.is_in(flow) || to.is_in(flow)), "{text:?}");
        known.extend(new.iter().map(Flow::key));
    }
}
