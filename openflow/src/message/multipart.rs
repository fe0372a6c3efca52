//! Multipart messages: questions and answers that may take several messages (OpenFlow 1.5.1 §7.3.5).

use std::fmt::{self, Write as _};

use super::flow_codec::{decode_flow_stats, encode_flow_stats};
use super::group::{GROUP_ALL, GroupDesc};
use super::group_stats::{GroupFeatures, GroupStats};
use super::header::VERSION_15;
use super::meter::{self, MeterConfig, MeterFeatures, MeterStats};
use super::oxs::Oxs;
use super::parts;
use super::ports::{self, PortDesc};
use crate::flow::{FlowMod, FlowStats};
use crate::matching::Match;
use crate::port;
use crate::wire::{DecodeError, Reader, Writer};

/// More messages of this request or answer follow.
pub const MORE: u16 = 1 << 0;
/// Every table.
pub const TABLE_ALL: u8 = 0xff;

const FLOW: u16 = 1;
const AGGREGATE: u16 = 2;
const GROUP: u16 = 6;
const GROUP_DESC: u16 = 7;
const GROUP_FEATURES: u16 = 8;
const METER: u16 = 9;
const METER_CONFIG: u16 = 10;
const METER_FEATURES: u16 = 11;
const PORT_DESC: u16 = 13;

/// Which flows a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRequest {
    /// The table; [`TABLE_ALL`] for all.
    pub table: u8,
    /// Only flows that send to this port; [`port::ANY`] for all.
    pub out_port: u32,
    /// Only flows that send to this group; [`super::GROUP_ANY`] for all.
    pub out_group: u32,
    /// Only flows whose cookie has these bits,
    pub cookie: u64,
    /// as far as this mask counts them.
    pub cookie_mask: u64,
    /// Only flows that match no more than this.
    pub matches: Match,
}

impl Default for FlowRequest {
    /// All flows of all tables.
    fn default() -> Self {
        FlowRequest {
            table: TABLE_ALL,
            out_port: port::ANY,
            out_group: FlowMod::ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            matches: Match::new(),
        }
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartRequest {
    /// 0 or [`MORE`].
    pub flags: u16,
    /// What is asked.
    pub body: Request,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Flows with what they counted.
    Flow(FlowRequest),
    /// Sums over flows.
    Aggregate(FlowRequest),
    /// What a group counted ([`super::GROUP_ALL`] for all).
    Group(u32),
    /// How a group is made; OpenFlow 1.3 asks for all only.
    GroupDesc(u32),
    /// What groups the switch can have.
    GroupFeatures,
    /// What a meter counted ([`super::METER_ALL`] for all).
    Meter(u32),
    /// How a meter is made.
    MeterConfig(u32),
    /// What meters the switch can have.
    MeterFeatures,
    /// How a port is ([`port::ANY`] for all); OpenFlow 1.3 asks for all only.
    PortDesc(u32),
    /// A question of no known type.
    Raw {
        /// Multipart type.
        kind: u16,
        /// What follows the multipart header.
        data: Vec<u8>,
    },
}

/// An answer, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartReply {
    /// 0 or [`MORE`].
    pub flags: u16,
    /// What is answered.
    pub body: Reply,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Flows with what they counted.
    Flow(Vec<FlowStats>),
    /// Sums over flows.
    Aggregate(Aggregate),
    /// What groups counted.
    Group(Vec<GroupStats>),
    /// How groups are made.
    GroupDesc(Vec<GroupDesc>),
    /// What groups the switch can have.
    GroupFeatures(GroupFeatures),
    /// What meters counted.
    Meter(Vec<MeterStats>),
    /// How meters are made.
    MeterConfig(Vec<MeterConfig>),
    /// What meters the switch can have.
    MeterFeatures(MeterFeatures),
    /// How ports are.
    PortDesc(Vec<PortDesc>),
    /// An answer of no known type.
    Raw {
        /// Multipart type.
        kind: u16,
        /// What follows the multipart header.
        data: Vec<u8>,
    },
}

impl Eq for Reply {}

/// Sums over flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Aggregate {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Flows.
    pub flows: u32,
}

impl FlowRequest {
    fn decode(r: &mut Reader<'_>) -> Result<FlowRequest, DecodeError> {
        const WHAT: &str = "FlowRequest";
        let table = r.u8(WHAT)?;
        r.skip(3, WHAT)?;
        let out_port = r.u32(WHAT)?;
        let out_group = r.u32(WHAT)?;
        r.skip(4, WHAT)?;
        let cookie = r.u64(WHAT)?;
        let cookie_mask = r.u64(WHAT)?;
        let matches = parts::take_match(r, "FlowRequest.match")?;
        Ok(FlowRequest { table, out_port, out_group, cookie, cookie_mask, matches })
    }

    fn encode(&self, version: u8, w: &mut Writer) {
        w.u8(self.table);
        w.zeros(3);
        w.u32(self.out_port);
        w.u32(self.out_group);
        w.zeros(4);
        w.u64(self.cookie);
        w.u64(self.cookie_mask);
        parts::put_match(w, &self.matches, version);
    }

    fn format(&self, out: &mut String) -> fmt::Result {
        if self.table != TABLE_ALL {
            write!(out, " table={}", self.table)?;
        }
        if self.out_port != port::ANY {
            write!(out, " out_port={}", parts::port_text(self.out_port))?;
        }
        write!(out, " {}", parts::match_text(&self.matches, None))
    }
}

impl Request {
    fn kind(&self) -> u16 {
        match self {
            Request::Flow(_) => FLOW,
            Request::Aggregate(_) => AGGREGATE,
            Request::Group(_) => GROUP,
            Request::GroupDesc(_) => GROUP_DESC,
            Request::GroupFeatures => GROUP_FEATURES,
            Request::Meter(_) => METER,
            Request::MeterConfig(_) => METER_CONFIG,
            Request::MeterFeatures => METER_FEATURES,
            Request::PortDesc(_) => PORT_DESC,
            Request::Raw { kind, .. } => *kind,
        }
    }
}

impl From<Request> for MultipartRequest {
    fn from(body: Request) -> Self {
        MultipartRequest { flags: 0, body }
    }
}

impl MultipartRequest {
    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<MultipartRequest, DecodeError> {
        let (kind, flags) = decode_head(r)?;
        let body = match kind {
            FLOW => Request::Flow(FlowRequest::decode(r)?),
            AGGREGATE => Request::Aggregate(FlowRequest::decode(r)?),
            GROUP => Request::Group(decode_id(r)?),
            GROUP_DESC if version >= VERSION_15 => Request::GroupDesc(decode_id(r)?),
            GROUP_DESC => Request::GroupDesc(GROUP_ALL),
            GROUP_FEATURES => Request::GroupFeatures,
            METER => Request::Meter(decode_id(r)?),
            METER_CONFIG => Request::MeterConfig(decode_id(r)?),
            METER_FEATURES => Request::MeterFeatures,
            PORT_DESC if version >= VERSION_15 => Request::PortDesc(decode_id(r)?),
            PORT_DESC => Request::PortDesc(port::ANY),
            kind => Request::Raw { kind, data: r.rest().to_vec() },
        };
        Ok(MultipartRequest { flags, body })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        encode_head(self.body.kind(), self.flags, w);
        match &self.body {
            Request::Flow(request) | Request::Aggregate(request) => request.encode(version, w),
            Request::Group(id) | Request::Meter(id) | Request::MeterConfig(id) => encode_id(*id, w),
            Request::GroupDesc(id) | Request::PortDesc(id) if version >= VERSION_15 => encode_id(*id, w),
            Request::GroupDesc(_) | Request::PortDesc(_) => {}
            Request::GroupFeatures | Request::MeterFeatures => {}
            Request::Raw { data, .. } => w.bytes(data),
        }
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        format_flags(self.flags, out)?;
        match &self.body {
            Request::Flow(request) | Request::Aggregate(request) => request.format(out),
            Request::Group(id) | Request::GroupDesc(id) => {
                write!(out, " group_id={}", group_text(*id))
            }
            Request::Meter(id) | Request::MeterConfig(id) => {
                out.push(' ');
                meter::format_id(*id, '=', out)
            }
            Request::PortDesc(port) => write!(out, " port={}", parts::port_text(*port)),
            Request::GroupFeatures | Request::MeterFeatures => Ok(()),
            Request::Raw { data, .. } => write!(out, " {} bytes", data.len()),
        }
    }
}

impl MultipartReply {
    pub(crate) fn kind(&self) -> u16 {
        match &self.body {
            Reply::Flow(_) => FLOW,
            Reply::Aggregate(_) => AGGREGATE,
            Reply::Group(_) => GROUP,
            Reply::GroupDesc(_) => GROUP_DESC,
            Reply::GroupFeatures(_) => GROUP_FEATURES,
            Reply::Meter(_) => METER,
            Reply::MeterConfig(_) => METER_CONFIG,
            Reply::MeterFeatures(_) => METER_FEATURES,
            Reply::PortDesc(_) => PORT_DESC,
            Reply::Raw { kind, .. } => *kind,
        }
    }

    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<MultipartReply, DecodeError> {
        let (kind, flags) = decode_head(r)?;
        let body = match kind {
            FLOW => Reply::Flow(decode_list(r, |r| decode_flow_stats(r, version))?),
            AGGREGATE => Reply::Aggregate(Aggregate::decode(version, r)?),
            GROUP => Reply::Group(decode_list(r, GroupStats::decode)?),
            GROUP_DESC => Reply::GroupDesc(decode_list(r, |r| GroupDesc::decode(version, r))?),
            GROUP_FEATURES => Reply::GroupFeatures(GroupFeatures::decode(r)?),
            METER => Reply::Meter(decode_list(r, MeterStats::decode)?),
            METER_CONFIG => Reply::MeterConfig(decode_list(r, MeterConfig::decode)?),
            METER_FEATURES => Reply::MeterFeatures(MeterFeatures::decode(r)?),
            PORT_DESC => Reply::PortDesc(decode_list(r, |r| PortDesc::decode(version, r))?),
            kind => Reply::Raw { kind, data: r.rest().to_vec() },
        };
        Ok(MultipartReply { flags, body })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        encode_head(self.kind(), self.flags, w);
        match &self.body {
            Reply::Flow(flows) => flows.iter().for_each(|flow| encode_flow_stats(flow, w, version)),
            Reply::Aggregate(sums) => sums.encode(version, w),
            Reply::Group(groups) => groups.iter().for_each(|group| group.encode(w)),
            Reply::GroupDesc(groups) => groups.iter().for_each(|group| group.encode(version, w)),
            Reply::GroupFeatures(features) => features.encode(w),
            Reply::Meter(meters) => meters.iter().for_each(|meter| meter.encode(w)),
            Reply::MeterConfig(meters) => meters.iter().for_each(|meter| meter.encode(w)),
            Reply::MeterFeatures(features) => features.encode(w),
            Reply::PortDesc(ports) => ports.iter().for_each(|port| port.encode(version, w)),
            Reply::Raw { data, .. } => w.bytes(data),
        }
    }

    pub(crate) fn format(&self, version: u8, out: &mut String) -> fmt::Result {
        format_flags(self.flags, out)?;
        match &self.body {
            Reply::Flow(flows) => flows.iter().try_for_each(|flow| write!(out, "\n {flow}")),
            Reply::Aggregate(sums) => {
                let Aggregate { packets, bytes, flows } = sums;
                write!(out, " packet_count={packets} byte_count={bytes} flow_count={flows}")
            }
            Reply::Group(groups) => groups.iter().try_for_each(|group| {
                out.push('\n');
                group.format(out)
            }),
            Reply::GroupDesc(groups) => groups.iter().try_for_each(|group| {
                out.push_str("\n ");
                group.format(version, true, out)
            }),
            Reply::GroupFeatures(features) => features.format(out),
            Reply::Meter(meters) => meters.iter().try_for_each(|meter| {
                out.push('\n');
                meter.format(out)
            }),
            Reply::MeterConfig(meters) => meters.iter().try_for_each(|meter| {
                out.push('\n');
                meter.format(out)
            }),
            Reply::MeterFeatures(features) => features.format(out),
            Reply::PortDesc(ports) => {
                out.push('\n');
                ports::format_ports(ports, out)
            }
            Reply::Raw { data, .. } => write!(out, " {} bytes", data.len()),
        }
    }
}

impl Aggregate {
    fn decode(version: u8, r: &mut Reader<'_>) -> Result<Aggregate, DecodeError> {
        if version >= VERSION_15 {
            let stats = Oxs::decode(r)?;
            let unknown = u64::MAX;
            return Ok(Aggregate {
                packets: stats.packets.unwrap_or(unknown),
                bytes: stats.bytes.unwrap_or(unknown),
                flows: stats.flows.unwrap_or(u32::MAX),
            });
        }
        const WHAT: &str = "Aggregate";
        let aggregate = Aggregate { packets: r.u64(WHAT)?, bytes: r.u64(WHAT)?, flows: r.u32(WHAT)? };
        r.skip(4, WHAT)?;
        Ok(aggregate)
    }

    fn encode(&self, version: u8, w: &mut Writer) {
        if version >= VERSION_15 {
            let stats = Oxs {
                packets: Some(self.packets),
                bytes: Some(self.bytes),
                flows: Some(self.flows),
                ..Oxs::default()
            };
            stats.encode(w);
        } else {
            w.u64(self.packets);
            w.u64(self.bytes);
            w.u32(self.flows);
            w.zeros(4);
        }
    }
}

fn decode_head(r: &mut Reader<'_>) -> Result<(u16, u16), DecodeError> {
    let kind = r.u16("Multipart.type")?;
    let flags = r.u16("Multipart.flags")?;
    r.skip(4, "Multipart.pad")?;
    Ok((kind, flags))
}

fn encode_head(kind: u16, flags: u16, w: &mut Writer) {
    w.u16(kind);
    w.u16(flags);
    w.zeros(4);
}

fn decode_id(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let id = r.u32("Multipart.id")?;
    r.skip(4, "Multipart.pad")?;
    Ok(id)
}

fn encode_id(id: u32, w: &mut Writer) {
    w.u32(id);
    w.zeros(4);
}

fn decode_list<'a, T>(
    r: &mut Reader<'a>,
    one: impl Fn(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut list = Vec::new();
    while !r.is_empty() {
        list.push(one(r)?);
    }
    Ok(list)
}

fn format_flags(flags: u16, out: &mut String) -> fmt::Result {
    if flags == 0 {
        return Ok(());
    }
    out.push_str(" flags=");
    if flags & MORE != 0 {
        out.push_str("[more]");
    }
    let unknown = flags & !MORE;
    if unknown != 0 {
        write!(out, "[***unknown flags {unknown:#06x}***]")?;
    }
    Ok(())
}

fn group_text(id: u32) -> String {
    match id {
        GROUP_ALL => "ALL".to_owned(),
        super::group::GROUP_ANY => "ANY".to_owned(),
        id => id.to_string(),
    }
}

/// Names of the multipart types, for print-outs.
pub(crate) fn kind_name(kind: u16) -> Option<&'static str> {
    let name = match kind {
        FLOW => "FLOW",
        AGGREGATE => "AGGREGATE",
        GROUP => "GROUP",
        GROUP_DESC => "GROUP_DESC",
        GROUP_FEATURES => "GROUP_FEATURES",
        METER => "METER",
        METER_CONFIG => "METER_CONFIG",
        METER_FEATURES => "METER_FEATURES",
        PORT_DESC => "PORT_DESC",
        _ => return None,
    };
    Some(name)
}

impl MultipartRequest {
    /// The multipart type.
    pub(crate) fn kind(&self) -> u16 {
        self.body.kind()
    }
}
