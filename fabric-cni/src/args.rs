//! `CNI_ARGS`: pairs `KEY=VALUE`, divided by semicolons (CNI conventions).
//!
//! A key that Fabric does not know is an error, as in the reference plugins, unless
//! `IgnoreUnknown` is set: Kubernetes' runtimes set it.

use std::net::IpAddr;
use std::str::FromStr;

use crate::address::{Mac, bare_address};
use crate::error::{Code, Error};
use crate::protocol::PodRef;

/// What Fabric uses of `CNI_ARGS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Args {
    /// `K8S_POD_NAMESPACE`, `K8S_POD_NAME`, `K8S_POD_UID`.
    pub pod: Option<PodRef>,
    /// `IP`, one or more, divided by commas.
    pub ips: Vec<IpAddr>,
    /// `MAC`.
    pub mac: Option<Mac>,
}

impl FromStr for Args {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let pairs = pairs(text)?;
        let get = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let ignore =
            get("IgnoreUnknown").is_some_and(|value| matches!(value, "1" | "true" | "TRUE" | "True"));
        if !ignore && let Some((key, value)) = pairs.iter().find(|(key, _)| !KNOWN.contains(key)) {
            return Err(invalid(&format!(
                "{key}={value} is unknown to Fabric, and IgnoreUnknown is not set"
            )));
        }
        let ips = get("IP").map_or(Ok(Vec::new()), |list| list.split(',').map(bare_address).collect());
        let mac = get("MAC").map(str::parse).transpose();
        Ok(Args {
            pod: pod(get("K8S_POD_NAMESPACE"), get("K8S_POD_NAME"), get("K8S_POD_UID"))?,
            ips: ips.map_err(|cause| invalid(&format!("IP: {cause}")))?,
            mac: mac.map_err(|cause| invalid(&format!("MAC: {cause}")))?,
        })
    }
}

const KNOWN: [&str; 7] = [
    "IgnoreUnknown",
    "K8S_POD_NAMESPACE",
    "K8S_POD_NAME",
    "K8S_POD_UID",
    "K8S_POD_INFRA_CONTAINER_ID",
    "IP",
    "MAC",
];

fn pairs(text: &str) -> Result<Vec<(&str, &str)>, Error> {
    text.split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').ok_or_else(|| invalid(&format!("{pair:?} is not KEY=VALUE"))))
        .collect()
}

fn pod(namespace: Option<&str>, name: Option<&str>, uid: Option<&str>) -> Result<Option<PodRef>, Error> {
    let present = |value: Option<&str>| value.filter(|text| !text.is_empty()).map(str::to_owned);
    match (present(namespace), present(name)) {
        (Some(namespace), Some(name)) => {
            Ok(Some(PodRef { namespace, name, uid: present(uid).unwrap_or_default() }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(invalid("K8S_POD_NAMESPACE is there, K8S_POD_NAME is not")),
        (None, Some(_)) => Err(invalid("K8S_POD_NAME is there, K8S_POD_NAMESPACE is not")),
    }
}

fn invalid(cause: &str) -> Error {
    Error::new(Code::ENVIRONMENT, format!("CNI_ARGS: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_arguments_name_the_pod() {
        let args: Args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=u1;FOO=bar"
            .parse()
            .unwrap();
        let pod = args.pod.unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()), ("shop", "web-0", "u1"));
    }

    #[test]
    fn addresses_are_read() {
        let args: Args = "IP=10.0.0.9/24,fd00::9;MAC=0a:58:0a:00:00:09".parse().unwrap();
        assert_eq!(args.ips.len(), 2);
        assert_eq!(args.mac.unwrap().to_string(), "0a:58:0a:00:00:09");
        assert_eq!("".parse::<Args>().unwrap(), Args::default());
    }

    #[test]
    fn every_fault_names_its_key() {
        for (text, word) in [
            ("FOO=bar", "FOO"),
            ("FOO", "FOO"),
            ("IP=ten", "IP"),
            ("MAC=ten", "MAC"),
            ("K8S_POD_NAME=a", "K8S_POD_NAMESPACE"),
            ("K8S_POD_NAMESPACE=a", "K8S_POD_NAME"),
        ] {
            let error = text.parse::<Args>().unwrap_err();
            assert_eq!(error.code, Code::ENVIRONMENT);
            assert!(error.details.contains(word), "{text}: {error}");
        }
    }
}
