//! World and local ports to static flows; a punted packet to decisions and flows.
