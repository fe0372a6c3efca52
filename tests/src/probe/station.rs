//! A thread that lives in a network namespace and holds its sockets: many conversations
//! at once, as servers and as clients.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::mpsc as orders;

use crate::lab::{LabError, netns};
use crate::traffic::Payload;

type Job = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// What a client found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A byte went there and one came back, after this time.
    Reached(Duration),
    /// Somebody answered that nobody listens there.
    Refused,
    /// No answer.
    Silent,
    /// It could not be tried, or broke.
    Failed(String),
}

/// An answer that a station owes.
#[derive(Debug)]
pub struct Pending<T>(mpsc::Receiver<T>);

impl<T> Pending<T> {
    /// The answer; nothing where the station ended before.
    #[must_use]
    pub fn wait(self) -> Option<T> {
        self.0.recv().ok()
    }
}

/// The thread; it ends, with all its sockets, when this is dropped.
#[derive(Debug)]
pub struct Station {
    orders: Option<orders::UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Station {
    /// Begins in a namespace.
    ///
    /// # Errors
    /// [`LabError::Io`] where the namespace cannot be entered.
    pub fn start(namespace: &str) -> Result<Self, LabError> {
        let (orders, inbox) = orders::unbounded_channel();
        let (ready, begun) = mpsc::channel();
        let namespace = namespace.to_owned();
        let thread = std::thread::spawn(move || {
            let entered = netns::inside(&namespace, || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(LabError::io("start a station"))?;
                // Nobody waits for it any more: then there is nothing to serve either.
                let _ = ready.send(Ok(()));
                runtime.block_on(serve(inbox));
                Ok(())
            });
            if let Err(error) = entered {
                let _ = ready.send(Err(error));
            }
        });
        begun.recv().unwrap_or_else(|_| Err(LabError::NotReady("a station ended at once".to_owned())))?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Runs something in the namespace beside everything else there.
    pub fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Pending<T> {
        let (answer, pending) = mpsc::channel();
        let job: Job = Box::new(move || {
            Box::pin(async move {
                // Whoever does not wait does not want the answer.
                let _ = answer.send(work().await);
            })
        });
        if let Some(orders) = &self.orders {
            // A station that has ended answers nothing.
            let _ = orders.send(job);
        }
        Pending(pending)
    }

    /// Listens, and returns every byte of every connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn serve_tcp(&self, at: SocketAddr) -> io::Result<()> {
        let bound = self.run(move || async move {
            let listener = TcpListener::bind(at).await?;
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(echo(stream));
                }
            });
            Ok(())
        });
        bound.wait().unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Returns every datagram.
    ///
    /// # Errors
    /// What the system says.
    pub fn serve_udp(&self, at: SocketAddr) -> io::Result<()> {
        let bound = self.run(move || async move {
            let socket = UdpSocket::bind(at).await?;
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    // An ICMP error about an earlier answer is no end.
                    if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                        let _ = socket.send_to(buffer.get(..length).unwrap_or_default(), from).await;
                    }
                }
            });
            Ok(())
        });
        bound.wait().unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

async fn serve(mut inbox: orders::UnboundedReceiver<Job>) {
    while let Some(job) = inbox.recv().await {
        tokio::spawn(job());
    }
}

async fn echo(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 12];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(buffer.get(..length).unwrap_or_default()).await.is_err() {
            return;
        }
    }
}

/// Opens a TCP connection and sends a byte there and back, to be run in a station.
pub async fn ask_tcp(from: SocketAddr, to: SocketAddr, patience: Duration) -> Outcome {
    let began = Instant::now();
    let ask = async {
        let mut stream = open_tcp(from, to).await?;
        stream.write_all(&[42]).await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        Ok(())
    };
    outcome(began, tokio::time::timeout(patience, ask).await)
}

/// Sends a datagram of this many bytes and awaits it back, to be run in a station.
pub async fn ask_udp(from: SocketAddr, to: SocketAddr, bytes: usize, patience: Duration) -> Outcome {
    let began = Instant::now();
    let ask = async {
        let socket = open_udp(from, to).await?;
        let sent = Payload::new(7).bytes(bytes);
        socket.send(&sent).await?;
        let mut buffer = vec![0; bytes + 1];
        let length = socket.recv(&mut buffer).await?;
        let same = buffer.get(..length) == Some(&sent);
        if same { Ok(()) } else { Err(io::Error::other("another datagram came back")) }
    };
    outcome(began, tokio::time::timeout(patience, ask).await)
}

/// A TCP connection from an address and port.
///
/// # Errors
/// What the system says.
pub async fn open_tcp(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(from)?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A UDP socket from an address and port, connected.
///
/// # Errors
/// What the system says.
pub async fn open_udp(from: SocketAddr, to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(from).await?;
    socket.connect(to).await?;
    Ok(socket)
}

fn outcome(began: Instant, result: Result<io::Result<()>, tokio::time::error::Elapsed>) -> Outcome {
    match result {
        Err(_) => Outcome::Silent,
        Ok(Ok(())) => Outcome::Reached(began.elapsed()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Outcome::Refused,
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
    }
}
