//! The store that is a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use fabric_core::node::{ClaimCommand, ClaimError, Event};
use fabric_node::intake::Handle;
use fabric_node::intake::directory::{self, DirectoryConfig};
use policy::Object;
use tokio::sync::mpsc;

use super::agent::{Agent, claim, namespace};
use super::contract::{self, Bench};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fabric-intake-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder of our own");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder is ours");
    }

    fn agent(&self) -> Agent {
        Agent::start(|events| self.open("n1", events))
    }

    async fn synced(&self) -> Agent {
        let mut agent = self.agent();
        agent.until_synced().await;
        agent
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Bench for Folder {
    fn open(&self, node: &str, events: mpsc::Sender<Event>) -> Handle {
        let config = DirectoryConfig { directory: self.0.clone(), node: node.to_owned() };
        directory::start(&config, events).expect("files and threads are to be had")
    }

    fn put(&self, name: &str, manifest: &str) {
        self.write(&format!("{name}.yaml"), manifest);
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(&format!("{name}.yaml"))).expect("it was put");
    }
}

fn team(agent: &Agent, name: &str) -> String {
    let namespaces = agent.world.values().find_map(|object| match object {
        Object::Namespace(namespace) if &*namespace.name == name => Some(format!("{:?}", namespace.labels)),
        _ => None,
    });
    namespaces.unwrap_or_default()
}

#[tokio::test]
async fn it_keeps_the_contract() {
    contract::run(&Folder::new()).await;
}

#[tokio::test]
async fn a_file_may_hold_several_documents_and_lists() {
    let folder = Folder::new();
    folder.write(
        "a.yml",
        &format!("---\n{}---\n# nothing\n---\n{}", namespace("one", "x"), namespace("two", "x")),
    );
    folder.write(
        "b.json",
        r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "three"}}]}
           {"apiVersion": "v1", "kind": "NamespaceList", "items": [{"metadata": {"name": "four"}}]}"#,
    );
    folder.write("notes.txt", "not: a manifest");
    folder.write(".a.yaml.swp", "not: a manifest");
    fs::create_dir(folder.path("below.yaml.d")).expect("the folder is ours");
    let agent = folder.synced().await;
    assert_eq!(agent.names(), ["Namespace four", "Namespace one", "Namespace three", "Namespace two"]);
    assert_eq!(agent.problems(), [""; 0]);
}

#[tokio::test]
async fn an_editor_that_renames_makes_one_change() {
    let folder = Folder::new();
    folder.write("a.yaml", &namespace("one", "red"));
    let mut agent = folder.synced().await;
    let batches = agent.batches;
    folder.write(".a.yaml.tmp", &namespace("one", "blue"));
    fs::rename(folder.path("a.yaml"), folder.path("a.yaml~")).expect("the folder is ours");
    fs::rename(folder.path(".a.yaml.tmp"), folder.path("a.yaml")).expect("the folder is ours");
    agent.until("the change is seen", |agent| team(agent, "one").contains("blue")).await;
    agent.idle(Duration::from_millis(100)).await;
    assert_eq!(agent.batches, batches + 1);
    assert_eq!(agent.names(), ["Namespace one"]);
}

#[tokio::test]
async fn an_object_that_moves_to_another_file_is_never_gone() {
    let folder = Folder::new();
    folder.write("a.yaml", &namespace("one", "red"));
    let mut agent = folder.synced().await;
    folder.write(".b.yaml.tmp", &namespace("one", "blue"));
    fs::rename(folder.path(".b.yaml.tmp"), folder.path("b.yaml")).expect("the folder is ours");
    fs::remove_file(folder.path("a.yaml")).expect("the folder is ours");
    let seen = agent.batches;
    agent.until("the other file is in force", |agent| team(agent, "one").contains("blue")).await;
    assert_eq!(agent.batches, seen + 1, "one change, not a removal and an addition");
}

#[tokio::test]
async fn links_count_as_files() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let mut agent = folder.synced().await;
    elsewhere.write("one.yaml", &namespace("one", "red"));
    elsewhere.write("two.yaml", &namespace("two", "red"));
    std::os::unix::fs::symlink(elsewhere.path("one.yaml"), folder.path("one.yaml"))
        .expect("the folder is ours");
    fs::hard_link(elsewhere.path("two.yaml"), folder.path("two.yaml")).expect("the folder is ours");
    agent.until("both are seen", |agent| agent.names() == ["Namespace one", "Namespace two"]).await;
}

#[tokio::test]
async fn a_volume_of_kubernetes_changes_by_its_data_link() {
    let folder = Folder::new();
    let revision = |name: &str, label: &str| {
        fs::create_dir(folder.path(name)).expect("the folder is ours");
        folder.write(&format!("{name}/one.yaml"), &namespace("one", label));
        std::os::unix::fs::symlink(name, folder.path("..data_tmp")).expect("the folder is ours");
        fs::rename(folder.path("..data_tmp"), folder.path("..data")).expect("the folder is ours");
    };
    revision("..1", "red");
    std::os::unix::fs::symlink("..data/one.yaml", folder.path("one.yaml")).expect("the folder is ours");
    let mut agent = folder.synced().await;
    assert!(team(&agent, "one").contains("red"));
    revision("..2", "blue");
    agent.until("the new revision is seen", |agent| team(agent, "one").contains("blue")).await;
}

#[tokio::test]
async fn what_turns_unreadable_stays_in_force_and_is_reported() {
    let folder = Folder::new();
    let two = |second: &str| format!("{}---\n{second}", namespace("one", "red"));
    folder.write("a.yaml", &two(&namespace("two", "red")));
    let mut agent = folder.synced().await;

    folder.write("a.yaml", &two("apiVersion: v1\nkind: Namespace\nmetadata: {name: two\n"));
    let problems = agent.until_problems("the document is reported", |problems| !problems.is_empty()).await;
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].starts_with("a.yaml#2: line 9: "), "{problems:#?}");
    assert_eq!(agent.names(), ["Namespace one", "Namespace two"], "the last good one stays");

    folder.write("a.yaml", &format!("{}---\n{{", namespace("one", "blue")));
    agent.until("the rest of the file is followed", |agent| team(agent, "one").contains("blue")).await;
    assert_eq!(agent.names(), ["Namespace one", "Namespace two"]);

    fs::write(folder.path("a.yaml"), b"\xff\xfe\x00").expect("the folder is ours");
    agent.until_problems("bytes are reported", |problems| problems.iter().any(|p| p.contains("UTF-8"))).await;
    assert_eq!(agent.names(), ["Namespace one", "Namespace two"]);

    folder.write("a.yaml", &namespace("one", "blue"));
    agent.until("a sound file that lacks it", |agent| agent.names() == ["Namespace one"]).await;
    agent.until_problems("the problem is over", <[_]>::is_empty).await;

    folder.write("a.yaml", "{");
    agent.until_problems("it is broken again", |problems| !problems.is_empty()).await;
    fs::remove_file(folder.path("a.yaml")).expect("the folder is ours");
    agent.until("a file that goes takes its objects along", |agent| agent.names().is_empty()).await;
    agent.until_problems("the problem went with it", <[_]>::is_empty).await;
}

#[tokio::test]
async fn a_policy_whose_kind_is_misspelt_is_not_lifted() {
    let folder = Folder::new();
    let policy = |kind: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: {kind}\nmetadata: {{ name: deny, namespace: default }}\n\
             spec: {{ podSelector: {{}} }}\n"
        )
    };
    folder.write("a.yaml", &policy("NetworkPolicy"));
    let mut agent = folder.synced().await;
    assert_eq!(agent.names(), ["NetworkPolicy default/deny"]);
    folder.write("a.yaml", &policy("NetworkPolcy"));
    folder.write("b.yaml", &namespace("mark", "x"));
    agent.until("the edit was read", |agent| agent.names().contains(&"Namespace mark".to_owned())).await;
    agent.idle(Duration::from_millis(100)).await;
    assert!(agent.names().contains(&"NetworkPolicy default/deny".to_owned()));
}

#[tokio::test]
async fn an_object_in_two_files_is_in_force_from_the_first() {
    let folder = Folder::new();
    folder.write("b.yaml", &namespace("one", "blue"));
    let mut agent = folder.synced().await;
    folder.write("c.yaml", &namespace("one", "green"));
    let said =
        "c.yaml: Namespace one: the object is in b.yaml too, and that one is in force; remove one of them";
    agent.until_problems("it is reported", |problems| problems == [said]).await;
    assert!(team(&agent, "one").contains("blue"));
    folder.write("a.yaml", &namespace("one", "red"));
    agent.until("a name that sorts before", |agent| team(agent, "one").contains("red")).await;
    agent.until_problems("both others are reported", |problems| problems.len() == 2).await;
    fs::remove_file(folder.path("a.yaml")).expect("the folder is ours");
    agent.until("the next takes over", |agent| team(agent, "one").contains("blue")).await;
    fs::remove_file(folder.path("b.yaml")).expect("the folder is ours");
    agent.until("the last takes over", |agent| team(agent, "one").contains("green")).await;
    agent.until_problems("one is left", <[_]>::is_empty).await;
}

#[tokio::test]
async fn a_claim_among_the_manifests_is_refused() {
    let folder = Folder::new();
    let manifest = policy::to_manifest(&claim("10.0.0.5", "n1", "c1/eth0"));
    folder.write("a.json", &manifest.to_string());
    let agent = folder.synced().await;
    assert_eq!(agent.claim("10.0.0.5"), None);
    let problems = agent.problems();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].starts_with("a.json#1: the store makes the claims itself"), "{problems:#?}");
}

#[tokio::test]
async fn a_pipe_does_not_hold_the_room_up() {
    let folder = Folder::new();
    nix::unistd::mkfifo(&folder.path("a.yaml"), nix::sys::stat::Mode::S_IRWXU).expect("the folder is ours");
    folder.write("b.yaml", &namespace("one", "red"));
    let agent = folder.synced().await;
    assert_eq!(agent.names(), ["Namespace one"]);
    assert_eq!(
        agent.problems(),
        ["a.yaml: not a regular file; what was read from the file before stays in force"]
    );
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_waited_for() {
    let folder = Folder::new();
    fs::remove_dir(&folder.0).expect("the folder is ours");
    let mut agent = folder.agent();
    let problems = agent.until_problems("both folders are missed", |problems| problems.len() == 2).await;
    assert!(problems.iter().any(|p| p.contains("store.directory in the node file")), "{problems:#?}");
    let refused = agent.create(&claim("10.0.0.5", "n1", "c1/eth0")).await;
    assert!(matches!(refused, Err(ClaimError::Store(_))), "{refused:?}");
    assert!(!agent.synced);
    fs::create_dir(&folder.0).expect("the folder is ours");
    folder.write("a.yaml", &namespace("one", "red"));
    agent.until_synced().await;
    agent.until("what is there is read", |agent| agent.names() == ["Namespace one"]).await;
    agent.until_problems("all is well", <[_]>::is_empty).await;
    assert_eq!(agent.create(&claim("10.0.0.5", "n1", "c1/eth0")).await, Ok(()));
}

#[tokio::test]
async fn a_folder_that_goes_and_comes_back_is_followed() {
    let folder = Folder::new();
    folder.write("a.yaml", &namespace("one", "red"));
    folder.write("b.yaml", &namespace("two", "red"));
    let mut agent = folder.synced().await;
    assert_eq!(agent.create(&claim("10.0.0.5", "n1", "c1/eth0")).await, Ok(()));
    let (here, away) = (folder.0.clone(), folder.0.with_extension("away"));
    fs::rename(&here, &away).expect("the folder is ours");
    agent
        .until_problems("it is missed", |problems| problems.iter().any(|p| p.contains("No such file")))
        .await;
    assert_eq!(agent.names(), ["Namespace one", "Namespace two"], "what is known stays known");

    fs::create_dir(&here).expect("the folder is ours");
    folder.write("b.yaml", &namespace("two", "blue"));
    folder.write("c.yaml", &namespace("three", "red"));
    agent
        .until("the folder in its place is read", |agent| {
            agent.names() == ["Namespace three", "Namespace two"] && agent.claim("10.0.0.5").is_none()
        })
        .await;
    agent.until_problems("all is well", <[_]>::is_empty).await;
    folder.write("d.yaml", &namespace("four", "red"));
    agent.until("it is followed", |agent| agent.names().len() == 3).await;
    fs::remove_dir_all(away).expect("the folder is ours");
}

#[tokio::test]
async fn news_that_the_system_had_no_room_for_is_found_by_comparing() {
    let folder = Folder::new();
    folder.write("gone.yaml", &namespace("gone", "red"));
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("inotify is there");
    let limit: usize = limit.trim().parse().expect("a number");
    let mut agent = Agent::with_queue(1, |events| folder.open("n1", events));
    agent.until_synced().await;
    // The thread stops at the second event that nobody takes, and what follows fills the queue.
    for name in ["one", "two", "three"] {
        folder.write(&format!("{name}.yaml"), &namespace(name, "red"));
        std::thread::sleep(Duration::from_millis(60));
    }
    for turn in 0..=limit {
        folder.write(if turn % 2 == 0 { "x.txt" } else { "y.txt" }, "");
    }
    fs::remove_file(folder.path("gone.yaml")).expect("the folder is ours");
    folder.write("late.yaml", &namespace("late", "red"));
    agent
        .until("the comparison finds what was lost", |agent| {
            agent.names() == ["Namespace late", "Namespace one", "Namespace three", "Namespace two"]
        })
        .await;
}

#[tokio::test]
async fn a_garbled_claim_is_reported_and_counts_as_taken() {
    let folder = Folder::new();
    let mut agent = folder.synced().await;
    let whole = policy::to_manifest(&claim("10.0.0.5", "n2", "c2/eth0")).to_string();
    let file = folder.path(".claims/0a000005.json");
    for text in
        [&whole[..whole.len() / 2], "", "[]", &whole.replace("10.0.0.5", "10.0.0.6"), "{\"kind\": \"Pod\"}"]
    {
        fs::write(&file, text).expect("the folder is ours");
        let problems = agent.until_problems("it is reported", |problems| problems.len() == 1).await;
        let begins = format!("{}: IPClaim 0a000005: ", file.display());
        assert!(problems[0].starts_with(&begins), "{text}: {problems:#?}");
        assert!(problems[0].contains("10.0.0.5 counts as taken"), "{text}: {problems:#?}");
        let wanted = claim("10.0.0.5", "n1", "c1/eth0");
        let refused = agent.create(&wanted).await.expect_err("it counts as taken");
        assert!(matches!(&refused, ClaimError::Taken(holder) if holder.ip == wanted.ip), "{refused:?}");
        assert!(refused.to_string().contains(".claims/0a000005.json"), "{refused}");
        let kept = agent.release(&wanted, "c1/eth0").await.expect_err("nobody knows whose it is");
        assert!(kept.to_string().contains("remove it if no container has the address"), "{kept}");
        fs::remove_file(&file).expect("the folder is ours");
        agent.until_problems("it went", <[_]>::is_empty).await;
        assert_eq!(agent.create(&wanted).await, Ok(()));
        assert_eq!(agent.release(&wanted, "c1/eth0").await, Ok(()));
    }
}

#[tokio::test]
async fn a_claim_that_turns_garbled_stays_known() {
    let folder = Folder::new();
    let mut agent = folder.synced().await;
    let held = claim("fd00::5", "n1", "c1/eth0");
    assert_eq!(agent.create(&held).await, Ok(()));
    fs::write(folder.path(&format!(".claims/{}.json", policy::claim_name(held.ip))), "{").expect("ours");
    agent.until_problems("it is reported", |problems| problems.len() == 1).await;
    assert_eq!(agent.claim("fd00::5"), Some(&held));
}

#[tokio::test]
async fn what_a_crash_left_unfinished_is_swept_when_it_is_old() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path(".claims/.tmp")).expect("the folder is ours");
    let (old, fresh) = (folder.path(".claims/.tmp/n2-1-0.json"), folder.path(".claims/.tmp/n2-1-1.json"));
    for path in [&old, &fresh] {
        fs::write(path, "{").expect("the folder is ours");
    }
    let file = fs::File::options().write(true).open(&old).expect("it was written");
    file.set_modified(SystemTime::now() - Duration::from_secs(7_200)).expect("it is ours");
    let mut agent = folder.synced().await;
    assert!(!old.exists());
    assert!(fresh.exists(), "another node may be about to link it");
    assert_eq!(agent.create(&claim("10.0.0.5", "n1", "c1/eth0")).await, Ok(()));
    assert_eq!(files(&folder.path(".claims/.tmp")), ["n2-1-1.json"], "nothing is left aside");
    assert_eq!(files(&folder.path(".claims")), [".tmp", "0a000005.json"]);
}

fn files(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("the folder is ours");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn others_claims_are_known_within_milliseconds() {
    let folder = Folder::new();
    let mut writer = folder.synced().await;
    let mut reader = Agent::start(|events| folder.open("n2", events));
    reader.until_synced().await;
    // Beside it, a manifest that takes long to read.
    let many: String = (0..5_000).map(|n| format!("---\n{}", namespace(&format!("n{n}"), "x"))).collect();
    folder.write("many.yaml", &many);
    let mut times = Vec::new();
    for number in 0..50 {
        let ip = format!("10.0.0.{number}");
        let wanted = claim(&ip, "n1", "c1/eth0");
        let task = writer.send(ClaimCommand::Create(wanted)).await;
        assert_eq!(writer.outcome(task).await, Ok(()));
        let written = Instant::now();
        reader.until("the claim is known", |reader| reader.claim(&ip).is_some()).await;
        times.push(written.elapsed());
    }
    times.sort();
    assert!(times[25] < Duration::from_millis(20), "half of them took longer than {:?}", times[25]);
}
