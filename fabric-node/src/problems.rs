//! Problems of a room, which come and go.

use tokio::sync::watch;

/// Makes `found` what is known, and tells whether it was something else; each problem is logged when it comes, and once
/// more when it is solved.
pub fn replace(known: &mut Vec<String>, found: Vec<String>) -> bool {
    for problem in found.iter().filter(|problem| !known.contains(problem)) {
        tracing::warn!("{problem}");
    }
    for solved in known.iter().filter(|problem| !found.contains(problem)) {
        tracing::info!("solved: {solved}");
    }
    let changed = *known != found;
    *known = found;
    changed
}

/// As [`replace`], for those who watch.
pub fn tell(known: &watch::Sender<Vec<String>>, found: Vec<String>) {
    known.send_if_modified(|known| replace(known, found));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_is_told_of_changes_only() {
        let (known, mut watcher) = watch::channel(Vec::new());
        tell(&known, vec!["lost".to_owned()]);
        assert!(watcher.has_changed().unwrap());
        assert_eq!(*watcher.borrow_and_update(), ["lost"]);
        tell(&known, vec!["lost".to_owned()]);
        assert!(!watcher.has_changed().unwrap());
        tell(&known, vec![]);
        assert!(watcher.has_changed().unwrap() && watcher.borrow_and_update().is_empty());
    }
}
