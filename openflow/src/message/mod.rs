//! Messages: bytes ⇄ values, and the text that `ovs-ofctl ofp-print` gives.
//!
//! [`Message::decode`] reads one whole message of OpenFlow 1.3 or 1.5 and never panics: what contradicts itself is a
//! [`DecodeError`] that names the part. Kinds of messages that are not modelled, and parts of modelled ones that are
//! unknown, are kept as bytes and written back unchanged. One file per kind; `property` and `parts` hold what
//! they share.

mod async_config;
mod bundle;
mod config;
mod continuation;
mod ct_flush;
mod error;
mod error_names;
mod features;
mod flow_codec;
mod flow_removed;
mod group;
mod group_stats;
mod header;
mod hello;
mod meter;
mod multipart;
mod oxs;
mod packet;
mod packet_in;
mod packet_out;
mod parts;
mod ports;
mod prerequisite;
mod print;
mod property;
mod text;

use crate::flow::FlowMod;
use crate::wire::{DecodeError, Reader, Writer};

pub use async_config::{AsyncConfig, AsyncForm, AsyncKind, AsyncMasks};
pub use bundle::{ATOMIC, BundleAdd, BundleControl, BundleStep, ORDERED};
pub use config::SwitchConfig;
pub use ct_flush::{CtFlush, CtTuple};
pub use error::OfError;
pub use features::Features;
pub use flow_removed::{FlowRemoved, RemovedReason};
pub use group::{
    BUCKET_ALL, BUCKET_FIRST, BUCKET_LAST, Bucket, GROUP_ALL, GROUP_ANY, GroupCommand, GroupDesc, GroupMod,
    GroupType, SelectionMethod,
};
pub use group_stats::{GroupFeatures, GroupStats};
pub use header::{
    HEADER_LEN, Header, MAX_LEN, NICIRA_VENDOR, ONF_VENDOR, VERSION_13, VERSION_15, frame_length,
};
pub use hello::Hello;
pub use meter::{
    BURST, Band, BandKind, KBPS, METER_ALL, MeterCommand, MeterConfig, MeterFeatures, MeterMod, MeterStats,
    PKTPS, STATS,
};
pub use multipart::{
    Aggregate, FlowRequest, MORE, MultipartReply, MultipartRequest, Reply, Request, TABLE_ALL,
};
pub use packet::packet_fields;
pub use packet_in::{NO_BUFFER, NO_COOKIE, PacketIn, PacketInFormat, REASON_ACTION, REASON_NO_MATCH, Resume};
pub use packet_out::PacketOut;
pub use ports::{CONFIG_DOWN, Ethernet, PortDesc, PortReason, PortStatus, STATE_LINK_DOWN};

use header::{kind, nxt, onf, put_vendor};
pub(crate) use text::Verbosity;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Wire protocol version: [`VERSION_13`] or [`VERSION_15`]; a hello may have any.
    pub version: u8,
    /// Transaction id: a reply carries that of its request.
    pub xid: u32,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The versions that the sender speaks.
    Hello(Hello),
    /// Something went wrong.
    Error(OfError),
    /// Asks for the same bytes back.
    EchoRequest(Vec<u8>),
    /// The same bytes.
    EchoReply(Vec<u8>),
    /// Asks what the switch is.
    FeaturesRequest,
    /// What the switch is.
    FeaturesReply(Features),
    /// Asks for the configuration.
    GetConfigRequest,
    /// The configuration.
    GetConfigReply(SwitchConfig),
    /// Sets the configuration.
    SetConfig(SwitchConfig),
    /// Sets how packet-ins are sent on this connection.
    SetPacketInFormat(PacketInFormat),
    /// Sets which asynchronous messages this connection gets.
    SetAsync(AsyncConfig),
    /// Asks which asynchronous messages this connection gets.
    GetAsyncRequest,
    /// Which asynchronous messages this connection gets.
    GetAsyncReply(AsyncConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// Lets a paused packet go on.
    Resume(Resume),
    /// A packet for the switch.
    PacketOut(PacketOut),
    /// Changes flows.
    FlowMod(FlowMod),
    /// A flow is gone.
    FlowRemoved(FlowRemoved),
    /// Changes groups.
    GroupMod(GroupMod),
    /// Changes meters.
    MeterMod(MeterMod),
    /// A port changed.
    PortStatus(PortStatus),
    /// Asks for an answer once all before it is done.
    BarrierRequest,
    /// All before the request is done.
    BarrierReply,
    /// Opens, commits, discards a bundle.
    BundleControl(BundleControl),
    /// Adds a message to a bundle.
    BundleAdd(BundleAdd),
    /// A question.
    MultipartRequest(MultipartRequest),
    /// (Part of) an answer.
    MultipartReply(MultipartReply),
    /// Removes tracked connections.
    CtFlush(CtFlush),
    /// Removes all tracked connections of a zone.
    CtFlushZone(u16),
    /// A kind of message that is not modelled.
    Raw {
        /// Message type (`OFPT_*`).
        kind: u8,
        /// All after the header.
        data: Vec<u8>,
    },
}

impl Message {
    /// Reads one message, which must fill `bytes`.
    ///
    /// # Errors
    /// A length that contradicts `bytes`, a version other than 1.3 and 1.5 (except in a hello), or a part that is
    /// cut short or impossible.
    pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
        Self::decode_nested(bytes, true)
    }

    /// As [`Message::decode`], for a message inside another, which cannot hold a third.
    pub(crate) fn decode_inner(bytes: &[u8]) -> Result<Message, DecodeError> {
        Self::decode_nested(bytes, false)
    }

    fn decode_nested(bytes: &[u8], outermost: bool) -> Result<Message, DecodeError> {
        let header = Header::peek(bytes).ok_or(DecodeError::MissingData("Header"))?;
        let length = usize::from(header.length);
        let whole = bytes.get(..length).ok_or(DecodeError::MissingData("Message"))?;
        let body = whole.get(HEADER_LEN..).ok_or(DecodeError::BadLength { what: "Header.length", length })?;
        if bytes.len() > length {
            return Err(DecodeError::TrailingData { what: "Message", left: bytes.len() - length });
        }
        let spoken = matches!(header.version, VERSION_13 | VERSION_15);
        if !spoken && !matches!(header.kind, kind::HELLO | kind::ERROR) {
            return Err(DecodeError::BadVersion(header.version));
        }
        let mut r = Reader::new(body);
        let body = Body::decode(header, &mut r, outermost)?;
        r.finish("Message")?;
        Ok(Message { version: header.version, xid: header.xid, body })
    }

    /// The bytes of the message.
    ///
    /// A message above [`MAX_LEN`] bytes has no wire form: its length field then says [`MAX_LEN`], and the caller must
    /// not send it (a session refuses to).
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(128);
        self.encode_to(&mut w);
        w.into_vec()
    }

    /// Appends the bytes of the message.
    pub(crate) fn encode_to(&self, w: &mut Writer) {
        let start = w.len();
        w.u8(self.version);
        w.u8(self.body.kind(self.version));
        w.u16(0);
        w.u32(self.xid);
        self.body.encode(self.version, w);
        w.patch_length(start + 2, start);
    }
}

impl Body {
    fn decode(header: Header, r: &mut Reader<'_>, outermost: bool) -> Result<Body, DecodeError> {
        let version = header.version;
        Ok(match header.kind {
            kind::HELLO => Body::Hello(Hello::decode(r)?),
            kind::ERROR => Body::Error(OfError::decode(version, r)?),
            kind::ECHO_REQUEST => Body::EchoRequest(r.rest().to_vec()),
            kind::ECHO_REPLY => Body::EchoReply(r.rest().to_vec()),
            kind::EXPERIMENTER => return Body::decode_experimenter(header, r, outermost),
            kind::FEATURES_REQUEST => Body::FeaturesRequest,
            kind::FEATURES_REPLY => Body::FeaturesReply(Features::decode(r)?),
            kind::GET_CONFIG_REQUEST => Body::GetConfigRequest,
            kind::GET_CONFIG_REPLY => Body::GetConfigReply(SwitchConfig::decode(r)?),
            kind::SET_CONFIG => Body::SetConfig(SwitchConfig::decode(r)?),
            kind::PACKET_IN => Body::PacketIn(PacketIn::decode_standard(r)?),
            kind::FLOW_REMOVED => Body::FlowRemoved(FlowRemoved::decode(version, r)?),
            kind::PORT_STATUS => Body::PortStatus(PortStatus::decode(version, r)?),
            kind::PACKET_OUT => Body::PacketOut(PacketOut::decode(version, r)?),
            kind::FLOW_MOD => Body::FlowMod(flow_codec::decode_flow_mod(r, version)?),
            kind::GROUP_MOD => Body::GroupMod(GroupMod::decode(version, r)?),
            kind::MULTIPART_REQUEST => Body::MultipartRequest(MultipartRequest::decode(version, r)?),
            kind::MULTIPART_REPLY => Body::MultipartReply(MultipartReply::decode(version, r)?),
            kind::BARRIER_REQUEST => Body::BarrierRequest,
            kind::BARRIER_REPLY => Body::BarrierReply,
            kind::GET_ASYNC_REQUEST => Body::GetAsyncRequest,
            kind::GET_ASYNC_REPLY => {
                Body::GetAsyncReply(AsyncConfig::decode(AsyncForm::Standard, version, r)?)
            }
            kind::SET_ASYNC => Body::SetAsync(AsyncConfig::decode(AsyncForm::Standard, version, r)?),
            kind::METER_MOD => Body::MeterMod(MeterMod::decode(r)?),
            kind::BUNDLE_CONTROL if version >= VERSION_15 => Body::BundleControl(BundleControl::decode(r)?),
            kind::BUNDLE_ADD if version >= VERSION_15 && outermost => Body::BundleAdd(BundleAdd::decode(r)?),
            kind => Body::Raw { kind, data: r.rest().to_vec() },
        })
    }

    fn decode_experimenter(header: Header, r: &mut Reader<'_>, outermost: bool) -> Result<Body, DecodeError> {
        let mut after = r.clone();
        let vendor = after.u32("Experimenter.vendor")?;
        let subtype = after.u32("Experimenter.subtype")?;
        let raw = |r: &mut Reader<'_>| Body::Raw { kind: header.kind, data: r.rest().to_vec() };
        let of13 = header.version < VERSION_15;
        let body = match (vendor, subtype) {
            (NICIRA_VENDOR, nxt::PACKET_IN2) => Body::PacketIn(PacketIn::decode_nxt2(&mut after)?),
            (NICIRA_VENDOR, nxt::PACKET_IN) => Body::PacketIn(PacketIn::decode_nxt(&mut after)?),
            (NICIRA_VENDOR, nxt::SET_ASYNC) => {
                Body::SetAsync(AsyncConfig::decode(AsyncForm::Nxt, header.version, &mut after)?)
            }
            (NICIRA_VENDOR, nxt::SET_ASYNC2) => {
                Body::SetAsync(AsyncConfig::decode(AsyncForm::Nxt2, header.version, &mut after)?)
            }
            (NICIRA_VENDOR, nxt::RESUME) => Body::Resume(Resume::decode(&mut after)?),
            (NICIRA_VENDOR, nxt::SET_PACKET_IN_FORMAT) => {
                Body::SetPacketInFormat(PacketInFormat::decode(&mut after)?)
            }
            (NICIRA_VENDOR, nxt::CT_FLUSH_ZONE) => {
                after.skip(6, "CtFlushZone.pad")?;
                Body::CtFlushZone(after.u16("CtFlushZone.zone")?)
            }
            (NICIRA_VENDOR, nxt::CT_FLUSH) => Body::CtFlush(CtFlush::decode(&mut after)?),
            (ONF_VENDOR, onf::BUNDLE_CONTROL) if of13 => {
                Body::BundleControl(BundleControl::decode(&mut after)?)
            }
            (ONF_VENDOR, onf::BUNDLE_ADD) if of13 && outermost => {
                Body::BundleAdd(BundleAdd::decode(&mut after)?)
            }
            _ => return Ok(raw(r)),
        };
        *r = after;
        Ok(body)
    }

    /// The message type on the wire.
    pub(crate) fn kind(&self, version: u8) -> u8 {
        match self {
            Body::Hello(_) => kind::HELLO,
            Body::Error(_) => kind::ERROR,
            Body::EchoRequest(_) => kind::ECHO_REQUEST,
            Body::EchoReply(_) => kind::ECHO_REPLY,
            Body::FeaturesRequest => kind::FEATURES_REQUEST,
            Body::FeaturesReply(_) => kind::FEATURES_REPLY,
            Body::GetConfigRequest => kind::GET_CONFIG_REQUEST,
            Body::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
            Body::SetConfig(_) => kind::SET_CONFIG,
            Body::PacketIn(pin) if pin.format == PacketInFormat::Standard => kind::PACKET_IN,
            Body::SetAsync(config) if config.form == AsyncForm::Standard => kind::SET_ASYNC,
            Body::PacketIn(_)
            | Body::SetAsync(_)
            | Body::Resume(_)
            | Body::SetPacketInFormat(_)
            | Body::CtFlush(_)
            | Body::CtFlushZone(_) => kind::EXPERIMENTER,
            Body::BundleControl(_) | Body::BundleAdd(_) if version < VERSION_15 => kind::EXPERIMENTER,
            Body::PacketOut(_) => kind::PACKET_OUT,
            Body::FlowMod(_) => kind::FLOW_MOD,
            Body::FlowRemoved(_) => kind::FLOW_REMOVED,
            Body::GroupMod(_) => kind::GROUP_MOD,
            Body::MeterMod(_) => kind::METER_MOD,
            Body::PortStatus(_) => kind::PORT_STATUS,
            Body::BarrierRequest => kind::BARRIER_REQUEST,
            Body::BarrierReply => kind::BARRIER_REPLY,
            Body::GetAsyncRequest => kind::GET_ASYNC_REQUEST,
            Body::GetAsyncReply(_) => kind::GET_ASYNC_REPLY,
            Body::BundleControl(_) => kind::BUNDLE_CONTROL,
            Body::BundleAdd(_) => kind::BUNDLE_ADD,
            Body::MultipartRequest(_) => kind::MULTIPART_REQUEST,
            Body::MultipartReply(_) => kind::MULTIPART_REPLY,
            Body::Raw { kind, .. } => *kind,
        }
    }

    fn encode(&self, version: u8, w: &mut Writer) {
        match self {
            Body::Hello(hello) => hello.encode(w),
            Body::Error(error) => error.encode(w),
            Body::EchoRequest(data) | Body::EchoReply(data) | Body::Raw { data, .. } => w.bytes(data),
            Body::FeaturesReply(features) => features.encode(w),
            Body::GetConfigReply(config) | Body::SetConfig(config) => config.encode(w),
            Body::SetPacketInFormat(format) => {
                put_vendor(w, NICIRA_VENDOR, nxt::SET_PACKET_IN_FORMAT);
                w.u32(format.number());
            }
            Body::SetAsync(config) | Body::GetAsyncReply(config) => config.encode(version, w),
            Body::PacketIn(pin) => pin.encode(version, w),
            Body::Resume(resume) => {
                put_vendor(w, NICIRA_VENDOR, nxt::RESUME);
                resume.encode(version, w);
            }
            Body::PacketOut(packet) => packet.encode(version, w),
            Body::FlowMod(flow_mod) => flow_codec::encode_flow_mod(flow_mod, w, version),
            Body::FlowRemoved(removed) => removed.encode(version, w),
            Body::GroupMod(group) => group.encode(version, w),
            Body::MeterMod(meter) => meter.encode(w),
            Body::PortStatus(status) => status.encode(version, w),
            Body::BundleControl(control) => {
                if version < VERSION_15 {
                    put_vendor(w, ONF_VENDOR, onf::BUNDLE_CONTROL);
                }
                control.encode(w);
            }
            Body::BundleAdd(add) => {
                if version < VERSION_15 {
                    put_vendor(w, ONF_VENDOR, onf::BUNDLE_ADD);
                }
                add.encode(w);
            }
            Body::MultipartRequest(request) => request.encode(version, w),
            Body::MultipartReply(reply) => reply.encode(version, w),
            Body::CtFlush(flush) => {
                put_vendor(w, NICIRA_VENDOR, nxt::CT_FLUSH);
                flush.encode(w);
            }
            Body::CtFlushZone(zone) => {
                put_vendor(w, NICIRA_VENDOR, nxt::CT_FLUSH_ZONE);
                w.zeros(6);
                w.u16(*zone);
            }
            Body::FeaturesRequest
            | Body::GetConfigRequest
            | Body::GetAsyncRequest
            | Body::BarrierRequest
            | Body::BarrierReply => {}
        }
    }
}
