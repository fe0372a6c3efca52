//! The one table of actions: names, numbers with their sizes and versions, and how each is read
//! from bytes and from text.
//!
//! Numbers without a vendor are OpenFlow's (1.5.1 §7.2.6), the others Nicira's (`ovs-actions(7)`).
//! Writing needs no table: each variant of [`Action`] says its code.

use super::{Action, decode, parse};
use crate::wire::{DecodeError, Reader};

/// What an action is called on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Code {
    /// 0 for OpenFlow's own.
    pub(super) vendor: u32,
    pub(super) number: u16,
    size: Size,
    versions: (u8, u8),
}

/// How long an action is, header included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Size {
    Exactly(usize),
    AtLeast(usize),
}

/// Vendor of the Nicira extensions.
pub(super) const NICIRA: u32 = 0x0000_2320;

use Size::{AtLeast, Exactly};

const fn of(number: u16, size: Size) -> Code {
    Code { vendor: 0, number, size, versions: (4, 6) }
}

const fn nx(number: u16, size: Size) -> Code {
    Code { vendor: NICIRA, number, size, versions: (4, 6) }
}

impl Code {
    const fn in_versions(mut self, first: u8, last: u8) -> Self {
        self.versions = (first, last);
        self
    }

    /// Whether an action of `length` bytes can have this code.
    pub(super) fn allows(&self, length: usize) -> bool {
        match self.size {
            Exactly(size) => length == size,
            AtLeast(size) => length >= size,
        }
    }

    fn is(&self, vendor: u32, number: u16, version: u8) -> bool {
        let (first, last) = self.versions;
        self.number == number && self.vendor == vendor && (first..=last).contains(&version)
    }
}

pub(super) const OUTPUT: Code = of(0, Exactly(16));
pub(super) const DEC_MPLS_TTL: Code = of(16, Exactly(8));
pub(super) const PUSH_VLAN: Code = of(17, Exactly(8));
pub(super) const POP_VLAN: Code = of(18, Exactly(8));
pub(super) const PUSH_MPLS: Code = of(19, Exactly(8));
pub(super) const POP_MPLS: Code = of(20, Exactly(8));
pub(super) const SET_QUEUE: Code = of(21, Exactly(8));
pub(super) const GROUP: Code = of(22, Exactly(8));
pub(super) const SET_NW_TTL: Code = of(23, Exactly(8));
pub(super) const DEC_TTL: Code = of(24, Exactly(8));
pub(super) const SET_FIELD: Code = of(25, AtLeast(16));
pub(super) const COPY_FIELD: Code = of(28, AtLeast(20)).in_versions(6, 6);
pub(super) const METER: Code = of(29, Exactly(8)).in_versions(6, 6);
pub(super) const RESUBMIT: Code = nx(1, Exactly(16));
pub(super) const POP_QUEUE: Code = nx(5, Exactly(16));
pub(super) const REG_MOVE: Code = nx(6, AtLeast(24)).in_versions(4, 5);
pub(super) const REG_LOAD: Code = nx(7, Exactly(24)).in_versions(4, 5);
pub(super) const NOTE: Code = nx(8, AtLeast(16));
pub(super) const MULTIPATH: Code = nx(10, Exactly(32));
pub(super) const BUNDLE: Code = nx(12, AtLeast(32));
pub(super) const BUNDLE_LOAD: Code = nx(13, AtLeast(32));
pub(super) const RESUBMIT_TABLE: Code = nx(14, Exactly(16));
pub(super) const OUTPUT_REG: Code = nx(15, Exactly(24));
pub(super) const LEARN: Code = nx(16, AtLeast(32));
pub(super) const EXIT: Code = nx(17, Exactly(16));
pub(super) const FIN_TIMEOUT: Code = nx(19, Exactly(16));
pub(super) const CONTROLLER: Code = nx(20, Exactly(16));
pub(super) const DEC_TTL_IDS: Code = nx(21, AtLeast(16));
pub(super) const WRITE_METADATA: Code = nx(22, Exactly(32));
pub(super) const STACK_PUSH: Code = nx(27, Exactly(24));
pub(super) const STACK_POP: Code = nx(28, Exactly(24));
pub(super) const SAMPLE: Code = nx(29, Exactly(24));
pub(super) const OUTPUT_REG2: Code = nx(32, Exactly(24));
pub(super) const REG_LOAD2: Code = nx(33, AtLeast(16)).in_versions(4, 5);
pub(super) const CONJUNCTION: Code = nx(34, Exactly(16));
pub(super) const CT: Code = nx(35, AtLeast(24));
pub(super) const NAT: Code = nx(36, AtLeast(16));
pub(super) const CONTROLLER2: Code = nx(37, AtLeast(16));
pub(super) const SAMPLE2: Code = nx(38, Exactly(32));
pub(super) const OUTPUT_TRUNC: Code = nx(39, Exactly(16));
pub(super) const SAMPLE3: Code = nx(41, Exactly(32));
pub(super) const CLONE: Code = nx(42, AtLeast(16));
pub(super) const CT_CLEAR: Code = nx(43, Exactly(16));
pub(super) const RESUBMIT_TABLE_CT: Code = nx(44, Exactly(16));
pub(super) const LEARN2: Code = nx(45, AtLeast(40));
pub(super) const CHECK_PKT_LARGER: Code = nx(49, Exactly(24));

/// Where an action is read: which code it has, in which version, how deep in other actions.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) code: Code,
    pub(super) version: u8,
    pub(super) depth: u8,
}

/// What a reader of bytes finds; `None` if the action must stay raw, because a part of it (a
/// field, a property) is not known.
pub(super) type Decoded = Result<Option<Action>, DecodeError>;

type Decode = fn(&mut Reader<'_>, Place) -> Decoded;
type Parse = fn(&str, &mut parse::Context) -> Result<Vec<Action>, parse::ActionError>;

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
    kind("output", &[OUTPUT], decode::output, parse::output),
    kind("resubmit", &[RESUBMIT, RESUBMIT_TABLE, RESUBMIT_TABLE_CT], decode::resubmit, parse::resubmit),
    kind("set_field", &[SET_FIELD, REG_LOAD2], decode::set_field, parse::set_field),
    kind("ct", &[CT], decode::ct, parse::ct),
    kind("controller", &[CONTROLLER, CONTROLLER2], decode::controller, parse::controller),
    kind("move", &[COPY_FIELD, REG_MOVE], decode::copy, parse::copy),
    kind("load", &[REG_LOAD], decode::load, parse::load),
    kind("group", &[GROUP], decode::group, parse::group),
    kind("meter", &[METER], decode::meter, parse::meter),
    kind("push_vlan", &[PUSH_VLAN], decode::push_vlan, parse::push_vlan),
    kind("pop_vlan", &[POP_VLAN], decode::pop_vlan, parse::pop_vlan),
    kind("dec_ttl", &[DEC_TTL, DEC_TTL_IDS], decode::dec_ttl, parse::dec_ttl),
    kind("ct_clear", &[CT_CLEAR], decode::ct_clear, parse::ct_clear),
    kind("check_pkt_larger", &[CHECK_PKT_LARGER], decode::check_pkt_larger, parse::check_pkt_larger),
    kind("push", &[STACK_PUSH], decode::stack, parse::push),
    kind("pop", &[STACK_POP], decode::stack, parse::pop),
    kind("output_reg", &[OUTPUT_REG, OUTPUT_REG2], decode::output_reg, parse::output),
    kind("output_trunc", &[OUTPUT_TRUNC], decode::output_trunc, parse::output),
    kind("clone", &[CLONE], decode::clone, parse::clone),
    kind("set_queue", &[SET_QUEUE], decode::set_queue, parse::set_queue),
    kind("pop_queue", &[POP_QUEUE], decode::pop_queue, parse::pop_queue),
    kind("exit", &[EXIT], decode::exit, parse::exit),
    kind("note", &[NOTE], decode::note, parse::note),
    kind("learn", &[LEARN, LEARN2], decode::learn, parse::learn),
    kind("conjunction", &[CONJUNCTION], decode::conjunction, parse::conjunction),
    kind("multipath", &[MULTIPATH], decode::multipath, parse::multipath),
    kind("bundle", &[BUNDLE], decode::bundle, parse::bundle),
    kind("bundle_load", &[BUNDLE_LOAD], decode::bundle, parse::bundle_load),
    kind("sample", &[SAMPLE, SAMPLE2, SAMPLE3], decode::sample, parse::sample),
    kind("fin_timeout", &[FIN_TIMEOUT], decode::fin_timeout, parse::fin_timeout),
    kind("push_mpls", &[PUSH_MPLS], decode::push_mpls, parse::push_mpls),
    kind("pop_mpls", &[POP_MPLS], decode::pop_mpls, parse::pop_mpls),
    kind("dec_mpls_ttl", &[DEC_MPLS_TTL], decode::dec_mpls_ttl, parse::dec_mpls_ttl),
    kind("mod_nw_ttl", &[SET_NW_TTL], decode::set_nw_ttl, parse::set_nw_ttl),
    kind("write_metadata", &[WRITE_METADATA], decode::write_metadata, parse::write_metadata),
    name("goto_table", parse::goto_table),
    name("clear_actions", parse::clear_actions),
    name("write_actions", parse::write_actions),
    name("strip_vlan", parse::pop_vlan),
    name("enqueue", parse::enqueue),
    name("mod_dl_src", parse::mod_dl_src),
    name("mod_dl_dst", parse::mod_dl_dst),
    name("mod_nw_src", parse::mod_nw_src),
    name("mod_nw_dst", parse::mod_nw_dst),
    name("mod_nw_tos", parse::mod_nw_tos),
    name("mod_nw_ecn", parse::mod_nw_ecn),
    name("set_nw_ttl", parse::set_nw_ttl),
    name("mod_tp_src", parse::mod_tp_src),
    name("mod_tp_dst", parse::mod_tp_dst),
    name("mod_vlan_vid", parse::mod_vlan_vid),
    name("mod_vlan_pcp", parse::mod_vlan_pcp),
    name("set_tunnel", parse::set_tunnel),
    name("set_tunnel64", parse::set_tunnel),
    name("set_mpls_label", parse::set_mpls_label),
    name("set_mpls_tc", parse::set_mpls_tc),
    name("raw_action", parse::raw_action),
    name("raw_instruction", parse::raw_instruction),
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
