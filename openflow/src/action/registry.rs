//! The one table of actions: names, codes, and how each is read from bytes and from text.
//!
//! Writing needs no table: each variant of [`super::Action`] says its code. The readers of lists look actions
//! up here, and hand themselves down to those that hold others.

use super::argument::{Context, Parsed};
use super::code::{self, Code};
use super::layout::{Decoded, Place};
use super::{decode, parse_args, parse_one};
use crate::wire::Reader;

type Decode = fn(&mut Reader<'_>, Place) -> Decoded;
type Parse = fn(&str, &mut Context) -> Parsed;

/// One line of the table.
pub(super) struct Kind {
    pub(super) name: &'static str,
    codes: &'static [Code],
    pub(super) decode: Decode,
    pub(super) parse: Parse,
}

const fn kind(name: &'static str, codes: &'static [Code], decode: Decode, parse: Parse) -> Kind {
    Kind { name, codes, decode, parse }
}

/// A name for something that other lines say on the wire.
const fn name(name: &'static str, parse: Parse) -> Kind {
    Kind { name, codes: &[], decode: decode::nothing, parse }
}

/// All actions; the names of the second half exist in text only.
static KINDS: &[Kind] = &[
    kind("output", &[code::OUTPUT], decode::output, parse_one::output),
    kind(
        "resubmit",
        &[code::RESUBMIT, code::RESUBMIT_TABLE, code::RESUBMIT_TABLE_CT],
        decode::resubmit,
        parse_one::resubmit,
    ),
    kind("set_field", &[code::SET_FIELD, code::REG_LOAD2], decode::set_field, parse_one::set_field),
    kind("ct", &[code::CT], decode::ct, parse_args::ct),
    kind("controller", &[code::CONTROLLER, code::CONTROLLER2], decode::controller, parse_args::controller),
    kind("move", &[code::COPY_FIELD, code::REG_MOVE], decode::copy, parse_one::copy),
    kind("load", &[code::REG_LOAD], decode::load, parse_one::load),
    kind("group", &[code::GROUP], decode::group, parse_one::group),
    kind("meter", &[code::METER], decode::meter, parse_one::meter),
    kind("push_vlan", &[code::PUSH_VLAN], decode::push_vlan, parse_one::push_vlan),
    kind("pop_vlan", &[code::POP_VLAN], decode::pop_vlan, parse_one::pop_vlan),
    kind("dec_ttl", &[code::DEC_TTL, code::DEC_TTL_IDS], decode::dec_ttl, parse_one::dec_ttl),
    kind("ct_clear", &[code::CT_CLEAR], decode::ct_clear, parse_one::ct_clear),
    kind(
        "check_pkt_larger",
        &[code::CHECK_PKT_LARGER],
        decode::check_pkt_larger,
        parse_one::check_pkt_larger,
    ),
    kind("push", &[code::STACK_PUSH], decode::stack, parse_one::push),
    kind("pop", &[code::STACK_POP], decode::stack, parse_one::pop),
    kind("output_reg", &[code::OUTPUT_REG, code::OUTPUT_REG2], decode::output_reg, parse_one::output),
    kind("output_trunc", &[code::OUTPUT_TRUNC], decode::output_trunc, parse_one::output),
    kind("clone", &[code::CLONE], decode::clone, parse_one::clone),
    kind("set_queue", &[code::SET_QUEUE], decode::set_queue, parse_one::set_queue),
    kind("pop_queue", &[code::POP_QUEUE], decode::pop_queue, parse_one::pop_queue),
    kind("exit", &[code::EXIT], decode::exit, parse_one::exit),
    kind("note", &[code::NOTE], decode::note, parse_one::note),
    kind("learn", &[code::LEARN, code::LEARN2], decode::learn, parse_args::learn),
    kind("conjunction", &[code::CONJUNCTION], decode::conjunction, parse_one::conjunction),
    kind("multipath", &[code::MULTIPATH], decode::multipath, parse_args::multipath),
    kind("bundle", &[code::BUNDLE], decode::bundle, parse_args::bundle),
    kind("bundle_load", &[code::BUNDLE_LOAD], decode::bundle, parse_args::bundle_load),
    kind("sample", &[code::SAMPLE, code::SAMPLE2, code::SAMPLE3], decode::sample, parse_args::sample),
    kind("fin_timeout", &[code::FIN_TIMEOUT], decode::fin_timeout, parse_one::fin_timeout),
    kind("push_mpls", &[code::PUSH_MPLS], decode::push_mpls, parse_one::push_mpls),
    kind("pop_mpls", &[code::POP_MPLS], decode::pop_mpls, parse_one::pop_mpls),
    kind("dec_mpls_ttl", &[code::DEC_MPLS_TTL], decode::dec_mpls_ttl, parse_one::dec_mpls_ttl),
    kind("mod_nw_ttl", &[code::SET_NW_TTL], decode::set_nw_ttl, parse_one::set_nw_ttl),
    kind("write_metadata", &[code::WRITE_METADATA], decode::write_metadata, parse_one::write_metadata),
    name("goto_table", parse_one::goto_table),
    name("clear_actions", parse_one::clear_actions),
    name("write_actions", parse_one::write_actions),
    name("strip_vlan", parse_one::pop_vlan),
    name("enqueue", parse_one::enqueue),
    name("mod_dl_src", parse_one::mod_dl_src),
    name("mod_dl_dst", parse_one::mod_dl_dst),
    name("mod_nw_src", parse_one::mod_nw_src),
    name("mod_nw_dst", parse_one::mod_nw_dst),
    name("mod_nw_tos", parse_one::mod_nw_tos),
    name("mod_nw_ecn", parse_one::mod_nw_ecn),
    name("set_nw_ttl", parse_one::set_nw_ttl),
    name("mod_tp_src", parse_one::mod_tp_src),
    name("mod_tp_dst", parse_one::mod_tp_dst),
    name("mod_vlan_vid", parse_one::mod_vlan_vid),
    name("mod_vlan_pcp", parse_one::mod_vlan_pcp),
    name("set_tunnel", parse_one::set_tunnel),
    name("set_tunnel64", parse_one::set_tunnel),
    name("set_mpls_label", parse_one::set_mpls_label),
    name("set_mpls_tc", parse_one::set_mpls_tc),
    name("raw_action", parse_one::raw_action),
    name("raw_instruction", parse_one::raw_instruction),
];

/// The kind and code of an action on the wire.
pub(super) fn by_code(vendor: u32, number: u16, version: u8) -> Option<(&'static Kind, Code)> {
    KINDS.iter().find_map(|kind| {
        let code = kind.codes.iter().find(|c| c.is(vendor, number, version))?;
        Some((kind, *code))
    })
}

/// The kind of a name.
pub(super) fn by_name(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name.eq_ignore_ascii_case(name))
}
