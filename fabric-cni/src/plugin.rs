//! One request from beginning to end.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fabric_cni::client::{self, Failure};
use fabric_cni::conf::{Document, NetConf};
use fabric_cni::env::{self, Command, Target};
use fabric_cni::protocol::{Add, Answer, Check, Gc, Key, Request};
use fabric_cni::{Code, Error, Version, result};
use serde::Serialize;

use crate::detach;

/// Reads a variable of the environment.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Longest configuration that is read, bytes: results of long chains included.
const MAX_CONFIG: u64 = 1 << 20;

/// How long the runtime may take to write the configuration.
const STDIN: Duration = Duration::from_secs(10);

/// VERSION can do without.
const STDIN_VERSION: Duration = Duration::from_millis(200);

/// How long the agent may take, all in all.
fn limit(command: Command) -> Duration {
    Duration::from_secs(match command {
        Command::Add | Command::Gc => 60,
        Command::Del | Command::Check => 30,
        Command::Status | Command::Version => 5,
    })
}

/// What is to be printed: the result, or the error as JSON.
pub fn answer(lookup: Lookup<'_>) -> Result<String, String> {
    let mut version = Version::NEWEST;
    serve(lookup, &mut version).map_err(|error| {
        let printed = Printed { cni_version: version, error: &error };
        serde_json::to_string_pretty(&printed).unwrap_or_else(|_| error.to_string()) + "\n"
    })
}

#[derive(Serialize)]
struct Printed<'a> {
    #[serde(rename = "cniVersion")]
    cni_version: Version,
    #[serde(flatten)]
    error: &'a Error,
}

/// `version` becomes the version of the request as soon as it is known.
fn serve(lookup: Lookup<'_>, version: &mut Version) -> Result<String, Error> {
    let command = env::command(lookup)?;
    if command == Command::Version {
        return Ok(supported());
    }
    let document = Document::read(&stdin(STDIN)?)?;
    *version = document.version()?;
    version.allows(command)?;
    match command {
        Command::Add => add(&document.check(command)?, &env::target(command, lookup)?),
        Command::Del => del(&document.check(command)?, &env::target(command, lookup)?),
        Command::Check => check(&document.check(command)?, &env::target(command, lookup)?),
        Command::Gc => gc(document.check(command)?),
        Command::Status => status(&document.check(command)?),
        Command::Version => Ok(supported()),
    }
}

/// The version of the answer is that of the request, which people who run this by hand leave out.
fn supported() -> String {
    let asked = match std::io::stdin().is_terminal() {
        true => None,
        false => stdin(STDIN_VERSION).and_then(|bytes| Document::read(&bytes)?.version()).ok(),
    };
    let known = Version::ALL.map(Version::as_str).join("\",\"");
    let version = asked.unwrap_or(Version::NEWEST);
    format!("{{\"cniVersion\":\"{version}\",\"supportedVersions\":[\"{known}\"]}}\n")
}

/// A runtime that does not close the pipe must not make the plugin wait for ever: hence the thread.
fn stdin(limit: Duration) -> Result<Vec<u8>, Error> {
    let failed = |cause: String| Error::new(Code::IO, format!("standard input: {cause}"));
    let (give, take) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        let outcome = std::io::stdin().lock().take(MAX_CONFIG + 1).read_to_end(&mut bytes);
        give.send(outcome.map(|_| bytes))
    };
    thread::Builder::new().spawn(read).map_err(|cause| failed(cause.to_string()))?;
    let bytes = take
        .recv_timeout(limit)
        .map_err(|_| failed(format!("still open after {} s", limit.as_secs())))?
        .map_err(|cause| failed(cause.to_string()))?;
    if bytes.len() as u64 > MAX_CONFIG {
        return Err(failed(format!("the network configuration is longer than {MAX_CONFIG} bytes")));
    }
    Ok(bytes)
}

fn add(conf: &NetConf, target: &Target) -> Result<String, Error> {
    if let Some(previous) = &conf.prev_result {
        result::check_free(previous, target)?;
    }
    let ips = [&conf.runtime.ips, &target.args.ips, &conf.args_ips];
    let request = Add {
        key: key(target),
        netns: netns(target),
        network: conf.name.clone(),
        pod: target.args.pod.clone(),
        ips: ips.into_iter().find(|list| !list.is_empty()).cloned().unwrap_or_default(),
        mac: conf.runtime.mac.or(target.args.mac),
        mtu: conf.mtu,
        bandwidth: conf.runtime.bandwidth,
        ipam: conf.ipam.clone(),
    };
    match ask(conf, Command::Add, Request::Add(Box::new(request)))? {
        Answer::Attached(attached) => {
            let previous = conf.prev_result.clone();
            let success = result::of_add(conf.version, previous, target, &attached, conf.dns.clone());
            serde_json::to_string_pretty(&success)
                .map(|text| text + "\n")
                .map_err(|cause| Error::new(Code::DECODE, format!("the result cannot be written: {cause}")))
        }
        other => Err(unexpected(&other)),
    }
}

/// Succeeds on what is gone. Where the agent cannot do it, the interface goes, and the
/// agent finds out about the rest.
fn del(conf: &NetConf, target: &Target) -> Result<String, Error> {
    match ask(conf, Command::Del, Request::Del(key(target))) {
        Ok(Answer::Done) => Ok(String::new()),
        Ok(other) => Err(unexpected(&other)),
        Err(error) => match error.code {
            Code::UNKNOWN_CONTAINER => Ok(String::new()),
            Code::TRY_AGAIN | Code::NOT_AVAILABLE | Code::PROTOCOL => {
                eprintln!("fabric-cni: {error}; removing the interface without the agent");
                detach::remove(target, conf.prev_result.as_ref())
                    .map(|()| String::new())
                    .map_err(|cause| Error::new(Code::FAILED, format!("{}; and {cause}", error.details)))
            }
            _ => Err(error),
        },
    }
}

fn check(conf: &NetConf, target: &Target) -> Result<String, Error> {
    let (mac, addresses) = match &conf.prev_result {
        Some(previous) => result::expected(previous, target)?,
        None => (None, Vec::new()),
    };
    let request = Check { key: key(target), netns: netns(target), mac, addresses };
    done(ask(conf, Command::Check, Request::Check(request))?)
}

fn gc(conf: NetConf) -> Result<String, Error> {
    let valid = conf.valid_attachments.clone().unwrap_or_default();
    let request = Gc { network: conf.name.clone(), valid };
    done(ask(&conf, Command::Gc, Request::Gc(request))?)
}

fn status(conf: &NetConf) -> Result<String, Error> {
    done(ask(conf, Command::Status, Request::Status)?)
}

fn done(answer: Answer) -> Result<String, Error> {
    match answer {
        Answer::Done => Ok(String::new()),
        other => Err(unexpected(&other)),
    }
}

fn key(target: &Target) -> Key {
    Key { container_id: target.container_id.clone(), ifname: target.ifname.clone() }
}

fn netns(target: &Target) -> String {
    target.netns.clone().unwrap_or_default()
}

fn unexpected(answer: &Answer) -> Error {
    Error::new(Code::PROTOCOL, format!("the agent's answer does not belong to the request: {answer:?}"))
}

/// An agent that does not answer is error 11, or 50 for STATUS.
fn ask(conf: &NetConf, command: Command, request: Request) -> Result<Answer, Error> {
    match client::ask(&conf.socket, request, limit(command)) {
        Ok(Answer::Error(error)) => Err(error),
        Ok(answer) => Ok(answer),
        Err(Failure::Garbled(error)) if error.code == Code::PROTOCOL => Err(error),
        Err(failure) => {
            let code = if command == Command::Status { Code::NOT_AVAILABLE } else { Code::TRY_AGAIN };
            Err(Error::new(code, failure.to_string()))
        }
    }
}
