//! The code keeps what ARCHITECTURE.md promises.

use std::path::Path;

use fabric_tests::house;

#[test]
fn the_house_is_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let found = house::check(&root).unwrap();
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}
