//! Egress addresses: how pods leave the cluster, and whom a claim of one concerns.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;

use std::net::IpAddr;

use common::{Result, apply, world};
use policy::manifest::{Source, admit};
use policy::{Change, Edit, Exit, IpClaim, Kind, Location, Object, ObjectRef, Resident, Timestamp, World};

const BASE: &str = r#"
{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: pods}, spec: {mode: overlay, default: true, cidrs: [10.1.0.0/16, "fd01::/64"]}}
---
{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: lan}, spec: {mode: underlay, physicalNetwork: lan, cidrs: [10.2.0.0/16]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {fabric.io/egress-ip: 192.168.0.200}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: yard}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: a, uid: u1}, spec: {nodeName: n1}, status: {phase: Running, podIPs: [{ip: 10.1.0.5}, {ip: "fd01::5"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: b, uid: u2}, spec: {nodeName: n1}, status: {phase: Running, podIPs: [{ip: 10.2.0.5}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: yard, name: c, uid: u3}, spec: {nodeName: n1}, status: {phase: Running, podIPs: [{ip: 10.1.0.6}]}}
"#;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or(IpAddr::from([0; 4]))
}

fn hold(world: &mut World, address: &str, node: &str, at: u64) -> Vec<Change> {
    let claim = IpClaim::for_egress(ip(address), node.into(), Timestamp(at));
    world.apply(Edit::Put(Object::IpClaim(claim)))
}

/// How a pod leaves, in a word.
fn exit(world: &World, pod: &str) -> String {
    match world.exit(ip(pod)) {
        Exit::OwnNode => "own node".to_owned(),
        Exit::Shut => "shut".to_owned(),
        Exit::Egress { address, holder } => format!("{address} by {holder}"),
    }
}

#[test]
fn a_pod_leaves_under_the_address_of_its_namespace_or_not_at_all() -> Result<()> {
    let mut world = world(BASE)?;
    assert_eq!(exit(&world, "10.1.0.5"), "shut", "nobody holds it");
    assert_eq!(hold(&mut world, "192.168.0.200", "n1", 7), [Change::Address(ip("192.168.0.200"))]);
    assert_eq!(exit(&world, "10.1.0.5"), "192.168.0.200 by n1");
    assert_eq!(exit(&world, "fd01::5"), "own node", "none of its family");
    assert_eq!(exit(&world, "10.2.0.5"), "own node", "by its VLAN");
    assert_eq!(exit(&world, "10.1.0.6"), "own node", "of another namespace");
    assert_eq!(exit(&world, "10.1.0.77"), "own node", "nobody");
    // A renewal changes nothing for anybody, another holder does.
    assert_eq!(hold(&mut world, "192.168.0.200", "n1", 17), []);
    assert_eq!(hold(&mut world, "192.168.0.200", "n2", 27), [Change::Address(ip("192.168.0.200"))]);
    assert_eq!(exit(&world, "10.1.0.5"), "192.168.0.200 by n2");
    // The claim of the pod's address says whose it is, before the pod is known and after.
    apply(
        &mut world,
        "{apiVersion: fabric.io/v1alpha1, kind: IPClaim, metadata: {name: 0a010063}, spec: {ip: 10.1.0.99, network: pods, \
         mac: '02:00:00:00:00:01', node: n1, owner: c9/eth0, pod: {namespace: shop, name: new, uid: u9}}}",
    )?;
    assert_eq!(exit(&world, "10.1.0.99"), "192.168.0.200 by n2");
    // What cannot be read lets nothing out.
    let unreadable =
        "{apiVersion: v1, kind: Namespace, metadata: {name: yard, annotations: {fabric.io/egress-ip: here}}}";
    apply(&mut world, unreadable)?;
    assert_eq!(exit(&world, "10.1.0.6"), "shut");
    apply(&mut world, "{apiVersion: v1, kind: Namespace, metadata: {name: yard}}")?;
    assert_eq!(exit(&world, "10.1.0.6"), "own node");
    world.apply(Edit::Remove(ObjectRef::cluster(Kind::Namespace, "shop")));
    assert_eq!(exit(&world, "10.1.0.5"), "own node", "nobody asks for anything any more");
    Ok(())
}

#[test]
fn an_egress_address_is_nobodys_to_ways_and_verdicts() -> Result<()> {
    let mut world = world(BASE)?;
    let address = ip("192.168.0.200");
    hold(&mut world, "192.168.0.200", "n1", 7);
    assert_eq!(world.locate(address), Location::Outside);
    assert_eq!(world.resident(address), Resident::Nobody);
    assert!(world.is_outside("192.168.0.128/25".parse()?));
    assert_eq!((world.claim(address), world.claims().count(), world.count(Kind::IpClaim)), (None, 0, 1));
    assert_eq!(world.egress_claims().map(|claim| claim.ip).collect::<Vec<_>>(), [address]);
    let changes = world.apply(Edit::Remove(ObjectRef::cluster(Kind::IpClaim, "c0a800c8")));
    assert_eq!(changes, [Change::Address(address)]);
    assert_eq!(world.egress_claim(address), None);
    Ok(())
}

#[test]
fn what_cannot_be_an_egress_address_is_named_with_its_namespace() -> Result<()> {
    for (address, fault) in [
        ("10.1.0.200", "it is in the cidrs of Network pods"),
        ("192.168.0.1", "it is an address of node n1"),
        ("224.0.0.9", "it is no address of a host"),
        ("127.0.0.9", "it is no address of a host"),
    ] {
        let mut world = world(BASE)?;
        apply(
            &mut world,
            &format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: shop, annotations: {{fabric.io/egress-ip: {address}}}}}}}"
            ),
        )?;
        hold(&mut world, address, "n1", 7);
        let problems: Vec<String> = world.problems().iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|told| told.contains("shop") && told.contains(fault)), "{problems:?}");
        assert_eq!(exit(&world, "10.1.0.5"), "shut", "{address}");
    }
    Ok(())
}

#[test]
fn namespaces_of_different_tenants_share_no_address() -> Result<()> {
    let mut world = world(BASE)?;
    hold(&mut world, "192.168.0.200", "n1", 7);
    let yard = |tenant: &str| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: yard, annotations: {{fabric.io/egress-ip: 192.168.0.200{tenant}}}}}}}"
        )
    };
    apply(&mut world, &yard(""))?;
    assert_eq!(exit(&world, "10.1.0.6"), "192.168.0.200 by n1");
    assert!(world.problems().is_empty());
    apply(&mut world, &yard(", fabric.io/tenant: red"))?;
    assert_eq!((exit(&world, "10.1.0.5"), exit(&world, "10.1.0.6")), ("shut".to_owned(), "shut".to_owned()));
    assert_eq!(world.problems().len(), 2, "{:?}", world.problems());
    Ok(())
}

#[test]
fn a_claim_of_an_egress_address_is_read_as_it_was_written() {
    for address in ["192.168.0.200", "fd77::c8"] {
        let claim = IpClaim::for_egress(ip(address), "n1".into(), Timestamp(1_000_000_000));
        let manifest = policy::to_manifest(&claim);
        assert!(manifest["spec"]["network"].is_null() && manifest["spec"]["mac"].is_null(), "{manifest}");
        let admission = admit(&Source::api(), manifest);
        assert_eq!((admission.problems, admission.object), (vec![], Some(Object::IpClaim(claim))));
    }
}
