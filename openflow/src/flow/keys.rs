//! The `key=value,key(value),key` lists that all of `ovs-ofctl`'s syntax is made of.

/// The items of a list: key and value, empty where there is none. A value in parentheses comes
/// without them, except in `key(a)->b`, whose value is `a)->b`.
pub(crate) struct KeyValues<'a> {
    rest: &'a str,
}

const SEPARATORS: &[char] = &[',', ' ', '\t', '\r', '\n'];

impl<'a> KeyValues<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Ends the value at `end` bytes and passes over `skip` more.
    fn take(&mut self, end: usize, skip: usize) -> &'a str {
        let value = self.rest.get(..end).unwrap_or(self.rest);
        self.rest = self.rest.get(end + skip..).unwrap_or("");
        value
    }
}

impl<'a> Iterator for KeyValues<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.rest = self.rest.trim_start_matches(SEPARATORS);
        if self.rest.is_empty() {
            return None;
        }
        let stop = |c: char| SEPARATORS.contains(&c) || matches!(c, ':' | '=' | '(');
        let end = self.rest.find(stop).unwrap_or(self.rest.len());
        let delimiter = self.rest.get(end..).and_then(|r| r.chars().next());
        let key = self.take(end, 1);
        let value = match delimiter {
            Some(':' | '=') => {
                let end = value_end(self.rest, SEPARATORS);
                self.take(end, 1)
            }
            Some('(') => {
                let end = value_end(self.rest, &[')']);
                if self.rest.get(end..).is_some_and(|r| r.starts_with(")->")) {
                    let tail = self.rest.get(end..).unwrap_or("");
                    let end = end + value_end(tail, SEPARATORS);
                    self.take(end, 1)
                } else {
                    self.take(end, 1)
                }
            }
            _ => "",
        };
        Some((key, value))
    }
}

/// Where a value ends that one of `delimiters` outside of parentheses ends.
fn value_end(text: &str, delimiters: &[char]) -> usize {
    let mut level = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            _ if level == 0 && delimiters.contains(&c) => return at,
            '(' => level += 1,
            ')' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

/// Bytes in hexadecimal, with or without dots between them: `01.02.ff`.
pub(crate) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let mut digits = text.chars().filter(|c| *c != '.').map(|c| c.to_digit(16));
    let mut bytes = Vec::with_capacity(text.len() / 2);
    while let Some(high) = digits.next() {
        bytes.push(u8::try_from(high? << 4 | digits.next()??).ok()?);
    }
    Some(bytes)
}
