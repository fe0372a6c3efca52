//! Verdicts, and the regions they are proven for, beside the oracle's plain reading: random worlds, random
//! questions, and packets from all over the region of each answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod against;

use std::net::IpAddr;
use std::thread;
use std::time::Instant;

use against::region::Members;
use against::shrink::{lines, shrink};
use against::{is_admitted, oracle, oracle_with_audit, share, traffic, verdict, world};
use fabric_tests::oracle::Cluster;
use fabric_tests::oracle::random::{Dice, Landmarks, World as Random};
use policy::{Direction, Family, Judgement, Question, Region, Traffic, Verdict, World};
use serde_json::{Value, json};

const WORLDS: u64 = 900;
const QUESTIONS: usize = 110;
const MEMBERS: usize = 15;
/// What `make test` promises.
const PACKETS: usize = 1_000_000;

/// What is wrong, and what has to be asked to see it.
#[derive(Clone, Debug)]
enum Difference {
    /// The region has another shape than the fixed ones, or is not about the question.
    Shape(Question),
    /// A packet of the region of a question is answered otherwise by the oracle.
    Verdict { asked: Question, member: Question },
    /// The oracle says something else about the policies in audit mode.
    Audit { asked: Question, member: Question },
    /// A packet of the region of a question is judged otherwise, or for another reason.
    Member { asked: Question, member: Question },
    /// Two regions have packets in common, and not the answer.
    Overlap(Question, Question),
    /// The explanation comes to another judgement.
    Explanation(Question),
    /// A policy denies what is sent to a pod that no policy is said to guard.
    Guard(Question),
    /// Both ends together.
    Converse { from: IpAddr, to: IpAddr, asked: Question },
}

impl Difference {
    /// Whether it is there, in a world of both kinds.
    fn is_in(&self, world: &World, cluster: &Cluster) -> bool {
        match self {
            Difference::Shape(asked) => {
                let region = world.judge(asked).region;
                !region.is_aligned() || !region.contains(asked)
            }
            Difference::Verdict { asked, member } => {
                let judgement = world.judge(asked);
                judgement.region.contains(member) && judgement.verdict != oracle(cluster, member)
            }
            Difference::Audit { asked, member } => {
                let judgement = world.judge(asked);
                judgement.region.contains(member) && judgement.audit.is_some() != is_audited(cluster, member)
            }
            Difference::Member { asked, member } => {
                let (judgement, other) = (world.judge(asked), world.judge(member));
                judgement.region.contains(member) && !is_same(&judgement, &other)
            }
            Difference::Overlap(one, other) => {
                let (one, other) = (world.judge(one), world.judge(other));
                one.region.overlaps(&other.region) && !is_same(&one, &other)
            }
            Difference::Explanation(asked) => world.explain(asked).judgement != world.judge(asked),
            Difference::Guard(asked) => {
                let denies = world.judge(asked).because.policy().is_some();
                asked.direction == Direction::Ingress && denies && !world.is_guarded(asked.subject)
            }
            Difference::Converse { from, to, asked } => {
                let conversation = world.converse(*from, *to, asked.traffic);
                let traffic = asked.traffic;
                let answer = cluster.verdict(*from, *to, traffic.protocol, traffic.port);
                conversation.verdict() != verdict(answer)
            }
        }
    }

    /// The questions to ask, with both answers.
    fn answers(&self, world: &World, cluster: &Cluster) -> String {
        let questions = match self {
            Difference::Shape(asked)
            | Difference::Explanation(asked)
            | Difference::Guard(asked)
            | Difference::Converse { asked, .. } => vec![asked],
            Difference::Overlap(asked, member)
            | Difference::Verdict { asked, member }
            | Difference::Audit { asked, member }
            | Difference::Member { asked, member } => vec![asked, member],
        };
        let answer = |question: &&Question| {
            let Judgement { verdict, region, because, audit } = world.judge(question);
            format!(
                "{question:?}\n  judged {verdict} because {because}; {region}; audit {audit:?}\n  oracle {}, with audit {}\n",
                oracle(cluster, question),
                oracle_with_audit(cluster, question)
            )
        };
        questions.iter().map(answer).collect()
    }
}

fn is_same(one: &Judgement, other: &Judgement) -> bool {
    (one.verdict, &one.because, &one.audit) == (other.verdict, &other.because, &other.audit)
}

/// Whether the policies in audit mode would deny what is allowed.
fn is_audited(cluster: &Cluster, question: &Question) -> bool {
    oracle(cluster, question) == Verdict::Allow && oracle_with_audit(cluster, question) == Verdict::Deny
}

/// A world of a seed in both kinds.
struct Bed {
    seed: u64,
    manifests: Vec<Value>,
    world: World,
    cluster: Cluster,
    landmarks: Landmarks,
    asked: Vec<(Question, Judgement)>,
}

/// Both kinds of the world of these manifests; in one world of eight other namespaces are shared.
fn build(seed: u64, manifests: &[Value]) -> (World, Cluster) {
    let (mut world, mut cluster) = (world(manifests), Cluster::from_manifests(manifests.to_vec()));
    if seed.is_multiple_of(8) {
        share(&["a", "b"], &mut world, &mut cluster);
    }
    (world, cluster)
}

impl Bed {
    fn of(seed: u64) -> Bed {
        let manifests = Random::of(seed).manifests;
        let (world, cluster) = build(seed, &manifests);
        let landmarks = Landmarks::of(&cluster);
        Bed { seed, manifests, world, cluster, landmarks, asked: Vec::new() }
    }

    fn question(&self, dice: &mut Dice) -> Question {
        let direction = dice.pick(&[Direction::Egress, Direction::Ingress]).unwrap();
        let known = dice.pick(&self.landmarks.subjects).unwrap_or(IpAddr::from([10, 10, 0, 1]));
        let subject = if dice.percent(2) { self.landmarks.address(dice, known) } else { known };
        let peer = self.landmarks.address(dice, subject);
        Question { direction, subject, peer, traffic: traffic(self.landmarks.packet(dice)) }
    }

    fn expect(&self, difference: Difference) {
        if difference.is_in(&self.world, &self.cluster) {
            panic!("{}", self.report(&difference));
        }
    }

    fn report(&self, difference: &Difference) -> String {
        let fails = |manifests: &[Value]| {
            if !manifests.iter().all(is_admitted) {
                return false;
            }
            let (world, cluster) = build(self.seed, manifests);
            difference.is_in(&world, &cluster)
        };
        let small = shrink(self.manifests.clone(), fails);
        let (world, cluster) = build(self.seed, &small);
        let answers = difference.answers(&world, &cluster);
        format!("\nseed {}: {difference:?}\n{answers}{}", self.seed, lines(&small))
    }

    /// Asks one question; gives back how many packets were compared.
    fn ask(&mut self, dice: &mut Dice) -> usize {
        let asked = self.question(dice);
        let judgement = self.world.judge(&asked);
        self.expect(Difference::Shape(asked));
        self.expect(Difference::Guard(asked));
        if dice.percent(20) {
            self.expect(Difference::Explanation(asked));
        }
        let members = Members::of(judgement.region, &self.landmarks);
        for index in 0..MEMBERS {
            let member = if index == 0 { asked } else { members.pick(dice, &asked) };
            assert!(judgement.region.contains(&member), "{member:?} is not in {}", judgement.region);
            if judgement.verdict != oracle(&self.cluster, &member) {
                self.expect(Difference::Verdict { asked, member });
            }
            if dice.percent(10) {
                self.expect(Difference::Audit { asked, member });
                self.expect(Difference::Member { asked, member });
            }
        }
        let (from, to) = match asked.direction {
            Direction::Egress => (asked.subject, asked.peer),
            Direction::Ingress => (asked.peer, asked.subject),
        };
        self.expect(Difference::Converse { from, to, asked });
        self.overlaps(asked, judgement);
        MEMBERS
    }

    /// Regions of one direction and subject that have packets in common have the answer in common.
    fn overlaps(&mut self, asked: Question, judgement: Judgement) {
        for (earlier, other) in &self.asked {
            let same_end = (earlier.direction, earlier.subject) == (asked.direction, asked.subject);
            if same_end && judgement.region.overlaps(&other.region) && !is_same(&judgement, other) {
                self.expect(Difference::Overlap(*earlier, asked));
            }
        }
        self.asked.push((asked, judgement));
    }
}

/// The worlds of every `step`th seed.
fn run(first: u64, step: usize) -> usize {
    let mut packets = 0;
    for seed in (first..WORLDS).step_by(step) {
        let mut dice = Dice::new(!seed);
        let mut bed = Bed::of(seed);
        packets += (0..QUESTIONS).map(|_| bed.ask(&mut dice)).sum::<usize>();
    }
    packets
}

#[test]
fn every_packet_of_a_region_gets_the_verdict_of_a_plain_reading() {
    let start = Instant::now();
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let workers: Vec<_> =
        (0..WORLDS).take(threads).map(|first| thread::spawn(move || run(first, threads))).collect();
    let packets: usize = workers
        .into_iter()
        .map(|worker| worker.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure)))
        .sum();
    println!("{packets} packets in {WORLDS} worlds, {:.1} s", start.elapsed().as_secs_f64());
    assert!(packets >= PACKETS, "only {packets} packets");
}

/// Found by a run over more worlds: a port that is known by name only is no matter for protocols without ports,
/// even where it is not known who would give it a number.
#[test]
fn a_port_by_name_of_a_pod_that_is_not_known_is_no_matter_for_other_protocols() {
    let pod = |namespace: &str, ip: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": "p"},
            "spec": {"nodeName": "n1"}, "status": {"podIPs": [{"ip": ip}]}})
    };
    let rule =
        |to: Value| json!({"action": "Deny", "protocols": [{"destinationNamedPort": "dns"}], "to": [to]});
    let policy = json!({"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
        "metadata": {"name": "one"}, "spec": {"tier": "Baseline", "priority": 0, "subject": {"namespaces": {}},
            "egress": [rule(json!({"networks": ["8.0.0.0/5"]})), rule(json!({"namespaces": {}}))]}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let manifests = [namespace, pod("a", "10.10.0.1"), pod("unknown", "10.10.0.2"), policy];
    let (world, cluster) = build(1, &manifests);
    let [subject, peer] = [1, 2].map(|host| IpAddr::from([10, 10, 0, host]));
    let ask = |protocol, port| {
        let traffic = Traffic { protocol, port };
        Question { direction: Direction::Egress, subject, peer, traffic }
    };
    let (by_port, without) = (ask(6, Some(53)), ask(50, None));
    for (asked, member) in [(by_port, without), (without, by_port), (by_port, by_port), (without, without)] {
        let difference = Difference::Verdict { asked, member };
        assert!(!difference.is_in(&world, &cluster), "{}", difference.answers(&world, &cluster));
    }
}

#[test]
fn where_nothing_is_said_one_region_has_everything() {
    let mut asked = 0;
    for seed in 0..60 {
        let mut manifests = Random::of(seed).manifests;
        manifests.retain(|manifest| !manifest["kind"].as_str().is_some_and(|kind| kind.ends_with("Policy")));
        for metadata in manifests.iter_mut().filter_map(|manifest| manifest["metadata"].as_object_mut()) {
            metadata.remove("annotations");
        }
        let (world, cluster) = build(seed, &manifests);
        let (landmarks, mut dice) = (Landmarks::of(&cluster), Dice::new(seed));
        for subject in &landmarks.subjects {
            let peer = landmarks.address(&mut dice, *subject);
            let direction = dice.pick(&[Direction::Egress, Direction::Ingress]).unwrap();
            let traffic = traffic(landmarks.packet(&mut dice));
            let question = Question { direction, subject: *subject, peer, traffic };
            let judgement = world.judge(&question);
            assert_eq!(judgement.region, Region::whole(Family::of(peer)), "seed {seed}: {question:?}");
            asked += 1;
        }
    }
    assert!(asked > 500, "only {asked} pods");
}

/// The pod of the scans, a peer, and a policy that lets TCP in to a range of ports.
fn scanned(first: u16, last: u16) -> Vec<Value> {
    let pod = |name: &str, ip: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name, "labels": {"app": name}},
            "spec": {"nodeName": "n1"}, "status": {"podIPs": [{"ip": ip}]}})
    };
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "a", "name": "in"},
        "spec": {"podSelector": {"matchLabels": {"app": "p"}}, "ingress": [{"ports": [{"port": first, "endPort": last}]}]}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    vec![namespace, pod("p", "10.10.0.1"), pod("q", "10.10.0.2"), policy]
}

#[test]
fn a_scan_of_all_ports_costs_few_regions() {
    let mut dice = Dice::new(4);
    let edges = [1, 2, 15, 16, 80, 255, 256, 4095, 4096, 8080, 65534, 65535];
    let any: Vec<u16> = (0..20).map(|_| dice.port().max(1)).collect();
    for open in edges.into_iter().chain(any) {
        let (world, cluster) = build(1, &scanned(open, open));
        let [subject, peer] = [1, 2].map(|host| IpAddr::from([10, 10, 0, host]));
        let (mut regions, mut next) = (0, Some(0));
        while let Some(port) = next {
            let traffic = Traffic { protocol: 6, port: Some(port) };
            let question = Question { direction: Direction::Ingress, subject, peer, traffic };
            let judgement = world.judge(&question);
            let (_, last) = judgement.region.ports.bounds().unwrap();
            let end = Question { traffic: Traffic { protocol: 6, port: Some(last) }, ..question };
            assert_eq!(judgement.verdict, oracle(&cluster, &question), "port {port} where {open} is open");
            assert_eq!(judgement.verdict, oracle(&cluster, &end), "port {last} where {open} is open");
            (regions, next) = (regions + 1, last.checked_add(1));
        }
        assert!(regions <= 61, "{regions} regions where port {open} is open");
    }
}
