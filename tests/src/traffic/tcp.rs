//! TCP: some bytes there, others back, and what each end received.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{Digest, PATIENCE, Payload};
use crate::lab::{LabError, netns};

/// What became of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The source that the server saw.
    pub seen: IpAddr,
    /// What the client sent.
    pub sent: Digest,
    /// What arrived of it.
    pub arrived: Digest,
    /// What the server sent back.
    pub returned: Digest,
    /// What arrived of it.
    pub came_back: Digest,
}

impl Exchange {
    /// Whether every byte arrived unchanged in both directions.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.sent == self.arrived && self.returned == self.came_back
    }
}

/// A conversation of one TCP connection: `bytes` bytes there, then as many others back.
///
/// # Errors
/// [`LabError::Io`] where the connection cannot be opened or breaks.
pub fn exchange(from: &str, to: &str, address: IpAddr, bytes: usize) -> Result<Exchange, LabError> {
    let what = format!("TCP from {from} to {address}");
    let listener = listen(to, SocketAddr::new(address, 0))?;
    let port = listener.local_addr().map_err(LabError::io(what.clone()))?;
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, bytes));
        let client = open(from, port)
            .and_then(|stream| talk(stream, bytes).map_err(LabError::io(format!("{what}, as the client"))));
        let server = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (sent, came_back) = client?;
        let (seen, arrived, returned) = server.map_err(LabError::io(format!("{what}, as the server")))?;
        Ok(Exchange { seen, sent, arrived, returned, came_back })
    })
}

/// Connects from inside a namespace.
///
/// # Errors
/// [`LabError::Io`].
pub fn open(namespace: &str, to: SocketAddr) -> Result<TcpStream, LabError> {
    netns::inside(namespace, || {
        let stream = TcpStream::connect_timeout(&to, PATIENCE).and_then(patient);
        stream.map_err(LabError::io(format!("connect from {namespace} to {to}")))
    })
}

fn listen(namespace: &str, address: SocketAddr) -> Result<TcpListener, LabError> {
    netns::inside(namespace, || {
        let listener = TcpListener::bind(address).and_then(|l| l.set_nonblocking(true).map(|()| l));
        listener.map_err(LabError::io(format!("listen on {address} in {namespace}")))
    })
}

fn patient(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            accepted => return accepted,
        }
    }
}

fn serve(listener: &TcpListener, bytes: usize) -> io::Result<(IpAddr, Digest, Digest)> {
    let (stream, peer) = accept(listener)?;
    let mut stream = patient(stream)?;
    let mut received = Vec::with_capacity(bytes);
    stream.read_to_end(&mut received)?;
    let answer = Payload::new(2).bytes(bytes);
    stream.write_all(&answer)?;
    stream.shutdown(Shutdown::Write)?;
    Ok((peer.ip(), Digest::of(&received), Digest::of(&answer)))
}

fn talk(mut stream: TcpStream, bytes: usize) -> io::Result<(Digest, Digest)> {
    let message = Payload::new(1).bytes(bytes);
    stream.write_all(&message)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::with_capacity(bytes);
    stream.read_to_end(&mut answer)?;
    Ok((Digest::of(&message), Digest::of(&answer)))
}
