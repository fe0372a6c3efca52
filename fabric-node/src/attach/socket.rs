//! The socket's place in the file system.
//!
//! The socket is made under another name, closed to all but root, and then moved to
//! its place: whoever finds it there finds it as it should be.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("{}: another agent listens there; stop it first", .0.display())]
    InUse(PathBuf),
    /// There is something else of that name.
    #[error("{}: there is something there that is no socket; remove it, or choose another folder", .0.display())]
    Occupied(PathBuf),
    /// The system refused.
    #[error("{}: {cause}", .path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// Listens at `path`, in place of a socket on which nobody listens any more.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let refused = |cause: io::Error| SocketError::Refused { path: path.to_owned(), cause };
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(refused)?;
    }
    match fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(refused(cause)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::Occupied(path.to_owned())),
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(SocketError::InUse(path.to_owned())),
        Ok(_) => {}
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(name);
    let _ = fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside).map_err(refused)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&aside, path))
        .map_err(refused)?;
    Ok(listener)
}
