//! The errands, on a store that does what no store should.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use fabric_core::node::{ClaimCommand, ClaimError};
use fabric_node::intake::{self, Store};
use policy::IpClaim;

use super::agent::{Agent, claim};

/// Fails in the way that the owner of the claim names.
struct Odd {
    begun: Mutex<Vec<String>>,
}

impl Store for Odd {
    async fn create(&self, claim: IpClaim) -> Result<(), ClaimError> {
        self.begun.lock().expect("nobody fails with it").push(claim.owner.clone());
        match claim.owner.as_str() {
            "panics" => panic!("as asked"),
            "hangs" => std::future::pending().await,
            "slow" => tokio::time::sleep(Duration::from_millis(50)).await,
            _ => {}
        }
        Ok(())
    }

    async fn release(&self, _: IpAddr, _: String) -> Result<(), ClaimError> {
        Err(ClaimError::Store("no".to_owned()))
    }

    async fn exchange(&self, _: IpClaim, _: Option<IpClaim>) -> Result<(), ClaimError> {
        Err(ClaimError::Store("no".to_owned()))
    }
}

fn odd() -> Agent {
    Agent::start(|events| {
        let opened = intake::start(events, |_| Ok::<_, ()>(Odd { begun: Mutex::new(Vec::new()) }));
        opened.expect("it cannot fail")
    })
}

#[tokio::test]
async fn a_store_that_panics_costs_its_own_errand_only() {
    let mut agent = odd();
    let broken = agent.send(ClaimCommand::Create(claim("10.0.0.1", "n1", "panics"))).await;
    let after = agent.send(ClaimCommand::Create(claim("10.0.0.1", "n1", "fine"))).await;
    let error = agent.outcome(broken).await.expect_err("it panicked").to_string();
    assert!(error.contains("10.0.0.1") && error.contains("bug of the agent"), "{error}");
    assert_eq!(agent.outcome(after).await, Ok(()));
    let refused = agent.release(&claim("10.0.0.1", "n1", "fine"), "fine").await;
    assert_eq!(refused, Err(ClaimError::Store("no".to_owned())));
}

#[tokio::test]
async fn an_errand_that_hangs_holds_up_its_own_address_only() {
    let mut agent = odd();
    agent.send(ClaimCommand::Create(claim("10.0.0.1", "n1", "hangs"))).await;
    for number in 2..200 {
        let ip = format!("10.0.0.{number}");
        assert_eq!(agent.create(&claim(&ip, "n1", "fine")).await, Ok(()));
    }
}

#[tokio::test]
async fn errands_for_different_addresses_run_side_by_side() {
    let mut agent = odd();
    let begin = std::time::Instant::now();
    let mut tasks = Vec::new();
    for number in 0..20 {
        let slow = claim(&format!("10.0.0.{number}"), "n1", "slow");
        tasks.push(agent.send(ClaimCommand::Create(slow)).await);
    }
    for task in tasks {
        assert_eq!(agent.outcome(task).await, Ok(()));
    }
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?} for 20 of 50 ms each", begin.elapsed());
}
