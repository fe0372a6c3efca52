//! A real ovsdb-server in a folder of its own, and a client that remembers what it was told.

// Each test uses a part of this file; a failure to set a test up must end it.
#![allow(dead_code, missing_docs, clippy::expect_used, clippy::panic)]

use ovsdb::{Client, ClientEvent, Config, Replica, TableColumns};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Long enough for a loaded machine; every wait of these tests ends by then.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A folder that goes with its owner.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ovsdb-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

pub struct Server {
    folder: Folder,
    child: Option<Child>,
}

impl Server {
    /// Makes an empty database with one root row, and serves it.
    pub async fn start() -> Self {
        let folder = Folder::new();
        let made = Command::new("ovsdb-tool")
            .arg("create")
            .arg(folder.path().join("conf.db"))
            .arg("/usr/share/openvswitch/vswitch.ovsschema")
            .status()
            .expect("ovsdb-tool is missing: install the Debian package openvswitch-switch");
        assert!(made.success(), "ovsdb-tool cannot make a database");
        let mut server = Self { folder, child: None };
        server.run().await;
        let (client, mut told) = server.client(Vec::new());
        told.connected().await;
        let mut txn = ovsdb::Transaction::new();
        txn.insert("Open_vSwitch", [("next_cfg", ovsdb::Datum::from(0))]);
        client.commit(&txn).await.expect("the root row");
        server
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("db.sock")
    }

    /// Starts the server on its database, and returns when its socket answers.
    pub async fn run(&mut self) {
        assert!(self.child.is_none(), "the server runs");
        let child = Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", self.socket().display()))
            .arg(format!("--unixctl={}", self.folder.path().join("db.ctl").display()))
            .arg("--no-chdir")
            // It ends with `cat`, and that with this process: nothing is left behind when a test is killed.
            .arg("--run=cat")
            .arg(self.folder.path().join("conf.db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ovsdb-server is missing: install the Debian package openvswitch-switch");
        self.child = Some(child);
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(begun.elapsed() < PATIENCE, "ovsdb-server does not answer");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the server without warning, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    pub fn client(&self, monitor: Vec<TableColumns>) -> (Client, Told) {
        client_of(Config::new(self.socket(), monitor))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn client_of(config: Config) -> (Client, Told) {
    let (sender, events) = mpsc::channel(4);
    (Client::spawn(config, sender), Told { events, replica: Replica::default() })
}

/// What a client told, and the replica that follows from it.
pub struct Told {
    events: mpsc::Receiver<ClientEvent>,
    pub replica: Replica,
}

impl Told {
    pub async fn next(&mut self) -> ClientEvent {
        let event = timeout(PATIENCE, self.events.recv()).await;
        let event = event.expect("an event in time").expect("the client runs");
        match &event {
            ClientEvent::Connected { snapshot } => self.replica = snapshot.clone(),
            ClientEvent::Update(changes) => changes.iter().for_each(|change| self.replica.follow(change)),
            ClientEvent::Disconnected { .. } => {}
        }
        event
    }

    /// Passes events over until a connection stands.
    pub async fn connected(&mut self) {
        while !matches!(self.next().await, ClientEvent::Connected { .. }) {}
    }

    /// Passes events over until the connection is lost.
    pub async fn disconnected(&mut self) -> ovsdb::Error {
        loop {
            if let ClientEvent::Disconnected { reason } = self.next().await {
                return reason;
            }
        }
    }

    /// Passes events over until the replica is as wished.
    pub async fn until(&mut self, what: &str, wish: impl Fn(&Replica) -> bool) {
        let begun = Instant::now();
        while !wish(&self.replica) {
            assert!(begun.elapsed() < PATIENCE, "the monitor never showed: {what}");
            self.next().await;
        }
    }

    pub fn nothing_more(&mut self) -> bool {
        self.events.try_recv().is_err()
    }
}
