//! The Fabric agent: one per node.
