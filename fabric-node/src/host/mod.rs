//! The node's own side of the fabric: routes, neighbours, masquerade.
