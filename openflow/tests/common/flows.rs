//! Flow texts of our own, from a seed: valid for `ovs-ofctl`, and covering every field that a flow
//! may match and every action that has a name.

#[path = "rng.rs"]
mod rng;

pub use rng::Rng;

/// Conditions on fields that every packet has.
fn any_match(rng: &mut Rng) -> String {
    match rng.below(18) {
        0 => format!("in_port={}", 1 + rng.below(60000)),
        1 => format!("in_port={}", rng.pick(&["LOCAL", "CONTROLLER"])),
        2 => format!("dl_src={}", rng.mac()),
        3 => format!("dl_dst={}/{}", rng.mac(), rng.mac()),
        4 => format!("dl_vlan={}", rng.below(4095)),
        5 => format!("dl_vlan={},dl_vlan_pcp={}", rng.below(4095), rng.below(8)),
        6 => rng
            .pick(&["vlan_tci=0x1000/0x1000", "vlan_tci=0x1005/0x1fff", "vlan_tci=0", "dl_vlan_pcp=3"])
            .into(),
        7 => format!("metadata={}", rng.masked(64)),
        8 => {
            let n = rng.below(16);
            format!("reg{n}={}", rng.masked(32))
        }
        9 => {
            let n = rng.below(8);
            format!("xreg{n}={}", rng.masked(64))
        }
        10 => {
            let n = rng.below(4);
            format!("xxreg{n}={}", rng.masked(64))
        }
        11 => format!("tun_id={}", rng.masked(64)),
        12 => {
            let (a, b) = (rng.ipv4(), rng.ipv4());
            format!("tun_src={},tun_dst={}", rng.prefix(a, 31), rng.prefix(b, 31))
        }
        13 => {
            let a = rng.ipv6();
            format!("tun_ipv6_src={}", rng.prefix(a, 127))
        }
        14 => format!("tun_gbp_id={},tun_flags=+oam", rng.below(65536)),
        15 => format!("pkt_mark={}", rng.masked(32)),
        16 => format!("conj_id={}", rng.below(1 << 32)),
        _ => format!("reg{}={},reg{}={}", 2, rng.masked(32), 3, rng.masked(32)),
    }
}

const CT_FLAGS: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

fn ct_match(rng: &mut Rng, v6: bool) -> String {
    let mut parts = vec![String::from("ct_state=+trk")];
    for flag in CT_FLAGS.iter().filter(|flag| **flag != "trk") {
        match rng.below(5) {
            // What is invalid cannot be committed.
            0 if *flag != "inv" => parts[0] += &format!("+{flag}"),
            1 => parts[0] += &format!("-{flag}"),
            _ => {}
        }
    }
    // The original tuple is there where the state says so.
    let tuple = if parts[0].contains("+new") || parts[0].contains("+est") { 5 } else { 2 };
    match rng.below(tuple) {
        0 => parts.push(format!("ct_zone={}", rng.below(65536))),
        1 => parts.push(format!("ct_mark={}", rng.masked(32))),
        2 => parts.push(format!("ct_label={:#x}{:016x}", 1 + rng.below(1 << 60), rng.next())),
        3 if v6 => {
            let a = rng.ipv6();
            parts.push(format!("ct_ipv6_src={}", rng.prefix(a, 127)));
        }
        3 => {
            let a = rng.ipv4();
            let part = format!("ct_nw_dst={}", rng.prefix(a, 31));
            parts.push(format!("{part},ct_nw_proto=6,ct_tp_dst={}", rng.masked(16)));
        }
        _ => parts.push(format!("ct_label={:#x}/{:#x}", rng.below(1 << 40), 1 + rng.below(1 << 40))),
    }
    parts.join(",")
}

/// What kind of packets a generated flow is for.
#[derive(Clone, Copy, PartialEq)]
pub enum Packets {
    Any,
    Arp,
    Ipv4,
    Ipv6,
    Tcp,
    Udp6,
}

fn transport(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => format!(",tp_dst={}", rng.masked(16)),
        1 => format!(",tp_src={},tp_dst={}", rng.below(65536), rng.masked(16)),
        2 => format!(",tp_src={}", rng.masked(16)),
        _ => String::new(),
    }
}

fn ip_match(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => format!(",nw_ttl={}", rng.below(256)),
        1 => format!(",nw_tos={}", rng.below(64) * 4),
        2 => format!(",nw_ecn={},nw_ttl={}", rng.below(4), rng.below(256)),
        3 => format!(",nw_frag={}", rng.pick(&["no", "yes", "first", "later", "not_later"])),
        _ => String::new(),
    }
}

fn ipv4_match(rng: &mut Rng) -> (Packets, String) {
    let protocol = rng.pick(&["ip", "icmp", "tcp", "udp", "sctp", "ip,nw_proto=47", "ip,nw_proto=2"]);
    let mut text = format!("{protocol}{}", ip_match(rng));
    if rng.chance(70) {
        let (a, b) = (rng.ipv4(), rng.ipv4());
        text += &format!(",nw_src={},nw_dst={}", rng.prefix(a, 31), rng.prefix(b, 31));
    }
    match protocol {
        "tcp" | "udp" | "sctp" if !text.contains("nw_frag=later") => text += &transport(rng),
        "icmp" if !text.contains("nw_frag=later") && rng.chance(60) => {
            text += &format!(",icmp_type={},icmp_code={}", rng.below(256), rng.below(256))
        }
        _ => {}
    }
    if protocol == "tcp" && !text.contains("nw_frag=later") && rng.chance(40) {
        text +=
            rng.pick(&[",tcp_flags=+syn-ack", ",tcp_flags=+fin", ",tcp_flags=0x12", ",tcp_flags=-rst+psh"]);
    }
    let ports = protocol == "tcp" && !text.contains("nw_frag=later");
    (if ports { Packets::Tcp } else { Packets::Ipv4 }, text)
}

fn ipv6_match(rng: &mut Rng) -> (Packets, String) {
    let protocol = rng.pick(&["ipv6", "icmp6", "tcp6", "udp6", "sctp6"]);
    let mut text = format!("{protocol}{}", ip_match(rng));
    if rng.chance(70) {
        let (a, b) = (rng.ipv6(), rng.ipv6());
        text += &format!(",ipv6_src={},ipv6_dst={}", rng.prefix(a, 127), rng.prefix(b, 127));
    }
    if rng.chance(20) {
        text += &format!(",ipv6_label={:#x}", rng.below(1 << 20));
    }
    match protocol {
        "tcp6" | "udp6" | "sctp6" if !text.contains("nw_frag=later") => text += &transport(rng),
        "icmp6" if !text.contains("nw_frag=later") => match rng.below(4) {
            0 => text += &format!(",icmp_type=135,icmp_code=0,nd_target={},nd_sll={}", rng.ipv6(), rng.mac()),
            1 => text += &format!(",icmp_type=136,nd_target={},nd_tll={}", rng.ipv6(), rng.mac()),
            2 => text += &format!(",icmp_type={}", 1 + rng.below(130)),
            _ => {}
        },
        _ => {}
    }
    let ports = protocol == "udp6" && !text.contains("nw_frag=later");
    (if ports { Packets::Udp6 } else { Packets::Ipv6 }, text)
}

fn protocol_match(rng: &mut Rng) -> (Packets, String) {
    match rng.below(10) {
        0 => (Packets::Any, String::new()),
        1 => (
            Packets::Any,
            rng.pick(&["dl_type=0x88cc", "rarp", "mpls,mpls_label=5,mpls_tc=1,mpls_bos=0"]).into(),
        ),
        2 => {
            let (a, b) = (rng.ipv4(), rng.ipv4());
            let text = format!("arp,arp_op={},arp_spa={}", 1 + rng.below(2), rng.prefix(a, 31));
            (Packets::Arp, format!("{text},arp_tpa={b},arp_sha={}", rng.mac()))
        }
        3..=6 => ipv4_match(rng),
        _ => ipv6_match(rng),
    }
}

fn nat(rng: &mut Rng, v6: bool) -> String {
    let kind = rng.pick(&["src", "dst"]);
    let flags = rng.pick(&["", ",random", ",hash", ",persistent", ",persistent,random"]);
    let ports = match rng.below(3) {
        0 => String::new(),
        1 => format!(":{}", 1 + rng.below(65535)),
        _ => format!(":{}-{}", 1 + rng.below(1000), 1000 + rng.below(1000)),
    };
    let (low, high) = (rng.below(100), 100 + rng.below(100));
    let (open, close) = if ports.is_empty() { ("", "") } else { ("[", "]") };
    let address = match (v6, rng.chance(50)) {
        (false, false) => format!("10.0.0.{low}"),
        (false, true) => format!("10.0.0.{low}-10.0.0.{high}"),
        (true, false) => format!("{open}fd00::1{low:x}{close}"),
        (true, true) => format!("{open}fd00::1{low:02x}{close}-{open}fd00::1{high:02x}{close}"),
    };
    format!("nat({kind}={address}{ports}{flags})")
}

fn ct(rng: &mut Rng, packets: Packets) -> String {
    let v6 = matches!(packets, Packets::Ipv6 | Packets::Udp6);
    let mut parts = Vec::new();
    let commit = rng.chance(50);
    if commit {
        parts.push(rng.pick(&["commit", "commit,force"]).to_owned());
    }
    if rng.chance(60) {
        parts.push(format!("table={}", rng.below(255)));
    }
    match rng.below(3) {
        0 => parts.push(format!("zone={}", 1 + rng.below(65535))),
        1 => parts.push(rng.pick(&["zone=NXM_NX_REG0[0..15]", "zone=NXM_NX_REG13[16..31]"]).to_owned()),
        _ => {}
    }
    if commit {
        match rng.below(3) {
            0 => parts.push(nat(rng, v6)),
            1 => parts.push("nat".to_owned()),
            _ => {}
        }
    }
    if commit && rng.chance(60) {
        let mark = rng.masked(32);
        let exec = match rng.below(4) {
            0 => format!("set_field:{mark}->ct_mark"),
            1 => format!("set_field:{mark}->ct_mark,set_field:{:#x}->ct_label", 1 + rng.below(1 << 50)),
            2 => "move:NXM_NX_REG0[]->NXM_NX_CT_MARK[]".to_owned(),
            _ => format!("load:{:#x}->NXM_NX_CT_LABEL[64..95]", rng.below(1 << 32)),
        };
        parts.push(format!("exec({exec})"));
    }
    match packets {
        Packets::Tcp if commit && rng.chance(20) => parts.push("alg=ftp".to_owned()),
        Packets::Udp6 if commit && rng.chance(20) => parts.push("alg=tftp".to_owned()),
        _ => {}
    }
    format!("ct({})", parts.join(","))
}

fn controller(rng: &mut Rng) -> String {
    let mut parts = vec![format!("id={}", 1 + rng.below(65535))];
    if rng.chance(50) {
        parts.push(format!("max_len={}", rng.below(65536)));
    }
    if rng.chance(30) {
        parts.push(format!("reason={}", rng.pick(&["no_match", "invalid_ttl", "action"])));
    }
    if rng.chance(60) {
        let bytes: Vec<String> = (0..1 + rng.below(20)).map(|_| format!("{:02x}", rng.below(256))).collect();
        parts.push(format!("userdata={}", bytes.join(".")));
    }
    if rng.chance(40) {
        parts.push("pause".into());
    }
    if rng.chance(30) {
        parts.push(format!("meter_id={}", 1 + rng.below(1000)));
    }
    format!("controller({})", parts.join(","))
}

/// An action that any packet may get.
fn action(rng: &mut Rng, packets: Packets) -> String {
    match rng.below(38) {
        0 | 1 => format!("output:{}", 1 + rng.below(60000)),
        2 => rng.pick(&["LOCAL", "in_port", "NORMAL", "FLOOD", "ALL", "controller", "controller:128"]).into(),
        3 => format!("output(port={},max_len={})", 1 + rng.below(60000), 64 + rng.below(1400)),
        4 => format!("output:{}", rng.pick(&["NXM_NX_REG1[0..15]", "reg2", "NXM_NX_REG15[]"])),
        5 | 6 => controller(rng),
        7 => format!("resubmit(,{})", rng.below(255)),
        8 => format!("resubmit({},{})", 1 + rng.below(60000), rng.below(255)),
        9 => format!("resubmit:{}", 1 + rng.below(60000)),
        10 => format!("group:{}", rng.below(1 << 31)),
        11 => format!("load:{:#x}->NXM_OF_VLAN_TCI[12]", rng.below(2)),
        12 => format!("set_queue:{}", rng.below(1000)),
        13 => rng.pick(&["pop_queue", "exit", "ct_clear", "dec_mpls_ttl"][..3]).into(),
        14 => format!("load:{:#x}->NXM_NX_REG{}[4..11]", rng.below(256), rng.below(16)),
        15 => format!("load:{:#x}->OXM_OF_METADATA[0..3]", rng.below(16)),
        16 => format!("load:{:#x}->NXM_NX_REG{}[]", rng.below(1 << 32), rng.below(16)),
        17 => "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]".into(),
        18 => format!("move:NXM_NX_REG{}[0..15]->NXM_NX_REG{}[16..31]", rng.below(16), rng.below(16)),
        19 => format!("move:NXM_NX_TUN_ID[0..31]->NXM_NX_REG{}[]", rng.below(16)),
        20 => {
            let n = rng.below(16);
            format!("set_field:{}->reg{n}", rng.masked(32))
        }
        21 => format!("set_field:{}->eth_dst", rng.mac()),
        22 => format!("set_field:{}->{}", rng.masked(64), rng.pick(&["xreg3", "metadata", "tun_id"])),
        23 => format!("set_field:{}->xxreg1", rng.masked(64)),
        24 => format!("set_field:{}->tun_dst", rng.ipv4()),
        25 => format!("set_field:{}->tun_ipv6_dst", rng.ipv6()),
        26 => format!("set_field:{}->pkt_mark", rng.masked(32)),
        27 => format!("mod_dl_src:{}", rng.mac()),
        28 => format!("push:{}", rng.field()),
        29 => format!("pop:{}", rng.field()),
        30 => format!("note:{:02x}.{:02x}.{:02x}", rng.below(256), rng.below(256), rng.below(256)),
        31 => {
            format!("check_pkt_larger({})->NXM_NX_REG{}[{}]", rng.below(9000), rng.below(16), rng.below(32))
        }
        32 => format!("enqueue:{}:{}", 1 + rng.below(60000), rng.below(8)),
        33 => "push_vlan:0x8100,set_field:4103->vlan_vid".into(),
        34 => format!(
            "clone(output:{},set_field:{:#x}->reg0,resubmit(,7))",
            1 + rng.below(60000),
            rng.below(99)
        ),
        35 => later_action(rng, packets),
        36 => format!("set_tunnel:{:#x}", rng.below(1 << 32)),
        _ => format!("set_field:{}/{}->eth_src", "02:00:00:00:00:00", "ff:ff:00:00:00:00"),
    }
}

fn later_action(rng: &mut Rng, packets: Packets) -> String {
    let hash = ["eth_src", "symmetric_l4", "symmetric_l3l4", "nw_src", "nw_dst", "symmetric_l3"];
    match rng.below(6) {
        0 => format!("multipath({},{},hrw,4,0,NXM_NX_REG0[0..1])", rng.pick(&hash), rng.below(65536)),
        1 => format!("bundle({},0,active_backup,ofport,members:2,3,{})", rng.pick(&hash), 4 + rng.below(9)),
        2 => {
            format!("bundle_load({},{},hrw,ofport,NXM_NX_REG0[],members:2,3)", rng.pick(&hash), rng.below(99))
        }
        3 => {
            let tail = rng.pick(&["", ",sampling_port=2", ",sampling_port=2,egress", ",ingress"]);
            let probability = 1 + rng.below(65535);
            format!(
                "sample(probability={probability},collector_set_id=1,obs_domain_id=2,obs_point_id=3{tail})"
            )
        }
        4 => format!(
            "learn(table={},idle_timeout=10,hard_timeout=20,priority=7,cookie={:#x},NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
             NXM_OF_VLAN_TCI[0..11],load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15],output:NXM_OF_IN_PORT[])",
            rng.below(255),
            rng.next()
        ),
        _ if !matches!(packets, Packets::Ipv4 | Packets::Tcp) => action(rng, packets),
        _ => format!(
            "learn(table=6,limit={},result_dst=reg0[3],eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_IP_SRC[],load:{:#x}->NXM_NX_REG1[])",
            1 + rng.below(1000),
            rng.below(99)
        ),
    }
}

/// An action that only packets of this kind may get.
fn action_for(rng: &mut Rng, packets: Packets) -> String {
    match (packets, rng.below(7)) {
        (Packets::Any, _) => action(rng, packets),
        (Packets::Arp, 0) => "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]".into(),
        (Packets::Arp, 1) => "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]".into(),
        (Packets::Arp, 2) => "load:0x2->NXM_OF_ARP_OP[]".into(),
        (Packets::Arp, _) => action(rng, packets),
        (_, 0 | 1) => ct(rng, packets),
        (_, 2) => rng.pick(&["dec_ttl", "dec_ttl(1,2)"]).into(),
        (Packets::Tcp, 3) => {
            rng.pick(&["mod_tp_dst:99", "set_field:8080->tcp_dst", "fin_timeout(idle_timeout=5)"]).into()
        }
        (Packets::Udp6, 3) => rng.pick(&["mod_tp_src:99", "set_field:53->udp_dst"]).into(),
        (Packets::Tcp | Packets::Ipv4, 4) => format!("mod_nw_dst:{}", rng.ipv4()),
        (Packets::Tcp | Packets::Ipv4, 5) => format!("set_field:{}->ip_src", rng.ipv4()),
        (_, 4) => format!("set_field:{}->ipv6_src", rng.ipv6()),
        (_, 5) => rng.pick(&["mod_nw_tos:16", "mod_nw_ecn:2", "mod_nw_ttl:3", "set_field:4->nw_ttl"]).into(),
        _ => action(rng, packets),
    }
}

/// Actions, then at times the instructions that may follow them.
fn actions(rng: &mut Rng, packets: Packets) -> String {
    if rng.chance(5) {
        return rng.pick(&["drop", "conjunction(7,1/3)", "conjunction(7,1/3),conjunction(9,2/2)"]).into();
    }
    let mut list: Vec<String> = (0..1 + rng.below(4)).map(|_| action_for(rng, packets)).collect();
    if rng.chance(10) {
        list.insert(0, format!("meter:{}", 1 + rng.below(1000)));
    }
    if rng.chance(10) {
        list.push("clear_actions".into());
    }
    if rng.chance(10) {
        list.push(format!("write_actions(output:{})", 1 + rng.below(60000)));
    }
    if rng.chance(15) {
        list.push(format!("write_metadata:{}", rng.masked(64)));
    }
    if rng.chance(25) {
        list.push("goto_table:200".into());
    }
    list.join(",")
}

/// One flow of table 0 to 199.
pub fn flow(rng: &mut Rng) -> String {
    let mut parts = vec![format!("table={}", rng.below(200))];
    if rng.chance(80) {
        parts.push(format!("priority={}", rng.below(65536)));
    }
    if rng.chance(60) {
        parts.push(format!("cookie={:#x}", rng.next()));
    }
    if rng.chance(30) {
        parts.push(format!("idle_timeout={}", rng.below(65536)));
    }
    if rng.chance(30) {
        parts.push(format!("hard_timeout={}", rng.below(65536)));
    }
    for word in ["send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"] {
        if rng.chance(10) {
            parts.push(word.into());
        }
    }
    let (packets, protocol) = protocol_match(rng);
    let mut tracked = false;
    let (mut named, mut tagged) = (Vec::new(), false);
    for _ in 0..rng.below(4) {
        // Names for parts of one field (registers, the tag) would contradict each other.
        let condition = any_match(rng);
        let name = match condition.split('=').next().unwrap_or_default() {
            name if name.contains("vlan") => "vlan",
            name if name.contains("reg") => "reg",
            name => name,
        };
        if !named.contains(&name.to_owned()) {
            named.push(name.to_owned());
            tagged |= name == "vlan";
            parts.push(condition);
        }
    }
    if matches!(packets, Packets::Ipv4 | Packets::Ipv6) && rng.chance(40) {
        let condition = ct_match(rng, packets == Packets::Ipv6);
        tracked = condition.contains("+new") || condition.contains("+est");
        parts.push(condition);
    }
    if !protocol.is_empty() {
        parts.push(protocol);
    }
    let first = if tracked && rng.chance(30) { "resubmit(,5,ct)," } else { "" };
    let mut actions = actions(rng, packets);
    while tagged && actions.contains("push_vlan") {
        actions = self::actions(rng, packets);
    }
    let first = if actions == "drop" || actions.starts_with("conjunction") || actions.starts_with("meter") {
        ""
    } else {
        first
    };
    format!("{} actions={first}{actions}", parts.join(","))
}
