//! The words of the pipeline: tables, registers, marks, cookies and fixed addresses.
//!
//! A flow dump can be read with this file open. Nothing outside it names a table or a
//! register by number.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openflow::{Field, Mac, Subfield};

/// A table of `br-fabric`, by what it decides.
///
/// A pod's packet is tracked in its zone on the way from [`Table::Guard`] to [`Table::StateOut`], and a packet to a
/// local pod in that pod's zone on the way from [`Table::Route`] to [`Table::StateIn`]: by the flow that knows pod and
/// family, without a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Where a packet came from: pod, tunnel, physical network, host.
    Classify = 0,
    /// Whether its sender may call itself so.
    Guard = 1,
    /// ARP and neighbour discovery.
    Neighbour = 2,
    /// Conversations that were judged on their way out pass.
    StateOut = 4,
    /// Service addresses. It has no flows where there are no Services, and is passed by then.
    Service = 5,
    /// May this pod send this?
    Egress = 6,
    /// Where to.
    Route = 7,
    /// Conversations that were judged on their way in pass.
    StateIn = 9,
    /// May this pod receive this?
    Ingress = 10,
    /// Send: after committing what every end has allowed, counting against the receiver's rate, and holding back what
    /// is too large for the way or is a pod's own tunnel.
    Output = 11,
    /// A miss: charged to somebody's meter, then handed to the agent.
    Punt = 12,
}

impl Table {
    /// Every table, in order.
    pub const ALL: [Table; 11] = [
        Table::Classify,
        Table::Guard,
        Table::Neighbour,
        Table::StateOut,
        Table::Service,
        Table::Egress,
        Table::Route,
        Table::StateIn,
        Table::Ingress,
        Table::Output,
        Table::Punt,
    ];

    /// The number in the switch.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The table with this number.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.id() == id)
    }

    /// The name that dumps and golden files show.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Table::Classify => "Classify",
            Table::Guard => "Guard",
            Table::Neighbour => "Neighbour",
            Table::StateOut => "StateOut",
            Table::Service => "Service",
            Table::Egress => "Egress",
            Table::Route => "Route",
            Table::StateIn => "StateIn",
            Table::Ingress => "Ingress",
            Table::Output => "Output",
            Table::Punt => "Punt",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a packet came from: one bit each in `reg0`, so that one mask can ask for "not from a tunnel".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A local pod.
    Pod,
    /// Another node, by a tunnel.
    Tunnel,
    /// A physical network.
    Physical,
    /// The node itself (LOCAL).
    Host,
}

impl Origin {
    /// Its bit in `reg0`.
    #[must_use]
    pub const fn bit(self) -> u32 {
        match self {
            Origin::Pod => 0x1,
            Origin::Tunnel => 0x2,
            Origin::Physical => 0x4,
            Origin::Host => 0x8,
        }
    }

    /// The origin that `reg0` names.
    #[must_use]
    pub fn from_reg0(reg0: u32) -> Option<Origin> {
        [Origin::Pod, Origin::Tunnel, Origin::Physical, Origin::Host]
            .into_iter()
            .find(|o| reg0 & 0xf == o.bit())
    }
}

/// `reg0`: origin and flags.
pub const REG_FLAGS: Field = Field::REG0;
/// In `reg0`: the packet was punted and has come back; a hit in a learned table clears it.
pub const RETRY: u32 = 0x1_0000;
/// In `reg0`: the packet leaves the fabric, for a node or by way of one.
pub const TO_NODE: u32 = 0x2_0000;
/// In `reg0`: a neighbour solicitation that has become its answer.
pub const ANSWER: u32 = 0x4_0000;
/// In `reg0`: the sender's end allows a new conversation, and Output is to commit it in the sender's zone: not before
/// every end that is judged on this node has allowed it. Otherwise two pods that may not reach each other could send at
/// the same time, and each would take the other's packet for an answer.
pub const COMMIT: u32 = 0x100_0000;
/// In `reg0`: the receiver's end has yet to be asked. Where the receiver is reached by a tunnel or a wire and policies speak of it,
/// there is no way for such packets but by Egress again, which then judges the other end.
pub const PEER: u32 = 0x200_0000;
/// In `reg0`: the packet's protocol, as connection tracking has it, is 128 or above: SCTP (132) is, whose ports
/// connection tracking may not know. What is allowed whatever the protocol is allowed to packets without it.
pub const HIGH_PROTOCOL: u32 = 0x400_0000;
/// The same bit, as a place to move the highest bit of a protocol number to.
#[must_use]
pub fn high_protocol() -> Subfield {
    Subfield::bits(Field::REG0, 26, 1)
}
/// In `reg0`: the packet is of a segment, which [`REG_SEGMENT`] names: it came by the wire, or from a pod on it.
pub const ON_SEGMENT: u32 = 0x8_0000;
/// In `reg0`: the packet is larger than the tunnel, or the pod, that it is on its way to takes; [`REG_SCRATCH`] has the
/// MTU, bytes.
pub const TOO_LARGE: u32 = 0x800_0000;
/// The same bit, as a place for the switch to note it in.
#[must_use]
pub fn too_large() -> Subfield {
    Subfield::bits(Field::REG0, 27, 1)
}
/// In `reg0`: the packet was counted for what its receiver may receive.
pub const COUNTED: u32 = 0x1000_0000;
/// In `reg0`: what the packet's sender sends to the outside leaves under an egress address, or not at all.
pub const EXIT: u32 = 0x100;
/// In `reg0`: the packet came from outside the cluster by the node that holds the egress address of its receiver, which
/// takes answers that way and nothing else.
pub const RETURNED: u32 = 0x200;
/// In `reg0`: a frame that came by a wire and speaks for an address of a pod on the segment, which is dropped.
pub const CLAIMS: u32 = 0x4000_0000;
/// In `reg0`: the frame is larger than [`SMALL_LENGTH`]. Known of the packets of a pod whose rate is limited, and of
/// those to one.
pub const LARGE: u32 = 0x2000_0000;
/// The same bit, as a place for the switch to note it in.
#[must_use]
pub fn large() -> Subfield {
    Subfield::bits(Field::REG0, 29, 1)
}
/// Bytes of the largest frame that rates leave some room for: an acknowledgement of TCP over IPv6 with every option.
pub const SMALL_LENGTH: u16 = 128;
/// In `reg0`, four bits: the table that had no flow for the packet.
#[must_use]
pub fn missed_table() -> Subfield {
    Subfield::bits(Field::REG0, 20, 4)
}
/// The missed table in a value of `reg0`.
#[must_use]
pub fn missed_in(reg0: u32) -> Option<Table> {
    Table::from_id(((reg0 >> 20) & 0xf) as u8)
}
/// `reg1`: conntrack zone of the sending pod.
pub const REG_ZONE_OUT: Field = Field::REG1;
/// `reg2`: port to send the packet to.
pub const REG_OUTPUT: Field = Field::REG2;
/// `reg3`: conntrack zone of the receiving pod; 0 where the receiver is no local pod.
pub const REG_ZONE_IN: Field = Field::REG3;
/// `reg4`: an address on its way from one field to another; the MTU of the tunnel or the pod that the packet is on
/// its way to.
pub const REG_SCRATCH: Field = Field::REG4;
/// `reg5`: the mark with which the sender's zone is committed.
pub const REG_MARK: Field = Field::REG5;
/// `reg6` and `reg7` in one: the decision with which the sender's zone is committed.
pub const REG_DECISION: Field = Field::XREG3;

/// `reg8`: the segment that a packet is of, as [`Site::segment_number`](super::site::Site::segment_number) has it: the
/// OpenFlow port of the uplink in the upper half, the VLAN's tag (TCI, IEEE 802.1Q) in the lower.
pub const REG_SEGMENT: Field = Field::REG8;

/// In `ct_mark`: policy has allowed this conversation in this zone.
pub const JUDGED: u32 = 0x1;
/// In `ct_mark`: there is an association of SCTP between the two, or was. The userspace connection tracking of OVS knows
/// one connection of a pair, whatever the ports, so every packet is judged, and only ICMP errors pass by this mark.
pub const SEEN: u32 = 0x2;
/// How many bits of `ct_mark` have a meaning, from the lowest.
pub const MARK_BITS: u16 = 2;
/// The bits of `ct_mark` that have a meaning.
pub const MARKS: u32 = JUDGED | SEEN;

/// First byte of the `userdata` of a packet that waits for its flows.
pub const PUNTED: u8 = 1;
/// First byte of the `userdata` of the copy of a packet that was denied.
pub const DENIED: u8 = 2;
/// First byte of the `userdata` of the copy of a frame that speaks for an address that the agent asked about.
pub const PROBED: u8 = 3;
/// First byte of the `userdata` of the head of a packet that a tunnel does not carry.
pub const OVERSIZE: u8 = 4;
/// Bytes of such a head: what an ICMP error may repeat (RFC 1812 §4.3.2.3, RFC 4443 §2.4), with the Ethernet header.
pub const OVERSIZE_LENGTH: u16 = 1_294;
/// First byte of the `userdata` of the copy of a frame that speaks for the address of a pod here.
pub const CLAIMED: u8 = 5;
/// Bytes of such a copy: enough for every header that is named in a log.
pub const COPY_LENGTH: u16 = 128;

/// Priorities, by meaning.
pub mod priority {
    /// Passes or drops before anything that depends on a pod.
    pub const FIRST: u16 = 300;
    /// A pod's neighbour discovery.
    pub const DISCOVERY: u16 = 200;
    /// Drops that only [`DISCOVERY`] may get past.
    pub const FORGED_DISCOVERY: u16 = 180;
    /// What comes by the wire or stays on it, and drops of the rest of what comes by it: see [`OFF_SEGMENT`].
    pub const SEGMENT: u16 = 175;
    /// Below [`SEGMENT`], and above every other way.
    pub const OFF_SEGMENT: u16 = 172;
    /// Drops of conversations that were ended: whatever else would let their packets pass.
    pub const ENDED: u16 = 170;
    /// Multicast: below discovery, above a pod's other traffic.
    pub const MULTICAST: u16 = 160;
    /// Static flows of pods and of the node.
    pub const STATIC: u16 = 150;
    /// Learned: answers of an association of SCTP, which verdicts about new ones do not touch.
    pub const ANSWERS: u16 = 120;
    /// Learned: what comes back by the node of an egress address, which verdicts about its source alone do not touch.
    pub const RETURNED: u16 = 110;
    /// Flows learned from packets. Those that overlap agree.
    pub const LEARNED: u16 = 100;
    /// Before [`CAUSE`], and after everything that was learned: the agent is asked.
    pub const ASK: u16 = 60;
    /// Static drops with a cause.
    pub const CAUSE: u16 = 50;
    /// What is left.
    pub const DEFAULT: u16 = 0;
}

/// Hardware address of the router that every overlay pod and the host see.
pub const ROUTER_MAC: Mac = Mac([0x0a, 0x58, 0xa9, 0xfe, 0x01, 0x01]);
/// First two bytes of the hardware address from which the host gets what it is to send under an egress address.
pub const EGRESS_MAC: [u8; 2] = [0x0a, 0x59];
/// That hardware address: of IPv4 the address stands in it, of IPv6 a hash. So the host tells such packets apart without
/// knowing any pod, and one that it has no rule for it drops.
#[must_use]
pub fn egress_mac(egress: IpAddr) -> Mac {
    let [a, b] = EGRESS_MAC;
    let [.., w, x, y, z] = match egress {
        IpAddr::V4(v4) => u64::from(u32::from(v4)),
        IpAddr::V6(v6) => stable_id(&[b"egress", &v6.octets()]),
    }
    .to_be_bytes();
    Mac([a, b, w, x, y, z])
}
/// Next hop of the host for overlay prefixes, IPv4.
pub const HOST_NEXT_HOP_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// Next hop of the host for overlay prefixes, IPv6.
pub const HOST_NEXT_HOP_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Who hears reports of multicast listeners (RFC 3810 §5.2.14), and the frames that carry them (RFC 2464 §7).
pub const ALL_MLD_ROUTERS: (Ipv6Addr, Mac) =
    (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16), Mac([0x33, 0x33, 0, 0, 0, 0x16]));

/// Seconds without a packet after which a learned verdict goes.
pub const VERDICT_IDLE_SECONDS: u16 = 600;
/// Seconds without a packet of its receiver after which a TCP conversation that was ended cannot come back by what the
/// receiver repeats.
pub const ENDED_IDLE_SECONDS: u16 = 150;
/// The same for UDP: as long as connection tracking itself would take the receiver's packets for answers. The receiver
/// may have a conversation of its own between the same two ports, which then waits for that long.
pub const ENDED_UDP_SECONDS: u16 = 60;
/// Seconds for which others may speak for an address that the agent asks about: as long as its questions and their
/// answers take.
pub const PROBE_SECONDS: u16 = 2;
/// Seconds for which the agent hears no more of who speaks for the address of a pod, once it has heard of somebody: as
/// long as it waits before it defends the address again (DEFEND_INTERVAL, RFC 5227 §1.1).
pub const CLAIMED_SECONDS: u16 = 10;
/// Seconds for which an address that nobody has is not asked about again.
pub const VACANT_SECONDS: u16 = 2;

/// UDP port of VXLAN (RFC 7348 §5).
pub const VXLAN_PORT: u16 = 4789;
/// UDP port of Geneve (RFC 8926 §3.3).
pub const GENEVE_PORT: u16 = 6081;
/// IP protocol number of GRE (RFC 2784 §2).
pub const GRE: u8 = 47;
/// UDP port of DHCP's servers (RFC 2131 §4.1).
pub const DHCP_SERVER: u16 = 67;
/// UDP port of DHCP's clients (RFC 2131 §4.1): who answers there is a server, whatever port he answers from.
pub const DHCP_CLIENT: u16 = 68;
/// UDP port of DHCPv6's clients (RFC 8415 §7.2).
pub const DHCPV6_CLIENT: u16 = 546;

/// What a flow is, in the first eight bits of its cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Static, of the node.
    Node = 1,
    /// Static, of a local pod.
    Pod = 2,
    /// Static drop; the rest of the cookie is the [`Cause`].
    Drop = 3,
    /// Learned: a tunnelled source belongs to its node.
    TunnelSource = 4,
    /// Learned: egress verdict.
    Egress = 5,
    /// Learned: way to an address.
    Route = 6,
    /// Learned: ingress verdict.
    Ingress = 7,
    /// Learned, for a moment: nobody has the address.
    Vacant = 8,
    /// Learned: the ingress verdict of a pod that is reached by a tunnel or a wire.
    Peer = 9,
    /// Learned: new conversations to an address need the verdict of a [`Kind::Peer`] flow.
    Gate = 10,
    /// Learned: ICMP errors about conversations whose packets are judged one by one.
    Related = 11,
    /// Learned, for a while: a conversation was cut.
    Ended = 12,
    /// For a moment: who else speaks for an address is heard, or has been heard.
    Probe = 13,
    /// Learned: the way out of a pod whose namespace has an egress address.
    Exit = 14,
    /// Learned: the way back of what left so.
    Return = 15,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 15] = [
        Kind::Node,
        Kind::Pod,
        Kind::Drop,
        Kind::TunnelSource,
        Kind::Egress,
        Kind::Route,
        Kind::Ingress,
        Kind::Vacant,
        Kind::Peer,
        Kind::Gate,
        Kind::Related,
        Kind::Ended,
        Kind::Probe,
        Kind::Exit,
        Kind::Return,
    ];

    /// Whether flows of this kind come from packets.
    #[must_use]
    pub const fn is_learned(self) -> bool {
        !matches!(self, Kind::Node | Kind::Pod | Kind::Drop | Kind::Probe)
    }

    /// One word for people and metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Pod => "pod",
            Kind::Drop => "drop",
            Kind::TunnelSource => "tunnel-source",
            Kind::Egress => "egress",
            Kind::Route => "route",
            Kind::Ingress => "ingress",
            Kind::Vacant => "vacant",
            Kind::Peer => "peer",
            Kind::Gate => "gate",
            Kind::Related => "related",
            Kind::Ended => "ended",
            Kind::Probe => "probe",
            Kind::Exit => "exit",
            Kind::Return => "return",
        }
    }
}

/// Why a static flow drops a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// It came from a port that is nobody's.
    UnknownPort = 1,
    /// A pod's frame with another source MAC.
    SpoofedMac = 2,
    /// A pod's packet with another IPv4 source.
    SpoofedIpv4 = 3,
    /// A pod's packet with another IPv6 source.
    SpoofedIpv6 = 4,
    /// A pod's ARP that claims another address.
    SpoofedArp = 5,
    /// A pod's neighbour discovery that claims another address.
    SpoofedDiscovery = 6,
    /// A pod's frame with a VLAN tag.
    VlanTag = 7,
    /// A pod's frame that is neither IP nor ARP.
    Protocol = 8,
    /// Multicast and broadcast that nobody is there for; no fault.
    Multicast = 9,
    /// Conntrack calls the packet invalid; so it does router advertisements and redirects, which belong to no
    /// conversation.
    Invalid = 10,
    /// Tunnelled, for no local address.
    TunnelStray = 11,
    /// From the host, with the address of a pod.
    SpoofedByHost = 12,
    /// A pod's packet that leaves the fabric for the port of tunnels.
    TunnelPort = 13,
    /// Duplicate address detection, which is never answered; no fault.
    DuplicateDetection = 14,
    /// A pod that answers DHCP clients.
    DhcpServer = 15,
    /// A frame from the wire with a hardware or network address of a pod or of this node, or of an overlay.
    SpoofedOnWire = 16,
    /// A frame from the wire that is for nobody here.
    WireStray = 17,
    /// From outside by the node that holds the receiver's egress address, and no answer to anything.
    Uninvited = 18,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 18] = [
        Cause::UnknownPort,
        Cause::SpoofedMac,
        Cause::SpoofedIpv4,
        Cause::SpoofedIpv6,
        Cause::SpoofedArp,
        Cause::SpoofedDiscovery,
        Cause::VlanTag,
        Cause::Protocol,
        Cause::Multicast,
        Cause::Invalid,
        Cause::TunnelStray,
        Cause::SpoofedByHost,
        Cause::TunnelPort,
        Cause::DuplicateDetection,
        Cause::DhcpServer,
        Cause::SpoofedOnWire,
        Cause::WireStray,
        Cause::Uninvited,
    ];

    /// One word for people and metric labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::UnknownPort => "unknown-port",
            Cause::SpoofedMac => "spoofed-mac",
            Cause::SpoofedIpv4 => "spoofed-ipv4",
            Cause::SpoofedIpv6 => "spoofed-ipv6",
            Cause::SpoofedArp => "spoofed-arp",
            Cause::SpoofedDiscovery => "spoofed-discovery",
            Cause::VlanTag => "vlan-tag",
            Cause::Protocol => "protocol",
            Cause::Multicast => "multicast",
            Cause::Invalid => "invalid",
            Cause::TunnelStray => "tunnel-stray",
            Cause::SpoofedByHost => "spoofed-by-host",
            Cause::TunnelPort => "tunnel-port",
            Cause::DuplicateDetection => "duplicate-detection",
            Cause::DhcpServer => "dhcp-server",
            Cause::SpoofedOnWire => "spoofed-on-wire",
            Cause::WireStray => "wire-stray",
            Cause::Uninvited => "uninvited",
        }
    }
}

/// A cookie: kind 8 bits, id 56 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub u64);

const ID_MASK: u64 = (1 << 56) - 1;

impl Cookie {
    /// The cookie of a kind and an id, of which the low 56 bits count.
    #[must_use]
    pub const fn new(kind: Kind, id: u64) -> Cookie {
        Cookie(((kind as u64) << 56) | (id & ID_MASK))
    }

    /// The cookie of a static drop.
    #[must_use]
    pub const fn cause(cause: Cause) -> Cookie {
        Cookie::new(Kind::Drop, cause as u64)
    }

    /// What the flow is; `None` for a flow that is not the agent's.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        let kind = self.0 >> 56;
        Kind::ALL.into_iter().find(|k| *k as u64 == kind)
    }

    /// The low 56 bits.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.0 & ID_MASK
    }

    /// Why a static drop drops.
    #[must_use]
    pub fn dropped_for(self) -> Option<Cause> {
        let id = self.id();
        (self.kind() == Some(Kind::Drop)).then(|| Cause::ALL.into_iter().find(|c| *c as u64 == id)).flatten()
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookie({:#018x})", self.0)
    }
}

/// FNV-1a, 64 bits: an id that is the same after every restart and on every machine.
#[must_use]
pub fn stable_id(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.iter().flat_map(|part| part.iter().chain(std::iter::once(&0xff))) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 56)) & ID_MASK
}

/// The octets of an address, for [`stable_id`].
#[must_use]
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// First meter of the pods; smaller numbers are the node's.
const FIRST_POD_METER: u32 = 16;
/// Meter for new conversations that the host opens.
pub const HOST_METER: u32 = 1;
/// Meter for new conversations that tunnels bring to the node itself.
pub const TUNNEL_METER: u32 = 2;
/// Meter for the copies of denied packets. It is nobody's in particular: a pod that is flooded with what it may not
/// receive must not lose its new conversations to the log.
pub const LOG_METER: u32 = 3;

/// Meter for copies of frames that speak for an address that the agent asked about, or for one of a pod here.
pub const PROBE_METER: u32 = 5;
/// Meter for packets that tunnels and wires bring and that are larger than their receiver takes.
pub const OVERSIZE_METER: u32 = 4;

/// Meter for new conversations that a pod opens.
#[must_use]
pub fn meter_out(zone: u16) -> u32 {
    FIRST_POD_METER + u32::from(zone) * 2
}

/// Meter for new conversations that tunnels and wires bring to a pod.
#[must_use]
pub fn meter_in(zone: u16) -> u32 {
    FIRST_POD_METER + u32::from(zone) * 2 + 1
}

/// First meter of the pods' rates, above those of every zone's punts.
const FIRST_RATE_METER: u32 = FIRST_POD_METER + 2 * 0x8000;

/// First meter of the pods' oversized packets, above those of every zone's rates.
const FIRST_OVERSIZE_METER: u32 = FIRST_RATE_METER + 4 * 0x8000;

/// Meter for packets of a pod that are larger than their way takes. It is not that of new conversations, which a transfer
/// whose path becomes narrower would use up.
#[must_use]
pub fn meter_oversize(zone: u16) -> u32 {
    FIRST_OVERSIZE_METER + u32::from(zone)
}

/// The two meters of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateMeters {
    /// For every packet.
    pub all: u32,
    /// For [`LARGE`] ones, before.
    pub large: u32,
}

/// Meters for what a pod may send.
#[must_use]
pub fn rate_out(zone: u16) -> RateMeters {
    let all = FIRST_RATE_METER + u32::from(zone) * 4;
    RateMeters { all, large: all + 1 }
}

/// Meters for what a pod may receive.
#[must_use]
pub fn rate_in(zone: u16) -> RateMeters {
    let all = FIRST_RATE_METER + u32::from(zone) * 4 + 2;
    RateMeters { all, large: all + 1 }
}
