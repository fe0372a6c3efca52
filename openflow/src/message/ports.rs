//! Ports of the switch and changes to them (OpenFlow 1.5.1 §7.2.1, §7.3.5.7, §7.4.3).

use std::fmt::{self, Write as _};

use super::header::VERSION_15;
use super::parts;
use super::property::{self, Property};
use super::text;
use crate::Mac;
use crate::wire::{DecodeError, Reader, Writer};

const NAME_LEN: usize = 16;
const ETHERNET: u16 = 0;

/// The port is administratively down.
pub const CONFIG_DOWN: u32 = 1 << 0;
/// No physical link.
pub const STATE_LINK_DOWN: u32 = 1 << 0;

const CONFIG: &[(u32, &str)] =
    &[(1 << 0, "PORT_DOWN"), (1 << 2, "NO_RECV"), (1 << 5, "NO_FWD"), (1 << 6, "NO_PACKET_IN")];
const STATE: &[(u32, &str)] = &[(1 << 0, "LINK_DOWN"), (1 << 1, "BLOCKED"), (1 << 2, "LIVE")];
const FEATURES: &[(u32, &str)] = &[
    (1 << 0, "10MB-HD"),
    (1 << 1, "10MB-FD"),
    (1 << 2, "100MB-HD"),
    (1 << 3, "100MB-FD"),
    (1 << 4, "1GB-HD"),
    (1 << 5, "1GB-FD"),
    (1 << 6, "10GB-FD"),
    (1 << 7, "40GB-FD"),
    (1 << 8, "100GB-FD"),
    (1 << 9, "1TB-FD"),
    (1 << 10, "OTHER"),
    (1 << 11, "COPPER"),
    (1 << 12, "FIBER"),
    (1 << 13, "AUTO_NEG"),
    (1 << 14, "AUTO_PAUSE"),
    (1 << 15, "AUTO_PAUSE_ASYM"),
];

/// What an Ethernet port can do and does; features are `OFPPF_*` bits, speeds kilobits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ethernet {
    /// Features in use.
    pub current: u32,
    /// Features offered to the peer.
    pub advertised: u32,
    /// Features that the port has.
    pub supported: u32,
    /// Features that the peer offers.
    pub peer: u32,
    /// Speed in use.
    pub current_speed: u32,
    /// Highest speed.
    pub max_speed: u32,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortDesc {
    /// OpenFlow port number.
    pub number: u32,
    /// Its address.
    pub mac: Mac,
    /// Its name, zero padded. Open vSwitch cuts names to 15 bytes: the whole name is in OVSDB.
    pub name_bytes: [u8; NAME_LEN],
    /// `OFPPC_*`.
    pub config: u32,
    /// `OFPPS_*`.
    pub state: u32,
    /// Ethernet properties; always there in OpenFlow 1.3.
    pub ethernet: Option<Ethernet>,
    /// Properties of no known type, as (type, value).
    pub other: Vec<(u16, Vec<u8>)>,
}

impl PortDesc {
    /// The name, up to the first byte that is not printable ASCII.
    pub fn name(&self) -> String {
        text::name(self.name_bytes.get(..NAME_LEN - 1).unwrap_or_default())
    }

    /// Whether the port is administratively up and has a link.
    pub fn is_up(&self) -> bool {
        self.config & CONFIG_DOWN == 0 && self.state & STATE_LINK_DOWN == 0
    }

    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<PortDesc, DecodeError> {
        let number = r.u32("Port.port_no")?;
        if version < VERSION_15 {
            r.skip(4, "Port.pad")?;
            let mut port = Self::decode_common(number, r)?;
            port.ethernet = Some(Ethernet::decode(r)?);
            return Ok(port);
        }
        let length = usize::from(r.u16("Port.length")?);
        let size = length.checked_sub(6).ok_or(DecodeError::BadLength { what: "Port", length })?;
        let mut r = r.sub(size, "Port")?;
        r.skip(2, "Port.pad")?;
        let mut port = Self::decode_common(number, &mut r)?;
        while !r.is_empty() {
            let p = Property::next(&mut r, "Port.property")?;
            if p.kind == ETHERNET && port.ethernet.is_none() {
                let mut value = Reader::new(p.value);
                value.skip(4, "Port.ethernet")?;
                port.ethernet = Some(Ethernet::decode(&mut value)?);
            } else {
                port.other.push((p.kind, p.value.to_vec()));
            }
        }
        Ok(port)
    }

    fn decode_common(number: u32, r: &mut Reader<'_>) -> Result<PortDesc, DecodeError> {
        let mac = Mac(r.array("Port.hw_addr")?);
        r.skip(2, "Port.pad")?;
        let name_bytes = r.array("Port.name")?;
        let config = r.u32("Port.config")?;
        let state = r.u32("Port.state")?;
        Ok(PortDesc { number, mac, name_bytes, config, state, ethernet: None, other: Vec::new() })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        let start = w.len();
        w.u32(self.number);
        w.u16(0);
        w.u16(0);
        w.bytes(&self.mac.0);
        w.zeros(2);
        w.bytes(&self.name_bytes);
        w.u32(self.config);
        w.u32(self.state);
        if version < VERSION_15 {
            self.ethernet.unwrap_or_default().encode(w);
            return;
        }
        if let Some(ethernet) = &self.ethernet {
            let at = property::begin_nested(w, ETHERNET);
            ethernet.encode(w);
            property::end(w, at);
        }
        for (kind, value) in &self.other {
            property::put_bytes(w, *kind, value);
        }
        w.patch_length(start + 4, start);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        writeln!(out, " {}({}): addr:{}", parts::port_text(self.number), self.name(), self.mac)?;
        out.push_str("     config:     ");
        text::bit_names(out, self.config, CONFIG, ' ')?;
        out.push_str("\n     state:      ");
        text::bit_names(out, self.state, STATE, ' ')?;
        out.push('\n');
        let ethernet = self.ethernet.unwrap_or_default();
        for (label, features) in [
            ("current:    ", ethernet.current),
            ("advertised: ", ethernet.advertised),
            ("supported:  ", ethernet.supported),
            ("peer:       ", ethernet.peer),
        ] {
            if features != 0 {
                write!(out, "     {label}")?;
                text::bit_names(out, features, FEATURES, ' ')?;
                out.push('\n');
            }
        }
        let (now, max) = (ethernet.current_speed / 1000, ethernet.max_speed / 1000);
        writeln!(out, "     speed: {now} Mbps now, {max} Mbps max")
    }
}

impl Ethernet {
    fn decode(r: &mut Reader<'_>) -> Result<Ethernet, DecodeError> {
        const WHAT: &str = "Port.ethernet";
        Ok(Ethernet {
            current: r.u32(WHAT)?,
            advertised: r.u32(WHAT)?,
            supported: r.u32(WHAT)?,
            peer: r.u32(WHAT)?,
            current_speed: r.u32(WHAT)?,
            max_speed: r.u32(WHAT)?,
        })
    }

    fn encode(&self, w: &mut Writer) {
        let words =
            [self.current, self.advertised, self.supported, self.peer, self.current_speed, self.max_speed];
        for word in words {
            w.u32(word);
        }
    }
}

/// The text of several ports, by number as OVS sorts them (16 bits).
pub(crate) fn format_ports(ports: &[PortDesc], out: &mut String) -> fmt::Result {
    let mut sorted: Vec<&PortDesc> = ports.iter().collect();
    sorted.sort_by_key(|port| port.number & 0xffff);
    sorted.into_iter().try_for_each(|port| port.format(out))
}

/// What happened to a port (`OFPPR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortReason {
    /// It was added.
    Add,
    /// It was removed.
    Delete,
    /// Something of it changed.
    Modify,
}

/// A port was added, removed or changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port.
    pub port: PortDesc,
}

impl PortStatus {
    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<PortStatus, DecodeError> {
        let reason = match r.u8("PortStatus.reason")? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            other => return Err(DecodeError::BadValue { what: "PortStatus.reason", value: other.into() }),
        };
        r.skip(7, "PortStatus.pad")?;
        Ok(PortStatus { reason, port: PortDesc::decode(version, r)? })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        w.u8(self.reason as u8);
        w.zeros(7);
        self.port.encode(version, w);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        out.push_str(match self.reason {
            PortReason::Add => " ADD:",
            PortReason::Delete => " DEL:",
            PortReason::Modify => " MOD:",
        });
        self.port.format(out)
    }
}
