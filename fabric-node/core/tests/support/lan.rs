//! A node with an overlay and a VLAN, on a model of its rooms; its pods come and go by requests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::site::Rates;
use openflow::message::{PacketIn, packet_fields};
use openflow::{Action, Field, Mac};
use policy::Object;

use super::cluster::object;
use super::model::{Model, Store};

pub const UPLINK: u32 = 5;
/// Longer than an address is looked for.
pub const LOOKED_FOR: Duration = Duration::from_millis(700);
/// A machine in the VLAN.
pub const FOREIGN: Mac = Mac([0x52, 0x54, 0, 0, 0, 7]);

pub const LAN: &str = "{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: lan100}, spec: {mode: underlay, \
    physicalNetwork: lan, vlan: 100, cidrs: [10.100.0.0/24, 'fd64::/64'], gateway: [10.100.0.254, 'fd64::fe']}}";
pub const OFFICE: &str = "{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: office}, spec: {mode: underlay, \
    physicalNetwork: office, cidrs: [10.101.0.0/24]}}";

pub fn overlay(encap: &str) -> Object {
    object(&format!(
        "{{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {{name: overlay}}, spec: {{mode: overlay, \
         default: true, encap: {encap}, cidrs: [10.244.0.0/16]}}}}"
    ))
}

pub fn pod(name: &str, annotations: &str) -> Object {
    object(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: u-{name}, \
         annotations: {{{annotations}}}}}, spec: {{nodeName: n1}}}}"
    ))
}

pub fn world() -> Vec<Object> {
    let node = |n: u8| {
        object(&format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: n{n}}}, status: {{addresses: [{{type: InternalIP, \
             address: 192.168.77.{n}}}]}}}}"
        ))
    };
    let namespace = object("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
    let lan = ["a", "b", "c"].map(|name| pod(name, "fabric.io/network: lan100"));
    let fixed = pod("fixed", "fabric.io/network: lan100, fabric.io/ip: '10.100.0.9,fd64::9'");
    let others = [pod("over", ""), pod("strange", "fabric.io/network: office"), fixed];
    let networks = [overlay("vxlan"), object(LAN), object(OFFICE)];
    let rest = [node(1), node(2), namespace];
    rest.into_iter().chain(networks).chain(lan).chain(others).collect()
}

pub fn started() -> Model {
    let mut model = Model::new("n1", 7, &Store::default()).with_uplink(UPLINK);
    model.start(&world());
    model
}

pub fn key(name: &str) -> AttachmentKey {
    AttachmentKey { container_id: name.into(), ifname: "eth0".into() }
}

pub fn request(name: &str) -> AttachRequest {
    let uid = format!("u-{name}").as_str().into();
    AttachRequest {
        key: key(name),
        netns: format!("/run/netns/{name}"),
        network: "fabric".into(),
        pod: Some(policy::PodIdent { namespace: "default".into(), name: name.into(), uid }),
        ips: vec![],
        ipam: None,
        mac: None,
        mtu: None,
        rates: Rates::default(),
    }
}

pub fn ask(model: &mut Model, name: &str) -> RequestId {
    model.request(Request::Attach(request(name)))
}

pub fn attach(model: &mut Model, name: &str) -> Attached {
    add(model, request(name)).unwrap_or_else(|error| panic!("ADD of {name}: {error:?}"))
}

/// What comes of an ADD, as soon as an address was looked for.
pub fn add(model: &mut Model, request: AttachRequest) -> Result<Attached, RequestError> {
    let id = model.request(Request::Attach(request));
    model.pass(LOOKED_FOR);
    match model.replies.remove(&id) {
        Some(Ok(Reply::Attached(attached))) => Ok(attached),
        Some(Err(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

pub fn detach(model: &mut Model, name: &str) {
    let id = model.request(Request::Detach(key(name)));
    assert_eq!(model.replies.remove(&id), Some(Ok(Reply::Done)));
}

pub fn refusal(model: &mut Model, id: RequestId) -> RequestError {
    match model.replies.remove(&id) {
        Some(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A frame by which a machine uses an address.
pub fn claim(address: IpAddr, mac: Mac) -> Vec<u8> {
    let mut packet = [vec![0xff; 6], mac.0.to_vec()].concat();
    match address {
        IpAddr::V4(v4) => {
            packet.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
            packet.extend(mac.0);
            packet.extend(v4.octets());
            packet.extend([0; 6]);
            packet.extend([10, 100, 0, 1]);
        }
        IpAddr::V6(v6) => {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
            packet.extend(v6.octets());
            packet.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            packet.extend([136, 0, 0, 0, 0x20, 0, 0, 0]);
            packet.extend(v6.octets());
            packet.extend([2, 1]);
            packet.extend(mac.0);
        }
    }
    packet
}

/// The switch hands up the copy of a frame.
pub fn show(model: &mut Model, userdata: u8, packet: Vec<u8>) {
    let packet_in = PacketIn { packet, userdata: vec![userdata], ..PacketIn::default() };
    model.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
}

/// The addresses that frames of the agent's own were about, in order, with the ports that they went to; without the
/// reports of listeners (ICMPv6 type 143) among them.
pub fn sent(model: &mut Model) -> Vec<(IpAddr, Mac, Vec<u32>)> {
    let about = |frame: &[u8]| -> IpAddr {
        let fields = packet_fields(frame);
        match fields.exact(Field::ARP_TPA) {
            Some(v4) => IpAddr::V4(u32::try_from(v4).unwrap().into()),
            None => IpAddr::V6(fields.exact(Field::ND_TARGET).unwrap().into()),
        }
    };
    let ports = |actions: &[Action]| -> Vec<u32> {
        let port =
            |action: &Action| if let Action::Output { port, .. } = action { Some(*port) } else { None };
        actions.iter().filter_map(port).collect()
    };
    let reports = |frame: &[u8]| packet_fields(frame).exact(Field::ICMPV6_TYPE) == Some(143);
    std::mem::take(&mut model.sent)
        .iter()
        .filter(|out| !reports(&out.packet))
        .map(|out| {
            assert!(out.actions.contains(&Action::PushVlan(0x8100)), "{:?}", out.actions);
            let source = packet_fields(&out.packet).exact(Field::ETH_SRC).unwrap();
            let [_, _, mac @ ..] = u64::try_from(source).unwrap().to_be_bytes();
            (about(&out.packet), Mac(mac), ports(&out.actions))
        })
        .collect()
}

pub fn expire_momentary(model: &mut Model) {
    let momentary: Vec<_> = model.flows.iter().filter(|f| f.hard_timeout > 0).cloned().collect();
    momentary.iter().for_each(|flow| model.expire(flow));
}

pub fn vlans(numbers: &[u16]) -> BTreeMap<policy::Name, BTreeSet<u16>> {
    let used = (!numbers.is_empty()).then(|| ("lan".into(), numbers.iter().copied().collect()));
    used.into_iter().collect()
}

pub fn problems(model: &Model) -> Vec<String> {
    model.node.status(model.now).problems
}
