//! Pieces of text that several kinds of message share, spelled as `ovs-ofctl` does.

use std::fmt::{self, Write as _};

const PER_LINE: usize = 16;

/// How much is printed of packets: all of their bytes, or their fields only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    Brief,
    Full,
}

/// Bytes as hexadecimal, sixteen a line, with their printable characters beside them if `ascii`.
pub(crate) fn hex_dump(out: &mut String, bytes: &[u8], ascii: bool) -> fmt::Result {
    for (line, chunk) in bytes.chunks(PER_LINE).enumerate() {
        write!(out, "{:08x}  ", line * PER_LINE)?;
        for (i, byte) in chunk.iter().enumerate() {
            let separator = if i == PER_LINE / 2 - 1 { '-' } else { ' ' };
            write!(out, "{byte:02x}{separator}")?;
        }
        if ascii {
            for _ in chunk.len()..PER_LINE {
                out.push_str("   ");
            }
            out.push('|');
            out.extend(chunk.iter().map(|b| if (32..127).contains(b) { char::from(*b) } else { '.' }));
            out.extend(std::iter::repeat_n(' ', PER_LINE - chunk.len()));
            out.push('|');
        } else {
            chomp(out, ' ');
        }
        out.push('\n');
    }
    Ok(())
}

/// Bytes as `aa.bb.cc`.
pub(crate) fn dotted_hex(out: &mut String, bytes: &[u8]) -> fmt::Result {
    for (i, byte) in bytes.iter().enumerate() {
        let separator = if i == 0 { "" } else { "." };
        write!(out, "{separator}{byte:02x}")?;
    }
    Ok(())
}

/// Bytes as text, in octal where they are not printable ASCII.
pub(crate) fn printable(out: &mut String, bytes: &[u8]) -> fmt::Result {
    for byte in bytes {
        match byte {
            0x20..=0x7e if !matches!(byte, b'\\' | b'"') => out.push(char::from(*byte)),
            _ => write!(out, "\\{byte:03o}")?,
        }
    }
    Ok(())
}

/// Removes one trailing `c`.
pub(crate) fn chomp(out: &mut String, c: char) {
    if out.ends_with(c) {
        out.pop();
    }
}

/// Ends the line unless it is ended (or nothing was written).
pub(crate) fn end_line(out: &mut String) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// The names of the bits that are set, lowest first, then what has no name as one number; `0` if none is set.
pub(crate) fn bit_names(out: &mut String, bits: u32, names: &[(u32, &str)], separator: char) -> fmt::Result {
    if bits == 0 {
        out.push('0');
        return Ok(());
    }
    let mut left = bits;
    let mut first = true;
    for (bit, name) in names.iter().filter(|(bit, _)| bits & bit != 0) {
        if !first {
            out.push(separator);
        }
        first = false;
        out.push_str(name);
        left &= !bit;
    }
    if left != 0 {
        if !first {
            out.push(separator);
        }
        write!(out, "{left:#x}")?;
    }
    Ok(())
}

/// A duration: no decimals, milliseconds, or as many digits as are needed.
pub(crate) fn duration(out: &mut String, seconds: u32, nanoseconds: u32) -> fmt::Result {
    write!(out, "{seconds}")?;
    if nanoseconds > 0 {
        if nanoseconds.is_multiple_of(1_000_000) {
            write!(out, ".{:03}", nanoseconds / 1_000_000)?;
        } else {
            let digits = format!("{nanoseconds:09}");
            write!(out, ".{}", digits.trim_end_matches('0'))?;
        }
    }
    out.push('s');
    Ok(())
}

/// A fixed-size, zero-padded name from the wire, up to the first byte that does not print.
pub(crate) fn name(bytes: &[u8]) -> String {
    bytes.iter().take_while(|b| (32..127).contains(*b)).map(|b| char::from(*b)).collect()
}
