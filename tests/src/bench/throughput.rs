//! Throughput of one TCP connection once its conversation is learned, by iperf3, beside the same pods behind NORMAL:
//! on one node, and between two nodes by a VLAN and by each encapsulation.
//!
//! Rounds of both sides are taken in turn, and which side begins changes from round to round. A round of one side is held against
//! the one beside it; the middle one of these ratios counts, the least and the greatest stand beside it. One round of each
//! side goes before, so that conversations are learned, and addresses known to the switches.

use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::plain::{Place, Plain};
use super::pods::talker;
use super::report::{Limit, Row};
use super::stats::median;
use super::way::Way;
use crate::lab::command::command;
use crate::lab::{Lab, LabError, interrupt, netns};

/// Rounds of each pair of pods.
const ROUNDS: usize = 7;
/// Seconds of a round.
const SECONDS: &str = "1";
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures it on one node and between two.
///
/// # Errors
/// Where iperf3 is missing or fails.
pub fn measure(lab: &Lab, plain: &Plain) -> Result<Vec<Row>, LabError> {
    let place = |name: &str, six: bool| {
        let pod = lab.pod(name)?;
        let none = || LabError::NotReady(format!("pod {name} lacks an address"));
        let ip = pod.ips().into_iter().find(|ip| ip.is_ipv6() == six).ok_or_else(none)?;
        Ok::<_, LabError>(Place { netns: pod.netns.clone(), ip })
    };
    let talkers = [place(&talker(1), false)?, place(&talker(2), false)?];
    let mut rows = compare("on one node", &talkers, &plain.normal)?;
    for (way, six) in Way::ALL.map(|way| (way, false)).into_iter().chain([(Way::Vxlan, true)]) {
        let ends = [place(&way.pod(1), six)?, place(&way.pod(2), six)?];
        let what = format!("between nodes, {}{}", way.title(), if six { ", IPv6" } else { "" });
        rows.extend(compare(&what, &ends, &plain.ends(way, six))?);
    }
    Ok(rows)
}

fn compare(how: &str, fabric: &[Place; 2], normal: &[Place; 2]) -> Result<Vec<Row>, LabError> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    round(fabric)?;
    round(normal)?;
    for number in 0..ROUNDS {
        interrupt::check()?;
        if number % 2 == 0 {
            ours.push(round(fabric)?);
            theirs.push(round(normal)?);
        } else {
            theirs.push(round(normal)?);
            ours.push(round(fabric)?);
        }
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(our, their)| our / their).collect();
    let spread = |of: &[f64]| {
        let (least, greatest) = of.iter().fold((f64::MAX, 0_f64), |(l, g), x| (l.min(*x), g.max(*x)));
        format!("{least:.2} to {greatest:.2}")
    };
    let note = format!("{ROUNDS} rounds: {}; ratios {}", spread(&ours), spread(&ratios));
    Ok(vec![
        Row::new(&format!("throughput {how}, learned"), median(&ours), "Gbit/s", note).ratio(
            "≥ 0.95 × NORMAL",
            median(&ratios),
            Limit::AtLeast(0.95),
        ),
        Row::new(
            &format!("peer: throughput {how}, NORMAL"),
            median(&theirs),
            "Gbit/s",
            format!("{ROUNDS} rounds: {}", spread(&theirs)),
        ),
    ])
}

/// A server that ends with its value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gbit/s received.
fn round([from, to]: &[Place; 2]) -> Result<f64, LabError> {
    let address = to.ip.to_string();
    let mut server = command(["iperf3", "-s", "-1", "-B", &address]);
    server.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let _server = Server(netns::spawn_in(&to.netns, &mut server)?);
    let until = Instant::now() + PATIENCE;
    loop {
        let mut client = command(["iperf3", "-c", &address, "-t", SECONDS, "-J"]);
        let output = netns::output_in(&from.netns, &mut client, &[])?;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if let Some(rate) = report["end"]["sum_received"]["bits_per_second"].as_f64()
            && output.status.success()
        {
            return Ok(rate / 1e9);
        }
        let why = report["error"].as_str().unwrap_or("no report").to_owned();
        if Instant::now() >= until {
            return Err(LabError::NotReady(format!("iperf3 from {} to {address}: {why}", from.netns)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
