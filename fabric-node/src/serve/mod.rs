//! The unix socket that people and tools ask.
//!
//! The room knows nothing of the agent's state: each question becomes an [`Ask`] to the
//! loop that owns it, and the answer is what is true at that moment. Metrics are made of
//! the same answer, so no gauge drifts from the truth. The paths and bodies are those of
//! [`fabric_api`]. The socket is for root only.

mod ipam;
mod metrics;
pub mod render;
#[cfg(test)]
mod sample;
mod socket;
mod verdict;

pub use fabric_api::client;
pub use verdict::Look;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fabric_api::verdict::Lint;
use fabric_api::{State as AgentState, Status, World};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::error;

/// Longest that the agent may take for an answer; it answers within a millisecond where it is well.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can be asked in JSON.
const PATHS: &str =
    "/v1/status, /v1/world, /v1/ipam, /v1/claims, /v1/verdict, /v1/check, /v1/matrix, /v1/pods, /v1/lint";

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeConfig {
    /// Path of the unix socket; its folder is made where it is missing.
    pub socket: PathBuf,
}

/// A question to the agent.
#[derive(Debug)]
pub enum Ask {
    /// How it is, with what the switch counted.
    Status(oneshot::Sender<Status>),
    /// How it is, at once: without [`Status::drops`], which have to be read from the switch.
    Brief(oneshot::Sender<Status>),
    /// What it knows of the cluster.
    World(oneshot::Sender<World>),
    /// What is to be read off the world; dropped where that has not been read.
    Look(Look),
    /// What is wrong with policies, and what could not be read; None while the world has not been read.
    Lint(oneshot::Sender<Option<Lint>>),
}

/// Listens, within a tokio runtime, until the handle is dropped.
///
/// # Errors
/// Where another agent listens there, or the socket cannot be made; the message names it.
pub fn start(config: &ServeConfig, asks: mpsc::Sender<Ask>) -> io::Result<Handle> {
    let listener = socket::listen(&config.socket)?;
    let shown = config.socket.display().to_string();
    let task = tokio::spawn(async move {
        if let Err(source) = axum::serve(listener, router(asks)).await {
            error!("{shown} answers no more: {source}");
        }
    });
    Ok(Handle { socket: config.socket.clone(), task: task.abort_handle() })
}

/// The listening socket; dropped, it is closed and removed.
#[derive(Debug)]
pub struct Handle {
    socket: PathBuf,
    task: AbortHandle,
}

impl Handle {
    /// Path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
        // One that somebody else removed is gone as wished.
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn router(asks: mpsc::Sender<Ask>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/world", get(world))
        .route("/v1/ipam", get(ipam::ipam))
        .route("/v1/claims", get(ipam::claims))
        .route("/v1/verdict", post(verdict::verdict))
        .route("/v1/check", post(verdict::check))
        .route("/v1/matrix", post(verdict::matrix))
        .route("/v1/pods", get(verdict::pods))
        .route("/v1/lint", get(verdict::lint))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .with_state(Agent(asks))
}

/// The way to the agent.
#[derive(Debug, Clone)]
struct Agent(mpsc::Sender<Ask>);

impl Agent {
    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Refusal> {
        let (sender, answer) = oneshot::channel();
        let asked = async {
            self.0.send(ask(sender)).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(unavailable("the agent is ending".to_owned())),
            Err(_) => Err(unavailable(format!(
                "the agent did not answer within {} s; its log says what it is doing",
                PATIENCE.as_secs()
            ))),
        }
    }
}

/// An answer that is none.
type Refusal = (StatusCode, Json<fabric_api::Error>);

fn refusal(status: StatusCode, error: String) -> Refusal {
    (status, Json(fabric_api::Error { error }))
}

fn unavailable(error: String) -> Refusal {
    refusal(StatusCode::SERVICE_UNAVAILABLE, error)
}

async fn status(State(agent): State<Agent>) -> Result<Json<Status>, Refusal> {
    agent.ask(Ask::Status).await.map(Json)
}

async fn world(State(agent): State<Agent>) -> Result<Json<World>, Refusal> {
    agent.ask(Ask::World).await.map(Json)
}

async fn metrics(State(agent): State<Agent>) -> Result<Response, Refusal> {
    let status = agent.ask(Ask::Status).await?;
    let kind = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    Ok((kind, metrics::exposition(&status)).into_response())
}

async fn health(State(agent): State<Agent>) -> Result<&'static str, Refusal> {
    agent.ask(Ask::Brief).await.map(|_| "ok\n")
}

async fn readiness(State(agent): State<Agent>) -> Result<String, Refusal> {
    let status = agent.ask(Ask::Brief).await?;
    let waits = status.waiting_for.join("; ");
    match status.state {
        AgentState::Running | AgentState::Degraded => Ok(format!("{}\n", status.state)),
        AgentState::Starting if waits.is_empty() => Err(unavailable("the agent is starting".to_owned())),
        AgentState::Starting => Err(unavailable(format!("the agent is starting and waits for: {waits}"))),
        AgentState::Stopping => Err(unavailable("the agent is ending".to_owned())),
    }
}

async fn unknown(uri: axum::http::Uri) -> Refusal {
    let message = format!("{} is nothing here; ask {PATHS}, /metrics, /healthz or /readyz", uri.path());
    refusal(StatusCode::NOT_FOUND, message)
}

async fn other_method(uri: axum::http::Uri) -> Refusal {
    let message = match uri.path() {
        path @ ("/v1/verdict" | "/v1/check" | "/v1/matrix") => format!("{path} answers POST only"),
        path => format!("{path} answers GET only"),
    };
    refusal(StatusCode::METHOD_NOT_ALLOWED, message)
}
