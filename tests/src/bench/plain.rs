//! The peer: the same Open vSwitch without Fabric, in a lab of its own.
//!
//! `br-normal` forwards with NORMAL and joins its two nodes by VXLAN; `br-learn` asks
//! `ovs-testcontroller` about every conversation, which answers with a flow that matches
//! it exactly.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::lab::command::{command, run};
use crate::lab::{Lab, LabError, Node, Spec, netns, switch};

/// MTU of every pod here and of Fabric's pods: that of the wire less the encapsulation.
const MTU: u32 = 1450;
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
    /// Two pods of one node behind NORMAL, and one of another node.
    pub normal: [Place; 3],
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
        normal_bridge(&near, &far)?;
        normal_bridge(&far, &near)?;
        let socket = near.directory.join("controller.sock");
        let mut program = command(["ovs-testcontroller"]);
        program.envs(switch::environment(&near)).arg(format!("punix:{}", socket.display()));
        program.args(["-vconsole:off", "-vsyslog:off"]);
        let controller = netns::spawn_in(&near.namespace, &mut program)?;
        wait("the socket of ovs-testcontroller", || Ok(socket.exists()))?;
        bridge(
            &near,
            LEARN,
            "secure",
            &["--", "set-controller", LEARN, &format!("unix:{}", socket.display())],
        )?;
        let place = |node, bridge, number| pod(&lab, node, bridge, number);
        let normal = [place(&near, NORMAL, 1)?, place(&near, NORMAL, 2)?, place(&far, NORMAL, 3)?];
        let learn = [place(&near, LEARN, 4)?, place(&near, LEARN, 5)?];
        Ok(Self { lab, controller, normal, learn })
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

fn normal_bridge(node: &Node, peer: &Node) -> Result<(), LabError> {
    let [remote, _] = peer.addresses();
    let remote = format!("options:remote_ip={remote}");
    let tunnel =
        ["--", "add-port", NORMAL, "vxlan0", "--", "set", "Interface", "vxlan0", "type=vxlan", &remote];
    bridge(node, NORMAL, "standalone", &tunnel)
}

/// A pod on a bridge: a veth pair, as Fabric makes one, and neighbours that are known.
fn pod(lab: &Lab, node: &Node, bridge: &str, number: u8) -> Result<Place, LabError> {
    let namespace = lab.layout().name.pod(&format!("plain/{number}"));
    netns::add([namespace.as_str()])?;
    netns::sysctl(&namespace, &[("net/ipv6/conf/default/disable_ipv6", "1")])?;
    let device = format!("pod{number}");
    netns::batch(
        &node.namespace,
        &format!(
            "link add {device} mtu {MTU} type veth peer name eth0 mtu {MTU} netns {namespace}\nlink set {device} up\n"
        ),
    )?;
    let neighbours: String = (1..=5).filter(|other| *other != number).map(neighbour).collect();
    let mac = mac(number);
    let ip = ip(number);
    netns::batch(
        &namespace,
        &format!("link set eth0 address {mac} up\naddr add {ip}/24 dev eth0\n{neighbours}"),
    )?;
    netns::run_in(&namespace, &mut command(["ethtool", "-K", "eth0", "tx", "off"]))?;
    run(&mut switch::vsctl(node, &["--timeout=20"], &["add-port", bridge, &device]))?;
    Ok(Place { netns: namespace, ip: ip.into() })
}

fn neighbour(number: u8) -> String {
    format!("neigh add {} lladdr {} dev eth0 nud permanent\n", ip(number), mac(number))
}

fn ip(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, number)
}

fn mac(number: u8) -> String {
    format!("02:78:00:00:00:{number:02x}")
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
