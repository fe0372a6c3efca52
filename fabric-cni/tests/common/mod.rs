//! Running the plugin, and playing the agent.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod folder;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use fabric_cni::Error;
use fabric_cni::protocol::{Answer, Attached, Request, decode_request, encode_answer};
use serde_json::{Value, json};

/// A configuration whose agent does not exist.
pub const CONF: &str =
    r#"{"cniVersion":"1.1.0","name":"fabric","type":"fabric-cni","socket":"/nonexistent/cni.sock"}"#;

/// One run of the plugin.
#[derive(Debug)]
pub struct Run {
    env: BTreeMap<String, String>,
    arguments: Vec<String>,
    stdin: String,
    pub ok: bool,
    pub stdout: String,
}

/// A run with a complete environment.
pub fn plugin(command: &str) -> Run {
    Run::new(command)
        .env("CNI_CONTAINERID", "c1")
        .env("CNI_NETNS", "/run/netns/x")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", "/opt/cni/bin")
}

impl Run {
    pub fn new(command: &str) -> Run {
        let run = Run {
            env: BTreeMap::new(),
            arguments: Vec::new(),
            stdin: String::new(),
            ok: false,
            stdout: String::new(),
        };
        run.env("CNI_COMMAND", command)
    }

    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn without(mut self, name: &str) -> Run {
        self.env.remove(name);
        self
    }

    pub fn argument(mut self, argument: &str) -> Run {
        self.arguments.push(argument.to_owned());
        self
    }

    pub fn stdin(mut self, text: &str) -> Run {
        self.stdin = text.to_owned();
        self
    }

    pub fn conf(self, conf: &Value) -> Run {
        self.stdin(&conf.to_string())
    }

    pub fn run(mut self) -> Run {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fabric-cni"))
            .args(&self.arguments)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A plugin that does not want its input may have ended already.
        let _ = child.stdin.take().unwrap().write_all(self.stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        self.ok = output.status.success();
        self.stdout = String::from_utf8(output.stdout).unwrap();
        self
    }
}

/// The error that a run printed.
pub fn error(run: &Run) -> Error {
    assert!(!run.ok, "{run:?}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|cause| panic!("{cause}: {run:?}"))
}

/// A configuration for this agent.
pub fn conf(agent: &Agent, version: &str) -> Value {
    json!({"cniVersion": version, "name": "fabric", "type": "fabric-cni", "socket": agent.socket})
}

/// An answer to ADD, with both families.
pub fn attached() -> Attached {
    Attached {
        host_name: "fab0123456789a".into(),
        mac: "0a:58:0a:00:00:09".parse().unwrap(),
        mtu: 1450,
        addresses: vec!["10.0.0.9/32".parse().unwrap(), "fd00::9/128".parse().unwrap()],
        gateways: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
    }
}

/// An agent on a socket of its own.
pub struct Agent {
    directory: PathBuf,
    pub socket: PathBuf,
    asked: Arc<Mutex<Vec<Request>>>,
    waiting: Vec<UnixStream>,
}

impl Agent {
    /// One that answers every request.
    pub fn answering(answer: impl Fn(&Request) -> Answer + Send + 'static) -> Agent {
        Agent::serving(move |request, stream| {
            stream.write_all(&encode_answer(answer(request)).unwrap()).unwrap();
        })
    }

    /// One that writes these bytes and closes.
    pub fn writing(bytes: &[u8]) -> Agent {
        let bytes = bytes.to_vec();
        Agent::serving(move |_, stream| stream.write_all(&bytes).unwrap())
    }

    /// One that reads and never answers.
    pub fn silent() -> Agent {
        let held = Mutex::new(Vec::new());
        Agent::serving(move |_, stream| held.lock().unwrap().push(stream.try_clone().unwrap()))
    }

    /// One that does not accept, and whose queue is full.
    pub fn full() -> Agent {
        let (mut agent, listener) = Agent::bound();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
        agent.waiting.push(UnixStream::connect(&agent.socket).unwrap());
        std::mem::forget(listener);
        agent
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    fn serving(serve: impl Fn(&Request, &mut UnixStream) + Send + 'static) -> Agent {
        let (agent, listener) = Agent::bound();
        let asked = agent.asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = Vec::new();
                BufReader::new(stream.try_clone().unwrap()).read_until(b'\n', &mut line).unwrap();
                let request = decode_request(&line).unwrap();
                asked.lock().unwrap().push(request.clone());
                serve(&request, &mut stream);
            }
        });
        agent
    }

    fn bound() -> (Agent, UnixListener) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("fabric-cni-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let socket = directory.join("cni.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        (Agent { directory, socket, asked: Arc::default(), waiting: Vec::new() }, listener)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
