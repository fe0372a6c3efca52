//! The task of a client: connects, runs the connection, waits, connects again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::net::UnixStream;
use tokio::sync::mpsc;

use super::connection::{Connection, Ended};
use super::delivery::Delivery;
use super::{ClientError, ClientEvent, Command, Config, Session, Shared};
use crate::session::Backoff;

/// Runs until the last handle is dropped.
pub(super) async fn run(
    config: Config,
    mut commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<ClientEvent>,
    shared: Arc<Shared>,
) {
    let mut backoff = Backoff::new(config.first_retry, config.max_retry);
    let mut delivery = Delivery::new(events, Arc::clone(&shared));
    loop {
        let reason = match UnixStream::connect(&config.path).await {
            Ok(stream) => {
                let session = Session::new(config.session(), Instant::now());
                let mut connection =
                    Connection::new(stream, session, config.probe, &mut commands, &mut delivery, &shared);
                let ended = connection.run().await;
                if connection.was_ready() {
                    backoff.succeeded();
                }
                shared.connected.store(false, Ordering::Relaxed);
                match ended {
                    Ended::HandlesGone => return,
                    Ended::Lost(reason) => reason,
                }
            }
            Err(error) => format!("cannot connect to {}: {error}", config.path.display()),
        };
        if delivery.push(ClientEvent::Disconnected { reason: reason.clone() }).is_err() {
            delivery.clear();
            let _ = delivery.push(ClientEvent::Disconnected { reason });
        }
        let wait = tokio::time::sleep(backoff.failed());
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => break,
                () = delivery.flush() => {}
                command = commands.recv() => match command {
                    Some(command) => refuse(command),
                    None => return,
                },
            }
        }
    }
}

/// Answers a command that cannot be carried out.
pub(super) fn refuse(command: Command) {
    // Whoever no longer waits for the answer does not need it.
    match command {
        Command::Send(_) => {}
        Command::Commit(_, answer) => drop(answer.send(Err(ClientError::NotConnected))),
        Command::Batch(_, answer) => drop(answer.send(Err(ClientError::NotConnected))),
        Command::Request(_, answer) => drop(answer.send(Err(ClientError::NotConnected))),
    }
}
