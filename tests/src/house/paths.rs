//! The paths that a file names: its `use` declarations, and every other path in its
//! code, those inside macros included. Code for tests is passed over.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// A name that a `use` brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The path as written, without a final `self` or `*`.
    pub path: Vec<String>,
    /// The name it gets; `None` for `*`.
    pub name: Option<String>,
    /// Whether it is exported again.
    pub public: bool,
    /// Its line.
    pub line: usize,
}

/// What one module says.
#[derive(Debug, Default)]
pub struct Paths {
    /// Its imports.
    pub imports: Vec<Import>,
    /// Paths of two segments or more in its code, with their lines.
    pub mentions: Vec<(Vec<String>, usize)>,
    /// Names that it defines.
    pub items: Vec<String>,
    /// Modules in files of their own.
    pub children: Vec<String>,
}

impl Paths {
    /// Reads the items of a file.
    pub fn of(items: &[Item]) -> Self {
        let mut paths = Self::default();
        paths.read(items);
        let mut visitor = Mentions(&mut paths);
        items.iter().filter(|item| !is_test(attributes(item))).for_each(|item| visitor.visit_item(item));
        paths
    }

    fn read(&mut self, items: &[Item]) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Use(declaration) => self.import(declaration),
                Item::Mod(ItemMod { content: None, ident, .. }) => self.children.push(ident.to_string()),
                other => self.items.extend(defined(other)),
            }
        }
    }

    fn import(&mut self, declaration: &ItemUse) {
        let public = !matches!(declaration.vis, Visibility::Inherited);
        let line = declaration.span().start().line;
        let mut leaves = Vec::new();
        flatten(&declaration.tree, &mut Vec::new(), &mut leaves);
        self.imports.extend(leaves.into_iter().map(|(path, name)| Import { path, name, public, line }));
    }
}

type Leaf = (Vec<String>, Option<String>);

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, leaves)),
        UseTree::Glob(_) => leaves.push((prefix.clone(), None)),
        UseTree::Name(name) => leaves.push(leaf(prefix, &name.ident.to_string(), None)),
        UseTree::Rename(rename) => {
            leaves.push(leaf(prefix, &rename.ident.to_string(), Some(rename.rename.to_string())));
        }
    }
}

fn leaf(prefix: &[String], last: &str, rename: Option<String>) -> Leaf {
    let mut path = prefix.to_vec();
    if last != "self" {
        path.push(last.to_owned());
    }
    let name = rename.or_else(|| path.last().cloned());
    (path, name)
}

/// The name that an item defines, where it has one.
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Mod(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether `#[cfg(test)]` or `#[test]` is among the attributes.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let cfg_test =
            || attribute.parse_args::<TokenStream>().is_ok_and(|tokens| tokens.to_string() == "test");
        path.is_ident("test") || (path.is_ident("cfg") && cfg_test())
    })
}

struct Mentions<'a>(&'a mut Paths);

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.0.mentions.push((names, path.span().start().line));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.scan(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }
}

impl Mentions<'_> {
    /// Paths in the tokens of a macro: names joined by `::`.
    fn scan(&mut self, tokens: TokenStream) {
        let (mut names, mut colons, mut line): (Vec<String>, usize, usize) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut names, line);
                        line = ident.span().start().line;
                    }
                    names.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut names, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan(group.stream());
                    }
                }
            }
        }
        self.end(&mut names, line);
    }

    fn end(&mut self, names: &mut Vec<String>, line: usize) {
        if names.len() > 1 {
            self.0.mentions.push((std::mem::take(names), line));
        }
        names.clear();
    }
}
