//! Two nodes that share a store of claims, with pods, and what is said of their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use policy::manifest::{Source, admit};
use policy::{Edit, IpClaim, Kind, Object, ObjectRef, PodIdent};
use serde_json::{Value, json};

use super::model::{Model, Store};

/// Nodes that share a store and hear of everything.
pub struct Neighbours {
    pub store: Store,
    pub nodes: Vec<Model>,
    /// What each node has heard of claims.
    heard: Vec<BTreeMap<IpAddr, IpClaim>>,
    pub objects: Vec<Object>,
}

pub fn object(manifest: Value) -> Object {
    let admission = admit(&Source::api(), manifest);
    assert!(admission.problems.is_empty(), "{:?}", admission.problems);
    admission.object.unwrap()
}

pub fn network(spec: Value) -> Object {
    let mut spec = spec;
    spec["mode"] = json!("overlay");
    let name = spec.as_object_mut().unwrap().remove("name").unwrap_or(json!("pods"));
    object(
        json!({"apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": {"name": name}, "spec": spec}),
    )
}

pub fn node(name: &str) -> Object {
    let address = format!("192.168.77.{}", &name[1..]);
    object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]}}))
}

pub fn namespace(name: &str, annotations: Value) -> Object {
    object(json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"name": name}, "annotations": annotations}}))
}

pub fn pod(name: &str, uid: &str, annotations: Value) -> Object {
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata":
        {"namespace": "shop", "name": name, "uid": uid, "annotations": annotations}, "spec": {"nodeName": "n1"}}))
}

/// A pod of a StatefulSet.
pub fn member(name: &str, uid: &str) -> Object {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true});
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata":
        {"namespace": "shop", "name": name, "uid": uid, "ownerReferences": [owner]}, "spec": {"nodeName": "n1"}}))
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn key(container: &str) -> AttachmentKey {
    AttachmentKey { container_id: container.into(), ifname: "eth0".into() }
}

pub fn request(container: &str, pod: &str, uid: &str) -> AttachRequest {
    AttachRequest {
        key: key(container),
        netns: format!("/run/netns/{container}"),
        network: "fabric".into(),
        pod: Some(PodIdent { namespace: "shop".into(), name: pod.into(), uid: uid.into() }),
        ips: vec![],
        ipam: None,
        mac: None,
        mtu: None,
        rates: fabric_core::pipeline::site::Rates::default(),
    }
}

impl Neighbours {
    /// Two nodes and a Network.
    pub fn new(spec: Value) -> Neighbours {
        Neighbours::with(vec![network(spec), namespace("shop", json!({}))])
    }

    pub fn with(mut objects: Vec<Object>) -> Neighbours {
        objects.extend([node("n1"), node("n2")]);
        let store = Store::default();
        let mut nodes = vec![Model::new("n1", 1, &store), Model::new("n2", 2, &store)];
        nodes.iter_mut().for_each(|node| node.start(&objects));
        Neighbours { store, nodes, heard: vec![Default::default(); 2], objects }
    }

    pub fn put(&mut self, object: Object) {
        self.objects.retain(|known| known.reference() != object.reference());
        self.objects.push(object.clone());
        for node in &mut self.nodes {
            node.handle(Event::World(vec![Edit::Put(object.clone())]));
        }
    }

    pub fn remove(&mut self, object: &Object) {
        let reference = object.reference();
        self.objects.retain(|known| known.reference() != reference);
        for node in &mut self.nodes {
            node.handle(Event::World(vec![Edit::Remove(reference.clone())]));
        }
    }

    /// Every node hears what became of claims.
    pub fn hear(&mut self) {
        for (node, heard) in self.nodes.iter_mut().zip(&mut self.heard) {
            let current = self.store.borrow().clone();
            let put = current.values().filter(|claim| heard.get(&claim.ip) != Some(claim)).cloned();
            let mut edits: Vec<Edit> = put.map(|claim| Edit::Put(Object::IpClaim(claim))).collect();
            for ip in heard.keys().filter(|ip| !current.contains_key(ip)) {
                edits.push(Edit::Remove(ObjectRef::cluster(Kind::IpClaim, policy::claim_name(*ip))));
            }
            *heard = current;
            node.handle(Event::World(edits));
        }
    }

    /// Time passes on every node.
    pub fn pass(&mut self, time: Duration) {
        let step = Duration::from_secs(1).max(time / 100);
        let mut left = time;
        while left > Duration::ZERO {
            self.nodes.iter_mut().for_each(|node| node.pass(step.min(left)));
            left = left.saturating_sub(step);
            self.hear();
        }
    }

    pub fn add(
        &mut self,
        node: usize,
        container: &str,
        pod: &str,
        uid: &str,
    ) -> Result<Vec<IpAddr>, RequestError> {
        self.request(node, request(container, pod, uid))
    }

    pub fn request(&mut self, node: usize, request: AttachRequest) -> Result<Vec<IpAddr>, RequestError> {
        let id = self.nodes[node].request(Request::Attach(request));
        let reply = self.nodes[node].replies.remove(&id).unwrap();
        self.hear();
        reply.map(|reply| match reply {
            Reply::Attached(attached) => attached.addresses.iter().map(|net| net.addr()).collect(),
            Reply::Done => panic!("no attachment"),
        })
    }

    pub fn del(&mut self, node: usize, container: &str) {
        let id = self.nodes[node].request(Request::Detach(key(container)));
        assert_eq!(self.nodes[node].replies.remove(&id), Some(Ok(Reply::Done)));
        self.hear();
    }

    pub fn claim(&self, ip: IpAddr) -> Option<IpClaim> {
        self.store.borrow().get(&ip).cloned()
    }

    pub fn problems(&self, node: usize) -> Vec<String> {
        self.nodes[node].node.status(self.nodes[node].now).problems
    }

    /// The agent of a node ends without a word and another one starts.
    pub fn restart(&mut self, node: usize) {
        let objects = self.objects.clone();
        self.nodes[node].restart(99, &objects);
        self.heard[node] = self.store.borrow().clone();
    }
}
