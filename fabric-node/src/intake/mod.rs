//! Manifests to edits of the world, and the store for claims.
