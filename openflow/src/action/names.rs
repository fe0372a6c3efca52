//! Names of the numbers in actions' arguments.

const REASONS: [&str; 6] = ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
const HASH_FIELDS: [&str; 7] =
    ["eth_src", "symmetric_l4", "symmetric_l3l4", "symmetric_l3l4+udp", "nw_src", "nw_dst", "symmetric_l3"];
const MULTIPATH: [&str; 4] = ["modulo_n", "hash_threshold", "hrw", "iter_hash"];
const BUNDLE: [&str; 2] = ["active_backup", "hrw"];

fn name(names: &[&str], n: u16) -> String {
    names.get(usize::from(n)).map_or_else(|| n.to_string(), |name| (*name).to_owned())
}

fn number(names: &[&str], text: &str) -> Option<u16> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    named.and_then(|at| u16::try_from(at).ok()).or_else(|| text.parse().ok())
}

/// Why a packet comes to the controller.
pub(super) fn reason(n: u8) -> String {
    name(&REASONS, n.into())
}

pub(super) fn reason_number(text: &str) -> Option<u8> {
    number(&REASONS, text).and_then(|n| u8::try_from(n).ok())
}

pub(super) fn hash_fields(n: u16) -> String {
    name(&HASH_FIELDS, n)
}

pub(super) fn hash_fields_number(text: &str) -> Option<u16> {
    number(&HASH_FIELDS, text)
}

pub(super) fn multipath_algorithm(n: u16) -> String {
    name(&MULTIPATH, n)
}

pub(super) fn multipath_algorithm_number(text: &str) -> Option<u16> {
    number(&MULTIPATH, text)
}

pub(super) fn bundle_algorithm(n: u16) -> String {
    name(&BUNDLE, n)
}

pub(super) fn bundle_algorithm_number(text: &str) -> Option<u16> {
    number(&BUNDLE, text)
}

/// A 16-bit port in the 32-bit numbering, whose reserved ports are the topmost.
pub(super) fn wide_port(port: u16) -> u32 {
    if port >= 0xff00 { u32::from(port) | 0xffff_0000 } else { port.into() }
}
