use super::{Connections, FlowTable, Packet, Simulator, Trace, Tracker};
use crate::action::{Action, Ct, Nat, port};
use crate::field::Field;
use crate::flow::{Flow, FlowMod, FlowModCommand};

fn table(text: &str) -> FlowTable {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.parse::<Flow>().unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

fn tcp(in_port: u32, src: [u8; 4], dst: [u8; 4], sport: u16, dport: u16) -> Packet {
    Packet::new()
        .with(Field::IN_PORT, in_port)
        .with(Field::ETH_TYPE, 0x0800u16)
        .with(Field::IP_PROTO, 6u8)
        .with(Field::IP_TTL, 64u8)
        .with(Field::IPV4_SRC, u32::from_be_bytes(src))
        .with(Field::IPV4_DST, u32::from_be_bytes(dst))
        .with(Field::TCP_SRC, sport)
        .with(Field::TCP_DST, dport)
}

fn web() -> Packet {
    tcp(1, [10, 0, 0, 1], [10, 0, 0, 2], 1000, 80)
}

/// A tracker for pipelines without connection tracking.
fn none(_: &mut Packet, _: u16, _: &Ct) {}

fn run<'a>(flows: &'a FlowTable, packet: Packet) -> Trace<'a> {
    Simulator::new(flows).run(packet, &mut none)
}

#[test]
fn a_difference_adds_then_deletes_and_is_empty_for_equal_tables() {
    let installed = table(
        "table=0,priority=5,ip actions=output:1
         cookie=0x1,table=1,tcp actions=load:0x1->NXM_NX_REG0[]
         table=2 actions=drop",
    );
    let desired = table(
        "table=0,priority=5,ip actions=output:2
         cookie=0x1,table=1,tcp actions=set_field:0x1->reg0
         table=3 actions=drop",
    );
    let changes = FlowTable::diff(&installed, &desired);
    let shown: Vec<String> = changes.iter().map(FlowMod::to_string).collect();
    assert_eq!(
        shown,
        ["ADD priority=5,ip actions=output:2", "ADD table:3 actions=drop", "DEL_STRICT table:2 actions=drop",]
    );
    assert_eq!(FlowTable::diff(&desired, &desired), []);
    let mut applied = installed.clone();
    for change in changes {
        match change.command {
            FlowModCommand::Add => drop(applied.insert(change.flow)),
            _ => drop(applied.remove(&change.flow.key())),
        }
    }
    assert_eq!(FlowTable::diff(&applied, &desired), []);
}

#[test]
fn cookies_timeouts_and_flags_are_differences() {
    let base = "table=1,priority=9,ip,actions=output:1";
    for change in ["cookie=0x5,", "idle_timeout=5,", "hard_timeout=5,", "send_flow_rem,", "no_packet_counts,"]
    {
        let desired = table(&format!("{change}{base}"));
        assert_eq!(FlowTable::diff(&table(base), &desired).len(), 1, "{change}");
    }
    // What a switch does not show is none.
    for same in ["check_overlap,", "reset_counts,"] {
        assert_eq!(FlowTable::diff(&table(base), &table(&format!("{same}{base}"))), [], "{same}");
    }
}

#[test]
fn the_highest_priority_wins_and_rivals_are_told() {
    let flows = table(
        "priority=1,ip actions=output:9
         priority=5,ip,nw_dst=10.0.0.0/24 actions=output:2
         priority=5,tcp actions=output:3
         priority=7,udp actions=output:4",
    );
    let trace = run(&flows, web());
    assert_eq!(trace.steps[0].flow.unwrap().priority, 5);
    assert_eq!(trace.steps[0].rivals.len(), 1);
    let missed = run(&flows, Packet::new().with(Field::ETH_TYPE, 0x0806u16));
    assert!(missed.is_dropped() && missed.steps[0].flow.is_none());
}

#[test]
fn resubmits_return_and_gotos_do_not() {
    let flows = table(
        "table=0 actions=load:0x5->NXM_NX_REG0[0..7],resubmit(,1),output:2,goto_table:3
         table=1,reg0=0x5 actions=move:NXM_NX_REG0[0..7]->NXM_NX_REG1[8..15],resubmit(7,2)
         table=2,in_port=7 actions=output:3
         table=3,reg1=0x500/0xff00 actions=output:NXM_NX_REG0[]",
    );
    let trace = run(&flows, web());
    assert_eq!(trace.tables(), [0, 1, 2, 3]);
    assert_eq!(trace.ports(), [3, 2, 5]);
    assert_eq!(trace.packet.get(Field::REG1), 0x500);
    assert_eq!(trace.packet.get(Field::IN_PORT), 1);
}

#[test]
fn a_packet_does_not_return_to_where_it_came_from() {
    let flows = table("actions=output:1,output:2,in_port");
    assert_eq!(run(&flows, web()).ports(), [2, port::IN_PORT]);
}

#[test]
fn clones_leave_the_packet_alone_and_exit_ends_all() {
    let flows = table(
        "table=0 actions=clone(set_field:9->reg0,output:2,exit,output:9),resubmit(,1),output:8
         table=1,reg0=0 actions=output:3,exit",
    );
    assert_eq!(run(&flows, web()).ports(), [2, 3]);
}

#[test]
fn action_sets_run_at_the_end() {
    let flows = table(
        "table=0 actions=write_actions(output:2,set_field:7->reg0),goto_table:1
         table=1 actions=write_actions(set_field:8->reg0),goto_table:2
         table=2 actions=output:3",
    );
    let trace = run(&flows, web());
    assert_eq!(trace.ports(), [3, 2]);
    assert_eq!(trace.outputs[1].1.get(Field::REG0), 8);
}

#[test]
fn tags_stacks_sizes_and_ttls_are_modelled() {
    let flows = table(
        "actions=check_pkt_larger(100)->NXM_NX_REG2[0],push:NXM_NX_REG2[],pop:NXM_NX_REG3[],push_vlan:0x8100,\
         set_field:4103->vlan_vid,dec_ttl,write_metadata:0x12/0xff,output:2",
    );
    let mut packet = web();
    packet.length = 101;
    let (_, sent) = &run(&flows, packet).outputs[0];
    let values = [Field::REG3, Field::DL_VLAN, Field::IP_TTL, Field::METADATA].map(|field| sent.get(field));
    assert_eq!(values, [1, 7, 63, 0x12]);
    let trace = run(&flows, web().with(Field::IP_TTL, 1u8));
    assert!(trace.outputs.is_empty());
    assert_eq!(trace.punts[0].controller.reason, 2);
}

#[test]
fn circles_end() {
    let flows = table("actions=resubmit(,0)");
    assert!(run(&flows, web()).looped);
}

#[test]
fn groups_take_the_bucket_that_was_given() {
    let flows = table("actions=group:5,group:6,output:4");
    let bucket: Vec<Action> = openflow_actions("set_field:1->reg0,output:3");
    let trace = Simulator::new(&flows).with_group(5, &bucket).run(web(), &mut none);
    assert_eq!(trace.ports(), [3, 4]);
    assert_eq!(trace.outputs[1].1.get(Field::REG0), 0);
    assert_eq!(trace.undone, [&Action::Group(6)]);
}

fn openflow_actions(text: &str) -> Vec<Action> {
    crate::action::parse_actions(text).unwrap()
}

#[test]
fn a_paused_packet_goes_on_where_it_stopped_in_the_flows_of_then() {
    let before = table(
        "table=0 actions=resubmit(,1),output:7
         table=1 actions=set_field:1->reg9,controller(userdata=aa,pause),resubmit(,1)",
    );
    let trace = run(&before, web());
    assert!(trace.outputs.is_empty());
    let punt = trace.punts.into_iter().next().unwrap();
    assert_eq!((punt.table, &punt.controller.userdata[..]), (1, &[0xaa][..]));
    assert_eq!(punt.packet.get(Field::REG9), 1);
    let mut after = before.clone();
    after.insert("table=1,priority=40000,tcp actions=output:3".parse().unwrap());
    let resumed = Simulator::new(&after).resume(punt.continuation.unwrap(), &mut none);
    assert_eq!(resumed.ports(), [3, 7]);
}

const TRACKED: &str = "table=0,ip actions=ct(table=1,zone=5,nat)
     table=1,ct_state=+new+trk,tcp,tp_dst=80 actions=ct(commit,zone=5,exec(set_field:0x7->ct_mark)),output:2
     table=1,ct_state=+est+trk,ct_mark=0x7,ip actions=output:9";

#[test]
fn connections_are_remembered_once_committed() {
    let flows = table(TRACKED);
    let simulator = Simulator::new(&flows);
    let mut connections = Connections::new();
    let reply = tcp(2, [10, 0, 0, 2], [10, 0, 0, 1], 80, 1000);
    assert!(simulator.run(reply.clone(), &mut connections).is_dropped());
    assert_eq!(simulator.run(web(), &mut connections).ports(), [2]);
    let answered = simulator.run(reply, &mut connections);
    assert_eq!(answered.ports(), [9]);
    assert_eq!(answered.packet.get(Field::CT_STATE), 0x2a, "est, rpl and trk");
    assert_eq!(answered.packet.get(Field::CT_NW_SRC), 0x0a00_0001);
    assert_eq!(simulator.run(web(), &mut connections).ports(), [9]);
    assert_eq!(connections.zone(5)[0].mark, 7);
    connections.flush(5);
    assert!(connections.zone(5).is_empty());
}

#[test]
fn what_was_known_of_a_packet_ends_with_the_next_look_up() {
    let flows = table(
        "table=0,ip actions=ct(table=1,zone=5)
         table=1,ct_state=+new+trk,ip actions=ct(commit,zone=6),resubmit(,2)
         table=2,ct_state=+trk,ip actions=output:2
         table=2,ct_state=-trk,ip actions=output:3",
    );
    assert_eq!(Simulator::new(&flows).run(web(), &mut Connections::new()).ports(), [3]);
}

#[test]
fn addresses_are_translated_there_and_back() {
    let flows = table(
        "table=0,ip actions=ct(table=1,zone=5,nat)
         table=1,ct_state=+new+trk,tcp,nw_dst=10.96.0.1 actions=ct(commit,table=2,zone=5,nat(dst=10.0.0.2:8080))
         table=1,ct_state=+est+trk,ip actions=goto_table:2
         table=2,tcp,nw_dst=10.0.0.2 actions=output:2
         table=2,tcp,nw_dst=10.0.0.1 actions=output:1",
    );
    let simulator = Simulator::new(&flows);
    let mut connections = Connections::new();
    let there = simulator.run(tcp(1, [10, 0, 0, 1], [10, 96, 0, 1], 1000, 80), &mut connections);
    let (to, sent) = &there.outputs[0];
    assert_eq!((*to, sent.get(Field::IPV4_DST), sent.get(Field::TCP_DST)), (2, 0x0a00_0002, 8080));
    let back = simulator.run(tcp(2, [10, 0, 0, 2], [10, 0, 0, 1], 8080, 1000), &mut connections);
    let (to, sent) = &back.outputs[0];
    assert_eq!((*to, sent.get(Field::IPV4_SRC), sent.get(Field::TCP_SRC)), (1, 0x0a60_0001, 80));
    assert_eq!(back.packet.get(Field::CT_STATE) & 0x80, 0x80, "dnat");
}

#[test]
fn what_is_not_ip_is_invalid() {
    let mut packet = Packet::new().with(Field::ETH_TYPE, 0x0806u16);
    Connections::new().track(&mut packet, 1, &Ct::default());
    assert_eq!(packet.get(Field::CT_STATE), 0x30);
}

/// A packet of UDP, or another protocol with ports.
fn of_protocol(protocol: u8, sport: u16, dport: u16) -> Packet {
    let (src, dst) = match protocol {
        132 => (Field::SCTP_SRC, Field::SCTP_DST),
        _ => (Field::UDP_SRC, Field::UDP_DST),
    };
    web()
        .with(Field::TCP_SRC, 0u16)
        .with(Field::TCP_DST, 0u16)
        .with(Field::IP_PROTO, protocol)
        .with(src, sport)
        .with(dst, dport)
}

fn reversed(packet: &Packet) -> Packet {
    let swap = |packet: Packet, a: Field, b: Field| {
        let (x, y) = (packet.get(a), packet.get(b));
        packet.with(a, y).with(b, x)
    };
    let packet = swap(packet.clone(), Field::IPV4_SRC, Field::IPV4_DST);
    let packet = swap(packet, Field::UDP_SRC, Field::UDP_DST);
    swap(packet, Field::SCTP_SRC, Field::SCTP_DST)
}

fn commit(connections: &mut Connections, packet: &Packet) {
    connections.track(&mut packet.clone(), 5, &Ct { commit: true, ..Ct::default() });
}

fn tracked(connections: &mut Connections, packet: &Packet) -> Packet {
    let mut packet = packet.clone();
    connections.track(&mut packet, 5, &Ct::default());
    packet
}

#[test]
fn errors_are_related_to_what_they_are_about_or_invalid() {
    let there = of_protocol(17, 1000, 53);
    let error = |about: &Packet| reversed(&there).with(Field::IP_PROTO, 1u8).error_about(about);
    let mut connections = Connections::new();
    let state = |connections: &mut Connections, about: &Packet| {
        tracked(connections, &error(about)).get(Field::CT_STATE)
    };
    assert_eq!(state(&mut connections, &there), 0x30, "invalid: about nothing");
    commit(&mut connections, &there);
    assert_eq!(state(&mut connections, &there), 0x2c, "of the reply direction");
    assert_eq!(state(&mut connections, &reversed(&there)), 0x24);
    assert_eq!(state(&mut connections, &of_protocol(17, 1000, 54)), 0x30);
    assert!(!connections.zone(5)[0].established, "an error is no answer");
}

#[test]
fn fragments_are_of_the_connection_of_the_whole() {
    let whole = of_protocol(17, 1000, 53);
    let piece = |kind: u8| of_protocol(17, 0, 0).with(Field::IP_FRAG, kind).fragment_of(&whole);
    let mut connections = Connections::new();
    let (first, later) = (tracked(&mut connections, &piece(1)), tracked(&mut connections, &piece(3)));
    assert_eq!((first.get(Field::CT_TP_DST), later.get(Field::CT_TP_DST)), (53, 0));
    assert_eq!((first.get(Field::UDP_DST), later.get(Field::CT_NW_PROTO)), (0, 17));
    commit(&mut connections, &piece(3));
    assert_eq!(tracked(&mut connections, &reversed(&whole)).get(Field::CT_STATE), 0x2a);
}

#[test]
fn in_userspace_a_pair_has_one_connection_in_sctp() {
    for (mut connections, state) in [(Connections::new(), 0x21), (Connections::in_userspace(), 0x2a)] {
        commit(&mut connections, &of_protocol(132, 1000, 3868));
        let other = reversed(&of_protocol(132, 9, 9));
        let mut tracked = other.clone();
        connections.track(&mut tracked, 5, &Ct { nat: Some(Nat::default()), ..Ct::default() });
        assert_eq!(tracked.get(Field::CT_STATE), state);
        assert_eq!(tracked.get(Field::SCTP_DST), 9, "the packet keeps its ports");
    }
}
