//! Throughput of one TCP connection once its conversation is learned, by iperf3, beside
//! the same pods behind NORMAL. Rounds of both sides are taken in turn, and the medians compared.

use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::plain::{Place, Plain};
use super::pods::{FAR, addresses, talker};
use super::report::{Limit, Row};
use super::stats::median;
use crate::lab::command::command;
use crate::lab::{Lab, LabError, interrupt, netns};

/// Rounds of each pair of pods.
const ROUNDS: usize = 3;
/// Seconds of a round.
const SECONDS: &str = "2";
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures it on one node and across two.
///
/// # Errors
/// Where iperf3 is missing or fails.
pub fn measure(lab: &Lab, plain: &Plain) -> Result<Vec<Row>, LabError> {
    let place = |name: &str| {
        let pod = lab.pod(name)?;
        let none = || LabError::NotReady(format!("pod {name} has no address"));
        let ip = addresses(pod).first().copied().ok_or_else(none)?;
        Ok::<_, LabError>(Place { netns: pod.netns.clone(), ip })
    };
    let [one, two, three] = &plain.normal;
    let (talker_one, talker_two, far) = (place(&talker(1))?, place(&talker(2))?, place(FAR)?);
    let mut rows = compare("on one node", [(&talker_one, &talker_two), (one, two)])?;
    rows.extend(compare("across two nodes", [(&talker_one, &far), (one, three)])?);
    Ok(rows)
}

fn compare(how: &str, [fabric, normal]: [(&Place, &Place); 2]) -> Result<Vec<Row>, LabError> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        interrupt::check()?;
        ours.push(round(fabric)?);
        theirs.push(round(normal)?);
    }
    let listed = |rates: &[f64]| {
        let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.2}")).collect();
        format!("rounds: {}", rates.join(", "))
    };
    let peer = median(&theirs);
    Ok(vec![
        Row::new(&format!("throughput {how}, learned"), median(&ours), "Gbit/s", listed(&ours)).budget(
            "≥ 0.95 × NORMAL",
            peer,
            Limit::AtLeast(0.95),
        ),
        Row::new(&format!("peer: throughput {how}, NORMAL"), peer, "Gbit/s", listed(&theirs)),
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
fn round((from, to): (&Place, &Place)) -> Result<f64, LabError> {
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
