//! Events on their way to a consumer that may be slow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{ClientEvent, Shared};

/// Events that may wait besides those in the channel before no more is read than must be.
const SOFT_LIMIT: usize = 1024;
/// Events that may wait before packet-ins are dropped; above the former by what one read may bring.
const DROP_LIMIT: usize = 4096;
/// Events that may wait before the connection is given up.
const HARD_LIMIT: usize = 65_536;

/// The consumer is so slow that events would be lost.
#[derive(Debug)]
pub(super) struct Overflow;

/// The way to the consumer, with what waits for room in its channel.
#[derive(Debug)]
pub(super) struct Delivery {
    channel: mpsc::Sender<ClientEvent>,
    waiting: VecDeque<ClientEvent>,
    shared: Arc<Shared>,
}

impl Delivery {
    pub(super) fn new(channel: mpsc::Sender<ClientEvent>, shared: Arc<Shared>) -> Delivery {
        Delivery { channel, waiting: VecDeque::new(), shared }
    }

    /// Hands an event on, or keeps it for [`Delivery::flush`].
    pub(super) fn push(&mut self, event: ClientEvent) -> Result<(), Overflow> {
        let event = if self.waiting.is_empty() {
            match self.channel.try_send(event) {
                Ok(()) | Err(TrySendError::Closed(_)) => return Ok(()),
                Err(TrySendError::Full(event)) => event,
            }
        } else {
            event
        };
        let packet_in = matches!(event, ClientEvent::PacketIn(_));
        if packet_in && self.waiting.len() >= DROP_LIMIT {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if self.waiting.len() >= HARD_LIMIT {
            return Err(Overflow);
        }
        self.waiting.push_back(event);
        Ok(())
    }

    /// Whether the consumer is so far behind that packet-ins are about to be dropped.
    pub(super) fn is_behind(&self) -> bool {
        self.waiting.len() >= SOFT_LIMIT
    }

    /// Forgets what waits; the consumer learns of the gap by the event that follows.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Waits for room and moves one event into it; never returns while nothing waits.
    pub(super) async fn flush(&mut self) {
        if self.waiting.is_empty() {
            std::future::pending::<()>().await;
        }
        if let Ok(room) = self.channel.reserve().await
            && let Some(event) = self.waiting.pop_front()
        {
            room.send(event);
        } else {
            self.waiting.clear();
        }
    }
}
