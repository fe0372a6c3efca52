//! One request from beginning to end.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::net::IpAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fabric_cni::client::{self, Failure};
use fabric_cni::conf::{Document, NetConf};
use fabric_cni::env::{self, Command, Target};
use fabric_cni::protocol::{Add, Answer, Attached, Check, Gc, Key, Request};
use fabric_cni::result::Success;
use fabric_cni::{Code, Error, Version, result};
use serde::Serialize;

use crate::detach;
use crate::ipam::Delegate;

/// Reads a variable of the environment.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Longest configuration that is read, bytes: results of long chains included.
const MAX_CONFIG: u64 = 1 << 20;

/// How long the runtime may take to write the configuration.
const STDIN: Duration = Duration::from_secs(10);

/// VERSION can do without.
const STDIN_VERSION: Duration = Duration::from_millis(200);

/// How long an agent may be away that is started anew, and how often it is looked for.
const RESTART: Duration = Duration::from_secs(15);
const RESTART_LOOK: Duration = Duration::from_millis(200);

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
    let bytes = stdin(STDIN)?;
    let document = Document::read(&bytes)?;
    *version = document.version()?;
    version.allows(command)?;
    let conf = document.check(command)?;
    let delegate = || conf.ipam.as_deref().map(|kind| Delegate::find(kind, lookup, &bytes)).transpose();
    match command {
        Command::Add => {
            let target = env::target(command, lookup)?;
            add(&conf, &target, delegate()?.as_ref())
        }
        Command::Del => {
            let target = env::target(command, lookup)?;
            match delegate() {
                Ok(Some(delegate)) if delegate.needs_interface() => {
                    let released = delegate.run(command);
                    del(&conf, &target).and_then(|text| released.map(|_| text))
                }
                // The address goes back when nobody can use it any more.
                delegate => del(&conf, &target).and_then(|text| also(delegate?, command, text)),
            }
        }
        Command::Check => {
            let target = env::target(command, lookup)?;
            also(delegate()?, command, String::new()).and_then(|_| check(&conf, &target))
        }
        Command::Gc => gc(&conf).and_then(|text| also(delegate()?, command, text)),
        Command::Status => status(&conf).and_then(|text| also(delegate()?, command, text)),
        Command::Version => Ok(supported()),
    }
}

/// Runs the IPAM plugin, where there is one, for a command without a result.
fn also(delegate: Option<Delegate>, command: Command, text: String) -> Result<String, Error> {
    delegate.map_or(Ok(()), |delegate| delegate.run(command).map(drop)).map(|()| text)
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

fn add(conf: &NetConf, target: &Target, delegate: Option<&Delegate>) -> Result<String, Error> {
    if let Some(previous) = &conf.prev_result {
        result::check_free(previous, target)?;
    }
    if let Some(delegate) = delegate {
        return add_delegated(conf, target, delegate);
    }
    let wanted = [&conf.runtime.ips, &target.args.ips, &conf.args_ips];
    let ips = wanted.into_iter().find(|list| !list.is_empty()).cloned().unwrap_or_default();
    let attached = ask_for(conf, Request::Add(Box::new(request(conf, target, ips, None))))?;
    print(&result::of_add(conf.version, conf.prev_result.clone(), target, &attached, conf.dns.clone()))
}

/// The plugin gives the addresses, and the agent claims them.
fn add_delegated(conf: &NetConf, target: &Target, delegate: &Delegate) -> Result<String, Error> {
    if delegate.needs_interface() {
        return add_on_interface(conf, target, delegate);
    }
    let given = delegate.add().inspect_err(|_| delegate.undo())?;
    let add = with_addresses(conf, target, delegate, &given);
    let attached = ask_for(conf, Request::Add(Box::new(add))).inspect_err(|_| delegate.undo())?;
    told(conf, target, &given, &attached).inspect_err(|_| {
        give_up(conf, target);
        delegate.undo();
    })
}

/// The same for a plugin that asks for addresses on the container's interface, and gives them back there: that comes
/// first, and goes last. What fails undoes all, unless the container was attached before.
fn add_on_interface(conf: &NetConf, target: &Target, delegate: &Delegate) -> Result<String, Error> {
    let prepare = request(conf, target, Vec::new(), Some(delegate));
    let prepared = ask_for(conf, Request::Prepare(Box::new(prepare)))?;
    let attach = |given: Success| {
        let add = with_addresses(conf, target, delegate, &given);
        let attached = complete(conf, &Request::Add(Box::new(add)))?;
        told(conf, target, &given, &attached)
    };
    delegate.add().and_then(attach).inspect_err(|_| {
        if prepared.addresses.is_empty() {
            delegate.undo();
            give_up(conf, target);
        }
    })
}

/// The server has given a lease by now: an agent that is just being started anew is waited for.
fn complete(conf: &NetConf, request: &Request) -> Result<Attached, Error> {
    let deadline = Instant::now() + RESTART;
    loop {
        match client::ask(&conf.socket, request.clone(), limit(Command::Add)) {
            Err(Failure::Away { .. } | Failure::Broken(_)) if Instant::now() < deadline => {
                thread::sleep(RESTART_LOOK);
            }
            outcome => return attached(answered(Command::Add, outcome)?),
        }
    }
}

fn with_addresses(conf: &NetConf, target: &Target, delegate: &Delegate, given: &Success) -> Add {
    let ips = given.ips.iter().map(|ip| ip.address.address).collect();
    let routers = match delegate.needs_interface() {
        true => given.ips.iter().filter_map(|ip| ip.gateway).collect(),
        false => Vec::new(),
    };
    Add { routers, ..request(conf, target, ips, Some(delegate)) }
}

/// The result: what the agent made, with what else the plugin gave.
fn told(conf: &NetConf, target: &Target, given: &Success, attached: &Attached) -> Result<String, Error> {
    let dns = if conf.dns.is_empty() { given.dns.clone() } else { conf.dns.clone() };
    let mut success = result::of_add(conf.version, conf.prev_result.clone(), target, attached, dns);
    result::add_routes(&mut success, given, attached)?;
    print(&success)
}

fn give_up(conf: &NetConf, target: &Target) {
    if let Err(error) = del(conf, target) {
        eprintln!("fabric-cni: after a failed ADD: {error}");
    }
}

/// What the agent is asked for; `delegate` is the plugin that gives the addresses, where one does.
fn request(conf: &NetConf, target: &Target, ips: Vec<IpAddr>, delegate: Option<&Delegate>) -> Add {
    Add {
        key: key(target),
        netns: netns(target),
        network: conf.name.clone(),
        pod: target.args.pod.clone(),
        ips,
        mac: conf.runtime.mac.or(target.args.mac),
        mtu: conf.mtu,
        bandwidth: conf.runtime.bandwidth,
        ipam: delegate.map(|delegate| delegate.kind().to_owned()),
        routers: Vec::new(),
    }
}

fn ask_for(conf: &NetConf, request: Request) -> Result<Attached, Error> {
    attached(ask(conf, Command::Add, request)?)
}

fn attached(answer: Answer) -> Result<Attached, Error> {
    match answer {
        Answer::Attached(attached) => Ok(attached),
        other => Err(unexpected(&other)),
    }
}

fn print(success: &Success) -> Result<String, Error> {
    serde_json::to_string_pretty(success)
        .map(|text| text + "\n")
        .map_err(|cause| Error::new(Code::DECODE, format!("the result cannot be written: {cause}")))
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

fn gc(conf: &NetConf) -> Result<String, Error> {
    let valid = conf.valid_attachments.clone().unwrap_or_default();
    let request = Gc { network: conf.name.clone(), valid };
    done(ask(conf, Command::Gc, Request::Gc(request))?)
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

fn ask(conf: &NetConf, command: Command, request: Request) -> Result<Answer, Error> {
    answered(command, client::ask(&conf.socket, request, limit(command)))
}

/// An agent that does not answer is error 11, or 50 for STATUS.
fn answered(command: Command, outcome: Result<Answer, Failure>) -> Result<Answer, Error> {
    match outcome {
        Ok(Answer::Error(error)) => Err(error),
        Ok(answer) => Ok(answer),
        Err(Failure::Garbled(error)) if error.code == Code::PROTOCOL => Err(error),
        Err(failure) => {
            let code = if command == Command::Status { Code::NOT_AVAILABLE } else { Code::TRY_AGAIN };
            Err(Error::new(code, failure.to_string()))
        }
    }
}
