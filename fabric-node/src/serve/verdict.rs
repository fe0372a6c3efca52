//! Who may talk to whom: questions that the world alone answers.
//!
//! Each goes to the loop as a [`Look`] at the world, which answers no more at once than a
//! packet can wait for; large tables come in several questions.

use std::fmt;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Query as Parameters, State};
use axum::http::StatusCode;
use fabric_api::verdict::{
    self, AskError, Check, CheckQuery, Lint, Matrix, MatrixQuery, PodsPage, Query, Report,
};
use policy::{PodRef, World};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::{Agent, Ask, Refusal, refusal, unavailable};

/// Something to be read off the world.
pub struct Look(Box<dyn FnOnce(&World) + Send>);

impl Look {
    /// Does it.
    pub fn at(self, world: &World) {
        self.0(world);
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}

impl Agent {
    /// What `read` makes of the world; a refusal while that has not been read.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let look = |answer: oneshot::Sender<Option<T>>| {
            let answer = Answer(Some(answer));
            Ask::Look(Look(Box::new(move |world| answer.give(read(world)))))
        };
        self.ask(look).await?.ok_or_else(no_world)
    }
}

fn no_world() -> Refusal {
    unavailable("the store has not delivered its first full list: ask again in a moment".to_owned())
}

/// The way back of an answer. A look that is dropped, since there is no world yet, says so.
struct Answer<T>(Option<oneshot::Sender<Option<T>>>);

impl<T> Answer<T> {
    fn give(mut self, answer: T) {
        if let Some(sender) = self.0.take() {
            // Whoever asked may have gone.
            let _ = sender.send(Some(answer));
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(None);
        }
    }
}

/// A body of JSON, or why it is none.
type Body<T> = Result<Json<T>, JsonRejection>;

fn read<T>(body: Body<T>) -> Result<T, Refusal> {
    body.map(|Json(body)| body).map_err(|wrong| refusal(wrong.status(), wrong.body_text()))
}

fn answered<T>(answer: Result<T, AskError>) -> Result<Json<T>, Refusal> {
    answer.map(Json).map_err(|error| {
        let status = match error {
            AskError::TooMany { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        refusal(status, error.to_string())
    })
}

/// `POST /v1/verdict`.
pub(super) async fn verdict(State(agent): State<Agent>, body: Body<Query>) -> Result<Json<Report>, Refusal> {
    let query = read(body)?;
    answered(agent.look(move |world| query.explain(world)).await?)
}

/// `POST /v1/check`.
pub(super) async fn check(
    State(agent): State<Agent>,
    body: Body<CheckQuery>,
) -> Result<Json<Check>, Refusal> {
    let query = read(body)?;
    answered(agent.look(move |world| query.answer(world)).await?)
}

/// `POST /v1/matrix`.
pub(super) async fn matrix(
    State(agent): State<Agent>,
    body: Body<MatrixQuery>,
) -> Result<Json<Matrix>, Refusal> {
    let query = read(body)?;
    answered(agent.look(move |world| query.answer(world)).await?)
}

/// Where a page of pods begins.
#[derive(Debug, Deserialize)]
pub(super) struct Behind {
    after: Option<String>,
}

/// `GET /v1/pods`.
pub(super) async fn pods(
    State(agent): State<Agent>,
    Parameters(Behind { after }): Parameters<Behind>,
) -> Result<Json<PodsPage>, Refusal> {
    let after: Option<PodRef> = match after.map(|after| after.parse()).transpose() {
        Ok(after) => after,
        Err(wrong) => return Err(refusal(StatusCode::BAD_REQUEST, format!("after: {wrong}"))),
    };
    agent.look(move |world| verdict::pods(world, after.as_ref())).await.map(Json)
}

/// `GET /v1/lint`.
pub(super) async fn lint(State(agent): State<Agent>) -> Result<Json<Lint>, Refusal> {
    agent.ask(Ask::Lint).await?.ok_or_else(no_world).map(Json)
}
