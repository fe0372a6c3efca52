//! The configuration on standard input (CNI 1.1.0, section 1, "Plugin configuration objects").
//!
//! A field that Fabric cannot honour is an error that names it, so that a misspelt
//! option is not silently without effect. What the specification and the runtimes put
//! there is known. DEL alone is lenient: a container must be removable whatever its
//! configuration says.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::address::{Mac, bare_address};
use crate::env::{Command, is_identifier};
use crate::error::{Code, Error};
use crate::protocol::{Bandwidth, DEFAULT_SOCKET, Key};
use crate::result::{Dns, Success};
use crate::version::Version;

/// A configuration, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct NetConf {
    /// `cniVersion`: how the answer is to be written.
    pub version: Version,
    /// `name` of the network configuration.
    pub name: String,
    /// `socket`: where the agent listens.
    pub socket: PathBuf,
    /// `mtu`, bytes.
    pub mtu: Option<u32>,
    /// `ipam.type`, where it names another plugin than Fabric.
    pub ipam: Option<String>,
    /// `dns`: goes into the result as it is.
    pub dns: Dns,
    /// `runtimeConfig`.
    pub runtime: RuntimeConfig,
    /// `args.cni.ips`.
    pub args_ips: Vec<IpAddr>,
    /// `prevResult`: what the earlier plugins of the chain made (ADD), or the whole chain (CHECK, DEL).
    pub prev_result: Option<Success>,
    /// `cni.dev/valid-attachments`, at GC.
    pub valid_attachments: Option<Vec<Key>>,
}

/// `runtimeConfig`: what the runtime provides for the `capabilities` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Limits of rate.
    pub bandwidth: Option<Bandwidth>,
    /// Addresses asked for.
    pub ips: Vec<IpAddr>,
    /// Hardware address asked for.
    pub mac: Option<Mac>,
}

/// A configuration of which only the form is known: a JSON object.
#[derive(Debug)]
pub struct Document(Map<String, Value>);

impl Document {
    /// Reads the JSON.
    pub fn read(bytes: &[u8]) -> Result<Document, Error> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(Error::new(Code::DECODE, "standard input has no network configuration"));
        }
        serde_json::from_slice(bytes).map(Document).map_err(|cause| {
            Error::new(Code::DECODE, format!("network configuration on standard input: {cause}"))
        })
    }

    /// `cniVersion`.
    pub fn version(&self) -> Result<Version, Error> {
        match self.0.get("cniVersion") {
            Some(Value::String(text)) => text.parse(),
            Some(other) => Err(Error::new(Code::DECODE, format!("cniVersion is {other}, not a string"))),
            None => Err(Error::new(
                Code::VERSION,
                "cniVersion is missing: the configuration must say which version it speaks, 0.3.1 or newer",
            )),
        }
    }

    /// Everything else, as far as `command` needs it.
    pub fn check(self, command: Command) -> Result<NetConf, Error> {
        let version = self.version()?;
        if command == Command::Del {
            return Ok(for_del(version, &self.0));
        }
        let map = self.0;
        check_keys(&map)?;
        let conf = NetConf {
            version,
            name: name(&map)?,
            socket: socket(&map)?,
            mtu: mtu(&map)?,
            ipam: ipam(&map)?,
            dns: field(&map, "dns")?.unwrap_or_default(),
            runtime: runtime_config(&map)?,
            args_ips: args_ips(&map)?,
            prev_result: field(&map, "prevResult")?,
            valid_attachments: valid_attachments(&map)?,
        };
        if command == Command::Check && conf.prev_result.is_none() {
            return Err(missing("prevResult", "CHECK compares with what ADD returned"));
        }
        if command == Command::Gc && conf.valid_attachments.is_none() {
            let why = "GC without the list of attachments in use would remove every attachment";
            return Err(missing("cni.dev/valid-attachments", why));
        }
        Ok(conf)
    }
}

/// What can be read is used, all else is as if it were not there.
fn for_del(version: Version, map: &Map<String, Value>) -> NetConf {
    NetConf {
        version,
        name: name(map).unwrap_or_default(),
        socket: socket(map).unwrap_or_else(|_| PathBuf::from(DEFAULT_SOCKET)),
        mtu: None,
        ipam: ipam(map).unwrap_or_default(),
        dns: Dns::default(),
        runtime: RuntimeConfig::default(),
        args_ips: Vec::new(),
        prev_result: field(map, "prevResult").unwrap_or_default(),
        valid_attachments: None,
    }
}

/// Fields that Fabric reads, and those of the specification that concern the runtime alone.
const KNOWN: [&str; 15] = [
    "args",
    "capabilities",
    "cniVersion",
    "cniVersions",
    "disableCheck",
    "disableGC",
    "dns",
    "ipam",
    "loadOnlyInlinedPlugins",
    "mtu",
    "name",
    "prevResult",
    "runtimeConfig",
    "socket",
    "type",
];

/// The specification asks for the key and the value in the message (section 5, error 2).
fn check_keys(map: &Map<String, Value>) -> Result<(), Error> {
    if let Some(masquerade) = map.get("ipMasq")
        && *masquerade != Value::Bool(false)
    {
        let details = format!("ipMasq: {masquerade}: Fabric masquerades as the Network's `snat` field says");
        return Err(Error::new(Code::UNSUPPORTED_FIELD, details));
    }
    let known = |key: &str| KNOWN.contains(&key) || key == "ipMasq" || key.starts_with("cni.dev/");
    match map.iter().find(|(key, _)| !known(key)) {
        None => Ok(()),
        Some((key, value)) => Err(unsupported(key, value, &format!("Fabric's own fields are {OWN}"))),
    }
}

/// For the messages.
const OWN: &str = "mtu and socket";

fn unsupported(key: &str, value: &Value, cause: &str) -> Error {
    Error::new(Code::UNSUPPORTED_FIELD, format!("{key}: {value}: {cause}"))
}

fn missing(key: &str, why: &str) -> Error {
    Error::new(Code::CONFIG, format!("{key} is missing: {why}"))
}

/// The value of a field, where there is one; `null` counts as none.
fn field<T: DeserializeOwned>(map: &Map<String, Value>, key: &str) -> Result<Option<T>, Error> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|cause| Error::new(Code::CONFIG, format!("{key}: {cause}"))),
    }
}

fn name(map: &Map<String, Value>) -> Result<String, Error> {
    let name: String = field(map, "name")?.ok_or_else(|| missing("name", "it tells networks apart"))?;
    if !is_identifier(&name) {
        let rule = "it must begin with a letter or digit and go on with letters, digits, '_', '.' or '-'";
        return Err(Error::new(Code::CONFIG, format!("name is {name:?}: {rule}")));
    }
    match field::<String>(map, "type")? {
        Some(kind) if !kind.is_empty() => Ok(name),
        _ => Err(missing("type", "it names the plugin's program, fabric-cni")),
    }
}

fn socket(map: &Map<String, Value>) -> Result<PathBuf, Error> {
    let path: PathBuf = field(map, "socket")?.unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET));
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Error::new(Code::CONFIG, format!("socket is {:?}: it must be an absolute path", path.display())))
}

/// Ethernet's bounds in the kernel; IPv6 asks for 1280 at least, which the agent knows to need.
fn mtu(map: &Map<String, Value>) -> Result<Option<u32>, Error> {
    match field(map, "mtu")? {
        Some(0) | None => Ok(None),
        Some(mtu) if (68..=65535).contains(&mtu) => Ok(Some(mtu)),
        Some(mtu) => Err(Error::new(Code::CONFIG, format!("mtu is {mtu}: it must be 68 to 65535, or 0"))),
    }
}

#[derive(Default, Deserialize)]
struct Ipam {
    #[serde(rename = "type", default)]
    kind: String,
}

fn ipam(map: &Map<String, Value>) -> Result<Option<String>, Error> {
    let ipam: Ipam = field(map, "ipam")?.unwrap_or_default();
    Ok(Some(ipam.kind).filter(|kind| !kind.is_empty() && kind != "fabric"))
}

fn runtime_config(map: &Map<String, Value>) -> Result<RuntimeConfig, Error> {
    let entries: Map<String, Value> = field(map, "runtimeConfig")?.unwrap_or_default();
    let mut config = RuntimeConfig::default();
    for (key, value) in &entries {
        let named = |cause: String| Error::new(Code::CONFIG, format!("runtimeConfig.{key}: {cause}"));
        match key.as_str() {
            "bandwidth" => {
                config.bandwidth = Option::deserialize(value).map_err(|cause| named(cause.to_string()))?;
            }
            "ips" => config.ips = addresses(value).map_err(named)?,
            "mac" => config.mac = Option::deserialize(value).map_err(|cause| named(cause.to_string()))?,
            // The portmap plugin's, which follows in the chain.
            "portMappings" => {}
            _ => {
                let cause =
                    "Fabric has no such capability; remove it from the configuration's `capabilities`";
                return Err(unsupported(&format!("runtimeConfig.{key}"), value, cause));
            }
        }
    }
    Ok(config)
}

/// `args` may hold anything, and what is not understood is ignored (CNI conventions).
fn args_ips(map: &Map<String, Value>) -> Result<Vec<IpAddr>, Error> {
    match map.get("args").and_then(|args| args.get("cni")).and_then(|cni| cni.get("ips")) {
        None => Ok(Vec::new()),
        Some(list) => {
            addresses(list).map_err(|cause| Error::new(Code::CONFIG, format!("args.cni.ips: {cause}")))
        }
    }
}

fn addresses(value: &Value) -> Result<Vec<IpAddr>, String> {
    let texts: Vec<String> =
        Option::deserialize(value).map_err(|cause| cause.to_string())?.unwrap_or_default();
    texts.iter().map(|text| bare_address(text).map_err(|cause| cause.to_string())).collect()
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(rename = "containerID")]
    container_id: String,
    ifname: String,
}

/// libcni writes `null` for an empty list, and the list under two names, since the
/// specification's text once had the other one.
fn valid_attachments(map: &Map<String, Value>) -> Result<Option<Vec<Key>>, Error> {
    for name in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        if map.contains_key(name) {
            let list: Vec<Attachment> = field(map, name)?.unwrap_or_default();
            let key = |a: Attachment| Key { container_id: a.container_id, ifname: a.ifname };
            return Ok(Some(list.into_iter().map(key).collect()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
