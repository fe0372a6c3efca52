//! Plugins that are played, in a folder of their own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fabric-ipam-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> String {
        self.0.display().to_string()
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// A plugin that notes what it is asked and then does as `script` says.
    pub fn plugin(&self, name: &str, script: &str) {
        let file = self.0.join(name);
        let note = r#"echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $(cat)" >>"#;
        let text = format!("#!/bin/sh\n{note} {}\n{script}\n", self.log().display());
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The first word of every note, in order: of a plugin, the command that it was given.
    pub fn commands(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Notes something where plugins note what they are asked.
pub fn append(log: &Path, line: &str) {
    let mut file = fs::File::options().create(true).append(true).open(log).unwrap();
    writeln!(file, "{line}").unwrap();
}
