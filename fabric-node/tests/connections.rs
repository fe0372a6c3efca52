//! The connections room on a real `ovs-vswitchd`, and on daemons that do not answer.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[allow(dead_code, reason = "each test program uses a part")]
mod support;

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use fabric_core::node::{Connection, Event, Outcome, SwitchCommand, Task};
use fabric_node::connections::{ConnectionsConfig, Handle, start};
use support::{Folder, Ovs, PATIENCE, in_namespace, run, until};
use tokio::sync::mpsc;

/// A room and what it says.
struct Room {
    handle: Handle,
    events: mpsc::Receiver<Event>,
}

impl Room {
    fn new(run_dir: &Path) -> Self {
        let (sender, events) = mpsc::channel(4);
        let config =
            ConnectionsConfig { patience: Duration::from_secs(1), ..ConnectionsConfig::new(run_dir) };
        Self { handle: start(config, sender), events }
    }

    async fn outcome(&mut self, command: SwitchCommand) -> Outcome {
        self.handle.send(command).await;
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("an outcome in time");
        let Some(Event::Done { task: Task(7), outcome }) = event else { panic!("{event:?}") };
        outcome
    }

    async fn read(&mut self, zones: &[u16]) -> Result<Vec<Connection>, String> {
        let zones: BTreeSet<u16> = zones.iter().copied().collect();
        let command = SwitchCommand::ReadConnections { task: Task(7), zones };
        match self.outcome(command).await {
            Outcome::Connections(result) => result,
            other => panic!("{other:?}"),
        }
    }

    async fn end(&mut self, connections: Vec<Connection>) -> Result<(), String> {
        match self.outcome(SwitchCommand::EndConnections { task: Task(7), connections }).await {
            Outcome::Committed(result) => result,
            other => panic!("{other:?}"),
        }
    }
}

/// Frames without Ethernet's header, by kind, of conversations between the same two addresses.
fn frames() -> Vec<Vec<u8>> {
    let v4 = |build: fn(etherparse::PacketBuilderStep<etherparse::IpHeaders>, &mut Vec<u8>)| {
        let mut frame = Vec::new();
        let ends = ([10, 0, 0, 1], [10, 0, 0, 2]);
        build(etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(ends.0, ends.1, 64), &mut frame);
        frame
    };
    let v6 = |build: fn(etherparse::PacketBuilderStep<etherparse::IpHeaders>, &mut Vec<u8>)| {
        let mut frame = Vec::new();
        let end = |last| std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).octets();
        build(etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6(end(1), end(2), 64), &mut frame);
        frame
    };
    vec![
        v4(|ip, frame| ip.tcp(1000, 80, 1, 1000).syn().write(frame, &[]).expect("a frame")),
        v4(|ip, frame| ip.udp(1000, 53).write(frame, b"x").expect("a frame")),
        v4(|ip, frame| ip.icmpv4_echo_request(77, 1).write(frame, b"x").expect("a frame")),
        v6(|ip, frame| ip.tcp(1000, 80, 1, 1000).syn().write(frame, &[]).expect("a frame")),
        v6(|ip, frame| ip.udp(1000, 53).write(frame, b"x").expect("a frame")),
    ]
}

/// Sends frames through a flow that commits them in a zone.
fn commit(ovs: &Ovs, zone: u16) {
    let bridge = format!("unix:{}", ovs.file("br0.mgmt").display());
    for family in ["ip", "ipv6"] {
        let flow = format!(
            "table={zone},{family},actions=ct(commit,zone={zone},exec(set_field:1->ct_mark,set_field:0x1234->ct_label))"
        );
        run("ovs-ofctl", &["-O", "OpenFlow15", "add-flow", &bridge, &flow]);
    }
    for frame in frames() {
        let bytes: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let packet = format!("in_port=LOCAL,packet={bytes},actions=resubmit(,{zone})");
        run("ovs-ofctl", &["-O", "OpenFlow15", "packet-out", &bridge, &packet]);
    }
}

#[test]
fn connections_are_read_and_ended_one_by_one() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        ovs.vsctl(&["add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev"]);
        let mut room = Room::new(ovs.file("").as_path());
        assert_eq!(room.read(&[5]).await, Ok(vec![]));
        commit(&ovs, 5);
        commit(&ovs, 6);
        until("every frame has a connection", || {
            ovs.appctl(&["dpctl/dump-conntrack"]).lines().count() == 2 * frames().len()
        })
        .await;
        let all = room.read(&[5]).await.expect("connections");
        assert_eq!(all.len(), frames().len());
        assert!(all.iter().all(|c| c.zone == 5 && c.mark == 1 && c.label == 0x1234), "{all:?}");
        assert_eq!(room.read(&[5, 6]).await.map(|all| all.len()), Ok(2 * frames().len()));

        // One that is gone already is no error, and does not keep the others from ending.
        let source: IpAddr = [10, 0, 0, 1].into();
        let v4: Vec<Connection> = all.iter().filter(|c| c.original.source == source).copied().collect();
        assert_eq!(v4.len(), 3);
        let twice: Vec<Connection> = v4.iter().chain(&v4).copied().collect();
        assert_eq!(room.end(twice).await, Ok(()));
        let left = room.read(&[5]).await.expect("connections");
        assert!(left.len() == 2 && left.iter().all(|c| !v4.contains(c)), "{left:?}");
        assert_eq!(room.end(left).await, Ok(()));
        assert_eq!(room.read(&[5]).await, Ok(vec![]));
        assert_eq!(room.read(&[6]).await.map(|all| all.len()), Ok(frames().len()), "another zone stays");
        assert_eq!((room.handle.problem(), room.handle.unreadable()), (None, 0));
        let settled = room.outcome(SwitchCommand::Settle { task: Task(7) }).await;
        assert!(matches!(settled, Outcome::Committed(Ok(()))), "{settled:?}");
    });
}

/// Of two megaflows that overlap, some releases change one in place of the other.
#[test]
fn a_settled_switch_decides_by_its_flows_alone() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        ovs.vsctl(&[
            "add-br",
            "br0",
            "--",
            "set",
            "Bridge",
            "br0",
            "datapath_type=netdev",
            "fail_mode=secure",
        ]);
        ovs.vsctl(&["add-port", "br0", "out", "--", "set", "Interface", "out", "type=internal"]);
        run("ip", &["address", "add", "10.0.0.1/8", "dev", "br0"]);
        run("ip", &["link", "set", "br0", "up"]);
        let destinations = ["10.2.0.2", "10.1.2.2", "10.1.0.2"];
        for destination in destinations {
            run("ip", &["neighbour", "add", destination, "lladdr", "02:00:00:00:00:99", "dev", "br0"]);
        }
        let socket = UdpSocket::bind("10.0.0.1:5000").expect("a socket");
        let send = async |destination: &str| {
            let cached = || ovs.appctl(&["dpctl/dump-flows"]).matches(&format!("dst={destination}/")).count();
            socket.send_to(b"x", (destination, 5000)).expect("a packet leaves");
            until("the datapath remembers it", || cached() > 0).await;
        };
        let bridge = format!("unix:{}", ovs.file("br0.mgmt").display());
        let flows = |command: &str, flow: &str| {
            let flow = format!("in_port=LOCAL,ip,nw_dst={flow}");
            run("ovs-ofctl", &["-O", "OpenFlow15", command, &bridge, &flow]);
        };
        flows("add-flow", "10.2.0.0/16,actions=out");
        send(destinations[0]).await;
        flows("add-flow", "10.1.2.0/24,actions=out");
        send(destinations[1]).await;
        // The narrow megaflow is kept, and a wide one comes that takes its packets as well.
        flows("add-flow", "10.1.0.0/16,actions=out");
        flows("del-flows", "10.1.2.0/24");
        ovs.appctl(&["revalidator/wait"]);
        ovs.appctl(&["revalidator/wait"]);
        send(destinations[2]).await;
        flows("add-flow", "10.1.0.0/16,actions=drop");
        let mut room = Room::new(ovs.file("").as_path());
        let settled = room.outcome(SwitchCommand::Settle { task: Task(7) }).await;
        assert!(matches!(settled, Outcome::Committed(Ok(()))), "{settled:?}");
        let cached = ovs.appctl(&["dpctl/dump-flows"]);
        let stale = cached.lines().find(|line| line.contains("dst=10.1.") && !line.ends_with("actions:drop"));
        assert_eq!(stale, None, "{cached}");
    });
}

#[test]
fn a_switch_that_is_away_is_a_problem_until_it_is_back() {
    in_namespace(|| async {
        let mut ovs = Ovs::new().await;
        let mut room = Room::new(ovs.file("").as_path());
        let error = room.read(&[5]).await.expect_err("no daemon");
        assert!(error.contains("ovs-vswitchd.pid") && error.contains("ovs.runDir"), "{error}");
        assert_eq!(room.handle.problem(), Some(error));
        ovs.start_switch().await;
        ovs.vsctl(&["add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev"]);
        assert_eq!(room.read(&[5]).await, Ok(vec![]));
        assert_eq!(room.handle.problem(), None);
        ovs.kill_switch();
        let error = room.read(&[5]).await.expect_err("no daemon");
        assert!(error.contains(".ctl") && error.contains("is ovs-vswitchd running"), "{error}");
    });
}

#[tokio::test]
async fn a_switch_that_does_not_answer_is_not_waited_for() {
    let folder = Folder::new();
    std::fs::write(folder.file("ovs-vswitchd.pid"), "42\n").expect("a pid file");
    let listener = UnixListener::bind(folder.file("ovs-vswitchd.42.ctl")).expect("a socket");
    let mut room = Room::new(folder.file("").as_path());
    let error = room.read(&[5]).await.expect_err("silence");
    assert!(error.contains("did not answer dpctl/dump-conntrack within 1 s"), "{error}");
    let (mut stream, _) = listener.accept().expect("the room's connection");
    let mut asked = String::new();
    stream.read_to_string(&mut asked).expect("what the room asked");
    assert_eq!(asked, r#"{"id":0,"method":"dpctl/dump-conntrack","params":["zone=5"]}"#);
}
