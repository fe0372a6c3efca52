//! Random edits, one after another, of one world: after each it answers as a world does that was built afresh,
//! and as the oracle does, and the changes that the edit named lead to every decision that is another one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod against;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::thread;
use std::time::Instant;

use against::order::shuffle;
use against::region::Members;
use against::shrink::{lines, shrink};
use against::{is_admitted, oracle, put, reference, remove, share, traffic, world};
use fabric_tests::oracle::random::{Dice, Landmarks, World as Random, another_object};
use fabric_tests::oracle::{Cluster, key};
use policy::{Change, Direction, Edit, Judgement, PodRef, Question, World};
use serde_json::Value;

const HISTORIES: u64 = 100;
const EDITS: usize = 24;
const QUESTIONS: usize = 40;
const MEMBERS: usize = 4;

/// One edit, in both kinds of world.
#[derive(Clone, Debug)]
enum Act {
    Put(Value),
    Remove(Value),
    Share(&'static [&'static str]),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Put(manifest) => write!(f, "put {manifest}"),
            Act::Remove(manifest) => write!(f, "remove {}", reference(manifest)),
            Act::Share(names) => write!(f, "share {names:?}"),
        }
    }
}

/// One world in both kinds.
struct State {
    world: World,
    cluster: Cluster,
    shared: &'static [&'static str],
}

impl State {
    fn of(manifests: &[Value], shared: &'static [&'static str]) -> State {
        let (mut world, mut cluster) = (world(manifests), Cluster::from_manifests(manifests.to_vec()));
        share(shared, &mut world, &mut cluster);
        State { world, cluster, shared }
    }

    fn manifests(&self) -> Vec<Value> {
        self.cluster.manifests().cloned().collect()
    }

    fn act(&mut self, act: &Act) -> Vec<Change> {
        match act {
            Act::Put(manifest) => {
                self.cluster.put(manifest.clone());
                self.world.apply(put(manifest))
            }
            Act::Remove(manifest) => {
                let (kind, namespace, name) = key(manifest);
                self.cluster.remove(&kind, &namespace, &name);
                self.world.apply(remove(manifest))
            }
            Act::Share(names) => {
                self.shared = names;
                self.cluster.set_shared_namespaces(names.iter().map(|name| (*name).to_owned()).collect());
                self.world.set_shared_namespaces(names.iter().map(|name| policy::Name::from(*name)).collect())
            }
        }
    }

    /// What takes an act back.
    fn undoing(&self, act: &Act) -> Act {
        let there =
            |manifest: &Value| self.cluster.manifests().find(|known| key(known) == key(manifest)).cloned();
        match act {
            Act::Put(manifest) => there(manifest).map_or_else(|| Act::Remove(manifest.clone()), Act::Put),
            Act::Remove(manifest) => Act::Put(manifest.clone()),
            Act::Share(_) => Act::Share(self.shared),
        }
    }

    fn random_act(&self, dice: &mut Dice, tenants: bool) -> Act {
        let manifests = self.manifests();
        let some = manifests.get(dice.below(manifests.len())).cloned();
        match (dice.below(20), some) {
            (0..6, Some(manifest)) => Act::Remove(manifest),
            (6, Some(manifest)) => Act::Put(manifest),
            (7, _) => Act::Share(dice.pick(&[&["kube-system"] as &[&str], &["a", "b"], &[]]).unwrap()),
            (8, Some(manifest)) => Act::Put(shuffle(dice, manifest)),
            _ => Act::Put(another_object(dice, &manifests, tenants)),
        }
    }
}

/// A question, and packets of its region.
#[derive(Clone, Debug)]
struct Ask {
    asked: Question,
    members: Vec<Question>,
}

/// What is wrong after an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// The verdict is not the oracle's.
    Verdict,
    /// A world built afresh judges otherwise.
    Fresh,
    /// A world built afresh has another program for the subject.
    Program,
    /// A verdict is another one, and nothing that the edit named leads to its decision.
    Missed,
    /// The edit changed nothing and named something.
    Noise,
    /// The edit and its undoing did not bring everything back.
    Undone,
}

/// A wrong answer, with all that it takes to ask again.
struct Failure {
    wrong: Wrong,
    ask: Ask,
    told: String,
}

fn failure(wrong: Wrong, ask: &Ask, told: String) -> Result<(), Failure> {
    Err(Failure { wrong, ask: ask.clone(), told })
}

/// The addresses that a change is about, as the agent looks them up.
fn addresses(world: &World, change: &Change) -> BTreeSet<IpAddr> {
    let of_pod = |reference: &PodRef| {
        let reported = world.pod(reference).into_iter().flat_map(|pod| pod.ips.clone());
        reported.chain(world.claims_of(reference).map(|claim| claim.ip)).collect::<Vec<IpAddr>>()
    };
    match change {
        Change::Address(ip) => BTreeSet::from([*ip]),
        Change::Pod(reference) => of_pod(reference).into_iter().collect(),
        Change::Namespace(name) => {
            let pods = world.pods().filter(|pod| pod.reference.namespace == *name);
            pods.flat_map(|pod| of_pod(&pod.reference)).collect()
        }
        Change::Node(name) => world.node(name).into_iter().flat_map(|node| node.every_address()).collect(),
        _ => BTreeSet::new(),
    }
}

/// Applies one edit, and checks everything after it. An agent looks for the decisions that a change is about by
/// its addresses; for a change of a policy it looks at the programs of its subjects instead.
fn step(state: &mut State, act: &Act, asks: &[Ask]) -> Result<(), Failure> {
    let program = |world: &World, ask: &Ask| world.program(ask.asked.subject, ask.asked.direction);
    let look = |ask: &Ask| {
        let guarded = state.world.is_guarded(ask.asked.subject);
        (state.world.judge(&ask.asked), program(&state.world, ask), guarded)
    };
    let before: Vec<(Judgement, u64, bool)> = asks.iter().map(look).collect();
    let manifests = state.manifests();
    let changes = state.act(act);
    let fresh = State::of(&state.manifests(), state.shared).world;
    let touched: BTreeSet<IpAddr> =
        changes.iter().flat_map(|change| addresses(&state.world, change)).collect();
    let world = &state.world;
    for (ask, (earlier, rules, guarded)) in asks.iter().zip(&before) {
        let Ask { asked, members } = ask;
        let judgement = world.judge(asked);
        if judgement != fresh.judge(asked) {
            return failure(Wrong::Fresh, ask, format!("{judgement:?}\nafresh {:?}", fresh.judge(asked)));
        }
        if judgement.verdict != oracle(&state.cluster, asked) {
            return failure(Wrong::Verdict, ask, format!("{judgement:?}"));
        }
        if program(world, ask) != program(&fresh, ask) {
            return failure(Wrong::Program, ask, String::new());
        }
        let of_policy = changes.iter().any(|change| matches!(change, Change::Policy(_)));
        let concerned = (of_policy && *rules != program(world, ask))
            || changes.contains(&Change::Tenants)
            || touched.iter().any(|ip| *ip == asked.subject || earlier.region.peer.contains(ip));
        let others = |member: &&Question| {
            let now = world.judge(member);
            (now.verdict, now.audit.is_some()) != (earlier.verdict, earlier.audit.is_some())
        };
        let other = members.iter().chain([asked]).filter(|m| earlier.region.contains(m)).find(others);
        if let Some(other) = other.filter(|_| !concerned) {
            let told =
                format!("{other:?}\nwas {earlier:?}\nis {:?}\nchanges {changes:?}", world.judge(other));
            return failure(Wrong::Missed, ask, told);
        }
        let guards_otherwise = *guarded != world.is_guarded(asked.subject);
        if guards_otherwise && !of_policy && !touched.contains(&asked.subject) {
            return failure(Wrong::Missed, ask, format!("guarded was {guarded}\nchanges {changes:?}"));
        }
        if manifests == state.manifests() && !matches!(act, Act::Share(_)) && !changes.is_empty() {
            return failure(Wrong::Noise, ask, format!("{changes:?}"));
        }
    }
    Ok(())
}

/// Applies an act and what takes it back: all judgements are as before.
fn there_and_back(state: &mut State, act: &Act, asks: &[Ask]) -> Result<(), Failure> {
    let look = |state: &State, ask: &Ask| {
        (state.world.judge(&ask.asked), state.world.program(ask.asked.subject, ask.asked.direction))
    };
    let before: Vec<(Judgement, u64)> = asks.iter().map(|ask| look(state, ask)).collect();
    let undoing = state.undoing(act);
    state.act(act);
    state.act(&undoing);
    for (ask, earlier) in asks.iter().zip(&before) {
        if look(state, ask) != *earlier {
            return failure(Wrong::Undone, ask, format!("{earlier:?}\nthen {:?}", look(state, ask)));
        }
    }
    Ok(())
}

/// Questions about a world, with packets of their regions.
fn asks(state: &State, dice: &mut Dice) -> Vec<Ask> {
    let landmarks = Landmarks::of(&state.cluster);
    let ask = |_| {
        let direction = dice.pick(&[Direction::Egress, Direction::Ingress]).unwrap();
        let known = dice.pick(&landmarks.subjects).unwrap_or(IpAddr::from([10, 10, 0, 1]));
        let subject = if dice.percent(10) { landmarks.address(dice, known) } else { known };
        let peer = landmarks.address(dice, subject);
        let asked = Question { direction, subject, peer, traffic: traffic(landmarks.packet(dice)) };
        let members = Members::of(state.world.judge(&asked).region, &landmarks);
        Ask { asked, members: (0..MEMBERS).map(|_| members.pick(dice, &asked)).collect() }
    };
    (0..QUESTIONS).map(ask).collect()
}

/// Tells of a failure by the smallest world in which the one edit shows it; of one that only the whole
/// history shows, by the world before the last edit.
fn report(seed: u64, before: &State, act: &Act, failure: &Failure) -> String {
    let asks = [failure.ask.clone()];
    let again = |manifests: &[Value]| {
        let mut state = State::of(manifests, before.shared);
        match failure.wrong {
            Wrong::Undone => there_and_back(&mut state, act, &asks),
            _ => step(&mut state, act, &asks),
        }
    };
    let fails = |manifests: &[Value]| {
        manifests.iter().all(is_admitted) && again(manifests).is_err_and(|found| found.wrong == failure.wrong)
    };
    let small =
        if fails(&before.manifests()) { shrink(before.manifests(), fails) } else { before.manifests() };
    let told = again(&small).err().map_or_else(|| failure.told.clone(), |found| found.told);
    let Ask { asked, .. } = failure.ask;
    format!(
        "\nseed {seed}: {:?}: {asked:?}\n{told}\nedit: {act}\nof the world\n{}",
        failure.wrong,
        lines(&small)
    )
}

/// One history; gives back how many edits were checked.
fn history(seed: u64) -> usize {
    let random = Random::of(seed);
    let mut dice = Dice::new(!seed);
    let mut state = State::of(&random.manifests, &["kube-system"]);
    for _ in 0..EDITS {
        let asks = asks(&state, &mut dice);
        let act = state.random_act(&mut dice, random.tenants);
        let before = State::of(&state.manifests(), state.shared);
        let mut outcome = Ok(());
        if dice.percent(40) {
            outcome = there_and_back(&mut state, &act, &asks);
        }
        let outcome = outcome.and_then(|()| step(&mut state, &act, &asks));
        if let Err(failure) = outcome {
            panic!("{}", report(seed, &before, &act, &failure));
        }
    }
    EDITS
}

#[test]
fn a_world_that_was_edited_is_a_world_built_afresh() {
    let start = Instant::now();
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let run = move |first: u64| (first..HISTORIES).step_by(threads).map(history).sum::<usize>();
    let workers: Vec<_> =
        (0..HISTORIES).take(threads).map(|first| thread::spawn(move || run(first))).collect();
    let edits: usize = workers
        .into_iter()
        .map(|worker| worker.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure)))
        .sum();
    println!("{edits} edits in {HISTORIES} histories, {:.1} s", start.elapsed().as_secs_f64());
}

/// The same policies in another order of rules, peers, ports and values: the same regions, the same cookies.
#[test]
fn the_order_within_a_policy_is_nobodys_business() {
    let mut shuffled = 0;
    for seed in 0..HISTORIES {
        let mut dice = Dice::new(seed);
        let mut state = State::of(&Random::of(seed).manifests, &["kube-system"]);
        let other: Vec<Value> =
            state.manifests().into_iter().map(|manifest| shuffle(&mut dice, manifest)).collect();
        let asks = asks(&state, &mut dice);
        let look = |world: &World, asked: &Question| {
            let Judgement { verdict, region, because, audit } = world.judge(asked);
            let audit = audit.map(|because| because.stable_hash());
            (verdict, region, because.stable_hash(), audit, world.program(asked.subject, asked.direction))
        };
        let before: Vec<_> = asks.iter().map(|ask| look(&state.world, &ask.asked)).collect();
        for manifest in &other {
            shuffled += usize::from(!state.manifests().contains(manifest));
            let Edit::Put(object) = put(manifest) else { continue };
            state.world.apply(Edit::Put(object));
        }
        for (ask, before) in asks.iter().zip(before) {
            let after = look(&state.world, &ask.asked);
            assert_eq!(before, after, "seed {seed}: {:?}\n{}", ask.asked, lines(&state.manifests()));
        }
    }
    assert!(shuffled > 100, "only {shuffled} policies were written in another order");
}
