//! Measures the first sync of a database: `cargo run --release -p ovsdb --example first_sync SOCKET`.
//!
//! Prints the time from connect to the snapshot, the rows, and the peak of this process's memory.

use ovsdb::rows::{Bridge, Interface, OpenVSwitch, Port, TypedRow};
use ovsdb::{Client, ClientEvent, Config};
use std::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args().nth(1).ok_or("usage: first_sync SOCKET")?;
    let monitor = vec![OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()];
    let (sender, mut events) = tokio::sync::mpsc::channel(4);
    let begun = Instant::now();
    let _client = Client::spawn(Config::new(socket, monitor), sender);
    match events.recv().await {
        Some(ClientEvent::Connected { snapshot }) => {
            let took = begun.elapsed();
            println!("first sync: {:.3} s", took.as_secs_f64());
            for table in snapshot.tables() {
                println!("{table}: {} rows", snapshot.len(table));
            }
        }
        Some(ClientEvent::Disconnected { reason }) => return Err(reason.into()),
        Some(ClientEvent::Update(_)) | None => {
            return Err("the client ended before its first snapshot".into());
        }
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("{peak}");
    Ok(())
}
