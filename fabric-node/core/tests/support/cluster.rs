//! Two nodes on models of their rooms, with pods that are pods, and edits that all nodes hear of or do not.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::{Cookie, Kind as FlowKind};
use policy::manifest::{Source, admit};
use policy::{Edit, Kind, Object, ObjectRef, PodIdent, PodRef, World};

use super::model::{Model, Store};
use super::net::{Place, Sent, send};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// Two nodes with what they know, and what is true.
pub struct Cluster {
    pub nodes: Vec<Model>,
    pub store: Store,
    /// The objects, claims apart.
    pub objects: BTreeMap<ObjectRef, Object>,
    /// What each node has yet to hear.
    pub unheard: Vec<Vec<Edit>>,
    /// Where each pod is.
    pub pods: BTreeMap<String, Pod>,
}

/// A pod that is attached.
#[derive(Debug, Clone)]
pub struct Pod {
    pub place: Place,
    pub address: IpAddr,
    pub reference: PodRef,
}

/// Reads a manifest.
pub fn object(manifest: &str) -> Object {
    let document = serde_saphyr::from_str(manifest).unwrap();
    let admission = admit(&Source::file("test", 1), document);
    admission.object.unwrap_or_else(|| panic!("{:?}", admission.problems))
}

fn key(name: &str) -> AttachmentKey {
    AttachmentKey { container_id: name.into(), ifname: "eth0".into() }
}

impl Cluster {
    /// Nodes and Networks, without pods.
    pub fn new() -> Cluster {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/idle/world.yaml");
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
        let objects: Vec<Object> =
            documents.into_iter().map(|d| admit(&Source::file("world", 1), d).object.unwrap()).collect();
        let store = Store::default();
        let mut nodes = vec![Model::new("n1", 1, &store), Model::new("n2", 2, &store)];
        nodes.iter_mut().for_each(|node| node.start(&objects));
        let objects = objects.into_iter().map(|object| (object.reference(), object)).collect();
        Cluster { nodes, store, objects, unheard: vec![Vec::new(); 2], pods: BTreeMap::new() }
    }

    /// Attaches a pod with the label `app` of its name; both nodes hear of it.
    pub fn attach(&mut self, node: usize, namespace: &str, name: &str) {
        if !self.objects.contains_key(&ObjectRef::cluster(Kind::Namespace, namespace)) {
            self.put(&format!("{{kind: Namespace, apiVersion: v1, metadata: {{name: {namespace}}}}}"));
        }
        self.put_pod_unheard(node, namespace, name, "");
        self.hear();
        let reference = PodRef { namespace: namespace.into(), name: name.into() };
        let ident = PodIdent {
            namespace: namespace.into(),
            name: name.into(),
            uid: format!("u-{name}").as_str().into(),
        };
        let request = AttachRequest {
            key: key(name),
            netns: format!("/run/netns/{name}"),
            network: "fabric".into(),
            pod: Some(ident),
            ips: vec![],
            ipam: None,
            mac: None,
            mtu: None,
            rates: fabric_core::pipeline::site::Rates::default(),
        };
        let id = self.nodes[node].request(Request::Attach(request));
        let Some(Ok(Reply::Attached(attached))) = self.nodes[node].replies.remove(&id) else {
            panic!("{:?}", self.nodes[node].replies)
        };
        let port = self.nodes[node].rows[&attached.host_name].ofport.unwrap();
        let place = Place { node, port, mac: attached.mac };
        let address = attached.addresses[0].addr();
        self.pods.insert(name.to_owned(), Pod { place, address, reference });
        self.hear_claims();
    }

    /// A pod with the label `app` of its name and others (`, KEY: VALUE`), of which no node has heard.
    pub fn put_pod_unheard(&mut self, node: usize, namespace: &str, name: &str, labels: &str) {
        self.put_unheard(&format!(
            "{{kind: Pod, apiVersion: v1, metadata: {{name: {name}, namespace: {namespace}, uid: u-{name}, \
             labels: {{app: {name}{labels}}}}}, spec: {{nodeName: n{}}}, status: {{phase: Running}}}}",
            node + 1
        ));
    }

    /// Both nodes hear of all claims.
    pub fn hear_claims(&mut self) {
        let claims: Vec<Edit> =
            self.store.borrow().values().map(|claim| Edit::Put(Object::IpClaim(claim.clone()))).collect();
        self.nodes.iter_mut().for_each(|node| node.handle(Event::World(claims.clone())));
    }

    pub fn put(&mut self, manifest: &str) {
        self.put_unheard(manifest);
        self.hear();
    }

    /// An edit that no node has heard of.
    pub fn put_unheard(&mut self, manifest: &str) {
        let object = object(manifest);
        self.objects.insert(object.reference(), object.clone());
        self.unheard.iter_mut().for_each(|edits| edits.push(Edit::Put(object.clone())));
    }

    pub fn remove(&mut self, kind: &str, namespace: Option<&str>, name: &str) {
        self.remove_unheard(kind, namespace, name);
        self.hear();
    }

    pub fn remove_unheard(&mut self, kind: &str, namespace: Option<&str>, name: &str) {
        let kind = Kind::ALL.into_iter().find(|known| known.to_string() == kind).unwrap();
        let reference = ObjectRef { kind, namespace: namespace.map(Into::into), name: name.into() };
        if self.objects.remove(&reference).is_some() {
            self.unheard.iter_mut().for_each(|edits| edits.push(Edit::Remove(reference.clone())));
        }
    }

    /// Both nodes hear of all edits.
    pub fn hear(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.hear_on(node));
    }

    pub fn hear_on(&mut self, node: usize) {
        let edits = std::mem::take(&mut self.unheard[node]);
        if !edits.is_empty() {
            self.nodes[node].handle(Event::World(edits));
        }
    }

    /// Another agent starts on a node, and knows what is true.
    pub fn restart(&mut self, node: usize) {
        self.unheard[node].clear();
        let objects: Vec<Object> = self.objects.values().cloned().collect();
        self.nodes[node].ended.clear();
        self.nodes[node].restart(99, &objects);
    }

    pub fn sent(&self, from: &str, to: &str, protocol: u8, source_port: u16, port: u16) -> Sent {
        Sent { from: self.pods[from].address, to: self.pods[to].address, protocol, source_port, port }
    }

    /// Sends a packet out of the pod that has its source; whether the pod that it is for gets it.
    pub fn send(&mut self, sent: Sent) -> bool {
        let of = |address: IpAddr| self.pods.values().find(|pod| pod.address == address).unwrap().place;
        let (from, to) = (of(sent.from), of(sent.to));
        match send(&mut self.nodes, from, sent) {
            None => false,
            Some(arrived) => {
                assert_eq!(arrived, (to.node, to.port), "{sent:?} went astray");
                true
            }
        }
    }

    /// The verdicts of a node time out.
    pub fn expire_verdicts(&mut self, node: usize) {
        let verdicts = [FlowKind::Egress, FlowKind::Ingress, FlowKind::Peer];
        let flows: Vec<_> = self.nodes[node]
            .flows
            .iter()
            .filter(|flow| Cookie(flow.cookie).kind().is_some_and(|kind| verdicts.contains(&kind)))
            .cloned()
            .collect();
        flows.iter().for_each(|flow| self.nodes[node].expire(flow));
    }

    /// The switch gives the port of a pod another number: the one that it has and `more`.
    pub fn renumber(&mut self, name: &str, more: u32) {
        let pod = self.pods.get_mut(name).unwrap();
        pod.place.port += more;
        let node = &mut self.nodes[pod.place.node];
        let row = node.rows.get_mut(&Node::port_name(&key(name))).unwrap();
        row.ofport = Some(pod.place.port);
        let row = row.clone();
        node.handle(Event::Ports(PortsEvent::Changed(row)));
    }

    pub fn pass(&mut self, time: Duration) {
        self.nodes.iter_mut().for_each(|node| node.pass(time));
    }

    pub fn is_settled(&self) -> bool {
        self.nodes.iter().all(|node| node.node.is_settled())
    }

    /// What is true, as a world.
    pub fn world(&self) -> World {
        let mut world = World::new();
        for object in self.objects.values() {
            world.apply(Edit::Put(object.clone()));
        }
        for claim in self.store.borrow().values() {
            world.apply(Edit::Put(Object::IpClaim(claim.clone())));
        }
        world
    }
}
