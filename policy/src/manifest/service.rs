//! Services and EndpointSlices. What cannot be read of one is left out: nobody is sent there.

use std::net::IpAddr;

use super::meta::labels_of;
use super::values::{boolean, ip, name, object_name, port, port_name, protocol_or_tcp};
use super::walk::{At, Read};
use crate::name::{Name, ObjectRef, PodRef};
use crate::object::{Endpoint, EndpointPort, EndpointSlice, Service, ServicePort, TargetPort};

/// The label by which a slice names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// `sessionAffinityConfig.clientIP.timeoutSeconds` when absent.
const AFFINITY_DEFAULT: u32 = 10_800;

fn namespace_of(reference: &ObjectRef) -> Name {
    reference.namespace.clone().unwrap_or_else(|| Name::from("default"))
}

pub(super) fn service(root: &At<'_>, reference: &ObjectRef) -> Read<Service> {
    let load_balancer_ips = root.within("status", |at| {
        at.within("loadBalancer", |at| at.optional("ingress", |at| at.those(balancer)))
    });
    root.need("spec", |spec| {
        let local = |field| spec.optional(field, |at| at.one_of(&[("Local", true), ("Cluster", false)]));
        let (internal, external) = (local("internalTrafficPolicy"), local("externalTrafficPolicy"));
        let ports = spec.optional("ports", |at| at.those(service_port));
        let external_ips = spec.optional("externalIPs", |at| at.those(ip));
        let cluster_ips = cluster_ips(spec);
        let affinity_seconds = affinity(spec);
        Ok(Service {
            namespace: namespace_of(reference),
            name: reference.name.clone(),
            cluster_ips: cluster_ips?,
            external_ips: external_ips?.unwrap_or_default(),
            load_balancer_ips: load_balancer_ips?.unwrap_or_default().into_iter().flatten().collect(),
            ports: ports?.unwrap_or_default(),
            affinity_seconds: affinity_seconds?,
            internal_local: internal?.unwrap_or(false),
            external_local: external?.unwrap_or(false),
        })
    })
}

/// `clusterIPs`, else `clusterIP`; none when headless (`None`) or without any.
fn cluster_ips(spec: &At<'_>) -> Read<Vec<IpAddr>> {
    let read = |at: &At<'_>| if matches!(at.text()?, "None" | "") { Ok(None) } else { ip(at).map(Some) };
    let all = spec.optional("clusterIPs", |at| at.those(read))?.unwrap_or_default();
    if !all.is_empty() {
        return Ok(all.into_iter().flatten().collect());
    }
    Ok(spec.optional("clusterIP", read)?.flatten().into_iter().collect())
}

fn affinity(spec: &At<'_>) -> Read<Option<u32>> {
    let sticky = spec.optional("sessionAffinity", |at| at.one_of(&[("ClientIP", true), ("None", false)]))?;
    if sticky != Some(true) {
        return Ok(None);
    }
    let seconds = spec.within("sessionAffinityConfig", |at| {
        at.within("clientIP", |at| at.optional("timeoutSeconds", |at| at.number(1, 86_400)))
    })?;
    Ok(seconds.or(Some(AFFINITY_DEFAULT)))
}

/// An address of a load balancer; None for one that is only a name, or that sends packets on with its own
/// address (`ipMode: Proxy`).
fn balancer(at: &At<'_>) -> Read<Option<IpAddr>> {
    let proxy = at.optional("ipMode", name)?.is_some_and(|mode| mode == "Proxy");
    let given = at.optional("ip", ip)?;
    Ok(given.filter(|_| !proxy))
}

fn service_port(at: &At<'_>) -> Read<ServicePort> {
    let own = at.optional("name", name)?;
    let protocol = protocol_or_tcp(at)?;
    let number = at.need("port", port)?;
    let target = at.optional("targetPort", |at| {
        if at.is_number() { port(at).map(TargetPort::Number) } else { port_name(at).map(TargetPort::Named) }
    })?;
    let node_port = at.optional("nodePort", |at| at.number(0, 65535))?;
    Ok(ServicePort {
        name: own.unwrap_or_default(),
        protocol,
        port: number,
        target_port: target.unwrap_or(TargetPort::Number(number)),
        node_port: node_port.filter(|port| *port != 0),
    })
}

pub(super) fn slice(root: &At<'_>, reference: &ObjectRef) -> Read<EndpointSlice> {
    let service = labels_of(root)?.get(SERVICE_NAME).cloned();
    let names_only = root.optional("addressType", name)?.is_some_and(|kind| kind == "FQDN");
    let endpoints =
        root.optional("endpoints", |at| if names_only { Ok(Vec::new()) } else { at.those(endpoint) });
    let ports = root.optional("ports", |at| at.those(endpoint_port));
    Ok(EndpointSlice {
        namespace: namespace_of(reference),
        name: reference.name.clone(),
        service,
        endpoints: endpoints?.unwrap_or_default(),
        ports: ports?.unwrap_or_default(),
    })
}

/// One endpoint: a condition that is absent means what the API says, ready true, serving as ready,
/// terminating false.
fn endpoint(at: &At<'_>) -> Read<Endpoint> {
    let addresses = at.need("addresses", |at| at.list(ip))?;
    let node = at.optional("nodeName", object_name)?;
    let pod = at.within("targetRef", target)?;
    at.within("conditions", |conditions| {
        let ready = conditions.optional("ready", boolean)?.unwrap_or(true);
        let serving = conditions.optional("serving", boolean)?.unwrap_or(ready);
        let terminating = conditions.optional("terminating", boolean)?.unwrap_or(false);
        Ok(Endpoint { addresses, ready, serving, terminating, node, pod })
    })
}

fn target(at: &At<'_>) -> Read<Option<PodRef>> {
    if at.optional("kind", name)?.is_none_or(|kind| kind != "Pod") {
        return Ok(None);
    }
    Ok(Some(PodRef { namespace: at.need("namespace", object_name)?, name: at.need("name", object_name)? }))
}

fn endpoint_port(at: &At<'_>) -> Read<EndpointPort> {
    let own = at.optional("name", name)?;
    let number = at.optional("port", port)?;
    Ok(EndpointPort { name: own.unwrap_or_default(), protocol: protocol_or_tcp(at)?, port: number })
}
