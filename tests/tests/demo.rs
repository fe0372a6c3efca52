//! The demo on the examples: it runs through, everybody is reached, nothing stays behind.
//! Needs root and Open vSwitch, and fails where they are missing.

use std::path::Path;
use std::process::Command;

use fabric_tests::lab::{LabName, netns};

#[test]
fn the_demo_shows_the_examples_and_leaves_nothing() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let name = format!("demo-{}", std::process::id());
    let mut demo = Command::new(env!("CARGO_BIN_EXE_fabric-demo"));
    let output = demo
        .args(["--name", &name])
        .arg(deploy.join("examples"))
        .arg("--then")
        .arg(deploy.join("isolation"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let (before, table) = said.split_once("\n  from ").unwrap();
    assert!(before.contains("table=Egress") && before.contains("table=Route"), "{before}");
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 6, "{table}");
    for row in rows {
        // Five other pods, the own node, the outside: each over both families.
        assert_eq!(row.matches("4 6").count(), 7, "{row}");
    }
    assert!(!table.contains("complain"), "{table}");
    let (_, isolated) = table.split_once("\n  from ").unwrap();
    let row = |pod: &str| isolated.lines().skip(1).find(|line| line.trim_start().starts_with(pod)).unwrap();
    // The office's own pods, the own node and the outside.
    assert_eq!(row("office/alice").matches("4 6").count(), 4, "{isolated}");
    assert_eq!(row("shop/cart").matches("4 6").count(), 3, "{isolated}");
    assert_eq!(row("shop/web").matches("4 6").count(), 4, "{isolated}");
    assert!(isolated.contains("\n  denied: ") && isolated.contains("tenant"), "{isolated}");
    let name: LabName = name.parse().unwrap();
    assert!(netns::of_lab(&name).is_empty());
    assert!(!Path::new("/run/fabric-lab").join(name.as_str()).exists());
}
