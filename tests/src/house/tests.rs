//! The rules fail on what breaks them, and pass what keeps them.

use std::path::Path;

use super::architecture::Architecture;
use super::crates::{self, Target, Workspace};
use super::modules::Tree;
use super::pages::{self, Listing};
use super::sources::{RustFile, Sources};
use super::{Violation, arrows, circles, links, service, shape, vocabulary, words};

const ARCHITECTURE: &str = "
| room | does | may use | IO |
|---|---|---|---|
| `policy` | knows | | none |
| `fabric-core` | decides | `policy` | none |
| `fabric-core::node` | acts | `fabric-core::pipeline`, `policy` | none |
| `fabric-core::pipeline` | compiles | `policy` | none |

* limit file: `8` lines
* limit most files: `4` lines
* limit share of files: `50` %
* limit function: `3` lines
* limit vocabulary: `fabric-node/core/src/words.rs`
* limit unsafe: `policy/src/sys.rs`
";

fn architecture() -> Architecture {
    Architecture::parse(ARCHITECTURE).unwrap()
}

fn rust(pairs: &[(&str, &str)]) -> Vec<RustFile> {
    Sources::from_pairs(pairs.iter().copied()).rust().unwrap()
}

fn core(pairs: &[(&str, &str)]) -> Tree {
    let target =
        Target { package: "fabric-core".to_owned(), library: true, root: "core/src/lib.rs".to_owned() };
    Tree::of(&target, &rust(pairs))
}

fn whats(found: &[Violation]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn the_table_and_the_limits_are_read() {
    let architecture = architecture();
    assert_eq!(architecture.rooms["fabric-core"].uses, ["policy"]);
    assert!(architecture.rooms["policy"].pure);
    assert_eq!(architecture.number("function"), Some(3));
    assert_eq!(architecture.room_of("fabric-core::node::io").unwrap().0, "fabric-core::node");
    assert_eq!(architecture.room_of("fabric-core::nodes").unwrap().0, "fabric-core");
    assert!(Architecture::parse("no table").is_err());
    assert!(Architecture::parse("| room | IO |\n|---|---|\n").is_err(), "no arrows");
}

#[test]
fn a_crate_with_a_stray_dependency_or_without_a_row_is_told() {
    let workspace = Workspace {
        uses: [("policy", vec!["openflow"]), ("fabric-core", vec!["policy"]), ("openflow", vec![])]
            .map(|(name, uses)| (name.to_owned(), uses.into_iter().map(str::to_owned).collect()))
            .into(),
        ..Workspace::default()
    };
    let found = whats(&crates::arrows(&workspace, &architecture()));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|what| what.contains("policy depends on openflow")));
    assert!(found.iter().any(|what| what.contains("openflow has no row")));
}

#[test]
fn a_pure_crate_that_reaches_a_socket_is_told() {
    let tree = "fabric-core v0.1.0 (somewhere)\npolicy v0.1.0\ntokio v1.54.0\n";
    assert_eq!(crates::impure_lines("fabric-core", tree).len(), 1);
    assert!(crates::impure_lines("fabric-core", "serde v1.0.0\ntokio-like v1.0.0\n").is_empty());
}

#[test]
fn a_pure_crate_bans_the_clock() {
    let workspace = Workspace {
        uses: [("policy".to_owned(), Vec::new())].into(),
        folders: [("policy".to_owned(), "policy".to_owned())].into(),
        ..Workspace::default()
    };
    let sources = Sources::from_pairs([("policy/clippy.toml", "std::time::Instant::now std::fs::read")]);
    assert_eq!(crates::lints(&workspace, &architecture(), &sources).len(), 3);
}

#[test]
fn an_arrow_the_wrong_way_is_told_wherever_it_hides() {
    let node = ("core/src/node.rs", "//! n\npub fn act() {}\npub struct State;\n");
    let root = ("core/src/lib.rs", "//! c\npub mod node;\npub mod pipeline;\npub use node::State;\n");
    for pipeline in [
        "//! p\nuse crate::node::act;\n",
        "//! p\nuse super::node;\n",
        "//! p\nuse crate::State;\n",
        "//! p\nfn f() { crate::node::act() }\n",
        "//! p\nfn f() { println!(\"{}\", super::node::act()) }\n",
        "//! p\nfn f(_: &dyn Fn(crate::State)) {}\n",
    ] {
        let tree = core(&[root, node, ("core/src/pipeline.rs", pipeline)]);
        let found = whats(&arrows::check(&tree, &architecture()));
        assert_eq!(found.len(), 1, "{pipeline}{found:?}");
        assert!(found[0].contains("fabric-core::pipeline uses fabric-core::node"), "{found:?}");
    }
    let tests = "//! p\n#[cfg(test)]\nmod tests { use crate::node::act; }\n";
    let tree = core(&[root, node, ("core/src/pipeline.rs", tests)]);
    assert!(arrows::check(&tree, &architecture()).is_empty(), "tests are free");
}

#[test]
fn arrows_to_other_crates_are_told_and_allowed_ones_pass() {
    let root = ("core/src/lib.rs", "//! c\npub mod node;\npub mod pipeline;\n");
    let pipeline = ("core/src/pipeline.rs", "//! p\npub fn compile() {}\n");
    let node =
        "//! n\nuse crate::pipeline::compile;\nuse policy::World;\nfn f() { compile(); std::mem::drop(1) }\n";
    assert!(arrows::check(&core(&[root, pipeline, ("core/src/node.rs", node)]), &architecture()).is_empty());
    let policy = Target { package: "policy".to_owned(), library: true, root: "policy/src/lib.rs".to_owned() };
    let tree = Tree::of(&policy, &rust(&[("policy/src/lib.rs", "//! p\nuse fabric_core::node::Node;\n")]));
    let found = whats(&arrows::check(&tree, &architecture()));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("policy uses fabric-core::node"), "{found:?}");
}

#[test]
fn a_circle_is_told_once_and_signposts_are_none() {
    let root = ("core/src/lib.rs", "//! c\nmod a;\nmod b;\npub use a::A;\npub use b::B;\n");
    let a = ("core/src/a.rs", "//! a\nuse crate::B;\npub struct A(B);\n");
    let straight = ("core/src/b.rs", "//! b\npub struct B;\n");
    assert!(circles::check(&core(&[root, a, straight])).is_empty());
    let back = ("core/src/b.rs", "//! b\npub struct B(Vec<crate::a::A>);\n");
    let found = whats(&circles::check(&core(&[root, a, back])));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("fabric-core::a, fabric-core::b"), "{found:?}");
}

#[test]
fn a_module_may_use_what_encloses_it() {
    let root = ("core/src/lib.rs", "//! c\nmod a;\npub struct Root(a::A);\n");
    let child = ("core/src/a.rs", "//! a\npub struct A;\nimpl super::Root { fn f(&self) {} }\n");
    assert!(circles::check(&core(&[root, child])).is_empty());
}

#[test]
fn long_files_long_functions_and_missing_heads_are_told() {
    let good = ("a/src/good.rs", "//! Good.\nfn f() {\n}\n");
    assert!(shape::check(&rust(&[good]), &architecture()).is_empty());
    let function = ("a/src/f.rs", "//! F.\nimpl X {\n  fn f() {\n    1;\n    2;\n  }\n}\n");
    let file = ("a/src/l.rs", "//! L.\n\n\n\n\n\n\n\nfn f() {}\n");
    let head = ("a/src/h.rs", "// H.\nfn f() {}\n");
    let found = whats(&shape::check(&rust(&[function, file, head]), &architecture()));
    assert!(found.contains(&"a/src/f.rs:3: f has 4 lines: at most 3".to_owned()), "{found:?}");
    assert!(found.contains(&"a/src/l.rs: 9 lines: at most 8".to_owned()), "{found:?}");
    assert!(found.iter().any(|what| what.starts_with("a/src/h.rs:1: the first line")), "{found:?}");
    assert!(found.iter().any(|what| what.contains("fewer than 50 %")), "{found:?}");
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(shape::check(&[], &Architecture::default()).len(), 1, "limits are wanted");
}

#[test]
fn unsafe_code_is_told_outside_its_file() {
    let text = "//! S.\nunsafe fn f() {\n}\nfn g() {\n  unsafe {}\n}\nunsafe impl A for B {}\n";
    let found =
        shape::check(&rust(&[("policy/src/sys.rs", text), ("policy/src/other.rs", text)]), &architecture());
    let found = found.iter().filter(|violation| violation.what.contains("unsafe"));
    let lines: Vec<_> = found.map(|violation| (violation.file.as_str(), violation.line)).collect();
    assert_eq!(lines, [2, 5, 7].map(|line| ("policy/src/other.rs", line)));
}

#[test]
fn registers_and_numbers_are_told_outside_the_vocabulary() {
    let home = ("fabric-node/core/src/words.rs", "//! W.\nconst A: F = F::REG0;\n");
    let good = "//! G.\nfn f() { g(F { table: T, cookie: 0, REGION: 1 }) }\n#[cfg(test)]\nmod tests { const A: F = REG1; }\n";
    let good = ("fabric-node/core/src/good.rs", good);
    let elsewhere = ("openflow/src/lib.rs", "//! O.\nconst A: F = F::REG0;\n");
    assert!(vocabulary::check(&rust(&[home, good, elsewhere]), &architecture()).is_empty());
    for bad in
        ["F::REG7", "XXREG1", "F { table: 3 }", "R { table: Some(11) }", "GotoTable(4)", "F { cookie: 0x7 }"]
    {
        let text = format!("//! B.\nfn f() {{ g({bad}) }}\n");
        let found =
            vocabulary::check(&rust(&[home, ("fabric-node/core/src/bad.rs", &text)]), &architecture());
        assert_eq!(found.len(), 1, "{bad}");
    }
    assert_eq!(vocabulary::check(&rust(&[good]), &architecture()).len(), 1, "the file is missing");
}

#[test]
fn words_of_a_workplace_are_told() {
    let text = format!("fine\nsee /{}/me/notes\n", "home");
    let found = words::check(&Sources::from_pairs([("docs/a.md", text.as_str())]));
    assert_eq!((found.len(), found[0].line), (1, 2));
}

#[test]
fn the_workspace_itself_is_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = Workspace::read(&root).unwrap();
    assert!(workspace.uses["fabric-core"].contains(&"policy".to_owned()));
    let library = |target: &&Target| target.package == "fabric-core" && target.library;
    assert_eq!(workspace.targets.iter().find(library).unwrap().root, "fabric-node/core/src/lib.rs");
}

#[test]
fn a_page_that_lists_other_words_than_the_code_is_told() {
    let words = ["1 spoofed".to_owned(), "2 stray".to_owned()].into();
    let listing = Listing { page: "docs/a.md", header: "| cause |", words };
    let page = "Causes:\n\n| cause | means |\n|---|---|\n| 1 `spoofed` | a lie |\n| `2` stray | lost |\n";
    assert!(pages::compare(&listing, page).is_empty());
    let found = whats(&pages::compare(&listing, &page.replace("| `2` stray | lost |", "| 3 other | lost |")));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("docs/a.md:3: this table has no row for \"2 stray\""), "{found:?}");
    assert!(found[1].contains("docs/a.md:6: the code has nothing called \"3 other\""), "{found:?}");
    assert_eq!(pages::compare(&listing, "Causes are many.").len(), 1, "no table");
}

#[test]
fn a_link_that_leads_nowhere_is_told() {
    let there = "# A page\n## `GET /v1/status`: how it is\nSee [here](#a-page), [code](../src/) and [a site](https://a.example/#b).\n";
    let from = "[it](docs/a.md#get-v1status-how-it-is) [lost](docs/b.md) [wrong](docs/a.md#b)\n";
    let pages = [("docs/a.md", there), ("README.md", from), ("src/main.rs", "//! A program.\n")];
    let found = whats(&links::check(&Sources::from_pairs(pages)));
    assert_eq!(
        found,
        [
            "README.md:1: links to docs/b.md, which is not there",
            "README.md:1: links to the heading #b, which docs/a.md does not have"
        ]
    );
}

#[test]
fn a_unit_that_systemd_would_not_read_or_that_starts_something_else_is_told() {
    let unit = "# A unit.\n[Unit]\nAfter=a.service\n\n[Service]\nExecStart=/sbin/fabric-node run --config /etc/a.yaml\n";
    let check = |unit: &str, page: &str| {
        let sources = [
            (service::UNIT, unit),
            ("docs/install.md", page),
            ("fabric-node/src/config.rs", "const PATH: &str = \"/etc/a.yaml\";"),
        ];
        whats(&service::check(&Sources::from_pairs(sources)).unwrap())
    };
    let page = "install fabric-node /sbin/\ninstall deploy/fabric-node.service\n";
    assert!(check(unit, page).is_empty());
    assert!(check(unit, "install it\n").len() == 2, "neither the folder nor the unit");
    for (from, to) in [
        ("After=", "Afer="),
        ("After=a.service", "a.service"),
        ("[Service]", "[Servce]"),
        ("/etc/a.yaml", "/etc/b.yaml"),
        (" run", " rum"),
    ] {
        assert!(!check(&unit.replace(from, to), page).is_empty(), "{to}");
    }
}

#[test]
fn a_line_of_a_page_that_is_too_long_is_told_and_a_row_of_a_table_is_not() {
    let (long, row) = ("word ".repeat(50), format!("| {} |", "word ".repeat(50)));
    let pages = [("docs/a.md", long.as_str()), ("docs/b.md", row.as_str()), ("a.rs", long.as_str())];
    let found = whats(&pages::long_lines(&Sources::from_pairs(pages)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("docs/a.md:1: 250 characters"), "{found:?}");
}

#[test]
fn the_parts_of_a_status_are_its_names_and_headings() {
    let status = "n1: well\n  waits for it\n\nswitch    br up\nworld     none\n\nPods (2)\nPOD  NODE\ndecaf  n1\n\nDenied\nCOUNT\n";
    let parts: Vec<String> = pages::parts(status).into_iter().collect();
    assert_eq!(parts, ["Denied", "Pods", "switch", "the first", "world"]);
}

#[test]
fn a_metric_that_only_the_agent_or_only_the_page_has_is_told() {
    let sample = "# HELP fabric_a A.\n# TYPE fabric_a gauge\nfabric_a 1\n# TYPE fabric_b gauge\n";
    assert!(pages::metrics(sample, "| `fabric_a`, `fabric_b` | `label` |").is_empty());
    let found = whats(&pages::metrics(sample, "| `fabric_a`, `fabric_c` | |"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("fabric_b") && found[1].contains("fabric_c"), "{found:?}");
}
