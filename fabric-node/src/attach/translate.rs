//! From the socket's words to the node's, and back.

use fabric_cni::address::Cidr;
use fabric_cni::protocol::{self, Answer, Key};
use fabric_cni::{Code, Error, env};
use fabric_core::node::{AttachRequest, Attached, AttachmentKey, Reply, Request, RequestError};
use fabric_core::pipeline::site::Rates;
use openflow::Mac;
use policy::{Name, PodIdent};

/// What kind of request it was: the same failure has another number for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// ADD.
    Attach,
    /// STATUS.
    Status,
    /// DEL, CHECK, GC.
    Other,
}

impl Asked {
    /// The kind of a request.
    pub fn of(request: &protocol::Request) -> Asked {
        match request {
            protocol::Request::Add(_) | protocol::Request::Prepare(_) => Asked::Attach,
            protocol::Request::Status => Asked::Status,
            protocol::Request::Del(_) | protocol::Request::Check(_) | protocol::Request::Gc(_) => {
                Asked::Other
            }
        }
    }
}

/// The request as the node knows it. The socket's other side is not trusted to have checked it.
pub fn request(request: protocol::Request) -> Result<Request, Error> {
    Ok(match request {
        protocol::Request::Add(mut add) if add.ipam.as_deref() == Some("dhcp") => {
            let routers = std::mem::take(&mut add.routers);
            Request::Complete { request: attach(*add)?, routers }
        }
        protocol::Request::Add(add) => Request::Attach(attach(*add)?),
        protocol::Request::Prepare(add) => Request::Prepare(attach(*add)?),
        protocol::Request::Del(key) => Request::Detach(attachment_key(key)?),
        protocol::Request::Check(check) => {
            target(&check.key, &check.netns)?;
            Request::Check { key: attachment_key(check.key)?, netns: check.netns }
        }
        protocol::Request::Gc(gc) => Request::Collect {
            network: gc.network,
            valid: gc.valid.into_iter().map(attachment_key).collect::<Result<_, _>>()?,
        },
        protocol::Request::Status => Request::Ready,
    })
}

/// Checks the parts of a request that name files and devices.
pub fn target(key: &Key, netns: &str) -> Result<(), Error> {
    check_key(key)?;
    if netns.starts_with('/') {
        return Ok(());
    }
    Err(Error::new(Code::ENVIRONMENT, format!("CNI_NETNS is {netns:?}: it must be an absolute path")))
}

/// The node's reply, or the error with the number that belongs to the request.
pub fn answer(asked: Asked, verdict: Result<Reply, RequestError>) -> Result<Answer, Error> {
    match verdict {
        Ok(Reply::Attached(attached)) => Ok(Answer::Attached(attached_answer(attached))),
        Ok(Reply::Done) => Ok(Answer::Done),
        Err(error) => Err(Error::new(code(asked, &error), error.to_string())),
    }
}

fn code(asked: Asked, error: &RequestError) -> Code {
    match error {
        RequestError::TryAgain(_) | RequestError::NotReady(_) if asked == Asked::Status => {
            Code::NOT_AVAILABLE
        }
        RequestError::TryAgain(_) | RequestError::NotReady(_) => Code::TRY_AGAIN,
        RequestError::Invalid(_) => Code::CONFIG,
        RequestError::NoAddress(_) => Code::NO_ADDRESS,
        RequestError::Unknown(_) => Code::UNKNOWN_CONTAINER,
        RequestError::Failed(_) => Code::FAILED,
    }
}

fn attach(add: protocol::Add) -> Result<AttachRequest, Error> {
    target(&add.key, &add.netns)?;
    let mac = add.mac.map(|mac| Mac(mac.0));
    if let Some(mac) = mac.filter(|mac| mac.is_multicast() || mac.to_u64() == 0) {
        return Err(Error::new(Code::CONFIG, format!("mac {mac} is not the address of one interface")));
    }
    Ok(AttachRequest {
        key: attachment_key(add.key)?,
        netns: add.netns,
        network: add.network,
        pod: add.pod.map(|pod| PodIdent {
            namespace: Name::from(pod.namespace),
            name: Name::from(pod.name),
            uid: Name::from(pod.uid),
        }),
        ips: add.ips,
        ipam: add.ipam,
        mac,
        mtu: add.mtu,
        rates: add.bandwidth.map(rates).unwrap_or_default(),
    })
}

/// The bursts are the switch's own.
fn rates(limits: protocol::Bandwidth) -> Rates {
    let limit = |rate: u64| (rate > 0).then_some(rate);
    Rates { out: limit(limits.egress_rate), into: limit(limits.ingress_rate) }
}

fn attachment_key(key: Key) -> Result<AttachmentKey, Error> {
    check_key(&key)?;
    Ok(AttachmentKey { container_id: key.container_id, ifname: key.ifname })
}

fn check_key(key: &Key) -> Result<(), Error> {
    env::check_container_id(&key.container_id)?;
    env::check_ifname(&key.ifname)
}

fn attached_answer(attached: Attached) -> protocol::Attached {
    let cidr = |net: ipnet::IpNet| Cidr { address: net.addr(), prefix: net.prefix_len() };
    protocol::Attached {
        host_name: attached.host_name,
        mac: fabric_cni::address::Mac(attached.mac.0),
        mtu: attached.mtu,
        addresses: attached.addresses.into_iter().map(cidr).collect(),
        gateways: attached.gateways,
    }
}

#[cfg(test)]
mod tests;
