//! Manifests of tests, as text.

/// An overlay Network `pods`, the default one, with these further lines of its spec.
#[must_use]
pub fn network(cidrs: &str, more: &str) -> String {
    format!(
        "apiVersion: fabric.io/v1alpha1\nkind: Network\nmetadata: {{name: pods}}\n\
         spec:\n  mode: overlay\n  default: true\n  encap: vxlan\n  vni: 77\n  cidrs: [{cidrs}]\n{more}"
    )
}

/// A pod of the namespace `default`.
#[must_use]
pub fn pod(name: &str, node: &str) -> String {
    annotated(name, node, "")
}

/// A pod of the namespace `default` with annotations in YAML's flow spelling.
#[must_use]
pub fn annotated(name: &str, node: &str, annotations: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: default\n  uid: uid-{name}\n  \
         annotations: {{{annotations}}}\nspec: {{nodeName: {node}}}\n"
    )
}
