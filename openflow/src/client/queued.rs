//! Commands whose place in the order is fixed at once, and whose outcome comes later.

use std::future::Future;

use tokio::sync::{mpsc, oneshot};

use super::{Answer, Client, ClientError, Command};
use crate::flow::FlowMod;
use crate::message::Body;

impl Client {
    /// As [`Client::commit`], in two steps: the place among the other commands is fixed when this returns, without
    /// waiting; the future gives the outcome and may be awaited anywhere.
    ///
    /// # Errors
    /// [`ClientError::Full`], [`ClientError::NotConnected`]: nothing was sent.
    pub fn start_commit(
        &self,
        flow_mods: Vec<FlowMod>,
    ) -> Result<impl Future<Output = Result<(), ClientError>> + Send + 'static, ClientError> {
        let bodies = flow_mods.into_iter().map(Body::FlowMod).collect();
        self.start(|answer| Command::Commit(bodies, answer))
    }

    /// As [`Client::apply`], in two steps like [`Client::start_commit`].
    ///
    /// # Errors
    /// [`ClientError::Full`], [`ClientError::NotConnected`]: nothing was sent.
    pub fn start_apply(
        &self,
        bodies: Vec<Body>,
    ) -> Result<impl Future<Output = Result<(), ClientError>> + Send + 'static, ClientError> {
        let batch = self.start(|answer| Command::Batch(bodies, answer))?;
        Ok(async move {
            match batch.await?.into_iter().next() {
                None => Ok(()),
                Some((_, error)) => Err(ClientError::Refused(error)),
            }
        })
    }

    fn start<T: Send + 'static>(
        &self,
        command: impl FnOnce(Answer<T>) -> Command,
    ) -> Result<impl Future<Output = Result<T, ClientError>> + Send + 'static, ClientError> {
        let (answer, outcome) = oneshot::channel();
        self.commands.try_send(command(answer)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ClientError::Full,
            mpsc::error::TrySendError::Closed(_) => ClientError::NotConnected,
        })?;
        Ok(async move { outcome.await.map_err(|_| ClientError::UnknownOutcome)? })
    }
}
