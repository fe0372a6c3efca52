//! Shape of files and functions: lengths, heads, and where `unsafe` may stand.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::architecture::Architecture;
use super::sources::RustFile;
use super::violation::Violation;

/// Names of the limits in ARCHITECTURE.md.
const LIMITS: [&str; 4] = ["file", "most files", "share of files", "function"];

/// Holds files and functions against the limits of ARCHITECTURE.md.
pub fn check(files: &[RustFile], architecture: &Architecture) -> Vec<Violation> {
    let [Some(longest), Some(usual), Some(share), Some(function)] =
        LIMITS.map(|name| architecture.number(name))
    else {
        let what = format!("wants the limits {}, each with a number in backticks", LIMITS.join(", "));
        return vec![Violation::new("ARCHITECTURE.md", 0, what)];
    };
    let mut found = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        if lines > longest {
            found.push(Violation::new(&file.path, 0, format!("{lines} lines: at most {longest}")));
        }
        // The name of `tests.rs` says what it is for.
        if !file.text.starts_with("//!") && !file.path.ends_with("/tests.rs") {
            found.push(Violation::new(
                &file.path,
                1,
                "the first line must tell in a `//!` what the file is for",
            ));
        }
        found.extend(long_functions(file, function));
        found.extend(stray_unsafe(file, architecture.limit("unsafe")));
    }
    found.extend(too_many_long(files, usual, share));
    found
}

fn too_many_long(files: &[RustFile], usual: usize, share: usize) -> Option<Violation> {
    let long: Vec<&str> = files
        .iter()
        .filter(|file| file.text.lines().count() > usual)
        .map(|file| file.path.as_str())
        .collect();
    if long.len() * 100 <= files.len() * (100 - share) {
        return None;
    }
    let what =
        format!("fewer than {share} % of the files have at most {usual} lines; longer: {}", long.join(", "));
    Some(Violation::new("ARCHITECTURE.md", 0, what))
}

fn long_functions(file: &RustFile, limit: usize) -> Vec<Violation> {
    let mut visitor = Functions { limit, path: &file.path, found: Vec::new() };
    visitor.visit_file(&file.syntax);
    visitor.found
}

struct Functions<'a> {
    limit: usize,
    path: &'a str,
    found: Vec<Violation>,
}

impl Functions<'_> {
    /// From the line of the name to that of the closing brace.
    fn measure(&mut self, signature: &syn::Signature, end: Span) {
        let first = signature.span().start().line;
        let lines = end.end().line + 1 - first;
        if lines > self.limit {
            let what = format!("{} has {lines} lines: at most {}", signature.ident, self.limit);
            self.found.push(Violation::new(self.path, first, what));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block.span());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn stray_unsafe(file: &RustFile, allowed: &[String]) -> Vec<Violation> {
    if allowed.contains(&file.path) {
        return Vec::new();
    }
    let mut visitor = Unsafe(Vec::new());
    visitor.visit_file(&file.syntax);
    let what = "unsafe code stands only in the files that ARCHITECTURE.md lists for it";
    visitor.0.into_iter().map(|line| Violation::new(&file.path, line, what)).collect()
}

struct Unsafe(Vec<usize>);

impl<'ast> Visit<'ast> for Unsafe {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.0.push(block.unsafe_token.span.start().line);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let syn::Safety::Unsafe(token) = &signature.safety {
            self.0.push(token.span.start().line);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.0.extend(item.unsafety.map(|token| token.span.start().line));
        visit::visit_item_impl(self, item);
    }
}
