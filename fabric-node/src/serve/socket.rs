//! A unix socket for root only.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Listens at `path`, in place of a socket that a former process left there. Whenever the socket is at its
/// path, root alone may connect to it.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] where somebody listens there; else what the system says. The message names the
/// path.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| with_path(folder, &error))?;
    }
    if UnixStream::connect(path).is_ok() {
        let message = format!("{}: another agent listens there; stop it first", path.display());
        return Err(io::Error::new(ErrorKind::AddrInUse, message));
    }
    let aside = aside(path);
    // Left by a process that ended between the two steps.
    let _ = fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside).map_err(|error| with_path(&aside, &error))?;
    let placed =
        fs::set_permissions(&aside, Permissions::from_mode(0o600)).and_then(|()| fs::rename(&aside, path));
    placed.map_err(|error| with_path(path, &error))?;
    Ok(listener)
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
