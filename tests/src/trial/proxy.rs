//! A unix socket in front of another one, which spoils what comes back.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of one connection.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It ends after that many bytes from the server.
    CutAfter(usize),
    /// These bytes come in the place of the server's.
    Say(Vec<u8>),
}

/// Passes connections on, the first ones with faults.
#[derive(Debug)]
pub struct Proxy {
    faults: Arc<Mutex<Vec<Fault>>>,
}

impl Proxy {
    /// Listens at `at` for the server at `to`; the first connection has the first fault.
    #[must_use]
    pub fn start(at: &Path, to: &Path, faults: Vec<Fault>) -> Self {
        // An earlier proxy of this place.
        let _ = fs::remove_file(at);
        let listener = UnixListener::bind(at).unwrap();
        let faults = Arc::new(Mutex::new(faults.into_iter().rev().collect::<Vec<_>>()));
        let (waiting, to) = (Arc::clone(&faults), to.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let fault = waiting.lock().unwrap().pop();
                let to: PathBuf = to.clone();
                thread::spawn(move || serve(client, &to, fault));
            }
        });
        Self { faults }
    }

    /// Faults that no connection has had yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

/// One connection; a side that goes ends the other.
fn serve(mut client: UnixStream, to: &Path, fault: Option<Fault>) {
    let limit = match fault {
        Some(Fault::Say(bytes)) => {
            // A client that is gone hears nothing.
            let _ = client.write_all(&bytes);
            let _ = client.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut client, &mut std::io::sink());
            return;
        }
        Some(Fault::CutAfter(bytes)) => bytes,
        None => usize::MAX,
    };
    let Ok(server) = UnixStream::connect(to) else { return };
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    thread::spawn(move || pass(from_client, to_server, usize::MAX));
    pass(server, client, limit);
}

fn pass(mut from: UnixStream, mut to: UnixStream, mut limit: usize) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let part = count.min(limit);
        limit -= part;
        if to.write_all(&buffer[..part]).is_err() || limit == 0 {
            break;
        }
    }
    for side in [from, to] {
        // One that is closed already needs it not.
        let _ = side.shutdown(Shutdown::Both);
    }
}
