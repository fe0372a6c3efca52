//! Ctrl-C and its like: noted, so that whoever waits can stop and clean up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::error::LabError;

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on SIGINT, SIGTERM and SIGHUP do not end the process but are noted.
///
/// # Errors
/// [`LabError::Io`] where the system refuses the handlers.
pub fn catch() -> Result<(), LabError> {
    let flag = REQUESTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(LabError::io("catch signals"))?;
    }
    Ok(())
}

/// Whether a signal arrived since [`catch`].
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// For loops that wait.
///
/// # Errors
/// [`LabError::Interrupted`] once a signal arrived.
pub fn check() -> Result<(), LabError> {
    if requested() { Err(LabError::Interrupted) } else { Ok(()) }
}
