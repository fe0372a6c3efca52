#![allow(clippy::expect_used, reason = "a failed step fails the test")]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// What a daemon that answers so is asked for while it settles.
fn asked(datapaths: &str, version: &str) -> Vec<String> {
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder: PathBuf = std::env::temp_dir().join(format!("fabric-settle-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("ovs-vswitchd.pid"), "7\n").expect("a pid file");
    let listener = UnixListener::bind(folder.join("ovs-vswitchd.7.ctl")).expect("a socket");
    let (datapaths, version) = (datapaths.to_owned(), version.to_owned());
    let daemon = std::thread::spawn(move || answer(&listener, &datapaths, &version));
    let mut control = Control::new(&folder, Duration::from_secs(5));
    settle(&mut control);
    drop(control);
    let asked = daemon.join().expect("the daemon");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    asked
}

fn answer(listener: &UnixListener, datapaths: &str, version: &str) -> Vec<String> {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut asked = Vec::new();
    let mut bytes = [0; 1024];
    loop {
        // One request at a time is under way, and is written at once.
        let length = stream.read(&mut bytes).expect("a request");
        if length == 0 {
            return asked;
        }
        let request: serde_json::Value = serde_json::from_slice(&bytes[..length]).expect("JSON");
        let method = request["method"].as_str().expect("a method").to_owned();
        let result = match method.as_str() {
            "dpctl/dump-dps" => datapaths,
            "version" => version,
            _ => "",
        };
        asked.push(method);
        let reply = serde_json::json!({ "id": request["id"], "result": result, "error": null });
        stream.write_all(reply.to_string().as_bytes()).expect("an answer");
    }
}

#[test]
fn what_rounds_cannot_put_right_is_thrown_away() {
    let asked = asked("netdev@ovs-netdev\n", "ovs-vswitchd (Open vSwitch) 3.1.0\n");
    assert_eq!(
        asked,
        ["dpctl/dump-dps", "version", "revalidator/purge", "revalidator/wait", "revalidator/purge"]
    );
}

#[test]
fn where_rounds_put_everything_right_nothing_is_thrown_away() {
    let waits = ["revalidator/wait", "revalidator/wait"];
    let kernel = asked("system@ovs-system\n", "ovs-vswitchd (Open vSwitch) 3.1.0\n");
    assert_eq!(kernel[1..], waits);
    let mended = asked("netdev@ovs-netdev\n", "ovs-vswitchd (Open vSwitch) 3.3.0\n");
    assert_eq!(mended[2..], waits);
}

#[test]
fn releases_are_told_apart() {
    let mended = |number: &str| is_mended(&format!("ovs-vswitchd (Open vSwitch) {number}\n"));
    for number in ["2.17.8", "2.17.12", "3.0.5", "3.1.3", "3.1.7-dirty", "3.2.1", "3.3.0", "3.10.0", "4.0.0"]
    {
        assert!(mended(number), "{number}");
    }
    for number in
        ["2.5.9", "2.16.9", "2.17.7", "3.0.4", "3.1.0", "3.1", "3.1.2-dirty", "3.2.0", "", "unknown"]
    {
        assert!(!mended(number), "{number}");
    }
}

#[test]
fn datapaths_are_told_apart() {
    assert!(has_userspace("system@ovs-system\nnetdev@ovs-netdev\n"));
    assert!(!has_userspace("system@ovs-system\n") && !has_userspace(""));
}
