//! The text of whole messages, as `ovs-ofctl ofp-print MESSAGE 3` gives it.

use std::fmt::{self, Write as _};

use super::header::{VERSION_13, VERSION_15};
use super::text::{self, Verbosity};
use super::{AsyncForm, Body, Message, PacketInFormat, multipart, prerequisite};

/// Ends with a line break.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.format(Verbosity::Full, &mut out)?;
        f.write_str(&out)
    }
}

impl Message {
    pub(crate) fn format(&self, verbosity: Verbosity, out: &mut String) -> fmt::Result {
        let mut line = self.name();
        match self.version {
            VERSION_13 => line.push_str(" (OF1.3)"),
            VERSION_15 => line.push_str(" (OF1.5)"),
            1 => {}
            2 => line.push_str(" (OF1.1)"),
            3 => line.push_str(" (OF1.2)"),
            5 => line.push_str(" (OF1.4)"),
            other => write!(line, " (OF {other:#04x})")?,
        }
        write!(line, " (xid={:#x}):", self.xid)?;
        if let Some(error) = self.refused_by_ovs() {
            writeln!(line, " ***decode error: {error}***")?;
            text::hex_dump(&mut line, &self.encode(), true)?;
        } else {
            self.format_body(verbosity, &mut line)?;
        }
        text::chomp(&mut line, ' ');
        text::end_line(&mut line);
        out.push_str(&line);
        Ok(())
    }

    fn format_body(&self, verbosity: Verbosity, out: &mut String) -> fmt::Result {
        match &self.body {
            Body::Hello(hello) => hello.format(self, out),
            Body::Error(error) => error.format(out),
            Body::EchoRequest(data) | Body::EchoReply(data) => {
                writeln!(out, " {} bytes of payload", data.len())?;
                if verbosity == Verbosity::Full {
                    text::hex_dump(out, data, true)?;
                }
                Ok(())
            }
            Body::FeaturesReply(features) => features.format(out),
            Body::GetConfigReply(config) | Body::SetConfig(config) => config.format(out),
            Body::SetPacketInFormat(format) => write!(out, " format={}", format.name()),
            Body::SetAsync(config) | Body::GetAsyncReply(config) => config.format(out),
            Body::PacketIn(pin) => pin.format(self.version, verbosity, out),
            Body::Resume(resume) => resume.format(self.version, verbosity, out),
            Body::PacketOut(packet) => packet.format(verbosity, out),
            Body::FlowMod(flow_mod) => write!(out, " {flow_mod}"),
            Body::FlowRemoved(removed) => removed.format(out),
            Body::GroupMod(group) => group.format(self.version, out),
            Body::MeterMod(meter) => meter.format(out),
            Body::PortStatus(status) => status.format(out),
            Body::BundleControl(control) => control.format(out),
            Body::BundleAdd(add) => add.format(verbosity, out),
            Body::MultipartRequest(request) => request.format(out),
            Body::MultipartReply(reply) => reply.format(self.version, out),
            Body::CtFlush(flush) => flush.format(out),
            Body::CtFlushZone(zone) => write!(out, " zone_id={zone}"),
            Body::FeaturesRequest
            | Body::GetConfigRequest
            | Body::GetAsyncRequest
            | Body::BarrierRequest
            | Body::BarrierReply => Ok(()),
            Body::Raw { data, .. } => {
                writeln!(out, " {} bytes", data.len())?;
                text::hex_dump(out, data, true)
            }
        }
    }

    /// The error with which Open vSwitch refuses to read a message whose parts are each well-formed.
    fn refused_by_ovs(&self) -> Option<&'static str> {
        match &self.body {
            Body::FlowMod(flow_mod) if !prerequisite::hold(&flow_mod.flow.matches) => {
                Some("OFPBMC_BAD_PREREQ")
            }
            _ => None,
        }
    }

    fn name(&self) -> String {
        let name = match &self.body {
            Body::Hello(_) => "OFPT_HELLO",
            Body::Error(_) => "OFPT_ERROR",
            Body::EchoRequest(_) => "OFPT_ECHO_REQUEST",
            Body::EchoReply(_) => "OFPT_ECHO_REPLY",
            Body::FeaturesRequest => "OFPT_FEATURES_REQUEST",
            Body::FeaturesReply(_) => "OFPT_FEATURES_REPLY",
            Body::GetConfigRequest => "OFPT_GET_CONFIG_REQUEST",
            Body::GetConfigReply(_) => "OFPT_GET_CONFIG_REPLY",
            Body::SetConfig(_) => "OFPT_SET_CONFIG",
            Body::SetPacketInFormat(_) => "NXT_SET_PACKET_IN_FORMAT",
            Body::SetAsync(config) => match config.form {
                AsyncForm::Standard => "OFPT_SET_ASYNC",
                AsyncForm::Nxt => "NXT_SET_ASYNC_CONFIG",
                AsyncForm::Nxt2 => "NXT_SET_ASYNC_CONFIG2",
            },
            Body::GetAsyncRequest => "OFPT_GET_ASYNC_REQUEST",
            Body::GetAsyncReply(_) => "OFPT_GET_ASYNC_REPLY",
            Body::PacketIn(pin) => match pin.format {
                PacketInFormat::Standard => "OFPT_PACKET_IN",
                PacketInFormat::Nxt => "NXT_PACKET_IN",
                PacketInFormat::Nxt2 => "NXT_PACKET_IN2",
            },
            Body::Resume(_) => "NXT_RESUME",
            Body::PacketOut(_) => "OFPT_PACKET_OUT",
            Body::FlowMod(_) => "OFPT_FLOW_MOD",
            Body::FlowRemoved(_) => "OFPT_FLOW_REMOVED",
            Body::GroupMod(_) => "OFPT_GROUP_MOD",
            Body::MeterMod(_) => "OFPT_METER_MOD",
            Body::PortStatus(_) => "OFPT_PORT_STATUS",
            Body::BarrierRequest => "OFPT_BARRIER_REQUEST",
            Body::BarrierReply => "OFPT_BARRIER_REPLY",
            Body::BundleControl(_) if self.version < VERSION_15 => "ONFT_BUNDLE_CONTROL",
            Body::BundleControl(_) => "OFPT_BUNDLE_CONTROL",
            Body::BundleAdd(_) if self.version < VERSION_15 => "ONFT_BUNDLE_ADD_MESSAGE",
            Body::BundleAdd(_) => "OFPT_BUNDLE_ADD_MESSAGE",
            Body::MultipartRequest(request) => return multipart_name(request.kind(), "request"),
            Body::MultipartReply(reply) => return multipart_name(reply.kind(), "reply"),
            Body::CtFlush(_) => "NXT_CT_FLUSH",
            Body::CtFlushZone(_) => "NXT_CT_FLUSH_ZONE",
            Body::Raw { kind, .. } => return format!("message of type {kind}"),
        };
        name.to_owned()
    }
}

fn multipart_name(kind: u16, direction: &str) -> String {
    match multipart::kind_name(kind) {
        Some(name) => format!("OFPST_{name} {direction}"),
        None => format!("multipart {direction} of type {kind}"),
    }
}
