//! The worlds of `cases/`: every question of every table is answered as the table says.

#![expect(clippy::disallowed_methods, reason = "the worlds and the answers are files")]

mod common;

use std::path::{Path, PathBuf};

use common::{Result, address, traffic};
use policy::{Direction, Family, Question, World};

fn check(folder: &Path, row: &str, world: &World) -> Result<()> {
    let cells: Vec<&str> = row.split(',').collect();
    let [from, to, protocol, port, wanted] = cells.as_slice() else {
        return Err("five cells are wanted".into());
    };
    let family = [from, to].iter().find_map(|end| end.parse().ok()).map_or(Family::V4, Family::of);
    let (from, to) = (address(world, from, family)?, address(world, to, family)?);
    let traffic = traffic(&format!("{protocol} {port}"))?;
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
        let world = common::world(&std::fs::read_to_string(folder.join("world.yaml"))?)?;
        let table = std::fs::read_to_string(folder.join("questions.csv"))?;
        for row in table.lines().skip(1) {
            check(folder, row, &world)?;
            rows += 1;
        }
    }
    assert_eq!((folders.len(), rows), (5, 87));
    Ok(())
}
