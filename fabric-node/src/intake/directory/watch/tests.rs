use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fabric-watch-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder of our own");
        Self(path)
    }

    fn write(&self, name: &str) {
        fs::write(self.0.join(name), name).expect("the folder is ours");
    }

    fn watch(&self, appearance: Appearance) -> Watch {
        Watch::open(&self.0, appearance).expect("it is there")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(names: &[&str]) -> News {
    News::Names(names.iter().map(OsString::from).collect())
}

fn silent() -> (Bell<()>, Listener<()>) {
    bell().expect("files are to be had")
}

#[test]
fn what_happens_is_news_by_name() {
    let folder = Folder::new();
    let (_bell, listener) = silent();
    let mut watch = folder.watch(Appearance::Written);
    folder.write("a");
    fs::rename(folder.0.join("a"), folder.0.join("b")).expect("the folder is ours");
    assert_eq!(watch.wait(&listener), names(&["a", "b"]));
    fs::remove_file(folder.0.join("b")).expect("the folder is ours");
    assert_eq!(watch.wait(&listener), names(&["b"]));
}

#[test]
fn a_file_that_is_being_written_is_news_when_it_is_closed() {
    let folder = Folder::new();
    let watch = folder.watch(Appearance::Written);
    let file = fs::File::create(folder.0.join("a")).expect("the folder is ours");
    assert!(watch.drain().is_nothing());
    drop(file);
    assert_eq!(watch.drain(), names(&["a"]));
    symlink("a", folder.0.join("b")).expect("the folder is ours");
    fs::hard_link(folder.0.join("a"), folder.0.join("c")).expect("the folder is ours");
    assert!(matches!(watch.drain(), News::Names(all) if all.contains(&OsString::from("b"))
        && all.contains(&OsString::from("c"))));
}

#[test]
fn where_files_appear_whole_each_is_news_at_once() {
    let folder = Folder::new();
    let watch = folder.watch(Appearance::Whole);
    let _file = fs::File::create(folder.0.join("a")).expect("the folder is ours");
    assert_eq!(watch.drain(), names(&["a"]));
}

#[test]
fn steps_that_follow_each_other_soon_are_one_change() {
    let folder = Folder::new();
    let (_bell, listener) = silent();
    let mut watch = folder.watch(Appearance::Written);
    folder.write("a");
    let news = thread::scope(|scope| {
        scope.spawn(|| {
            for name in ["b", "c"] {
                thread::sleep(Duration::from_millis(50));
                folder.write(name);
            }
        });
        let news = watch.wait(&listener);
        watch.settle(news, &listener, Duration::from_millis(500), 20)
    });
    assert_eq!(news, names(&["a", "b", "c"]));
}

#[test]
fn changes_without_an_end_are_not_waited_for() {
    let folder = Folder::new();
    let (_bell, listener) = silent();
    let watch = folder.watch(Appearance::Written);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                folder.write("a");
            }
        });
        let begin = Instant::now();
        watch.settle(names(&["a"]), &listener, Duration::from_millis(20), 5);
        let time = begin.elapsed();
        stop.store(true, Ordering::Relaxed);
        assert!(time < Duration::from_secs(5), "{time:?}");
    });
}

#[test]
fn without_inotify_the_listing_is_compared() {
    let folder = Folder::new();
    let (_bell, listener) = silent();
    let mut watch = folder.watch(Appearance::Written);
    watch.inotify = None;
    watch.interval = Duration::from_millis(20);
    watch.compare_at = Instant::now();
    for _ in 0..2 {
        // A wait ends a little early at times, and finds nothing.
        let found = (0..1_000).map(|_| watch.wait(&listener)).find(|news| !news.is_nothing());
        assert_eq!(found, Some(News::Everything));
    }
    assert!(complaint(Errno::EMFILE).contains("fs.inotify.max_user_instances"));
}

#[test]
fn a_folder_that_moved_is_away_by_its_own_news_and_by_its_path() {
    let folder = Folder::new();
    let below = folder.0.join("above/below");
    fs::create_dir_all(&below).expect("the folder is ours");
    let (_bell, listener) = silent();
    let mut watch = Watch::open(&below, Appearance::Written).expect("it is there");
    fs::rename(folder.0.join("above"), folder.0.join("elsewhere")).expect("the folder is ours");
    let mut news = watch.wait(&listener);
    for _ in 0..3 {
        if news == News::Away {
            break;
        }
        news = watch.wait(&listener);
    }
    assert_eq!(news, News::Away);

    let moved = folder.0.join("elsewhere/below");
    let mut watch = Watch::open(&moved, Appearance::Written).expect("it is there");
    fs::remove_dir(&moved).expect("the folder is ours");
    assert_eq!(watch.wait(&listener), News::Away);
    let error = Watch::open(&moved, Appearance::Written).expect_err("it is gone");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    folder.write("file");
    let error = Watch::open(&folder.0.join("file"), Appearance::Written).expect_err("it is no folder");
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
}

#[test]
fn a_bell_wakes_with_its_messages_and_ends_with_its_owner() {
    let (bell, listener) = bell().expect("files are to be had");
    assert_eq!(listener.heard(), Some(vec![]));
    bell.ring(1);
    bell.ring(2);
    listener.wait(Duration::from_secs(60));
    assert_eq!(listener.heard(), Some(vec![1, 2]));
    bell.ring(3);
    drop(bell);
    listener.wait(Duration::from_secs(60));
    assert_eq!(listener.heard(), Some(vec![3]), "what was rung before is heard");
    assert_eq!(listener.heard(), None);
}
