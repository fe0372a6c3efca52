//! The worlds of `cases/`: every question of every table is answered as the table says.

#![expect(clippy::disallowed_methods, reason = "the worlds and the answers are files")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use policy::manifest::{Source, admit, documents};
use policy::{Direction, Edit, Family, Protocol, Question, Traffic, World};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn world(folder: &Path) -> Result<World> {
    let text = std::fs::read_to_string(folder.join("world.yaml"))?;
    let options = serde_saphyr::options! { strict_booleans: true };
    let values: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options)?;
    let mut world = World::new();
    for value in values.into_iter().flat_map(documents) {
        world.apply(Edit::Put(admit(&Source::api(), value).object.ok_or("an object is refused")?));
    }
    Ok(world)
}

/// An end of a conversation: an address, or a pod's first address of the family.
fn address(world: &World, text: &str, family: Family) -> Result<IpAddr> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let pod = world.pod(&text.parse()?).ok_or_else(|| format!("no pod {text}"))?;
    let found = pod.ips.iter().find(|ip| Family::of(**ip) == family);
    Ok(*found.ok_or_else(|| format!("{text} has no {family} address"))?)
}

fn traffic(protocol: &str, port: &str) -> Result<Traffic> {
    let known = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let protocol = known.into_iter().find(|known| known.as_str() == protocol).ok_or("an unknown protocol")?;
    Ok(Traffic { protocol: protocol.number(), port: Some(port.parse()?) })
}

fn check(folder: &Path, row: &str, world: &World) -> Result<()> {
    let cells: Vec<&str> = row.split(',').collect();
    let [from, to, protocol, port, wanted] = cells.as_slice() else {
        return Err("five cells are wanted".into());
    };
    let family = [from, to].iter().find_map(|end| end.parse().ok()).map_or(Family::V4, Family::of);
    let (from, to) = (address(world, from, family)?, address(world, to, family)?);
    let traffic = traffic(protocol, port)?;
    let conversation = world.converse(from, to, traffic);
    let verdict = conversation.verdict().to_string();
    assert_eq!(verdict, *wanted, "{}: {row}: {conversation:?}", folder.display());
    let ends = [
        (conversation.egress, Direction::Egress, from, to),
        (conversation.ingress, Direction::Ingress, to, from),
    ];
    for (judgement, direction, subject, peer) in ends {
        let Some(judgement) = judgement else { continue };
        let question = Question { direction, subject, peer, traffic };
        assert!(
            judgement.region.contains(&question) && judgement.region.is_aligned(),
            "{row}: {judgement:?}"
        );
        assert_eq!(world.explain(&question).judgement, judgement, "{row}");
    }
    Ok(())
}

#[test]
fn every_question_of_every_case() -> Result<()> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(cases)? {
        folders.push(entry?.path());
    }
    let mut rows = 0;
    for folder in &folders {
        let world = world(folder)?;
        let table = std::fs::read_to_string(folder.join("questions.csv"))?;
        for row in table.lines().skip(1) {
            check(folder, row, &world)?;
            rows += 1;
        }
    }
    assert_eq!((folders.len(), rows), (5, 87));
    Ok(())
}
