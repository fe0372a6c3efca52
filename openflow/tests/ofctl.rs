//! Against the installed Open vSwitch: flow texts of our own, sent by `ovs-ofctl` to a socket that
//! records, are the bytes that this library makes of the same texts; and what `ovs-ofctl` prints
//! of them is what this library prints.

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common {
    pub mod flows;
}

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use common::flows::{Rng, flow};
use openflow::message::{Body, Message};
use openflow::{Flow, FlowMod, OF15};

const FLOWS: usize = 1500;
const SEED: u64 = 0x0f1e_2d3c;

const HELLO: u8 = 0;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const FLOW_MOD: u8 = 14;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("openflow-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ofctl(arguments: &[&str], folder: &Folder) -> Output {
    let mut command = Command::new("ovs-ofctl");
    command.env("OVS_RUNDIR", &folder.0).args(["-voff", "--no-names", "--timeout=60", "-O", "OpenFlow15"]);
    let ran = command.args(arguments).output();
    let ran =
        ran.unwrap_or_else(|e| panic!("cannot run ovs-ofctl ({e}): install the package openvswitch-common"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "ovs-ofctl {arguments:?}: {said}");
    ran
}

fn read_message(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; 8];
    stream.read_exact(&mut message)?;
    message.resize(usize::from(u16::from_be_bytes([message[2], message[3]])).max(8), 0);
    stream.read_exact(&mut message[8..])?;
    Ok(message)
}

/// Plays a switch that takes every flow-mod, and gives them to `record`.
fn play_switch(mut stream: UnixStream, record: &mpsc::Sender<Vec<u8>>) -> std::io::Result<()> {
    stream.write_all(&[OF15, HELLO, 0, 8, 0, 0, 0, 1])?;
    loop {
        let message = read_message(&mut stream)?;
        let answer = match message[1] {
            HELLO => None,
            ECHO_REQUEST => Some(ECHO_REPLY),
            BARRIER_REQUEST => Some(BARRIER_REPLY),
            FLOW_MOD => {
                let _ = record.send(message.clone());
                None
            }
            other => panic!("ovs-ofctl sent an unexpected message of type {other}"),
        };
        if let Some(kind) = answer {
            stream.write_all(&[OF15, kind, 0, 8])?;
            stream.write_all(&message[4..8])?;
        }
    }
}

fn record(socket: &Path) -> mpsc::Receiver<Vec<u8>> {
    let listener = UnixListener::bind(socket).unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // The peer closes when it has said all.
            let _ = play_switch(stream, &sender);
        }
    });
    receiver
}

fn texts() -> Vec<String> {
    let mut rng = Rng::new(SEED);
    (0..FLOWS).map(|_| flow(&mut rng)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn flows_become_the_bytes_that_ofctl_sends() {
    let folder = Folder::new("bytes");
    let texts = texts();
    let (socket, file) = (folder.file("switch"), folder.file("flows"));
    std::fs::write(&file, texts.join("\n") + "\n").unwrap();
    let recorded = record(&socket);
    ofctl(&["add-flows", socket.to_str().unwrap(), file.to_str().unwrap()], &folder);
    let mut differences = Vec::new();
    for text in &texts {
        let sent = recorded.recv_timeout(Duration::from_secs(10)).expect("a flow-mod for each flow");
        let xid = u32::from_be_bytes(sent[4..8].try_into().unwrap());
        let flow: Flow = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let ours = Message { version: OF15, xid, body: Body::FlowMod(FlowMod::add(flow)) };
        if ours.encode() != sent {
            differences.push(format!("{text}\n  ovs  {}\n  ours {}", hex(&sent), hex(&ours.encode())));
        }
        match Message::decode(&sent) {
            Ok(theirs) if theirs.encode() == sent => {}
            other => differences.push(format!("{text}\n  decodes as {other:?}")),
        }
    }
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {FLOWS} differ:\n{shown}", differences.len());
}

#[test]
fn flows_print_as_ofctl_prints_them() {
    let folder = Folder::new("text");
    let texts = texts();
    let file = folder.file("flows");
    std::fs::write(&file, texts.join("\n") + "\n").unwrap();
    let ran = ofctl(&["parse-flows", file.to_str().unwrap()], &folder);
    let printed = String::from_utf8(ran.stdout).unwrap();
    let printed: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.split_once("(xid=")?.1.split_once("): ").map(|(_, t)| t))
        .collect();
    assert_eq!(printed.len(), texts.len());
    let mut differences = Vec::new();
    for (text, theirs) in texts.iter().zip(&printed) {
        let flow: Flow = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        // As a switch shows it: what the bytes of OpenFlow 1.5 say.
        let bytes = Message { version: OF15, xid: 1, body: Body::FlowMod(FlowMod::add(flow)) }.encode();
        let Body::FlowMod(decoded) = Message::decode(&bytes).unwrap().body else { panic!("{text}") };
        if decoded.to_string() != *theirs {
            differences.push(format!("{text}\n  ovs  {theirs}\n  ours {decoded}"));
        }
    }
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {FLOWS} differ:\n{shown}", differences.len());
}
