//! Groups: lists of buckets of actions (OpenFlow 1.5.1 §7.3.4.3, §7.3.5.9 to .11).

use std::fmt::{self, Write as _};

use super::header::VERSION_15;
use super::parts;
use super::property::{self, Property};
use super::text;
use crate::Match;
use crate::action::Action;
use crate::port;
use crate::wire::{DecodeError, Reader, Writer};

/// Every group.
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// No group.
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// Before the first bucket of a group.
pub const BUCKET_FIRST: u32 = 0xffff_fffd;
/// After the last bucket of a group.
pub const BUCKET_LAST: u32 = 0xffff_fffe;
/// All buckets of a group.
pub const BUCKET_ALL: u32 = 0xffff_ffff;

const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;
const EXPERIMENTER: u16 = 0xffff;
const NETRONOME_VENDOR: u32 = 0x0000_154d;
const SELECTION_METHOD: u32 = 1;
const METHOD_LEN: usize = 16;

/// What to do with a group (`OFPGC_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupCommand {
    /// Make it; it must not exist.
    Add,
    /// Change it; it must exist.
    Modify,
    /// Remove it, and all flows that use it.
    Delete,
    /// Add buckets (OpenFlow 1.5).
    InsertBucket,
    /// Remove buckets (OpenFlow 1.5).
    RemoveBucket,
    /// Make it or change it (an extension of OVS).
    AddOrModify,
}

/// How a group chooses among its buckets (`OFPGT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupType {
    /// All buckets, each with a copy.
    All,
    /// One bucket, by weight.
    Select,
    /// The only bucket.
    Indirect,
    /// The first bucket that is alive.
    FastFailover,
    /// A number that this library has no name for.
    Other(u8),
}

/// One way a packet can take through a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Number of the bucket within its group; not on the wire in OpenFlow 1.3.
    pub id: u32,
    /// Share of the packets, in select groups.
    pub weight: u16,
    /// The port that must be up for the bucket to be alive; [`port::ANY`] for none.
    pub watch_port: u32,
    /// The group that must be alive for the bucket to be alive; [`GROUP_ANY`] for none.
    pub watch_group: u32,
    /// What happens to the packet.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// A bucket with weight 1 that watches nothing.
    pub fn new(id: u32, actions: Vec<Action>) -> Bucket {
        Bucket { id, weight: 1, watch_port: port::ANY, watch_group: GROUP_ANY, actions }
    }
}

/// How a select group hashes (`NTR_SELECTION_METHOD`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SelectionMethod {
    /// `hash` or `dp_hash`.
    pub method: String,
    /// Parameter of the method.
    pub param: u64,
    /// The fields that are hashed; each value is the mask of the bits that count.
    pub fields: Match,
}

/// A group: how it chooses, and from what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupDesc {
    /// The group.
    pub id: u32,
    /// How it chooses.
    pub kind: GroupType,
    /// What it chooses from.
    pub buckets: Vec<Bucket>,
    /// How a select group hashes; `None` is the switch's default.
    pub selection: Option<SelectionMethod>,
    /// Properties of no known type, as they came.
    pub other: Vec<u8>,
}

impl GroupDesc {
    /// A group with the switch's default way to choose.
    pub fn new(id: u32, kind: GroupType, buckets: Vec<Bucket>) -> GroupDesc {
        GroupDesc { id, kind, buckets, selection: None, other: Vec::new() }
    }
}

/// Makes, changes or removes a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// Where buckets are inserted, or which are removed; [`BUCKET_ALL`] for other commands.
    pub command_bucket: u32,
    /// The group.
    pub group: GroupDesc,
}

impl GroupMod {
    /// A group-mod for a whole group.
    pub fn new(command: GroupCommand, group: GroupDesc) -> GroupMod {
        GroupMod { command, command_bucket: BUCKET_ALL, group }
    }

    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<GroupMod, DecodeError> {
        let command = match r.u16("GroupMod.command")? {
            0 => GroupCommand::Add,
            1 => GroupCommand::Modify,
            2 => GroupCommand::Delete,
            3 => GroupCommand::InsertBucket,
            5 => GroupCommand::RemoveBucket,
            0x8000 => GroupCommand::AddOrModify,
            other => return Err(DecodeError::BadValue { what: "GroupMod.command", value: other.into() }),
        };
        let kind = GroupType::from_number(r.u8("GroupMod.type")?);
        r.skip(1, "GroupMod.pad")?;
        let id = r.u32("GroupMod.group_id")?;
        if version < VERSION_15 {
            let buckets = decode_buckets_13(r)?;
            let group = GroupDesc::new(id, kind, buckets);
            return Ok(GroupMod { command, command_bucket: BUCKET_ALL, group });
        }
        let length = usize::from(r.u16("GroupMod.bucket_array_len")?);
        r.skip(2, "GroupMod.pad")?;
        let command_bucket = r.u32("GroupMod.command_bucket_id")?;
        let buckets = decode_buckets_15(kind, r.sub(length, "GroupMod.buckets")?)?;
        let (selection, other) = decode_properties(r)?;
        Ok(GroupMod { command, command_bucket, group: GroupDesc { id, kind, buckets, selection, other } })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        w.u16(match self.command {
            GroupCommand::Add => 0,
            GroupCommand::Modify => 1,
            GroupCommand::Delete => 2,
            GroupCommand::InsertBucket => 3,
            GroupCommand::RemoveBucket => 5,
            GroupCommand::AddOrModify => 0x8000,
        });
        let group = &self.group;
        w.u8(group.kind.number());
        w.u8(0);
        w.u32(group.id);
        if version < VERSION_15 {
            encode_buckets_13(&group.buckets, version, w);
            return;
        }
        let length = w.len();
        w.u16(0);
        w.u16(0);
        w.u32(self.command_bucket);
        let start = w.len();
        encode_buckets_15(group.kind, &group.buckets, version, w);
        w.patch_length(length, start);
        group.encode_properties(version, w);
    }

    pub(crate) fn format(&self, version: u8, out: &mut String) -> fmt::Result {
        let (name, of_buckets) = match self.command {
            GroupCommand::Add => ("ADD", false),
            GroupCommand::Modify => ("MOD", false),
            GroupCommand::Delete => ("DEL", false),
            GroupCommand::InsertBucket => ("INSERT_BUCKET", true),
            GroupCommand::RemoveBucket => ("REMOVE_BUCKET", true),
            GroupCommand::AddOrModify => ("ADD_OR_MOD", false),
        };
        write!(out, "\n {name} ")?;
        if of_buckets {
            format_bucket_id("command_bucket_id", self.command_bucket, version, out)?;
        }
        self.group.format(version, !of_buckets, out)
    }
}

impl GroupType {
    fn from_number(number: u8) -> GroupType {
        match number {
            0 => GroupType::All,
            1 => GroupType::Select,
            2 => GroupType::Indirect,
            3 => GroupType::FastFailover,
            other => GroupType::Other(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            GroupType::All => 0,
            GroupType::Select => 1,
            GroupType::Indirect => 2,
            GroupType::FastFailover => 3,
            GroupType::Other(other) => other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            GroupType::All => "all",
            GroupType::Select => "select",
            GroupType::Indirect => "indirect",
            GroupType::FastFailover => "ff",
            GroupType::Other(_) => "unknown",
        }
    }

    /// The weight of a bucket that names none.
    fn default_weight(self) -> u16 {
        u16::from(self == GroupType::Select)
    }
}

impl GroupDesc {
    /// Takes one entry of a group description reply.
    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<GroupDesc, DecodeError> {
        let length = usize::from(r.u16("GroupDesc.length")?);
        let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: "GroupDesc", length })?;
        let mut r = r.sub(size, "GroupDesc")?;
        let kind = GroupType::from_number(r.u8("GroupDesc.type")?);
        r.skip(1, "GroupDesc.pad")?;
        let id = r.u32("GroupDesc.group_id")?;
        if version < VERSION_15 {
            return Ok(GroupDesc::new(id, kind, decode_buckets_13(&mut r)?));
        }
        let buckets_length = usize::from(r.u16("GroupDesc.bucket_list_len")?);
        r.skip(6, "GroupDesc.pad")?;
        let buckets = decode_buckets_15(kind, r.sub(buckets_length, "GroupDesc.buckets")?)?;
        let (selection, other) = decode_properties(&mut r)?;
        Ok(GroupDesc { id, kind, buckets, selection, other })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        let start = w.len();
        w.u16(0);
        w.u8(self.kind.number());
        w.u8(0);
        w.u32(self.id);
        if version < VERSION_15 {
            encode_buckets_13(&self.buckets, version, w);
        } else {
            let length = w.len();
            w.u16(0);
            w.zeros(6);
            let buckets = w.len();
            encode_buckets_15(self.kind, &self.buckets, version, w);
            w.patch_length(length, buckets);
            self.encode_properties(version, w);
        }
        w.patch_length(start, start);
    }

    fn encode_properties(&self, version: u8, w: &mut Writer) {
        if let Some(selection) = &self.selection {
            let at = property::begin(w, EXPERIMENTER);
            w.u32(NETRONOME_VENDOR);
            w.u32(SELECTION_METHOD);
            w.u32(0);
            let name = selection.method.as_bytes();
            let name = name.get(..METHOD_LEN - 1).unwrap_or(name);
            w.bytes(name);
            w.zeros(METHOD_LEN - name.len());
            w.u64(selection.param);
            parts::put_oxms(w, &selection.fields, version);
            property::end(w, at);
        }
        w.bytes(&self.other);
    }

    pub(crate) fn format(&self, version: u8, with_type: bool, out: &mut String) -> fmt::Result {
        write!(out, "group_id={}", self.id)?;
        if with_type {
            write!(out, ",type={}", self.kind.name())?;
        }
        if let Some(selection) = &self.selection {
            write!(out, ",selection_method={}", selection.method)?;
            if selection.param != 0 {
                write!(out, ",selection_method_param={}", selection.param)?;
            }
            let fields = parts::field_masks_text(&selection.fields);
            match selection.fields.len() {
                0 => {}
                1 => write!(out, ",fields={fields}")?,
                _ => write!(out, ",fields({fields})")?,
            }
        }
        for bucket in &self.buckets {
            out.push_str(",bucket=");
            bucket.format(self.kind, version, out)?;
        }
        Ok(())
    }
}

impl Bucket {
    fn format(&self, kind: GroupType, version: u8, out: &mut String) -> fmt::Result {
        format_bucket_id("bucket_id", self.id, version, out)?;
        if self.weight != kind.default_weight() {
            write!(out, "weight:{},", self.weight)?;
        }
        if self.watch_port != port::ANY {
            write!(out, "watch_port:{},", parts::port_text(self.watch_port))?;
        }
        if self.watch_group != GROUP_ANY {
            write!(out, "watch_group:{},", self.watch_group)?;
        }
        write!(out, "actions={}", parts::actions_text(&self.actions))
    }
}

fn format_bucket_id(label: &str, id: u32, version: u8, out: &mut String) -> fmt::Result {
    if version < VERSION_15 {
        return Ok(());
    }
    match id {
        BUCKET_FIRST => write!(out, "{label}:first,"),
        BUCKET_LAST => write!(out, "{label}:last,"),
        BUCKET_ALL => write!(out, "{label}:all,"),
        id => write!(out, "{label}:{id},"),
    }
}

fn decode_buckets_13(r: &mut Reader<'_>) -> Result<Vec<Bucket>, DecodeError> {
    let mut buckets = Vec::new();
    while !r.is_empty() {
        let length = usize::from(r.u16("Bucket.length")?);
        let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: "Bucket", length })?;
        let mut r = r.sub(size, "Bucket")?;
        let weight = r.u16("Bucket.weight")?;
        let watch_port = r.u32("Bucket.watch_port")?;
        let watch_group = r.u32("Bucket.watch_group")?;
        r.skip(4, "Bucket.pad")?;
        let actions = parts::take_actions(r.rest(), super::header::VERSION_13)?;
        let id = u32::try_from(buckets.len()).unwrap_or(u32::MAX);
        buckets.push(Bucket { id, weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

fn encode_buckets_13(buckets: &[Bucket], version: u8, w: &mut Writer) {
    for bucket in buckets {
        let start = w.len();
        w.u16(0);
        w.u16(bucket.weight);
        w.u32(bucket.watch_port);
        w.u32(bucket.watch_group);
        w.zeros(4);
        parts::put_actions(w, &bucket.actions, version);
        w.patch_length(start, start);
    }
}

fn decode_buckets_15(kind: GroupType, mut r: Reader<'_>) -> Result<Vec<Bucket>, DecodeError> {
    let mut buckets = Vec::new();
    while !r.is_empty() {
        let length = usize::from(r.u16("Bucket.length")?);
        let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: "Bucket", length })?;
        let mut r = r.sub(size, "Bucket")?;
        let actions_length = usize::from(r.u16("Bucket.action_array_len")?);
        let mut bucket = Bucket::new(r.u32("Bucket.bucket_id")?, Vec::new());
        bucket.weight = kind.default_weight();
        bucket.actions = parts::take_actions(r.bytes(actions_length, "Bucket.actions")?, VERSION_15)?;
        while !r.is_empty() {
            let p = Property::next(&mut r, "Bucket.property")?;
            match p.kind {
                WEIGHT => bucket.weight = p.u16()?,
                WATCH_PORT => bucket.watch_port = p.u32()?,
                WATCH_GROUP => bucket.watch_group = p.u32()?,
                other => {
                    return Err(DecodeError::BadValue { what: "Bucket.property", value: other.into() });
                }
            }
        }
        buckets.push(bucket);
    }
    Ok(buckets)
}

fn encode_buckets_15(kind: GroupType, buckets: &[Bucket], version: u8, w: &mut Writer) {
    for bucket in buckets {
        let start = w.len();
        w.u16(0);
        w.u16(0);
        w.u32(bucket.id);
        let actions = w.len();
        parts::put_actions(w, &bucket.actions, version);
        w.patch_length(start + 2, actions);
        if kind == GroupType::Select || bucket.weight != 0 {
            property::put_u16(w, WEIGHT, bucket.weight);
        }
        if bucket.watch_port != port::ANY {
            property::put_u32(w, WATCH_PORT, bucket.watch_port);
        }
        if bucket.watch_group != GROUP_ANY {
            property::put_u32(w, WATCH_GROUP, bucket.watch_group);
        }
        w.patch_length(start, start);
    }
}

fn decode_properties(r: &mut Reader<'_>) -> Result<(Option<SelectionMethod>, Vec<u8>), DecodeError> {
    const WHAT: &str = "Group.selection_method";
    let mut selection = None;
    let mut other = Vec::new();
    while !r.is_empty() {
        let before = r.peek();
        let p = Property::next(r, "Group.property")?;
        let mut value = Reader::new(p.value);
        let known = p.kind == EXPERIMENTER
            && value.u32(WHAT) == Ok(NETRONOME_VENDOR)
            && value.u32(WHAT) == Ok(SELECTION_METHOD);
        if known && selection.is_none() {
            value.skip(4, WHAT)?;
            let method = text::name(value.bytes(METHOD_LEN, WHAT)?);
            let param = value.u64(WHAT)?;
            let fields = parts::take_oxms(value.rest())?;
            selection = Some(SelectionMethod { method, param, fields });
        } else {
            let used = before.len() - r.remaining();
            other.extend_from_slice(before.get(..used).unwrap_or(before));
        }
    }
    Ok((selection, other))
}
