//! Worlds and questions in few words, for the tests.

use std::net::IpAddr;

use policy::manifest::{Source, admit, documents};
use policy::{Edit, Family, Protocol, Traffic, World};
use serde_json::Value;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Applies the manifests of a text to a world; all must be admitted, whatever is said of them.
pub fn apply(world: &mut World, yaml: &str) -> Result<()> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let values: Vec<Value> = serde_saphyr::from_multiple_with_options(yaml, options)?;
    for value in values.into_iter().flat_map(documents) {
        let admission = admit(&Source::file("test.yaml", 1), value);
        let object = admission.object.ok_or_else(|| format!("refused: {:?}", admission.problems))?;
        world.apply(Edit::Put(object));
    }
    Ok(())
}

/// The world of a text.
pub fn world(yaml: &str) -> Result<World> {
    let mut world = World::new();
    apply(&mut world, yaml)?;
    Ok(world)
}

/// An end of a conversation: an address, or a pod's first address of the family.
pub fn address(world: &World, text: &str, family: Family) -> Result<IpAddr> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let pod = world.pod(&text.parse()?).ok_or_else(|| format!("no pod {text}"))?;
    let found = pod.ips.iter().find(|ip| Family::of(**ip) == family);
    Ok(*found.ok_or_else(|| format!("{text} has no {family} address"))?)
}

/// `TCP 80`, `UDP later` for a later fragment, or the number of a protocol without ports.
pub fn traffic(text: &str) -> Result<Traffic> {
    let Some((protocol, port)) = text.split_once(' ') else {
        return Ok(Traffic { protocol: text.parse()?, port: None });
    };
    let known = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let protocol = known.into_iter().find(|known| known.as_str() == protocol).ok_or("an unknown protocol")?;
    let port = if port == "later" { None } else { Some(port.parse()?) };
    Ok(Traffic { protocol: protocol.number(), port })
}
