//! Tables, registers, marks and cookies have their numbers in one file: elsewhere in
//! the agent no register is named and no table or cookie stands as a number.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::Item;

use super::architecture::Architecture;
use super::paths::{attributes, is_test};
use super::sources::RustFile;
use super::violation::Violation;

/// The code that the rule is for.
const AGENT: [&str; 2] = ["fabric-node/src/", "fabric-node/core/src/"];
/// Names before a number that the vocabulary should hold.
const NUMBERED: [&str; 3] = ["table", "cookie", "GotoTable"];

/// Looks for registers and numbers outside the file that the limit `vocabulary` names.
pub fn check(files: &[RustFile], architecture: &Architecture) -> Vec<Violation> {
    let [home] = architecture.limit("vocabulary") else {
        return vec![Violation::new(
            "ARCHITECTURE.md",
            0,
            "wants the limit vocabulary, with one file in backticks",
        )];
    };
    if !files.iter().any(|file| file.path == *home) {
        return vec![Violation::new("ARCHITECTURE.md", 0, format!("there is no file {home}"))];
    }
    let agent = |file: &&RustFile| AGENT.iter().any(|folder| file.path.starts_with(folder));
    let tests = |file: &&RustFile| file.path.ends_with("tests.rs") || file.path.contains("/tests/");
    let files = files.iter().filter(agent).filter(|file| file.path != *home && !tests(file));
    files.flat_map(|file| stray(file, home)).collect()
}

fn stray(file: &RustFile, home: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let code = |item: &&Item| !is_test(attributes(item));
    for item in file.syntax.items.iter().filter(code) {
        scan(item.to_token_stream(), &mut |what, line| {
            let what = format!("{what} has its place in {home}");
            found.push(Violation::new(&file.path, line, what));
        });
    }
    found
}

fn scan(tokens: TokenStream, tell: &mut impl FnMut(String, usize)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) => {
                let (name, line) = (ident.to_string(), ident.span().start().line);
                if is_register(&name) {
                    tell(name, line);
                } else if NUMBERED.contains(&name.as_str()) && number_follows(&tokens[at + 1..]) {
                    tell(format!("a number for {name}"), line);
                }
            }
            TokenTree::Group(group) => scan(group.stream(), tell),
            _ => {}
        }
    }
}

/// `REG0`, `XREG3`, `XXREG1`.
fn is_register(name: &str) -> bool {
    let number = name.trim_start_matches('X').strip_prefix("REG");
    number.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// `: 3`, `: Some(3)` or `(3)`, for numbers above zero.
fn number_follows(tokens: &[TokenTree]) -> bool {
    let positive = |token: &TokenTree| {
        let TokenTree::Literal(literal) = token else { return false };
        let text = literal.to_string();
        text.starts_with(|c: char| c.is_ascii_digit()) && !matches!(text.as_str(), "0" | "0x0")
    };
    let holds = |token: Option<&TokenTree>| match token {
        Some(TokenTree::Group(group)) => group.stream().into_iter().next().is_some_and(|t| positive(&t)),
        Some(token) => positive(token),
        None => false,
    };
    match tokens.first() {
        Some(TokenTree::Punct(colon)) if colon.as_char() == ':' => match tokens.get(1) {
            Some(TokenTree::Ident(some)) if some == "Some" => holds(tokens.get(2)),
            other => holds(other),
        },
        Some(TokenTree::Group(_)) => holds(tokens.first()),
        _ => false,
    }
}
