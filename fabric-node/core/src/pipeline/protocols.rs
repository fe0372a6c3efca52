//! Numbers of the protocols that flows and the agent's own frames speak.

/// Ethernet type of IPv4.
pub const ETH_IPV4: u16 = 0x0800;
/// Ethernet type of ARP.
pub const ETH_ARP: u16 = 0x0806;
/// Ethernet type of a VLAN tag (IEEE 802.1Q).
pub const ETH_VLAN: u16 = 0x8100;
/// Ethernet type of IPv6.
pub const ETH_IPV6: u16 = 0x86dd;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
/// IP protocol number of SCTP.
pub const SCTP: u8 = 132;
/// IP protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// ICMPv6 type of a neighbour solicitation (RFC 4861 §4.3).
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement (RFC 4861 §4.4).
pub const ADVERTISEMENT: u8 = 136;
/// ICMPv6 type of a redirect (RFC 4861 §4.5).
pub const REDIRECT: u8 = 137;
/// ICMPv6 type of a query for multicast listeners (RFC 2710 §3, RFC 3810 §5.1).
pub const QUERY: u8 = 130;
/// ICMPv6 type of a report of multicast listeners (RFC 3810 §5.2).
pub const REPORT: u8 = 143;
/// Hop limit of neighbour discovery, which never comes from behind a router (RFC 4861 §3.1, §6.1.1, §7.1).
pub const DISCOVERY_HOPS: u8 = 255;
/// Hop limit of queries for multicast listeners, and of their reports (RFC 3810 §5).
pub const LISTENER_HOPS: u8 = 1;
