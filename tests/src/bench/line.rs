//! An OpenFlow connection of the benchmark's own to a bridge.

use std::path::Path;

use openflow::FlowMod;
use openflow::client::{Client, ClientError, Config};
use openflow::message::Body;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::lab::LabError;

/// The connection.
pub struct Line {
    runtime: Runtime,
    client: Client,
}

impl Line {
    /// Connects to a bridge's socket.
    ///
    /// # Errors
    /// Where the runtime cannot be had.
    pub fn connect(socket: &Path) -> Result<Self, LabError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(LabError::io("start the OpenFlow client"))?;
        let client = runtime.block_on(async {
            let (events, mut inbox) = mpsc::channel(64);
            let client = Client::spawn(Config::quiet(socket), events);
            while !client.is_connected() {
                inbox.recv().await;
            }
            client
        });
        Ok(Self { runtime, client })
    }

    /// Sends messages and a barrier, and returns with its answer.
    ///
    /// # Errors
    /// Where the switch refuses one, or goes away.
    pub fn apply(&self, bodies: Vec<Body>) -> Result<(), LabError> {
        self.runtime.block_on(self.client.apply(bodies)).map_err(refused)
    }

    /// Changes flows in one bundle, and returns when they are in force.
    ///
    /// # Errors
    /// As [`Line::apply`].
    pub fn commit(&self, flows: Vec<FlowMod>) -> Result<(), LabError> {
        self.runtime.block_on(self.client.commit(flows)).map_err(refused)
    }
}

fn refused(error: ClientError) -> LabError {
    LabError::NotReady(format!("the switch did not take a change of flows: {error}"))
}
