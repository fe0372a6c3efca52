//! Runs `fabric-trace`, and folders that go with a test.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::expect_used, reason = "a failed step fails the test")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The program.
pub const TRACE: &str = env!("CARGO_BIN_EXE_fabric-trace");

/// What a run gave.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).expect("JSON on standard output")
    }
}

/// Runs the program.
pub fn run(words: &[&str]) -> Ran {
    run_with(words, "")
}

/// Runs the program with something on standard input.
pub fn run_with(words: &[&str], input: &str) -> Ran {
    let mut child = Command::new(TRACE)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || {
        // One that does not read its input closes the pipe.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("it is fed");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code().expect("no signal"), out: text(output.stdout), err: text(output.stderr) }
}

/// The folders of the cases.
pub fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/cases");
    let mut cases: Vec<_> =
        fs::read_dir(root).expect("the cases").map(|entry| entry.expect("one").path()).collect();
    cases.sort();
    assert!(cases.len() >= 5, "{cases:?}");
    cases
}

/// The folder of a case.
pub fn case(name: &str) -> String {
    let found = cases().into_iter().find(|case| case.ends_with(name)).expect("the case");
    text(&found)
}

/// A path as text.
pub fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// A folder that goes with its test.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fabric-trace-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// Writes a file, and the folders that it is in.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it is in one")).expect("a folder");
        fs::write(&path, content).expect("a file");
        text(&path)
    }

    /// Its path.
    pub fn path(&self) -> String {
        text(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A namespace and pods in it, each with the label `app` that is its name.
pub fn pods(namespace: &str, pods: &[(&str, &str)]) -> String {
    let mut text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n");
    for (name, ip) in pods {
        text += &format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{namespace: {namespace}, name: {name}, labels: {{app: {name}}}}}\n\
             spec: {{nodeName: n1}}\nstatus: {{phase: Running, podIPs: [{}]}}\n",
            ip.split(' ').map(|ip| format!("{{ip: \"{ip}\"}}")).collect::<Vec<_>>().join(", ")
        );
    }
    text
}
