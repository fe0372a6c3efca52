//! NetworkPolicies. Every one is admitted, and isolates: what cannot be read matches nothing.

use ipnet::IpNet;

use super::meta::annotation;
use super::values::{cidr, port, port_name, protocol_or_tcp, selector};
use super::walk::{At, Read};
use crate::name::{Name, ObjectRef};
use crate::object::{
    Enforcement, IpBlock, NetworkPolicy, Peer, PolicyRule, Port, PortMatch, Readable, Subject,
};
use crate::selector::Selector;

pub(super) fn read(root: &At<'_>, reference: &ObjectRef) -> NetworkPolicy {
    let enforcement = enforcement(root);
    let parts = root.within("spec", |spec| {
        // A spec that is absent is an empty one: every pod of the namespace, and no ingress.
        let known = if root.has("spec") {
            spec.only(&["podSelector", "ingress", "egress", "policyTypes"])
        } else {
            Ok(())
        };
        let subject = match spec.optional("podSelector", selector) {
            Ok(Some(selector)) => Subject::Pods(selector),
            Ok(None) if known.is_ok() => Subject::Pods(Selector::everything()),
            _ => Subject::WholeNamespace,
        };
        let types = if known.is_ok() { types(spec) } else { BOTH };
        let rules = |field, peers| {
            if subject == Subject::WholeNamespace { Vec::new() } else { rules(spec, field, peers) }
        };
        let ingress = types.ingress.then(|| rules("ingress", "from"));
        let egress = types.egress.then(|| rules("egress", "to"));
        Ok((subject, ingress, egress))
    });
    let nothing = || Some(Vec::new());
    let (subject, ingress, egress) =
        parts.unwrap_or_else(|_| (Subject::WholeNamespace, nothing(), nothing()));
    let namespace = reference.namespace.clone().unwrap_or_else(|| Name::from("default"));
    NetworkPolicy { namespace, name: reference.name.clone(), subject, ingress, egress, enforcement }
}

/// `fabric.io/mode`; one that cannot be read enforces.
pub(super) fn enforcement(root: &At<'_>) -> Enforcement {
    let spellings = [("enforce", Enforcement::Enforce), ("audit", Enforcement::Audit)];
    annotation(root, "fabric.io/mode", |at| at.one_of(&spellings)).ok().flatten().unwrap_or_default()
}

#[derive(Clone, Copy)]
struct Types {
    ingress: bool,
    egress: bool,
}

const BOTH: Types = Types { ingress: true, egress: true };

/// Which directions are isolated. By default ingress, and egress too where there are egress rules; when it
/// cannot be read, both.
fn types(spec: &At<'_>) -> Types {
    let given =
        spec.optional("policyTypes", |at| at.list(|at| at.one_of(&[("Ingress", true), ("Egress", false)])));
    match given {
        Err(_) => BOTH,
        Ok(Some(types)) if !types.is_empty() => {
            Types { ingress: types.contains(&true), egress: types.contains(&false) }
        }
        Ok(_) => {
            let empty = spec
                .optional("egress", |at| at.each(|_| Ok(())))
                .map(|rules| rules.is_none_or(|r| r.is_empty()));
            Types { ingress: true, egress: empty != Ok(true) }
        }
    }
}

fn rules(spec: &At<'_>, field: &str, peers: &str) -> Vec<Readable<PolicyRule>> {
    let each = spec.optional(field, |at| at.each(|at| rule(at, peers)));
    let readable = |outcome: Read<PolicyRule>| outcome.map_or(Readable::Unreadable, Readable::Read);
    match each {
        Ok(each) => each.into_iter().flatten().map(readable).collect(),
        Err(_) => vec![Readable::Unreadable],
    }
}

fn rule(at: &At<'_>, peers: &str) -> Read<PolicyRule> {
    let known = at.only(&[peers, "ports"]);
    let peers = at.optional(peers, |at| at.list(peer));
    let ports = at.optional("ports", |at| at.list(port_match));
    known?;
    Ok(PolicyRule { peers: peers?.unwrap_or_default(), ports: ports?.unwrap_or_default() })
}

fn peer(at: &At<'_>) -> Read<Peer> {
    at.only(&["podSelector", "namespaceSelector", "ipBlock"])?;
    let pods = at.optional("podSelector", selector);
    let namespaces = at.optional("namespaceSelector", selector);
    let block = at.optional("ipBlock", ip_block);
    match (namespaces?, pods?, block?) {
        (None, None, None) => Err(at.fail("is empty: podSelector, namespaceSelector or ipBlock is wanted")),
        (None, None, Some(block)) => Ok(Peer::Block(block)),
        (namespaces, pods, None) => Ok(Peer::Pods { namespaces, pods }),
        (_, _, Some(_)) => Err(at.fail("has selectors beside ipBlock: an ipBlock stands alone")),
    }
}

fn ip_block(at: &At<'_>) -> Read<IpBlock> {
    let known = at.only(&["cidr", "except"]);
    let whole = at.need("cidr", cidr);
    let except = at.optional("except", |at| at.list(|at| exception(at, whole)));
    known?;
    Ok(IpBlock { cidr: whole?, except: except?.unwrap_or_default() })
}

fn exception(at: &At<'_>, whole: Read<IpNet>) -> Read<IpNet> {
    let (except, whole) = (cidr(at)?, whole?);
    if whole.contains(&except) && whole != except {
        return Ok(except);
    }
    Err(at.fail(format!("{except} is not a part of {whole}")))
}

/// One element of `ports`.
fn port_match(at: &At<'_>) -> Read<PortMatch> {
    let known = at.only(&["protocol", "port", "endPort"]);
    let protocol = protocol_or_tcp(at);
    let first = at.optional("port", |at| {
        if at.is_number() {
            port(at).map(|port| Port::Range(port, port))
        } else {
            port_name(at).map(Port::Named)
        }
    });
    let last = at.optional("endPort", port);
    known?;
    let port = match (first?, last?) {
        (None, None) => Port::Any,
        (Some(port), None) => port,
        (Some(Port::Range(first, _)), Some(last)) if first <= last => Port::Range(first, last),
        (Some(Port::Range(first, _)), Some(last)) => {
            return Err(at.fail(format!("endPort {last} is lower than port {first}")));
        }
        (Some(_), Some(_)) => return Err(at.fail("endPort is given with a named port: it needs a number")),
        (None, Some(_)) => return Err(at.fail("endPort is given without port")),
    };
    Ok(PortMatch { protocol: protocol?, port })
}
