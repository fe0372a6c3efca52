//! What was asked of the switch and is not answered yet, found again by transaction id.
//!
//! A question takes one id or, if it is many messages, a run of ids; questions are kept by the first of theirs.

use std::collections::BTreeMap;

use super::error::RequestError;
use super::{SessionEvent, Token};
use crate::message::{MORE, MultipartReply, OfError, Reply};

/// Something asked.
#[derive(Debug)]
pub(super) enum Pending {
    /// A message that sets up the connection.
    Setup { what: &'static str },
    /// Messages with a barrier behind them; the barrier's id is the last.
    Batch { token: Token, errors: Vec<(usize, OfError)> },
    /// A bundle.
    Bundle(Bundle),
    /// A multipart request.
    Request { token: Token, reply: Option<Reply>, bytes: usize },
}

/// A bundle on its way: opened, filled and closed in one go, committed when the switch has accepted all of it.
///
/// The switch applies a bundle without the messages that it refused, hence the pause before the commit.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) token: Token,
    pub(super) id: u32,
    /// The first refusal.
    pub(super) error: Option<OfError>,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for the answer to the close.
    Filling,
    /// Waits for the answer to the commit.
    Committing,
}

#[derive(Debug)]
struct Run {
    last: u32,
    pending: Pending,
}

/// All that is pending.
#[derive(Debug, Default)]
pub(super) struct Book {
    runs: BTreeMap<u32, Run>,
}

/// Where in a run an id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// First id of the run.
    pub(super) first: u32,
    /// Distance from it.
    pub(super) index: usize,
    /// Whether it is the last of the run.
    pub(super) last: bool,
}

impl Book {
    pub(super) fn add(&mut self, first: u32, last: u32, pending: Pending) {
        self.runs.insert(first, Run { last, pending });
    }

    pub(super) fn place(&self, xid: u32) -> Option<Place> {
        let (first, run) = self.runs.range(..=xid).next_back()?;
        let index = usize::try_from(xid - first).ok()?;
        (xid <= run.last).then_some(Place { first: *first, index, last: xid == run.last })
    }

    pub(super) fn get(&mut self, place: Place) -> Option<&mut Pending> {
        self.runs.get_mut(&place.first).map(|run| &mut run.pending)
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Pending> {
        self.runs.remove(&place.first).map(|run| run.pending)
    }

    /// Empties the book, oldest ids first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        std::mem::take(&mut self.runs).into_values().map(|run| run.pending)
    }

    /// The last id of the run at `place`.
    pub(super) fn last_of(&self, place: Place) -> u32 {
        self.runs.get(&place.first).map_or(place.first, |run| run.last)
    }

    /// Whether `place` is the last of its run but one.
    pub(super) fn is_next_to_last(&self, place: Place) -> bool {
        let distance = self.last_of(place) - place.first;
        usize::try_from(distance) == Ok(place.index + 1)
    }

    /// What set up the connection was accepted.
    pub(super) fn forget_setup(&mut self) {
        self.runs.retain(|_, run| !matches!(run.pending, Pending::Setup { .. }));
    }

    /// Takes one part of an answer of `length` bytes; gives the event once the answer is whole or wrong.
    pub(super) fn take_reply(
        &mut self,
        place: Place,
        part: MultipartReply,
        length: usize,
        limit: usize,
    ) -> Option<SessionEvent> {
        let Some(Pending::Request { token, reply, bytes }) = self.get(place) else { return None };
        let token = *token;
        *bytes += length;
        let more = part.flags & MORE != 0;
        let result =
            if *bytes > limit { Err(RequestError::TooLarge { limit }) } else { merge(reply, part.body) };
        match result {
            Ok(()) if more => None,
            Ok(()) => {
                let whole = reply.take().ok_or(RequestError::Mixed);
                self.remove(place);
                Some(SessionEvent::Reply { token, result: whole })
            }
            Err(error) => {
                // Later parts of this answer find nothing and are passed over.
                self.remove(place);
                Some(SessionEvent::Reply { token, result: Err(error) })
            }
        }
    }
}

/// Adds a part to what has come of an answer.
fn merge(whole: &mut Option<Reply>, part: Reply) -> Result<(), RequestError> {
    let Some(before) = whole else {
        *whole = Some(part);
        return Ok(());
    };
    match (before, part) {
        (Reply::Flow(all), Reply::Flow(more)) => all.extend(more),
        (Reply::Group(all), Reply::Group(more)) => all.extend(more),
        (Reply::GroupDesc(all), Reply::GroupDesc(more)) => all.extend(more),
        (Reply::Meter(all), Reply::Meter(more)) => all.extend(more),
        (Reply::MeterConfig(all), Reply::MeterConfig(more)) => all.extend(more),
        (Reply::PortDesc(all), Reply::PortDesc(more)) => all.extend(more),
        (Reply::Raw { kind, data }, Reply::Raw { kind: other, data: more }) if *kind == other => {
            data.extend(more);
        }
        _ => return Err(RequestError::Mixed),
    }
    Ok(())
}
