//! What every store does, whatever it is made of.

use fabric_core::node::{ClaimCommand, ClaimError, Event};
use fabric_node::intake::Handle;
use policy::{IpClaim, Object, Timestamp};
use tokio::sync::mpsc;

use super::agent::{Agent, claim, namespace};

/// A store of its own for one run of the contract.
pub trait Bench {
    /// Opens the store for the agent of a node.
    fn open(&self, node: &str, events: mpsc::Sender<Event>) -> Handle;
    /// Makes the object of a manifest (YAML), or changes it.
    fn put(&self, name: &str, manifest: &str);
    /// Removes the object that was put under this name.
    fn remove(&self, name: &str);
}

/// Runs the whole contract.
pub async fn run(bench: &impl Bench) {
    lists_before_it_is_synced(bench).await;
    follows_changes(bench).await;
    tells_a_claim_before_its_outcome(bench).await;
    gives_an_address_to_one_of_many(bench).await;
    releases_for_the_owner_only(bench).await;
    exchanges_what_is_as_it_was_known(bench).await;
    gives_an_exchange_to_one_of_many(bench).await;
    keeps_the_order_of_an_address(bench).await;
    lists_claims_for_a_late_agent(bench).await;
}

fn agent(bench: &impl Bench, node: &str) -> Agent {
    Agent::start(|events| bench.open(node, events))
}

async fn lists_before_it_is_synced(bench: &impl Bench) {
    bench.put("one", &namespace("one", "red"));
    bench.put("two", &namespace("two", "red"));
    let mut agent = agent(bench, "n1");
    agent.until_synced().await;
    assert_eq!(agent.names(), ["Namespace one", "Namespace two"]);
    assert_eq!(agent.problems(), [""; 0]);
}

async fn follows_changes(bench: &impl Bench) {
    let mut agent = agent(bench, "n1");
    agent.until_synced().await;
    bench.put("three", &namespace("three", "red"));
    agent.until("an object appears", |agent| agent.names().contains(&"Namespace three".to_owned())).await;
    bench.put("three", &namespace("three", "blue"));
    agent
        .until("an object changes", |agent| {
            agent.world.values().any(|object| match object {
                Object::Namespace(namespace) => {
                    &*namespace.name == "three" && format!("{:?}", namespace.labels).contains("blue")
                }
                _ => false,
            })
        })
        .await;
    bench.remove("three");
    agent.until("an object goes", |agent| !agent.names().contains(&"Namespace three".to_owned())).await;
}

async fn tells_a_claim_before_its_outcome(bench: &impl Bench) {
    let (mut mine, mut other) = (agent(bench, "n1"), agent(bench, "n2"));
    mine.until_synced().await;
    other.until_synced().await;
    for ip in ["10.0.0.5", "fd00::5"] {
        let wanted = claim(ip, "n1", "c1/eth0");
        assert_eq!(mine.create(&wanted).await, Ok(()));
        assert_eq!(mine.claim(ip), Some(&wanted), "the edit comes before the outcome");
        other.until("the other node knows the claim", |other| other.claim(ip) == Some(&wanted)).await;
        assert_eq!(mine.release(&wanted, "c1/eth0").await, Ok(()));
        assert_eq!(mine.claim(ip), None, "the edit comes before the outcome");
        other.until("the other node knows that it went", |other| other.claim(ip).is_none()).await;
    }
}

async fn gives_an_address_to_one_of_many(bench: &impl Bench) {
    let (mut one, mut two) = (agent(bench, "n1"), agent(bench, "n2"));
    one.until_synced().await;
    two.until_synced().await;
    let mut tasks = Vec::new();
    for number in 0..50 {
        let ip = format!("10.0.1.{number}");
        for racer in 0..2 {
            let owner = |node: &str| claim(&ip, node, &format!("{node}-{racer}/eth0"));
            let first = one.send(ClaimCommand::Create(owner("n1"))).await;
            let second = two.send(ClaimCommand::Create(owner("n2"))).await;
            tasks.push((ip.clone(), first, second));
        }
    }
    let mut winners = std::collections::BTreeMap::<String, Vec<String>>::new();
    let mut losers = Vec::new();
    for (index, (ip, first, second)) in tasks.into_iter().enumerate() {
        let racer = index % 2;
        for (node, result) in [("n1", one.outcome(first).await), ("n2", two.outcome(second).await)] {
            match result {
                Ok(()) => winners.entry(ip.clone()).or_default().push(format!("{node}-{racer}/eth0")),
                Err(ClaimError::Taken(holder)) => losers.push((ip.clone(), holder)),
                Err(error) => panic!("{ip}: {error}"),
            }
        }
    }
    assert_eq!(winners.len(), 50);
    assert_eq!(losers.len(), 150);
    for (ip, owners) in &winners {
        assert_eq!(owners.len(), 1, "{ip} went to {owners:?}");
    }
    for (ip, holder) in losers {
        assert_eq!(holder.ip.to_string(), ip);
        assert_eq!(vec![holder.owner], winners[&ip], "the loser learns who has {ip}");
    }
    for agent in [&mut one, &mut two] {
        agent
            .until("all know the same", |agent| {
                winners
                    .iter()
                    .all(|(ip, owners)| agent.claim(ip).is_some_and(|claim| claim.owner == owners[0]))
            })
            .await;
    }
    for (ip, owners) in &winners {
        let held = claim(ip, "n1", &owners[0]);
        assert_eq!(one.release(&held, &owners[0]).await, Ok(()));
    }
}

async fn releases_for_the_owner_only(bench: &impl Bench) {
    let mut agent = agent(bench, "n1");
    agent.until_synced().await;
    let held = claim("10.0.2.1", "n1", "c1/eth0");
    assert_eq!(agent.release(&held, "c1/eth0").await, Ok(()), "none there is no error");
    assert_eq!(agent.create(&held).await, Ok(()));
    assert_eq!(agent.release(&held, "c2/eth0").await, Ok(()), "another's is left alone");
    assert_eq!(agent.claim("10.0.2.1"), Some(&held));
    let wanted = claim("10.0.2.1", "n1", "c2/eth0");
    assert_eq!(agent.create(&wanted).await, Err(ClaimError::Taken(Box::new(held.clone()))));
    assert_eq!(agent.release(&held, "c1/eth0").await, Ok(()));
    assert_eq!(agent.create(&wanted).await, Ok(()), "what is given back can be had");
    assert_eq!(agent.claim("10.0.2.1"), Some(&wanted));
    assert_eq!(agent.release(&wanted, "c2/eth0").await, Ok(()));
}

fn exchange(from: &IpClaim, to: Option<&IpClaim>) -> ClaimCommand {
    ClaimCommand::Exchange { from: Box::new(from.clone()), to: to.cloned().map(Box::new) }
}

async fn exchanges_what_is_as_it_was_known(bench: &impl Bench) {
    let (mut mine, mut other) = (agent(bench, "n1"), agent(bench, "n2"));
    mine.until_synced().await;
    other.until_synced().await;
    let held = IpClaim { retain: true, ..claim("10.0.5.1", "n1", "c1/eth0") };
    let idle = IpClaim { owner: String::new(), since: Some(Timestamp(5)), ..held.clone() };
    let next = claim("10.0.5.1", "n2", "c2/eth0");
    assert_eq!(mine.create(&held).await, Ok(()));
    let wrong = IpClaim { since: Some(Timestamp(6)), ..held.clone() };
    let taken = || Err(ClaimError::Taken(Box::new(held.clone())));
    assert_eq!(other.run(exchange(&wrong, Some(&next))).await, taken(), "it is not as it was known");
    assert_eq!(other.run(exchange(&idle, None)).await, taken());
    assert_eq!(mine.run(exchange(&held, Some(&idle))).await, Ok(()));
    assert_eq!(mine.claim("10.0.5.1"), Some(&idle), "the edit comes before the outcome");
    assert_eq!(mine.create(&held).await, Err(ClaimError::Taken(Box::new(idle.clone()))), "nobody gets it");
    other.until("the other node knows it", |other| other.claim("10.0.5.1") == Some(&idle)).await;
    assert_eq!(other.run(exchange(&idle, Some(&next))).await, Ok(()));
    assert_eq!(other.claim("10.0.5.1"), Some(&next));
    mine.until("the first node knows it", |mine| mine.claim("10.0.5.1") == Some(&next)).await;
    assert_eq!(mine.release(&held, "c1/eth0").await, Ok(()), "what it had is not what is there");
    assert_eq!(mine.claim("10.0.5.1"), Some(&next));
    assert_eq!(other.run(exchange(&next, None)).await, Ok(()));
    assert_eq!(other.claim("10.0.5.1"), None);
    assert_eq!(other.run(exchange(&next, None)).await, Ok(()), "none is as good");
    assert_eq!(mine.run(exchange(&idle, Some(&held))).await, Ok(()), "none counts as the one known");
    assert_eq!(mine.claim("10.0.5.1"), Some(&held));
    assert_eq!(mine.release(&held, "c1/eth0").await, Ok(()));
}

async fn gives_an_exchange_to_one_of_many(bench: &impl Bench) {
    let (mut one, mut two) = (agent(bench, "n1"), agent(bench, "n2"));
    one.until_synced().await;
    two.until_synced().await;
    for number in 0..30 {
        let ip = format!("10.0.6.{number}");
        let idle = claim(&ip, "n1", "");
        assert_eq!(one.create(&idle).await, Ok(()));
        let wanted = |node: &str| claim(&ip, node, &format!("{node}/eth0"));
        let first = one.send(exchange(&idle, Some(&wanted("n1")))).await;
        let second = two.send(exchange(&idle, Some(&wanted("n2")))).await;
        // Whoever was about to give it back comes too late, or both do.
        let third = one.send(exchange(&idle, None)).await;
        let outcomes = [one.outcome(first).await, two.outcome(second).await];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{ip}: {outcomes:?}");
        let winner = if outcomes[0].is_ok() { "n1" } else { "n2" };
        assert_eq!(one.outcome(third).await, Err(ClaimError::Taken(Box::new(wanted(winner)))));
        let agent = if winner == "n1" { &mut one } else { &mut two };
        assert_eq!(agent.release(&wanted(winner), &wanted(winner).owner).await, Ok(()));
    }
}

async fn keeps_the_order_of_an_address(bench: &impl Bench) {
    let mut agent = agent(bench, "n1");
    agent.until_synced().await;
    let mut tasks = Vec::new();
    for turn in 0..20 {
        let owner = format!("c{turn}/eth0");
        let wanted = claim("10.0.3.1", "n1", &owner);
        tasks.push(agent.send(ClaimCommand::Create(wanted.clone())).await);
        tasks.push(agent.send(ClaimCommand::Release { ip: wanted.ip, owner }).await);
    }
    for task in tasks {
        assert_eq!(agent.outcome(task).await, Ok(()), "each came after the one before");
    }
    assert_eq!(agent.claim("10.0.3.1"), None);
}

async fn lists_claims_for_a_late_agent(bench: &impl Bench) {
    let mut early = agent(bench, "n1");
    early.until_synced().await;
    let held = claim("10.0.4.1", "n1", "c1/eth0");
    assert_eq!(early.create(&held).await, Ok(()));
    let mut late = agent(bench, "n2");
    late.until_synced().await;
    assert_eq!(late.claim("10.0.4.1"), Some(&held));
    drop(early);
    let mut again = agent(bench, "n1");
    again.until_synced().await;
    assert_eq!(again.claim("10.0.4.1"), Some(&held), "a claim outlives the agent that made it");
    assert_eq!(again.release(&held, "c1/eth0").await, Ok(()));
    late.until("it went", |late| late.claim("10.0.4.1").is_none()).await;
}
