//! The peer: the same Open vSwitch without Fabric, in a lab of its own.
//!
//! `br-normal` forwards with NORMAL: between two pods of a node, and between nodes by each way, whose pods and tunnel are
//! access ports of a VLAN of their own; that of the VLAN leads through the NIC. `br-learn` asks `ovs-testcontroller`
//! about every conversation, which answers with a flow that matches it exactly.
//!
//! A userspace datapath looks at every port and every bridge in turn, also at those without a packet. So there are
//! as many pods and bridges on a node as on Fabric's beside it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Child;
use std::time::{Duration, Instant};

use super::lan;
use super::pods::{TALKERS, WITNESSES};
use super::way::Way;
use crate::lab::command::{command, run};
use crate::lab::wire::plain_checksums;
use crate::lab::{Lab, LabError, Node, Spec, netns, switch};

/// MTU of the pods of one node, bytes, as that of Fabric's beside them.
const MTU: u32 = Way::Vxlan.mtu();
/// Forwards with NORMAL.
const NORMAL: &str = "br-normal";
/// Asks its controller.
const LEARN: &str = "br-learn";
/// How long a device or a socket may take to appear.
const PATIENCE: Duration = Duration::from_secs(10);

/// A pod's namespace and address.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its namespace.
    pub netns: String,
    /// Its address.
    pub ip: IpAddr,
}

/// Bare switches with pods.
#[derive(Debug)]
pub struct Plain {
    lab: Lab,
    controller: Child,
    /// Two pods of one node behind NORMAL.
    pub normal: [Place; 2],
    /// Two pods of one node behind the controller.
    pub learn: [Place; 2],
}

impl Plain {
    /// Makes it, on this many nodes (at least two).
    ///
    /// # Errors
    /// With what is missing, refused or late.
    pub fn up(nodes: usize) -> Result<Self, LabError> {
        let lab = Lab::up(&Spec { agents: false, ..Spec::for_test("plain", nodes)? })?;
        let (near, far) = (lab.node("n1")?.clone(), lab.node("n2")?.clone());
        let controller = learning_bridge(&near)?;
        let plain =
            |name: &str, number| Seat { bridge: name.to_owned(), net: 0, number, mtu: MTU, tag: None };
        lan::lay(&lab)?;
        normal_bridge(&near, &far)?;
        normal_bridge(&far, &near)?;
        let place = |name, number| plain(name, number).fill(&lab, &near);
        let (normal, learn) = ([place(NORMAL, 1)?, place(NORMAL, 2)?], [place(LEARN, 3)?, place(LEARN, 4)?]);
        // Idle ones.
        for number in (1..).take(TALKERS + WITNESSES.len()).skip(normal.len() + learn.len()) {
            place(NORMAL, number)?;
        }
        for way in Way::ALL {
            Seat::on(way, 1).fill(&lab, &near)?;
            Seat::on(way, 2).fill(&lab, &far)?;
        }
        Ok(Self { lab, controller, normal, learn })
    }

    /// The pods at both ends of a way, with their addresses of one family.
    pub fn ends(&self, way: Way, six: bool) -> [Place; 2] {
        [1, 2].map(|number| {
            let seat = Seat::on(way, number);
            let [four_ip, six_ip] = seat.addresses();
            Place { netns: seat.namespace(&self.lab), ip: if six { six_ip } else { four_ip } }
        })
    }

    /// The namespace of its first node, where a reference plugin makes its own bridge.
    ///
    /// # Errors
    /// [`LabError::NoSuchPlace`].
    pub fn node(&self) -> Result<&Node, LabError> {
        self.lab.node("n1")
    }

    /// Name of a namespace that is removed with the lab.
    pub fn namespace(&self, name: &str) -> String {
        self.lab.layout().name.pod(name)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.controller.kill();
        let _ = self.controller.wait();
    }
}

fn bridge(node: &Node, name: &str, fail_mode: &str, more: &[&str]) -> Result<(), LabError> {
    let fail_mode = format!("fail_mode={fail_mode}");
    let words = ["add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev", &fail_mode];
    run(&mut switch::vsctl(node, &["--timeout=20"], &[&words[..], more].concat())).map(drop)
}

/// The bridge of the controller, and that.
fn learning_bridge(node: &Node) -> Result<Child, LabError> {
    let socket = node.directory.join("controller.sock");
    let mut program = command(["ovs-testcontroller"]);
    program.envs(switch::environment(node)).arg(format!("punix:{}", socket.display()));
    program.args(["-vconsole:off", "-vsyslog:off"]);
    let controller = netns::spawn_in(&node.namespace, &mut program)?;
    wait("the socket of ovs-testcontroller", || Ok(socket.exists()))?;
    let target = format!("unix:{}", socket.display());
    bridge(node, LEARN, "secure", &["--", "set-controller", LEARN, &target])?;
    Ok(controller)
}

/// The bridge with what leads to the other node.
fn normal_bridge(node: &Node, peer: &Node) -> Result<(), LabError> {
    let [remote, _] = peer.addresses();
    let mut words = format!("-- add-port {NORMAL} {} trunks={}", lan::NIC, Way::Vlan.tag());
    for way in Way::ALL.into_iter().filter(|way| *way != Way::Vlan) {
        let (kind, key, tag) = (way.word(), way.number(), way.tag());
        words += &format!(
            " -- add-port {NORMAL} {kind}0 tag={tag} -- set Interface {kind}0 type={kind} options:remote_ip={remote} \
             options:key={key}"
        );
    }
    bridge(node, NORMAL, "standalone", &words.split(' ').collect::<Vec<_>>())
}

/// Where a pod goes, and who it is.
struct Seat {
    bridge: String,
    /// Part of the addresses: pods of one net know each other.
    net: u8,
    number: u8,
    mtu: u32,
    /// VLAN of its port.
    tag: Option<u16>,
}

impl Seat {
    /// At an end of a way.
    fn on(way: Way, number: u8) -> Self {
        let (bridge, tag) = (NORMAL.to_owned(), Some(way.tag()));
        Self { bridge, net: way.number(), number, mtu: way.mtu(), tag }
    }

    fn namespace(&self, lab: &Lab) -> String {
        lab.layout().name.pod(&format!("plain/{}/{}", self.net, self.number))
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let (net, number) = (self.net, self.number);
        let six = Ipv6Addr::new(0xfd78, 0, 0, net.into(), 0, 0, 0, number.into());
        [Ipv4Addr::new(10, 78, net, number).into(), six.into()]
    }

    fn mac(&self) -> String {
        format!("02:78:00:00:{:02x}:{:02x}", self.net, self.number)
    }

    /// Makes the pod: a veth pair, as Fabric makes one, and neighbours that are known.
    fn fill(self, lab: &Lab, node: &Node) -> Result<Place, LabError> {
        let (namespace, mtu) = (self.namespace(lab), self.mtu);
        netns::add([namespace.as_str()])?;
        let quiet =
            [("net/ipv6/conf/default/accept_dad", "0"), ("net/ipv6/conf/default/router_solicitations", "0")];
        netns::sysctl(&namespace, &quiet)?;
        let device = format!("pod{}-{}", self.net, self.number);
        let link = format!(
            "link add {device} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {namespace}\n\
             link set {device} addrgenmode none\nlink set {device} up\n"
        );
        netns::batch(&node.namespace, &link)?;
        netns::batch(&namespace, &self.lines())?;
        plain_checksums(&namespace, "eth0")?;
        let tag = self.tag.map(|tag| format!("tag={tag}"));
        let words = ["add-port", &self.bridge, &device].into_iter().chain(tag.as_deref());
        run(&mut switch::vsctl(node, &["--timeout=20"], &words.collect::<Vec<_>>()))?;
        let [ip, _] = self.addresses();
        Ok(Place { netns: namespace, ip })
    }

    /// Lines of `ip` for the pod's own interface.
    fn lines(&self) -> String {
        let [four, six] = self.addresses();
        let mut lines = format!(
            "link set eth0 address {} up\naddr add {four}/24 dev eth0\naddr add {six}/64 dev eth0 nodad\n",
            self.mac()
        );
        for number in (1..=4).filter(|number| *number != self.number) {
            let other = Self { bridge: String::new(), number, ..*self };
            for ip in other.addresses() {
                lines += &format!("neigh add {ip} lladdr {} dev eth0 nud permanent\n", other.mac());
            }
        }
        lines
    }
}

/// Waits until something holds.
///
/// # Errors
/// [`LabError::Timeout`].
pub fn wait(what: &str, mut holds: impl FnMut() -> Result<bool, LabError>) -> Result<(), LabError> {
    let until = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() >= until {
            return Err(LabError::Timeout { what: what.to_owned(), after: PATIENCE });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
