//! Properties: the type-length-value lists of OpenFlow 1.4 and later (`struct ofp_prop_header`).
//!
//! Values of 16 bits are followed by two zeros that the length counts; those of 8 bits are not.
//!
//! Type and length are 16 bits each; the length counts these four bytes and the value, not the zeros that pad the
//! property to a multiple of eight bytes. Values of 64 bits and nested lists start after four more bytes of zeros.

use crate::wire::{DecodeError, Reader, Writer};

const HEAD: usize = 4;
const NESTED_HEAD: usize = 8;

/// One property: its type, and its value without the padding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Property<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
    what: &'static str,
}

impl<'a> Property<'a> {
    /// Takes the next property from a list, its padding included (the last one may lack padding).
    pub(crate) fn next(list: &mut Reader<'a>, what: &'static str) -> Result<Property<'a>, DecodeError> {
        let kind = list.u16(what)?;
        let length = usize::from(list.u16(what)?);
        let size = length.checked_sub(HEAD).ok_or(DecodeError::BadLength { what, length })?;
        let value = list.bytes(size, what)?;
        let padding = length.next_multiple_of(8) - length;
        list.skip(padding.min(list.remaining()), what)?;
        Ok(Property { kind, value, what })
    }

    fn reader(&self) -> Reader<'a> {
        Reader::new(self.value)
    }

    fn whole<T>(&self, reader: &Reader<'_>, value: T) -> Result<T, DecodeError> {
        if reader.is_empty() {
            Ok(value)
        } else {
            Err(DecodeError::BadLength { what: self.what, length: self.value.len() + HEAD })
        }
    }

    /// The first byte; as Open vSwitch does, whatever follows it.
    pub(crate) fn u8(&self) -> Result<u8, DecodeError> {
        self.reader().u8(self.what)
    }

    /// The first two bytes; as Open vSwitch does, whatever follows them.
    pub(crate) fn u16(&self) -> Result<u16, DecodeError> {
        self.reader().u16(self.what)
    }

    pub(crate) fn u32(&self) -> Result<u32, DecodeError> {
        let mut r = self.reader();
        let value = r.u32(self.what)?;
        self.whole(&r, value)
    }

    pub(crate) fn u64(&self) -> Result<u64, DecodeError> {
        let mut r = self.reader();
        r.skip(4, self.what)?;
        let value = r.u64(self.what)?;
        self.whole(&r, value)
    }

    /// The list inside a nested property.
    pub(crate) fn nested(&self) -> Result<&'a [u8], DecodeError> {
        self.value.get(NESTED_HEAD - HEAD..).ok_or(DecodeError::MissingData(self.what))
    }
}

/// Starts a property; [`end`] fills in its length.
pub(crate) fn begin(w: &mut Writer, kind: u16) -> usize {
    let at = w.len();
    w.u16(kind);
    w.u16(0);
    at
}

/// Starts a property that holds a list or something else that is aligned to eight bytes.
pub(crate) fn begin_nested(w: &mut Writer, kind: u16) -> usize {
    let at = begin(w, kind);
    w.u32(0);
    at
}

/// Ends the property that starts at `at`: sets its length, pads it.
pub(crate) fn end(w: &mut Writer, at: usize) {
    w.patch_length(at + 2, at);
    w.pad_from(at, 8);
}

pub(crate) fn put_bytes(w: &mut Writer, kind: u16, value: &[u8]) {
    let at = begin(w, kind);
    w.bytes(value);
    end(w, at);
}

pub(crate) fn put_u8(w: &mut Writer, kind: u16, value: u8) {
    put_bytes(w, kind, &[value]);
}

pub(crate) fn put_u16(w: &mut Writer, kind: u16, value: u16) {
    put_bytes(w, kind, &(u32::from(value) << 16).to_be_bytes());
}

pub(crate) fn put_u32(w: &mut Writer, kind: u16, value: u32) {
    put_bytes(w, kind, &value.to_be_bytes());
}

pub(crate) fn put_u64(w: &mut Writer, kind: u16, value: u64) {
    let at = begin_nested(w, kind);
    w.u64(value);
    end(w, at);
}
