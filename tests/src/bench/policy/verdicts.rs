//! Verdicts with their regions: [`World::judge`] asked about pods at random.
//!
//! Every question is timed by itself. The first pass asks about pods that nobody has asked about before, and so takes
//! in what is compiled on demand; the figure is of later passes. The questions are such as punts bring: peers of the
//! same namespace and of others, from outside and to outside, on ports that policies open and on others.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::{Direction, Edit, Question, Traffic, Verdict, World};
use serde_json::json;

use super::cluster::{Cluster, OWN, address, addresses, object};
use super::rules;
use crate::bench::report::{Limit, Row};
use crate::bench::stats::{Samples, median};
use crate::lab::LabError;
use crate::oracle::random::Dice;

/// Questions of a pass.
const QUESTIONS: usize = 20_000;
/// Passes after the first.
const PASSES: usize = 5;
/// The policies that select one pod of the hard world.
const MANY: usize = 200;
/// Microseconds.
const BUDGET: f64 = 2.0;

/// What the passes over some questions came to, microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Middle one of the passes' medians.
    pub median: f64,
    /// Middle one of the passes' means.
    pub mean: f64,
    /// Median of the first pass.
    first: f64,
    /// Mean of the first pass.
    first_mean: f64,
    /// Middle one of the 99th percentiles.
    p99: f64,
    /// Answers that allow, of a hundred.
    allowed: usize,
}

/// Asks a world of pods.
pub fn ask_cluster(world: &World, cluster: Cluster) -> Asked {
    let mut dice = Dice::new(4);
    let questions: Vec<Question> = (0..QUESTIONS).map(|_| question(cluster, &mut dice)).collect();
    ask(world, &questions)
}

/// Asks the same questions several times.
fn ask(world: &World, questions: &[Question]) -> Asked {
    let pass = || {
        let (mut samples, mut allowed) = (Samples::default(), 0);
        for question in questions {
            let start = Instant::now();
            let judgement = world.judge(question);
            let took = start.elapsed();
            allowed += usize::from(judgement.verdict == Verdict::Allow);
            samples.add(Some(took));
        }
        (samples.median(), samples.mean(), samples.percentile(99), allowed)
    };
    let (first, first_mean, _, allowed) = pass();
    let passes: Vec<(f64, f64, f64, usize)> = (0..PASSES).map(|_| pass()).collect();
    let middle =
        |of: fn(&(f64, f64, f64, usize)) -> f64| median(&passes.iter().map(of).collect::<Vec<f64>>());
    Asked {
        median: middle(|pass| pass.0),
        mean: middle(|pass| pass.1),
        p99: middle(|pass| pass.2),
        first,
        first_mean,
        allowed: allowed * 100 / questions.len().max(1),
    }
}

/// A conversation that one might see, asked about from one end.
fn question(cluster: Cluster, dice: &mut Dice) -> Question {
    let subject = dice.below(cluster.pods);
    let namespace = cluster.namespace_of(subject);
    let neighbour = cluster.first_of(namespace) + dice.below(if namespace < OWN { 10 } else { 100 });
    let stranger = dice.below(cluster.pods);
    let outside = IpAddr::from([203, 0, 113, u8::try_from(dice.below(200)).unwrap_or(7)]);
    let port = dice.pick(&[8080, 8080, 5432, 9090, 443, 30_100, 53, 8011]).unwrap_or(80);
    let traffic = |protocol, port| Traffic { protocol, port: Some(port) };
    let (direction, peer, traffic) = match dice.below(20) {
        0..7 => (Direction::Ingress, address(neighbour), traffic(6, port)),
        7..10 => (Direction::Ingress, address(stranger), traffic(6, port)),
        10..13 => (Direction::Ingress, outside, traffic(6, port)),
        13..15 => (Direction::Egress, address(dice.below(10)), traffic(17, 53)),
        15..17 => (Direction::Egress, outside, traffic(6, 443)),
        17 => (Direction::Egress, address(stranger), traffic(17, port)),
        18 => (Direction::Ingress, address(neighbour), Traffic { protocol: 1, port: None }),
        _ => six(cluster, dice, traffic(6, port)),
    };
    let subject = match peer {
        IpAddr::V4(_) => address(subject),
        IpAddr::V6(_) => addresses(subject / 10 * 10).last().unwrap_or(peer),
    };
    Question { direction, subject, peer, traffic }
}

fn six(cluster: Cluster, dice: &mut Dice, traffic: Traffic) -> (Direction, IpAddr, Traffic) {
    let pod = dice.below(cluster.pods) / 10 * 10;
    let peer = addresses(pod).last().unwrap_or_else(|| address(pod));
    (Direction::Ingress, peer, traffic)
}

impl Asked {
    /// The row of a cluster; `smaller` is the one with a tenth of the pods.
    pub fn row(&self, cluster: Cluster, smaller: Option<&Asked>) -> Row {
        let growth = smaller.map(|smaller| {
            let [median, mean] = [self.median / smaller.median, self.mean / smaller.mean];
            format!("; {median:.2} × (mean {mean:.2} ×) that of a tenth of the pods")
        });
        let note = format!("{}, {} % allowed{}", self.times(), self.allowed, growth.unwrap_or_default());
        let what = format!("verdict with region, {} pods, {} policies", cluster.pods, cluster.policies());
        let row = Row::new(&what, self.median, "µs", note);
        if cluster.pods == 10_000 { row.bound("p50 ≤ 2 µs", Limit::AtMost(BUDGET)) } else { row }
    }

    fn times(&self) -> String {
        format!(
            "mean {:.2} µs, p99 {:.2} µs; asked for the first time p50 {:.2} µs, mean {:.2} µs",
            self.mean, self.p99, self.first, self.first_mean
        )
    }
}

/// Two pods that nobody has: one with a policy of a thousand prefixes, one that 200 policies select.
///
/// # Errors
/// Where the gate finds fault with a manifest.
pub fn hard(cluster: Cluster, world: &World) -> Result<Vec<Row>, LabError> {
    let mut world = world.clone();
    let namespace = "hard";
    let pod = |name: &str, ip: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace, "uid": name, "labels": { "app": name } },
            "spec": { "nodeName": "worker-0" }, "status": { "podIPs": [{ "ip": ip }, { "ip": six_of(ip) }] },
        })
    };
    let mut manifests = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        pod("blocks", "10.200.0.1"),
        pod("many", "10.200.0.2"),
        rules::many_blocks(namespace, "blocks"),
    ];
    manifests.extend((0..MANY).map(|number| rules::one_of_many(namespace, "many", number)));
    for manifest in manifests {
        world.apply(Edit::Put(object(manifest)?));
    }
    let (blocks, many) = (prefixes(), selected(cluster));
    let row = |what: &str, questions: &[Question]| {
        let asked = ask(&world, questions);
        let note = format!("{}, {} % allowed", asked.times(), asked.allowed);
        Row::new(what, asked.median, "µs", note).bound("p50 ≤ 2 µs", Limit::AtMost(BUDGET))
    };
    Ok(vec![
        row("verdict, policy of 1,002 prefixes with 2,000 exceptions", &blocks),
        row("verdict, pod that 200 policies select", &many),
    ])
}

fn six_of(ip: &str) -> String {
    format!("fd00:128::ff:{}", ip.rsplit('.').next().unwrap_or("1"))
}

/// Questions about the pod with the prefixes: peers in them, in their exceptions, beside them.
fn prefixes() -> Vec<Question> {
    let mut dice = Dice::new(5);
    let mut ask = || {
        let (high, low) =
            (u8::try_from(dice.below(3)).unwrap_or(0), u8::try_from(dice.below(250)).unwrap_or(0));
        let host = u8::try_from(dice.below(256)).unwrap_or(0);
        let first = if dice.percent(50) { 11 } else { 12 };
        let six = dice.percent(50);
        let (subject, peer): (IpAddr, IpAddr) = if six {
            let part = u16::from(high) * 250 + u16::from(low);
            let family = if first == 11 { 0x0db8 } else { 0x0db9 };
            let peer = [0x2001, family, part, u16::from(dice.percent(30)), 0, 0, 0, u16::from(host)];
            (IpAddr::from([0xfd00, 0x128, 0, 0, 0, 0, 0xff, 1]), IpAddr::from(peer))
        } else {
            (IpAddr::from([10, 200, 0, 1]), IpAddr::from([first, high, low, host]))
        };
        let port = dice.pick(&[443, 8500, 80]).unwrap_or(443);
        let traffic = Traffic { protocol: 6, port: Some(port) };
        Question { direction: Direction::Ingress, subject, peer, traffic }
    };
    (0..QUESTIONS).map(|_| ask()).collect()
}

/// Questions about the pod that many policies select: peers of the cluster and outside it.
fn selected(cluster: Cluster) -> Vec<Question> {
    let mut dice = Dice::new(6);
    let mut ask = || {
        let peer =
            if dice.percent(70) { address(dice.below(cluster.pods)) } else { IpAddr::from([203, 0, 113, 7]) };
        let port = u16::try_from(10_000 + dice.below(MANY)).unwrap_or(0);
        let traffic = Traffic { protocol: 6, port: Some(port) };
        Question { direction: Direction::Ingress, subject: IpAddr::from([10, 200, 0, 2]), peer, traffic }
    };
    (0..QUESTIONS).map(|_| ask()).collect()
}

/// The middle one of some durations, microseconds.
pub fn middle(times: &[Duration]) -> f64 {
    median(&times.iter().map(|time| time.as_secs_f64() * 1e6).collect::<Vec<f64>>())
}
