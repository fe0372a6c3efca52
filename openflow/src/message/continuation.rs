//! The text of a continuation, as `ovs-ofctl` prints it.
//!
//! A continuation is private to `ovs-vswitchd` and may differ between its versions: nothing but this print-out looks
//! inside, and what does not parse is left out of it.

use std::fmt::{self, Write as _};

use super::parts;
use super::property::Property;
use crate::wire::{DecodeError, Reader};

const BRIDGE: u16 = 0x8000;
const STACK: u16 = 0x8001;
const MIRRORS: u16 = 0x8002;
const CONNTRACKED: u16 = 0x8003;
const TABLE_ID: u16 = 0x8004;
const COOKIE: u16 = 0x8005;
const ACTIONS: u16 = 0x8006;
const ACTION_SET: u16 = 0x8007;
const ODP_PORT: u16 = 0x8008;

#[derive(Default)]
struct Parsed {
    bridge: Option<u128>,
    stack: Vec<String>,
    mirrors: u32,
    conntracked: bool,
    actions: Vec<String>,
    action_set: String,
    odp_port: u32,
}

pub(crate) fn format(bytes: &[u8], version: u8, out: &mut String) -> fmt::Result {
    let Ok(parsed) = parse(bytes, version) else {
        return writeln!(out, " continuation={} bytes", bytes.len());
    };
    if let Some(id) = parsed.bridge {
        let hex = format!("{id:032x}");
        out.push_str(" continuation.bridge=");
        for (place, digit) in hex.chars().enumerate() {
            if [8, 12, 16, 20].contains(&place) {
                out.push('-');
            }
            out.push(digit);
        }
        out.push('\n');
    }
    if !parsed.stack.is_empty() {
        writeln!(out, " continuation.stack=(top) {} (bottom)", parsed.stack.join(" "))?;
    }
    if parsed.mirrors != 0 {
        writeln!(out, " continuation.mirrors={:#x}", parsed.mirrors)?;
    }
    if parsed.conntracked {
        out.push_str(" continuation.conntracked=true\n");
    }
    if !parsed.actions.is_empty() {
        writeln!(out, " continuation.actions={}", parsed.actions.join(","))?;
    }
    if !parsed.action_set.is_empty() {
        writeln!(out, " continuation.action_set={}", parsed.action_set)?;
    }
    if parsed.odp_port != 0 {
        writeln!(out, " continuation.odp_port={}", parsed.odp_port)?;
    }
    Ok(())
}

fn parse(bytes: &[u8], version: u8) -> Result<Parsed, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut parsed = Parsed::default();
    let mut table = 0;
    let mut cookie = 0;
    while !r.is_empty() {
        let p = Property::next(&mut r, "Continuation.property")?;
        match p.kind {
            BRIDGE => parsed.bridge = p.value.try_into().ok().map(swap_words),
            STACK => parsed.stack.push(stack_value(p.value)),
            MIRRORS => parsed.mirrors = p.u32()?,
            CONNTRACKED => parsed.conntracked = true,
            TABLE_ID => table = p.u8()?,
            COOKIE => cookie = p.u64()?,
            ACTIONS => {
                parsed.actions.push(format!("unroll_xlate(table={table}, cookie={cookie})"));
                let actions = parts::take_actions(p.nested()?, version)?;
                if !actions.is_empty() {
                    parsed.actions.push(parts::actions_text(&actions));
                }
            }
            ACTION_SET => {
                parsed.action_set = parts::actions_text(&parts::take_actions(p.nested()?, version)?)
            }
            ODP_PORT => parsed.odp_port = p.u32()?,
            _ => {}
        }
    }
    Ok(parsed)
}

/// An identifier is sent as four words in the byte order of the switch's host: little endian wherever OVS runs.
fn swap_words(bytes: [u8; 16]) -> u128 {
    bytes.as_chunks::<4>().0.iter().fold(0, |id, word| id << 32 | u128::from(u32::from_le_bytes(*word)))
}

fn stack_value(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().skip_while(|b| **b == 0).map(|b| format!("{b:02x}")).collect();
    match digits.strip_prefix('0').unwrap_or(&digits) {
        "" => "0".to_owned(),
        digits => format!("0x{digits}"),
    }
}
