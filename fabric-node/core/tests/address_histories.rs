//! Random histories of pods, agents and nodes: no two running containers with one address, none without its claim, and
//! no claim left when nobody needs it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use policy::Object;
use proptest::prelude::*;
use serde_json::json;
use support::model::Room;
use support::neighbours::{Neighbours, key, member, namespace, network, node, pod, request};

/// One thing that happens. Numbers choose among what is there.
#[derive(Debug, Clone)]
enum Step {
    /// A pod is made, or made anew, and gets a container on a node.
    Come {
        pod: usize,
        node: usize,
    },
    /// A pod that is there gets another container, as after a failed ADD.
    Retry {
        pod: usize,
    },
    /// A pod's object goes.
    End {
        pod: usize,
    },
    /// The runtime takes a container away.
    Del {
        container: usize,
    },
    /// A node hears what became of claims elsewhere.
    Hear,
    Silence {
        node: usize,
        room: Room,
    },
    Wake {
        node: usize,
    },
    /// The agent is killed, in whatever it does, and another one starts; whether the runtime cleans up what it was asked.
    Kill {
        node: usize,
        cleans: bool,
    },
    /// The second node dies, with its containers, and its Node object goes.
    Die,
    /// It is back, empty.
    Return,
    Pass {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (node, pod) = (0..2usize, 0..7usize);
    let room = prop_oneof![Just(Room::Ports), Just(Room::Store), Just(Room::Wire)];
    prop_oneof![
        8 => (pod.clone(), node.clone()).prop_map(|(pod, node)| Step::Come { pod, node }),
        4 => pod.clone().prop_map(|pod| Step::Retry { pod }),
        2 => pod.prop_map(|pod| Step::End { pod }),
        6 => (0..16usize).prop_map(|container| Step::Del { container }),
        6 => Just(Step::Hear),
        3 => (node.clone(), room).prop_map(|(node, room)| Step::Silence { node, room }),
        2 => node.clone().prop_map(|node| Step::Wake { node }),
        3 => (node, any::<bool>()).prop_map(|(node, cleans)| Step::Kill { node, cleans }),
        1 => Just(Step::Die),
        1 => Just(Step::Return),
        3 => (0..200u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// A container, as its runtime knows it.
#[derive(Debug, Clone)]
struct Container {
    node: usize,
    name: String,
    add: RequestId,
    /// Its addresses, once it runs.
    addresses: Option<Vec<IpAddr>>,
}

struct History {
    cluster: Neighbours,
    /// The pods that are there, with where they are and which life of theirs it is.
    pods: BTreeMap<usize, (usize, u32)>,
    containers: Vec<Container>,
    /// Those that are being taken away: node, name, and the DEL that has no answer yet.
    going: Vec<(usize, String, RequestId)>,
    lives: u32,
    dead: bool,
}

/// Two pods that keep their addresses, two that ask for the same one, two with a list, and one with nothing.
fn manifest(number: usize, life: u32) -> Object {
    let (name, uid) = (format!("p{number}"), format!("u{life}"));
    match number {
        0 | 1 => member(&name, &uid),
        2 | 3 => pod(&name, &uid, json!({"fabric.io/ip": "10.1.0.5"})),
        4 | 5 => pod(&name, &uid, json!({"fabric.io/ip-range": "10.1.0.6-10.1.0.7"})),
        _ => pod(&name, &uid, json!({})),
    }
}

impl History {
    fn new() -> History {
        let pools = network(json!({"cidrs": ["10.1.0.0/28", "fd00:1::/120"], "default": true}));
        let cluster = Neighbours::with(vec![pools, namespace("shop", json!({}))]);
        History {
            cluster,
            pods: BTreeMap::new(),
            containers: Vec::new(),
            going: Vec::new(),
            lives: 0,
            dead: false,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Come { pod, node } if !(self.dead && node == 1) => {
                self.lives += 1;
                self.pods.insert(pod, (node, self.lives));
                self.cluster.put(manifest(pod, self.lives));
                self.start(pod);
            }
            Step::Retry { pod } => self.start(pod),
            Step::End { pod } => self.end(pod),
            Step::Del { container } => self.del(container),
            Step::Hear => self.cluster.hear(),
            Step::Silence { node, room } => drop(self.cluster.nodes[node].silent.insert(room)),
            Step::Wake { node } => self.wake(node),
            Step::Kill { node, cleans } if !(self.dead && node == 1) => self.kill(node, cleans),
            Step::Die if !self.dead => self.die(),
            Step::Return if self.dead => self.come_back(),
            Step::Pass { seconds } => self.pass(Duration::from_secs(seconds)),
            Step::Come { .. } | Step::Kill { .. } | Step::Die | Step::Return => {}
        }
        self.look();
    }

    fn start(&mut self, pod: usize) {
        let Some((node, life)) = self.pods.get(&pod).copied().filter(|(node, _)| !(self.dead && *node == 1))
        else {
            return;
        };
        let name = format!("c{}-{}", self.containers.len(), self.lives);
        self.lives += 1;
        let request = request(&name, &format!("p{pod}"), &format!("u{life}"));
        let add = self.cluster.nodes[node].request(Request::Attach(request));
        self.containers.push(Container { node, name, add, addresses: None });
    }

    fn end(&mut self, pod: usize) {
        if let Some((_, life)) = self.pods.remove(&pod) {
            self.cluster.remove(&manifest(pod, life));
        }
    }

    fn del(&mut self, container: usize) {
        if self.containers.is_empty() {
            return;
        }
        let container = self.containers.remove(container % self.containers.len());
        self.take_away(container.node, container.name);
    }

    fn take_away(&mut self, node: usize, name: String) {
        let del = self.cluster.nodes[node].request(Request::Detach(key(&name)));
        self.going.push((node, name, del));
        self.look();
    }

    fn wake(&mut self, node: usize) {
        for room in [Room::Ports, Room::Store, Room::Wire] {
            self.cluster.nodes[node].wake(room);
        }
    }

    fn kill(&mut self, node: usize, cleans: bool) {
        self.cluster.nodes[node].silent.clear();
        self.cluster.restart(node);
        // Whose ADD had no answer does not run; its runtime takes it back, or forgets it.
        let (asked, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.containers)
            .into_iter()
            .partition(|container| container.node == node && container.addresses.is_none());
        self.containers = rest;
        // Who had no answer to a DEL asks again.
        let (again, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.going).into_iter().partition(|(of, ..)| *of == node);
        self.going = rest;
        again.into_iter().for_each(|(_, name, _)| self.take_away(node, name));
        for container in asked {
            if cleans {
                self.take_away(node, container.name);
            } else {
                // The runtime was killed as well: the namespace goes, and the device with it.
                let device = Node::port_name(&key(&container.name));
                self.cluster.nodes[node].wires.remove(&device);
                if let Some(row) = self.cluster.nodes[node].rows.remove(&device) {
                    let name = row.name;
                    self.cluster.nodes[node].handle(Event::Ports(PortsEvent::Gone { name }));
                }
            }
        }
    }

    fn die(&mut self) {
        self.dead = true;
        self.containers.retain(|container| container.node == 0);
        self.going.retain(|(node, ..)| *node == 0);
        self.cluster.remove(&node("n2"));
        let model = &mut self.cluster.nodes[1];
        model.rows.retain(|name, _| !name.starts_with("fab") || name.len() != 14);
        model.wires.clear();
        model.silent.clear();
        // A node that is dead hears nothing and does nothing.
        self.cluster.restart(1);
        self.cluster.nodes[1].silent.extend([Room::Store, Room::Ports, Room::Wire]);
    }

    fn come_back(&mut self) {
        self.dead = false;
        self.cluster.put(node("n2"));
        self.cluster.nodes[1].silent.clear();
        self.cluster.restart(1);
    }

    fn pass(&mut self, time: Duration) {
        self.cluster.nodes.iter_mut().for_each(|node| node.pass(time));
    }

    /// What the runtimes have been answered meanwhile.
    fn look(&mut self) {
        let nodes = &mut self.cluster.nodes;
        self.going.retain(|(node, _, del)| !matches!(nodes[*node].replies.remove(del), Some(Ok(_))));
        for container in self.containers.iter_mut().filter(|container| container.addresses.is_none()) {
            if let Some(Ok(Reply::Attached(attached))) =
                self.cluster.nodes[container.node].replies.remove(&container.add)
            {
                container.addresses = Some(attached.addresses.iter().map(|net| net.addr()).collect());
            }
        }
    }

    /// Each address of a running container is its alone.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut used = BTreeMap::new();
        for container in &self.containers {
            for address in container.addresses.iter().flatten() {
                let other = used.insert(*address, &container.name);
                prop_assert!(other.is_none(), "{} is {}'s and {other:?}'s", address, container.name);
            }
        }
        Ok(())
    }

    fn calm_down(&mut self) {
        if self.dead {
            self.come_back();
        }
        for _ in 0..3 {
            for node in 0..2 {
                self.wake(node);
            }
            self.cluster.hear();
            self.pass(Duration::from_secs(40));
            self.look();
        }
    }

    /// Each address of a running container has the container's claim.
    fn check_claims(&self) -> Result<(), TestCaseError> {
        for container in &self.containers {
            for address in container.addresses.iter().flatten() {
                let owner = self.cluster.claim(*address).map(|claim| claim.owner);
                prop_assert_eq!(owner, Some(format!("{}/eth0", container.name)), "of {}", address);
            }
        }
        for node in 0..2 {
            prop_assert!(self.cluster.problems(node).is_empty(), "{:?}", self.cluster.problems(node));
        }
        Ok(())
    }

    /// Everything goes.
    fn clean_up(&mut self) {
        while !self.containers.is_empty() {
            self.del(0);
        }
        for pod in 0..7 {
            self.end(pod);
        }
        self.cluster.hear();
        for _ in 0..4 {
            self.pass(Duration::from_secs(1000));
            self.cluster.hear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_address_is_given_twice_or_lost(steps in proptest::collection::vec(step(), 1..80)) {
        let mut history = History::new();
        for step in &steps {
            history.take(step);
            history.check()?;
        }
        history.calm_down();
        history.check()?;
        history.check_claims()?;
        history.clean_up();
        let left = history.cluster.store.borrow().clone();
        prop_assert!(left.is_empty(), "{:#?}", left);
    }
}
