//! Answering `fabric-cni`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fabric_cni::protocol::{Answer, MAX_LINE, Request, decode_request, encode_answer};
use fabric_cni::{Code, Error};
use fabric_core::node::Event;
use nix::unistd::Uid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::desk::Desk;
use super::netns::on_a_thread;
use super::translate::{self, Asked};
use super::wire;

/// Connections that are served at once; more wait in the socket's queue.
const CONNECTIONS: usize = 256;

/// How long a client may take to send its line, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may wait for the node: longer than any client of this release does.
const LONGEST: Duration = Duration::from_secs(120);

/// Accepts connections for ever.
pub async fn serve(listener: UnixListener, desk: Desk, events: mpsc::Sender<Event>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (desk, events) = (desk.clone(), events.clone());
                tokio::spawn(async move {
                    if let Err(cause) = converse(stream, &desk, &events).await {
                        tracing::debug!(%cause, "a CNI request ended early");
                    }
                    drop(slot);
                });
            }
            Err(cause) => {
                tracing::warn!(%cause, "cannot accept a connection on the CNI socket");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One request, one answer.
async fn converse(mut stream: UnixStream, desk: &Desk, events: &mpsc::Sender<Event>) -> io::Result<()> {
    let caller = Uid::from_raw(stream.peer_cred()?.uid());
    if !caller.is_root() && caller != Uid::effective() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("user {caller} is not root")));
    }
    let line = timeout(PATIENCE, read_line(&mut stream)).await??;
    let answer = tokio::select! {
        answer = answer(&line, desk, events) => answer,
        () = hung_up(&mut stream) => return Err(io::ErrorKind::ConnectionAborted.into()),
        () = sleep(LONGEST) => {
            Answer::Error(Error::new(Code::TRY_AGAIN, format!("not done within {} s", LONGEST.as_secs())))
        }
    };
    let line = encode_answer(answer).map_err(io::Error::other)?;
    timeout(PATIENCE, stream.write_all(&line)).await?
}

async fn answer(line: &[u8], desk: &Desk, events: &mpsc::Sender<Event>) -> Answer {
    match decode_request(line) {
        Ok(request) => fulfil(request, desk, events).await.unwrap_or_else(Answer::Error),
        Err(error) => Answer::Error(error),
    }
}

async fn fulfil(request: Request, desk: &Desk, events: &mpsc::Sender<Event>) -> Result<Answer, Error> {
    if let Request::Check(check) = &request {
        compare(check.clone()).await?;
    }
    let asked = Asked::of(&request);
    let request = translate::request(request)?;
    let mut waiting = desk.take_number().await;
    let ended = || Error::new(Code::TRY_AGAIN, "the agent is ending");
    let event = Event::Request { id: waiting.id, request };
    events.send(event).await.map_err(|_| ended())?;
    let verdict = waiting.reply().await.ok_or_else(ended)?;
    translate::answer(asked, verdict)
}

/// CHECK asks first whether the kernel has what the runtime's own copy of the result says
/// (CNI 1.1.0, section 2, "CHECK").
async fn compare(check: fabric_cni::protocol::Check) -> Result<(), Error> {
    let failed = |cause: String| Error::new(Code::FAILED, cause);
    translate::target(&check.key, &check.netns)?;
    let observe = {
        let check = check.clone();
        move || wire::observe(&check.netns, &check.key.ifname).map_err(|error| error.to_string())
    };
    let observed = on_a_thread(observe).await.map_err(failed)?;
    let place = format!("{} in {}", check.key.ifname, check.netns);
    let Some(observed) = observed else { return Err(failed(format!("{place}: the interface is missing"))) };
    let mut differences = Vec::new();
    if let Some(mac) = check.mac.filter(|mac| mac.0 != observed.mac.as_slice()) {
        differences.push(format!("the hardware address is not {mac}, as prevResult says"));
    }
    for cidr in &check.addresses {
        let there = |net: &ipnet::IpNet| net.addr() == cidr.address && net.prefix_len() == cidr.prefix;
        if !observed.addresses.iter().any(there) {
            differences.push(format!("the address {cidr} of prevResult is missing"));
        }
    }
    if differences.is_empty() { Ok(()) } else { Err(failed(format!("{place}: {}", differences.join("; ")))) }
}

/// Everything up to the newline.
async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let count = stream.read_buf(&mut line).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let fresh = line.len() - count;
        if let Some(end) = line.get(fresh..).and_then(|bytes| bytes.iter().position(|byte| *byte == b'\n')) {
            line.truncate(fresh + end);
            return Ok(line);
        }
        if line.len() > MAX_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {MAX_LINE} bytes")));
        }
    }
}

/// Returns when the client is gone. What it still sends does not matter.
async fn hung_up(stream: &mut UnixStream) {
    let mut waste = [0_u8; 256];
    while !matches!(stream.read(&mut waste).await, Ok(0) | Err(_)) {}
}
