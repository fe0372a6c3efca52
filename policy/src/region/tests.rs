use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::question::{Direction, Traffic};

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|n| IpAddr::V4(Ipv4Addr::from(n))),
        any::<u128>().prop_map(|n| IpAddr::V6(Ipv6Addr::from(n))),
    ]
}

fn question(peer: IpAddr, protocol: u8, port: Option<u16>) -> Question {
    let traffic = Traffic { protocol, port };
    Question { direction: Direction::Egress, subject: peer, peer, traffic }
}

proptest! {
    /// Whatever is asked of the region around a packet, the packet is in it, and its masks are of the fixed
    /// sets.
    #[test]
    fn contains_what_it_was_made_around(peer in address(), port: u16, protocol: u8, most in 0u8..=128, width in 0u32..=65536) {
        let net = widest_prefix(peer, |net| net.prefix_len() >= most);
        let ports = PortBlock::widest(port, |block| block.bounds().is_some_and(|(first, last)| u32::from(last - first) < width));
        let region = Region { peer: net, protocol: Some(protocol), ports };
        prop_assert!(region.contains(&question(peer, protocol, Some(port))));
        prop_assert!(region.is_aligned());
        prop_assert!(region.peer.prefix_len() >= most.min(Family::of(peer).bits()));
    }

    /// The blocks that cover a range are its ports, each once, and every block is aligned.
    #[test]
    fn blocks_cover_a_range(a: u16, b: u16) {
        let (first, last) = (a.min(b), a.max(b));
        let blocks = PortBlock::covering(first, last);
        let mut next = u32::from(first);
        for block in &blocks {
            let (low, high) = block.bounds().unwrap();
            prop_assert_eq!(u32::from(low), next);
            next = u32::from(high) + 1;
            if let PortBlock::Block { base, mask } = block {
                prop_assert!(PORT_MASKS.contains(mask) && base & !mask == 0);
            }
        }
        prop_assert_eq!(next, u32::from(last) + 1);
        prop_assert!(blocks.len() <= 15 * 6 + 14);
    }

    /// Two regions overlap exactly when one packet is in both.
    #[test]
    fn overlap_is_a_packet_in_common(a: u16, b: u16, x in 0usize..4, y in 0usize..4, other: u16) {
        let block = |port: u16, mask: usize| PortBlock::Block { base: port & PORT_MASKS[mask], mask: PORT_MASKS[mask] };
        let region = |ports| Region { peer: Family::V4.everything(), protocol: Some(6), ports };
        let (one, two) = (region(block(a, x)), region(block(b, y)));
        let both = |port| [one, two].iter().all(|r| r.contains(&question(Ipv4Addr::LOCALHOST.into(), 6, Some(port))));
        let common = [a & PORT_MASKS[x], b & PORT_MASKS[y]].into_iter().any(both);
        prop_assert_eq!(one.overlaps(&two), common);
        prop_assert!(common || !both(other));
    }
}

#[test]
fn packets_without_a_port_are_in_no_block() {
    assert!(PortBlock::All.contains(None));
    assert!(!PortBlock::one(0).contains(None));
    assert!(PortBlock::Block { base: 4096, mask: 0xf000 }.contains(Some(8191)));
    assert!(!PortBlock::Block { base: 4096, mask: 0xf000 }.contains(Some(8192)));
}

#[test]
fn covering_uses_the_fewest_blocks() {
    assert_eq!(PortBlock::covering(0, 65535), [PortBlock::All]);
    assert_eq!(PortBlock::covering(80, 80), [PortBlock::one(80)]);
    assert_eq!(PortBlock::covering(0, 4095), [PortBlock::Block { base: 0, mask: 0xf000 }]);
    let spelled: Vec<String> = PortBlock::covering(30000, 30009).iter().map(PortBlock::to_string).collect();
    assert_eq!(
        spelled,
        ["30000", "30001", "30002", "30003", "30004", "30005", "30006", "30007", "30008", "30009"]
    );
    let spelled: Vec<String> =
        PortBlock::covering(1024, 65535).iter().take(4).map(PortBlock::to_string).collect();
    assert_eq!(spelled, ["1024-1279", "1280-1535", "1536-1791", "1792-2047"]);
    assert_eq!(PortBlock::covering(2, 1), []);
}

#[test]
fn families_do_not_meet() {
    let region = Region::whole(Family::V4);
    assert!(!region.contains(&question(Ipv6Addr::LOCALHOST.into(), 6, Some(1))));
    assert!(!region.overlaps(&Region::whole(Family::V6)));
    assert_eq!(region.to_string(), "peer 0.0.0.0/0 protocol any ports all");
}
