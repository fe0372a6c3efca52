//! The cluster as it should be, and who may talk to whom, and why.
