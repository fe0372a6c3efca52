//! Asking a running agent, for command lines.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::http::request::Builder;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::{Claim, ClaimsPage, Ipam, Status, World};

/// Longest that an answer may take: longer than the agent itself waits before it says that it has none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("{}: no agent answers there ({source}); start it with `fabric-node run`, or name its socket", socket.display())]
    NotRunning {
        /// The socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The socket is for root.
    #[error("{}: {source}; the agent answers root only", socket.display())]
    NotAllowed {
        /// The socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The agent took too long.
    #[error("{}: no answer within {} s; the agent's log says what it is doing", socket.display(), PATIENCE.as_secs())]
    Silent {
        /// The socket.
        socket: PathBuf,
    },
    /// The connection broke, or what came is no HTTP.
    #[error("{}: {source}", socket.display())]
    Http {
        /// The socket.
        socket: PathBuf,
        /// What went wrong.
        source: hyper::Error,
    },
    /// The agent gave no answer and said why.
    #[error("{0}")]
    Refused(String),
    /// The question cannot be written as JSON.
    #[error("{path}: {source}")]
    Question {
        /// What was asked.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The answer is not what this version understands.
    #[error("{}: {path}: {source}; is the agent of another version?", socket.display())]
    Answer {
        /// The socket.
        socket: PathBuf,
        /// What was asked.
        path: String,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
}

/// How the agent behind `socket` is.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn status(socket: &Path) -> Result<Status, ClientError> {
    json(socket, "/v1/status").await
}

/// What the agent behind `socket` knows of the cluster.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn world(socket: &Path) -> Result<World, ClientError> {
    json(socket, "/v1/world").await
}

/// How the addresses of Networks are used, as the agent behind `socket` knows it.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn ipam(socket: &Path) -> Result<Ipam, ClientError> {
    json(socket, "/v1/ipam").await
}

/// Every claim that the agent behind `socket` knows of, asked page by page.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn claims(socket: &Path) -> Result<Vec<Claim>, ClientError> {
    let mut claims = Vec::new();
    let mut path = "/v1/claims".to_owned();
    loop {
        let page: ClaimsPage = json(socket, &path).await?;
        claims.extend(page.claims);
        match page.next {
            Some(next) => path = format!("/v1/claims?after={next}"),
            None => return Ok(claims),
        }
    }
}

/// The answer to `GET path`, read.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn json<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    read(socket, path, &get(socket, path).await?)
}

fn read<T: DeserializeOwned>(socket: &Path, path: &str, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|source| ClientError::Answer {
        socket: socket.to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// The body of an answer to `GET path`.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn get(socket: &Path, path: &str) -> Result<Bytes, ClientError> {
    patiently(socket, path, Request::get(path), Bytes::new()).await
}

/// Asks `POST path` with a body of JSON, and reads the answer.
///
/// # Errors
/// [`ClientError`] says what to do.
pub async fn post<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    question: &impl Serialize,
) -> Result<T, ClientError> {
    let body = serde_json::to_vec(question)
        .map_err(|source| ClientError::Question { path: path.to_owned(), source })?;
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    read(socket, path, &patiently(socket, path, request, body.into()).await?)
}

async fn patiently(socket: &Path, path: &str, request: Builder, body: Bytes) -> Result<Bytes, ClientError> {
    match tokio::time::timeout(PATIENCE, exchange(socket, path, request, body)).await {
        Ok(answer) => answer,
        Err(_) => Err(ClientError::Silent { socket: socket.to_owned() }),
    }
}

async fn exchange(socket: &Path, path: &str, request: Builder, body: Bytes) -> Result<Bytes, ClientError> {
    let http = |source| ClientError::Http { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket).await.map_err(|source| unreachable(socket, source))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let request = request
        .header(header::HOST, "fabric")
        .header(header::CONNECTION, "close")
        .body(Full::new(body))
        .map_err(|error| ClientError::Refused(format!("{path}: {error}")))?;
    let answer = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok((head.status, body.collect().await?.to_bytes()))
    };
    // The connection makes progress only while it is polled, beside its answer.
    let connection = async {
        // What goes wrong here shows in the answer.
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    let (status, body) = tokio::select! {
        answer = answer => answer.map_err(http)?,
        () = connection => return Err(ClientError::Silent { socket: socket.to_owned() }),
    };
    if status == StatusCode::OK { Ok(body) } else { Err(ClientError::Refused(reason(status, &body))) }
}

fn reason(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<crate::Error>(body) {
        Ok(said) => said.error,
        Err(_) => format!("the agent answered {status}"),
    }
}

fn unreachable(socket: &Path, source: io::Error) -> ClientError {
    let socket = socket.to_owned();
    match source.kind() {
        ErrorKind::PermissionDenied => ClientError::NotAllowed { socket, source },
        _ => ClientError::NotRunning { socket, source },
    }
}
