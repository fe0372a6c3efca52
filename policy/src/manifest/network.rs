//! Networks. A Network with anything wrong is refused as a whole: half of one would hand out wrong addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use super::meta::text;
use super::values::{boolean, cidr, ip, object_name, one_per_family, range, selector};
use super::walk::{At, Read};
use crate::address::{Family, IpRange};
use crate::name::Name;
use crate::object::{Encap, Mode, Network};

const FIELDS: [&str; 14] = [
    "mode",
    "cidrs",
    "ranges",
    "exclude",
    "gateway",
    "vlan",
    "physicalNetwork",
    "encap",
    "vni",
    "snat",
    "snatExcept",
    "mtu",
    "default",
    "allowedNamespaces",
];

/// The longest name of a physical network: its bridge is `br-NAME`, and an interface name has 15 characters
/// at most.
const PHYSICAL_NAME_MAX: usize = 12;

pub(super) fn read(root: &At<'_>, name: Name) -> Read<Network> {
    let created = text(root, "creationTimestamp");
    root.need("spec", |spec| {
        let known = spec.only(&FIELDS);
        let mode = mode(spec);
        let cidrs = spec.need("cidrs", cidrs);
        let prefixes = cidrs.clone().unwrap_or_default();
        let ranges = spec.optional("ranges", |at| at.list(|at| range_within(at, &prefixes)));
        let exclude = spec.optional("exclude", |at| at.list(|at| range_within(at, &prefixes)));
        let gateway = spec.optional("gateway", |at| gateways(at, &prefixes));
        let snat = spec.optional("snat", boolean);
        let snat_except = spec.optional("snatExcept", |at| at.list(cidr));
        let mtu = spec.optional("mtu", |at| mtu(at, &prefixes));
        let default = spec.optional("default", boolean);
        let allowed_namespaces = spec.optional("allowedNamespaces", selector);
        known?;
        let mode = mode?;
        let overlay = matches!(mode, Mode::Overlay { .. });
        Ok(Network {
            name,
            created: created?,
            mode,
            cidrs: cidrs?,
            ranges: ranges?.unwrap_or_default(),
            exclude: exclude?.unwrap_or_default(),
            gateway: gateway?.unwrap_or_default(),
            snat: snat?.unwrap_or(overlay),
            snat_except: snat_except?.unwrap_or_default(),
            mtu: mtu?,
            default: default?.unwrap_or(false),
            allowed_namespaces: allowed_namespaces?,
        })
    })
}

fn mode(spec: &At<'_>) -> Read<Mode> {
    if spec.need("mode", |at| at.one_of(&[("overlay", true), ("underlay", false)]))? {
        overlay(spec)
    } else {
        underlay(spec)
    }
}

fn overlay(spec: &At<'_>) -> Read<Mode> {
    let apart = absent(spec, &["vlan", "physicalNetwork"], "an overlay");
    let encap = spec.optional("encap", |at| {
        at.one_of(&[
            ("vxlan", Encap::Vxlan),
            ("geneve", Encap::Geneve),
            ("gre", Encap::Gre),
            ("none", Encap::None),
        ])
    });
    let vni = spec.optional("vni", |at| at.number(0, 0xff_ffff));
    apart?;
    Ok(Mode::Overlay { encap: encap?.unwrap_or_default(), vni: vni?.unwrap_or(DEFAULT_VNI) })
}

/// The identifier of an overlay that names none: Networks do not overlap, so that they can share it.
const DEFAULT_VNI: u32 = 1;

fn underlay(spec: &At<'_>) -> Read<Mode> {
    let apart = absent(spec, &["encap", "vni"], "an underlay");
    let vlan = spec.optional("vlan", |at| at.number(1, 4094));
    let physical_network = spec.need("physicalNetwork", |at| {
        let what = format!("a name of at most {PHYSICAL_NAME_MAX} characters, since its bridge is br-NAME");
        let name = object_name(at)?;
        at.parsed(&what, |text| (text.len() <= PHYSICAL_NAME_MAX).then_some(name))
    });
    apart?;
    Ok(Mode::Underlay { vlan: vlan?, physical_network: physical_network? })
}

fn absent(spec: &At<'_>, fields: &[&str], mode: &str) -> Read<()> {
    let mut outcome = Ok(());
    for field in fields.iter().filter(|field| spec.has(field)) {
        outcome = spec.within(field, |at| Err(at.fail(format!("has no meaning for {mode}: take it out"))));
    }
    outcome
}

fn cidrs(at: &At<'_>) -> Read<Vec<IpNet>> {
    let mut cidrs = at.list(|at| {
        let net = at.parsed("a CIDR such as 10.0.0.0/8 or fd00::/8", |text| text.parse::<IpNet>().ok())?;
        if net.trunc() != net {
            Err(at.fail(format!("{net} has host bits set: {} is wanted", net.trunc())))
        } else {
            cidr(at)
        }
    })?;
    cidrs.sort_by_key(Family::of_net);
    let families: Vec<Family> = cidrs.iter().map(Family::of_net).collect();
    match families.as_slice() {
        [_] | [Family::V4, Family::V6] => Ok(cidrs),
        _ => Err(at.fail("one CIDR is wanted, or one of each family")),
    }
}

fn range_within(at: &At<'_>, prefixes: &[IpNet]) -> Read<IpRange> {
    let range = range(at)?;
    let inside = |net: &IpNet| net.contains(&range.first()) && net.contains(&range.last());
    if prefixes.is_empty() || prefixes.iter().any(inside) {
        return Ok(range);
    }
    Err(at.fail(format!("{range} is not within {}", join(prefixes))))
}

/// One address, or a list of at most one per family.
fn gateways(at: &At<'_>, prefixes: &[IpNet]) -> Read<Vec<IpAddr>> {
    let within = |at: &At<'_>| {
        let ip = ip(at)?;
        if prefixes.is_empty() || prefixes.iter().any(|net| net.contains(&ip)) {
            return Ok(ip);
        }
        Err(at.fail(format!("{ip} is not within {}", join(prefixes))))
    };
    let given = if at.is_list() { at.list(within)? } else { vec![within(at)?] };
    one_per_family(given).ok_or_else(|| at.fail("one address per family is wanted"))
}

/// IPv6 needs 1,280 bytes (RFC 8200 §5), IPv4 576 (RFC 791).
fn mtu(at: &At<'_>, prefixes: &[IpNet]) -> Read<u32> {
    let six = prefixes.iter().any(|net| Family::of_net(net) == Family::V6);
    at.number(if six { 1280 } else { 576 }, 65535)
}

fn join(prefixes: &[IpNet]) -> String {
    prefixes.iter().map(IpNet::to_string).collect::<Vec<_>>().join(" or ")
}
