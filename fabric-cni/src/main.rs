//! What the container runtime runs: reads the request, asks the agent, prints the result.

mod detach;
mod ipam;
mod plugin;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

const HELP: &str = include_str!("help.txt");

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().map(|argument| argument.to_string_lossy()).as_deref() {
        None => run(),
        Some("--help" | "-h") => print(HELP, ExitCode::SUCCESS),
        Some("--version" | "-V") => {
            print(&format!("fabric-cni {}\n", env!("CARGO_PKG_VERSION")), ExitCode::SUCCESS)
        }
        Some(other) => {
            eprintln!("fabric-cni: {other:?} is not known; try fabric-cni --help");
            ExitCode::from(2)
        }
    }
}

fn run() -> ExitCode {
    let absent = std::env::var_os("CNI_COMMAND").is_none_or(|value| value.is_empty());
    if absent && std::io::stdin().is_terminal() {
        return print(HELP, ExitCode::SUCCESS);
    }
    if absent {
        eprintln!("fabric-cni is a CNI plugin, which container runtimes run; see fabric-cni --help");
    }
    match plugin::answer(&|name: &str| std::env::var_os(name)) {
        Ok(text) => print(&text, ExitCode::SUCCESS),
        Err(text) => print(&text, ExitCode::FAILURE),
    }
}

/// Standard output may be a closed pipe: that is no reason to panic.
fn print(text: &str, code: ExitCode) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => code,
        Err(cause) => {
            eprintln!("fabric-cni: standard output: {cause}");
            ExitCode::FAILURE
        }
    }
}
