//! Starting and stopping what runs on the nodes, for tests of failures.

use std::time::Duration;

use fabric_api::Status;
use nix::sys::signal::Signal;
use openflow::FlowStats;

use super::node::BRIDGE_FABRIC;
use super::{Lab, LabError, Node, agent, flows, switch};

/// How long an agent may take until it would serve.
const READY: Duration = Duration::from_secs(30);

impl Lab {
    /// Starts all agents and waits until each would serve.
    ///
    /// # Errors
    /// With the agent that ended or is late, and its log.
    pub fn start_agents(&self) -> Result<(), LabError> {
        let programs = self.programs()?;
        self.each_node(|node| agent::start(node, programs))?;
        self.each_node(|node| agent::wait_ready(node, programs, READY))
    }

    /// Starts the agent of one node, without waiting for it.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_agent(&self, name: &str) -> Result<(), LabError> {
        agent::start(self.node(name)?, self.programs()?)
    }

    /// Waits until the agent of a node would serve.
    ///
    /// # Errors
    /// [`LabError::Timeout`] or [`LabError::NotReady`].
    pub fn wait_agent(&self, name: &str) -> Result<(), LabError> {
        agent::wait_ready(self.node(name)?, self.programs()?, READY)
    }

    /// Kills the agent of a node, as a crash would.
    ///
    /// # Errors
    /// Where it cannot be signalled.
    pub fn kill_agent(&self, name: &str) -> Result<(), LabError> {
        agent::end(self.node(name)?, Signal::SIGKILL)
    }

    /// Ends the agent of a node as an upgrade does.
    ///
    /// # Errors
    /// Where it cannot be signalled.
    pub fn stop_agent(&self, name: &str) -> Result<(), LabError> {
        agent::end(self.node(name)?, Signal::SIGTERM)
    }

    /// Kills the switch daemon of a node, as a crash would.
    ///
    /// # Errors
    /// Where it cannot be signalled.
    pub fn kill_vswitchd(&self, name: &str) -> Result<(), LabError> {
        switch::kill_vswitchd(self.node(name)?)
    }

    /// Starts the switch daemon of a node again.
    ///
    /// # Errors
    /// With what it said.
    pub fn start_vswitchd(&self, name: &str) -> Result<(), LabError> {
        switch::start_vswitchd(self.node(name)?)
    }

    /// Stops the database server of a node.
    ///
    /// # Errors
    /// Where it cannot be signalled.
    pub fn stop_ovsdb(&self, name: &str) -> Result<(), LabError> {
        switch::stop_ovsdb(self.node(name)?)
    }

    /// Starts the database server of a node again.
    ///
    /// # Errors
    /// With what it said.
    pub fn start_ovsdb(&self, name: &str) -> Result<(), LabError> {
        switch::start_ovsdb(self.node(name)?)
    }

    /// What the agent of a node says of itself.
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn agent_status(&self, name: &str) -> Result<Status, LabError> {
        agent::status(self.node(name)?, self.programs()?)
    }

    /// The flows of a node's `br-fabric`.
    ///
    /// # Errors
    /// Where the switch does not answer.
    pub fn dump_flows(&self, name: &str) -> Result<Vec<FlowStats>, LabError> {
        flows::dump(self.node(name)?, BRIDGE_FABRIC)
    }

    /// Does something on every node at the same time; the first error counts.
    pub(super) fn each_node(
        &self,
        work: impl Fn(&Node) -> Result<(), LabError> + Sync,
    ) -> Result<(), LabError> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = self.nodes.iter().map(|node| scope.spawn(|| work(node))).collect();
            let results =
                threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            // Every thread is joined before the first error returns.
            results.collect::<Vec<_>>().into_iter().collect()
        })
    }
}
