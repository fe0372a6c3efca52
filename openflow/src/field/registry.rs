//! The one table of fields, in the order in which OVS writes them into a match.
//!
//! A line gives: constant, `ovs-ofctl` name (`/` second name), bytes on the wire, meaningful bits,
//! mask rule, text form, prerequisite and the code points, the oldest first. The numbers are those
//! of OpenFlow 1.5.1 §7.2.3.7 and of OVS's `ovs-fields(7)`.

use super::Field;

/// Whether a match on the field may leave bits open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskRule {
    /// The whole field or nothing.
    Exact,
    /// Any bits.
    Bits,
}

/// How `ovs-ofctl` writes the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `80`; with a mask `0x50/0xfff0`.
    Decimal,
    /// `0x50`, and `0` for zero.
    Hex,
    /// `aa:bb:cc:dd:ee:ff`.
    Ethernet,
    /// `10.0.0.0/8`.
    Ipv4,
    /// `fd00::/16`.
    Ipv6,
    /// A 16-bit port number or a reserved port's name.
    Port16,
    /// A 32-bit port number or a reserved port's name.
    Port,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Frag,
    /// `+oam`.
    TunnelFlags,
    /// `+new+trk`.
    CtState,
    /// `+syn-ack`.
    TcpFlags,
    /// `(1,0x800)`: namespace and type.
    PacketType,
}

/// What else a match must say before it may name the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prereq {
    /// Nothing.
    Any,
    /// A VLAN tag.
    Vlan,
    /// `dl_type` 0x8847 or 0x8848.
    Mpls,
    /// `dl_type` 0x0800.
    Ipv4,
    /// `dl_type` 0x86dd.
    Ipv6,
    /// `dl_type` 0x0800 or 0x86dd.
    IpAny,
    /// `dl_type` 0x0806 or 0x8035.
    Arp,
    /// IP protocol 6.
    Tcp,
    /// IP protocol 17.
    Udp,
    /// IP protocol 132.
    Sctp,
    /// IPv4 protocol 1.
    Icmpv4,
    /// IPv6 protocol 58.
    Icmpv6,
    /// ICMPv6 type 135 or 136.
    Nd,
    /// ICMPv6 type 135.
    NdSolicit,
    /// ICMPv6 type 136.
    NdAdvert,
    /// `ct_state` with `+trk`.
    Ct,
    /// `dl_type` 0x894f.
    Nsh,
}

/// One code point of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The name that subfields are written with, such as `NXM_NX_REG0`.
    pub name: &'static str,
    /// OXM class; 0xffff means that an experimenter follows.
    pub class: u16,
    /// Number within the class, 7 bits.
    pub id: u8,
    /// Experimenter of class 0xffff, otherwise 0.
    pub experimenter: u32,
    /// First protocol version that uses it (0: NXM, before OXM existed).
    pub since: u8,
}

/// All that is known of one field.
#[derive(Debug)]
pub(crate) struct FieldDef {
    pub(crate) name: &'static str,
    pub(crate) alias: &'static str,
    pub(crate) bytes: u8,
    pub(crate) bits: u16,
    pub(crate) mask: MaskRule,
    pub(crate) format: Format,
    pub(crate) prereq: Prereq,
    pub(crate) codes: &'static [Code],
}

const ONF: u32 = 0x4f4e_4600;
const NICIRA: u32 = 0x0000_2320;
const NSH: u32 = 0x005a_d650;

const fn code(name: &'static str, class: u16, id: u8, experimenter: u32, since: u8) -> Code {
    Code { name, class, id, experimenter, since }
}
const fn nxm(name: &'static str, id: u8) -> Code {
    code(name, 0x0000, id, 0, 0)
}
const fn nx(name: &'static str, id: u8) -> Code {
    code(name, 0x0001, id, 0, 0)
}
const fn oxm(name: &'static str, id: u8) -> Code {
    code(name, 0x8000, id, 0, 3)
}
const fn oxm15(name: &'static str, id: u8) -> Code {
    code(name, 0x8000, id, 0, 6)
}
const fn pkt_reg(name: &'static str, id: u8) -> Code {
    code(name, 0x8001, id, 0, 4)
}
const fn onf(name: &'static str, id: u8) -> Code {
    code(name, 0xffff, id, ONF, 4)
}
/// Read, but written only where it is the field's only code point: OVS writes `dp_hash` as NXM in
/// every version.
const fn et(name: &'static str, id: u8) -> Code {
    code(name, 0xffff, id, NICIRA, u8::MAX)
}
const fn nsh(name: &'static str, id: u8) -> Code {
    code(name, 0xffff, id, NSH, 1)
}
const fn eric(name: &'static str, id: u8) -> Code {
    code(name, 0x1000, id, 0, 1)
}

macro_rules! fields {
    ($($konst:ident = $name:literal $(/ $alias:literal)?, $bytes:literal, $bits:literal, $mask:ident, $format:ident,
       $prereq:ident, [$($code:expr),* $(,)?];)*) => {
        #[repr(u8)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($konst),* }

        impl Field {
            $(
                #[doc = concat!("`", $name, "`: ", stringify!($bits), " bits, ", stringify!($format), ".")]
                pub const $konst: Field = Field(Index::$konst as u8);
            )*
        }

        pub(crate) static FIELDS: &[FieldDef] = &[$(
            FieldDef {
                name: $name,
                alias: concat!($($alias)?),
                bytes: $bytes,
                bits: $bits,
                mask: MaskRule::$mask,
                format: Format::$format,
                prereq: Prereq::$prereq,
                codes: &[$($code),*],
            }
        ),*];
    };
}

fields! {
    PACKET_TYPE = "packet_type", 4, 32, Exact, PacketType, Any, [oxm15("OXM_OF_PACKET_TYPE", 44)];
    DP_HASH = "dp_hash", 4, 32, Bits, Hex, Any, [nx("NXM_NX_DP_HASH", 35), et("NXOXM_ET_DP_HASH", 0)];
    RECIRC_ID = "recirc_id", 4, 32, Exact, Hex, Any, [nx("NXM_NX_RECIRC_ID", 36)];
    CONJ_ID = "conj_id", 4, 32, Exact, Decimal, Any, [nx("NXM_NX_CONJ_ID", 37)];
    IN_PORT_NXM = "in_port", 2, 16, Exact, Port16, Any, [nxm("NXM_OF_IN_PORT", 0)];
    IN_PORT = "in_port_oxm", 4, 32, Exact, Port, Any, [oxm("OXM_OF_IN_PORT", 0)];
    ACTSET_OUTPUT = "actset_output", 4, 32, Exact, Port, Any,
        [onf("ONFOXM_ET_ACTSET_OUTPUT", 43), oxm15("OXM_OF_ACTSET_OUTPUT", 43)];
    ETH_SRC = "eth_src" / "dl_src", 6, 48, Bits, Ethernet, Any, [nxm("NXM_OF_ETH_SRC", 2), oxm("OXM_OF_ETH_SRC", 4)];
    ETH_DST = "eth_dst" / "dl_dst", 6, 48, Bits, Ethernet, Any, [nxm("NXM_OF_ETH_DST", 1), oxm("OXM_OF_ETH_DST", 3)];
    ETH_TYPE = "eth_type" / "dl_type", 2, 16, Exact, Hex, Any, [nxm("NXM_OF_ETH_TYPE", 3), oxm("OXM_OF_ETH_TYPE", 5)];
    VLAN_TCI = "vlan_tci", 2, 16, Bits, Hex, Any, [nxm("NXM_OF_VLAN_TCI", 4)];
    DL_VLAN = "dl_vlan", 2, 12, Exact, Decimal, Any, [];
    VLAN_VID = "vlan_vid", 2, 12, Bits, Decimal, Any, [oxm("OXM_OF_VLAN_VID", 6)];
    DL_VLAN_PCP = "dl_vlan_pcp", 1, 3, Exact, Decimal, Any, [];
    VLAN_PCP = "vlan_pcp", 1, 3, Exact, Decimal, Vlan, [oxm("OXM_OF_VLAN_PCP", 7)];
    MPLS_TC = "mpls_tc", 1, 3, Exact, Decimal, Mpls, [oxm("OXM_OF_MPLS_TC", 35)];
    MPLS_BOS = "mpls_bos", 1, 1, Exact, Decimal, Mpls, [oxm("OXM_OF_MPLS_BOS", 36)];
    MPLS_TTL = "mpls_ttl", 1, 8, Exact, Decimal, Mpls, [nx("NXM_NX_MPLS_TTL", 30)];
    MPLS_LABEL = "mpls_label", 4, 20, Exact, Decimal, Mpls, [oxm("OXM_OF_MPLS_LABEL", 34)];
    IPV4_SRC = "ip_src" / "nw_src", 4, 32, Bits, Ipv4, Ipv4, [nxm("NXM_OF_IP_SRC", 7), oxm("OXM_OF_IPV4_SRC", 11)];
    IPV4_DST = "ip_dst" / "nw_dst", 4, 32, Bits, Ipv4, Ipv4, [nxm("NXM_OF_IP_DST", 8), oxm("OXM_OF_IPV4_DST", 12)];
    IPV6_SRC = "ipv6_src", 16, 128, Bits, Ipv6, Ipv6, [nx("NXM_NX_IPV6_SRC", 19), oxm("OXM_OF_IPV6_SRC", 26)];
    IPV6_DST = "ipv6_dst", 16, 128, Bits, Ipv6, Ipv6, [nx("NXM_NX_IPV6_DST", 20), oxm("OXM_OF_IPV6_DST", 27)];
    IP_FRAG = "ip_frag" / "nw_frag", 1, 2, Bits, Frag, IpAny, [nx("NXM_NX_IP_FRAG", 26)];
    IP_TOS = "nw_tos", 1, 8, Exact, Decimal, IpAny, [nxm("NXM_OF_IP_TOS", 5)];
    IP_DSCP = "ip_dscp", 1, 6, Exact, Decimal, IpAny, [oxm("OXM_OF_IP_DSCP", 8)];
    IP_ECN = "nw_ecn" / "ip_ecn", 1, 2, Exact, Decimal, IpAny, [nx("NXM_NX_IP_ECN", 28), oxm("OXM_OF_IP_ECN", 9)];
    IP_TTL = "nw_ttl", 1, 8, Exact, Decimal, IpAny, [nx("NXM_NX_IP_TTL", 29)];
    IPV6_LABEL = "ipv6_label", 4, 20, Bits, Hex, Ipv6, [nx("NXM_NX_IPV6_LABEL", 27), oxm("OXM_OF_IPV6_FLABEL", 28)];
    IP_PROTO = "nw_proto" / "ip_proto", 1, 8, Exact, Decimal, IpAny,
        [nxm("NXM_OF_IP_PROTO", 6), oxm("OXM_OF_IP_PROTO", 10)];
    TCP_SRC = "tcp_src" / "tp_src", 2, 16, Bits, Decimal, Tcp, [nxm("NXM_OF_TCP_SRC", 9), oxm("OXM_OF_TCP_SRC", 13)];
    TCP_DST = "tcp_dst" / "tp_dst", 2, 16, Bits, Decimal, Tcp, [nxm("NXM_OF_TCP_DST", 10), oxm("OXM_OF_TCP_DST", 14)];
    TCP_FLAGS = "tcp_flags", 2, 12, Bits, TcpFlags, Tcp,
        [nx("NXM_NX_TCP_FLAGS", 34), onf("ONFOXM_ET_TCP_FLAGS", 42), oxm15("OXM_OF_TCP_FLAGS", 42)];
    UDP_SRC = "udp_src", 2, 16, Bits, Decimal, Udp, [nxm("NXM_OF_UDP_SRC", 11), oxm("OXM_OF_UDP_SRC", 15)];
    UDP_DST = "udp_dst", 2, 16, Bits, Decimal, Udp, [nxm("NXM_OF_UDP_DST", 12), oxm("OXM_OF_UDP_DST", 16)];
    SCTP_SRC = "sctp_src", 2, 16, Bits, Decimal, Sctp, [oxm("OXM_OF_SCTP_SRC", 17)];
    SCTP_DST = "sctp_dst", 2, 16, Bits, Decimal, Sctp, [oxm("OXM_OF_SCTP_DST", 18)];
    ICMP_TYPE = "icmp_type", 1, 8, Exact, Decimal, Icmpv4, [nxm("NXM_OF_ICMP_TYPE", 13), oxm("OXM_OF_ICMPV4_TYPE", 19)];
    ICMP_CODE = "icmp_code", 1, 8, Exact, Decimal, Icmpv4, [nxm("NXM_OF_ICMP_CODE", 14), oxm("OXM_OF_ICMPV4_CODE", 20)];
    ICMPV6_TYPE = "icmpv6_type", 1, 8, Exact, Decimal, Icmpv6,
        [nx("NXM_NX_ICMPV6_TYPE", 21), oxm("OXM_OF_ICMPV6_TYPE", 29)];
    ICMPV6_CODE = "icmpv6_code", 1, 8, Exact, Decimal, Icmpv6,
        [nx("NXM_NX_ICMPV6_CODE", 22), oxm("OXM_OF_ICMPV6_CODE", 30)];
    ND_RESERVED = "nd_reserved", 4, 32, Exact, Decimal, Nd, [eric("ERICOXM_OF_ICMPV6_ND_RESERVED", 1)];
    ND_TARGET = "nd_target", 16, 128, Bits, Ipv6, Nd, [nx("NXM_NX_ND_TARGET", 23), oxm("OXM_OF_IPV6_ND_TARGET", 31)];
    ND_OPTIONS_TYPE = "nd_options_type", 1, 8, Exact, Decimal, Nd, [eric("ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE", 2)];
    ND_SLL = "nd_sll", 6, 48, Bits, Ethernet, NdSolicit, [nx("NXM_NX_ND_SLL", 24), oxm("OXM_OF_IPV6_ND_SLL", 32)];
    ND_TLL = "nd_tll", 6, 48, Bits, Ethernet, NdAdvert, [nx("NXM_NX_ND_TLL", 25), oxm("OXM_OF_IPV6_ND_TLL", 33)];
    ARP_OP = "arp_op", 2, 16, Exact, Decimal, Arp, [nxm("NXM_OF_ARP_OP", 15), oxm("OXM_OF_ARP_OP", 21)];
    ARP_SPA = "arp_spa", 4, 32, Bits, Ipv4, Arp, [nxm("NXM_OF_ARP_SPA", 16), oxm("OXM_OF_ARP_SPA", 22)];
    ARP_TPA = "arp_tpa", 4, 32, Bits, Ipv4, Arp, [nxm("NXM_OF_ARP_TPA", 17), oxm("OXM_OF_ARP_TPA", 23)];
    ARP_SHA = "arp_sha", 6, 48, Bits, Ethernet, Arp, [nx("NXM_NX_ARP_SHA", 17), oxm("OXM_OF_ARP_SHA", 24)];
    ARP_THA = "arp_tha", 6, 48, Bits, Ethernet, Arp, [nx("NXM_NX_ARP_THA", 18), oxm("OXM_OF_ARP_THA", 25)];
    TUN_ID = "tun_id" / "tunnel_id", 8, 64, Bits, Hex, Any, [nx("NXM_NX_TUN_ID", 16), oxm("OXM_OF_TUNNEL_ID", 38)];
    TUN_FLAGS = "tun_flags", 2, 1, Bits, TunnelFlags, Any, [nx("NXM_NX_TUN_FLAGS", 104)];
    TUN_SRC = "tun_src", 4, 32, Bits, Ipv4, Any, [nx("NXM_NX_TUN_IPV4_SRC", 31)];
    TUN_DST = "tun_dst", 4, 32, Bits, Ipv4, Any, [nx("NXM_NX_TUN_IPV4_DST", 32)];
    TUN_IPV6_SRC = "tun_ipv6_src", 16, 128, Bits, Ipv6, Any, [nx("NXM_NX_TUN_IPV6_SRC", 109)];
    TUN_IPV6_DST = "tun_ipv6_dst", 16, 128, Bits, Ipv6, Any, [nx("NXM_NX_TUN_IPV6_DST", 110)];
    TUN_GBP_ID = "tun_gbp_id", 2, 16, Bits, Decimal, Any, [nx("NXM_NX_TUN_GBP_ID", 38)];
    TUN_GBP_FLAGS = "tun_gbp_flags", 1, 8, Bits, Hex, Any, [nx("NXM_NX_TUN_GBP_FLAGS", 39)];
    TUN_ERSPAN_IDX = "tun_erspan_idx", 4, 20, Bits, Hex, Any, [et("NXOXM_ET_ERSPAN_IDX", 11)];
    TUN_ERSPAN_VER = "tun_erspan_ver", 1, 4, Bits, Decimal, Any, [et("NXOXM_ET_ERSPAN_VER", 12)];
    TUN_ERSPAN_DIR = "tun_erspan_dir", 1, 1, Bits, Decimal, Any, [et("NXOXM_ET_ERSPAN_DIR", 13)];
    TUN_ERSPAN_HWID = "tun_erspan_hwid", 1, 6, Bits, Hex, Any, [et("NXOXM_ET_ERSPAN_HWID", 14)];
    TUN_GTPU_FLAGS = "tun_gtpu_flags", 1, 8, Bits, Hex, Any, [et("NXOXM_ET_GTPU_FLAGS", 15)];
    TUN_GTPU_MSGTYPE = "tun_gtpu_msgtype", 1, 8, Bits, Decimal, Any, [et("NXOXM_ET_GTPU_MSGTYPE", 16)];
    NSH_FLAGS = "nsh_flags", 1, 8, Bits, Decimal, Nsh, [nsh("NXOXM_NSH_FLAGS", 1)];
    NSH_TTL = "nsh_ttl", 1, 8, Exact, Decimal, Nsh, [nsh("NXOXM_NSH_TTL", 10)];
    NSH_MDTYPE = "nsh_mdtype", 1, 8, Exact, Decimal, Nsh, [nsh("NXOXM_NSH_MDTYPE", 2)];
    NSH_NP = "nsh_np", 1, 8, Exact, Decimal, Nsh, [nsh("NXOXM_NSH_NP", 3)];
    NSH_SPI = "nsh_spi" / "nsp", 4, 24, Exact, Hex, Nsh, [nsh("NXOXM_NSH_SPI", 4)];
    NSH_SI = "nsh_si" / "nsi", 1, 8, Exact, Decimal, Nsh, [nsh("NXOXM_NSH_SI", 5)];
    NSH_C1 = "nsh_c1" / "nshc1", 4, 32, Bits, Hex, Nsh, [nsh("NXOXM_NSH_C1", 6)];
    NSH_C2 = "nsh_c2" / "nshc2", 4, 32, Bits, Hex, Nsh, [nsh("NXOXM_NSH_C2", 7)];
    NSH_C3 = "nsh_c3" / "nshc3", 4, 32, Bits, Hex, Nsh, [nsh("NXOXM_NSH_C3", 8)];
    NSH_C4 = "nsh_c4" / "nshc4", 4, 32, Bits, Hex, Nsh, [nsh("NXOXM_NSH_C4", 9)];
    REG0 = "reg0", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG0", 0)];
    REG1 = "reg1", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG1", 1)];
    REG2 = "reg2", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG2", 2)];
    REG3 = "reg3", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG3", 3)];
    REG4 = "reg4", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG4", 4)];
    REG5 = "reg5", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG5", 5)];
    REG6 = "reg6", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG6", 6)];
    REG7 = "reg7", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG7", 7)];
    REG8 = "reg8", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG8", 8)];
    REG9 = "reg9", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG9", 9)];
    REG10 = "reg10", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG10", 10)];
    REG11 = "reg11", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG11", 11)];
    REG12 = "reg12", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG12", 12)];
    REG13 = "reg13", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG13", 13)];
    REG14 = "reg14", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG14", 14)];
    REG15 = "reg15", 4, 32, Bits, Hex, Any, [nx("NXM_NX_REG15", 15)];
    XREG0 = "xreg0", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG0", 0)];
    XREG1 = "xreg1", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG1", 1)];
    XREG2 = "xreg2", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG2", 2)];
    XREG3 = "xreg3", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG3", 3)];
    XREG4 = "xreg4", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG4", 4)];
    XREG5 = "xreg5", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG5", 5)];
    XREG6 = "xreg6", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG6", 6)];
    XREG7 = "xreg7", 8, 64, Bits, Hex, Any, [pkt_reg("OXM_OF_PKT_REG7", 7)];
    XXREG0 = "xxreg0", 16, 128, Bits, Hex, Any, [nx("NXM_NX_XXREG0", 111)];
    XXREG1 = "xxreg1", 16, 128, Bits, Hex, Any, [nx("NXM_NX_XXREG1", 112)];
    XXREG2 = "xxreg2", 16, 128, Bits, Hex, Any, [nx("NXM_NX_XXREG2", 113)];
    XXREG3 = "xxreg3", 16, 128, Bits, Hex, Any, [nx("NXM_NX_XXREG3", 114)];
    PKT_MARK = "pkt_mark", 4, 32, Bits, Hex, Any, [nx("NXM_NX_PKT_MARK", 33)];
    CT_STATE = "ct_state", 4, 32, Bits, CtState, Any, [nx("NXM_NX_CT_STATE", 105)];
    CT_ZONE = "ct_zone", 2, 16, Exact, Hex, Any, [nx("NXM_NX_CT_ZONE", 106)];
    CT_MARK = "ct_mark", 4, 32, Bits, Hex, Any, [nx("NXM_NX_CT_MARK", 107)];
    CT_LABEL = "ct_label", 16, 128, Bits, Hex, Any, [nx("NXM_NX_CT_LABEL", 108)];
    CT_NW_SRC = "ct_nw_src", 4, 32, Bits, Ipv4, Ct, [nx("NXM_NX_CT_NW_SRC", 120)];
    CT_IPV6_SRC = "ct_ipv6_src", 16, 128, Bits, Ipv6, Ct, [nx("NXM_NX_CT_IPV6_SRC", 122)];
    CT_NW_DST = "ct_nw_dst", 4, 32, Bits, Ipv4, Ct, [nx("NXM_NX_CT_NW_DST", 121)];
    CT_IPV6_DST = "ct_ipv6_dst", 16, 128, Bits, Ipv6, Ct, [nx("NXM_NX_CT_IPV6_DST", 123)];
    CT_NW_PROTO = "ct_nw_proto", 1, 8, Exact, Decimal, Ct, [nx("NXM_NX_CT_NW_PROTO", 119)];
    CT_TP_SRC = "ct_tp_src", 2, 16, Bits, Decimal, Ct, [nx("NXM_NX_CT_TP_SRC", 124)];
    CT_TP_DST = "ct_tp_dst", 2, 16, Bits, Decimal, Ct, [nx("NXM_NX_CT_TP_DST", 125)];
    METADATA = "metadata", 8, 64, Bits, Hex, Any, [oxm("OXM_OF_METADATA", 2)];
}
