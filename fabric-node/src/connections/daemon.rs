//! A daemon for tests: it takes every command, and remembers them.

#![allow(clippy::expect_used, reason = "a failed step fails the test")]

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// What is said to a command with these parameters.
pub type Says = fn(&str, &[String]) -> String;

/// A daemon that answers until it is dropped.
pub struct Daemon {
    folder: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// One that says this.
    pub fn start(says: Says) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("fabric-daemon-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("ovs-vswitchd.pid"), "7\n").expect("a pid file");
        let listener = UnixListener::bind(folder.join("ovs-vswitchd.7.ctl")).expect("a socket");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let its = Arc::clone(&asked);
        // They end with the test program.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, its) = (client.expect("a client"), Arc::clone(&its));
                std::thread::spawn(move || serve(&client, says, &its));
            }
        });
        Self { folder, asked }
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The commands that it was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no thread has failed").clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What is left of it is in the folder for what is temporary.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn serve(mut client: &UnixStream, says: Says, asked: &Mutex<Vec<String>>) {
    for request in serde_json::Deserializer::from_reader(client).into_iter::<Value>() {
        let request = request.expect("a request");
        let method = request["method"].as_str().expect("a method");
        let parameters: Vec<String> =
            serde_json::from_value(request["params"].clone()).expect("parameters are texts");
        asked.lock().expect("no thread has failed").push(method.to_owned());
        let reply = json!({ "id": request["id"], "result": says(method, &parameters), "error": null });
        client.write_all(reply.to_string().as_bytes()).expect("the client listens");
    }
}
