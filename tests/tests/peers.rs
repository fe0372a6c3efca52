//! Fabric beside other projects' programs, which `make test-peers` needs Go to build.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::process::Command;

use fabric_tests::lab::{Lab, Spec};

/// libcni's `cnitool` runs `fabric-cni` against a running agent, in every version of CNI.
#[test]
fn libcni_accepts_every_version() {
    let lab = Lab::up(&Spec::for_test("peers", 1).unwrap()).unwrap();
    let node = lab.node("n1").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/cnitool.sh");
    let mut run = Command::new(script);
    run.arg(lab.programs().unwrap().cni.parent().unwrap()).arg(node.cni_socket()).arg(&node.namespace);
    let output = run.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{}", output.status);
}
