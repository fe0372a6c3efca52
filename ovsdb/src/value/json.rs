//! Values as JSON, both ways (RFC 7047 §5.1).

use super::{Atom, Datum, Real, Uuid, ValueError};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{self, Serialize, SerializeTuple, Serializer};
use std::fmt;

/// The tags that open an array in a value.
const TAGS: [&str; 4] = ["set", "map", "uuid", "named-uuid"];

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Uuid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a UUID")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Uuid, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// True for what RFC 7047 §3.1 calls `<id>`.
fn is_id(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Real(value) => serializer.serialize_f64(value.get()),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::String(text) if text.contains('\0') => Err(ser::Error::custom(ValueError::Nul)),
            Self::String(text) => serializer.serialize_str(text),
            Self::Uuid(uuid) => pair(serializer, "uuid", uuid),
            Self::NamedUuid(name) if is_id(name) => pair(serializer, "named-uuid", name),
            Self::NamedUuid(name) => Err(ser::Error::custom(ValueError::BadUuidName(name.clone()))),
        }
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.as_scalar(), self.as_map()) {
            (Some(atom), _) => atom.serialize(serializer),
            (None, Some(pairs)) => pair(serializer, "map", pairs),
            (None, None) => pair(serializer, "set", self.as_set().unwrap_or_default()),
        }
    }
}

/// Writes a tagged array.
fn pair<S: Serializer, T: Serialize + ?Sized>(
    serializer: S,
    tag: &'static str,
    operand: &T,
) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(2)?;
    tuple.serialize_element(tag)?;
    tuple.serialize_element(operand)?;
    tuple.end()
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DatumVisitor)
    }
}

impl<'de> Deserialize<'de> for Atom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AtomVisitor)
    }
}

/// Reads the operand that follows a tag, and makes sure that the array ends there.
fn operand<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(
    seq: &mut A,
    what: &'static str,
) -> Result<T, A::Error> {
    let value =
        seq.next_element()?.ok_or_else(|| <A::Error as de::Error>::custom(ValueError::ShortArray(what)))?;
    match seq.next_element::<de::IgnoredAny>()? {
        None => Ok(value),
        Some(_) => Err(<A::Error as de::Error>::custom(ValueError::LongArray(what))),
    }
}

/// Reads the tag of an array, as one of [`TAGS`].
fn tag<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<&'static str, A::Error> {
    struct Tag(&'static str);
    impl<'de> Deserialize<'de> for Tag {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Name;
            impl Visitor<'_> for Name {
                type Value = Tag;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("the tag of a value: set, map, uuid or named-uuid")
                }
                fn visit_str<E: de::Error>(self, text: &str) -> Result<Tag, E> {
                    let known = TAGS.into_iter().find(|tag| *tag == text);
                    known
                        .map(Tag)
                        .ok_or_else(|| E::custom(ValueError::UnknownTag(text.chars().take(64).collect())))
                }
            }
            deserializer.deserialize_str(Name)
        }
    }
    let tag: Option<Tag> = seq.next_element()?;
    tag.map(|tag| tag.0).ok_or_else(|| de::Error::custom(ValueError::ShortArray("tag")))
}

/// Finishes an atom of which the tag has been read; `None` when the tag is that of a set or map.
fn tagged_atom<'de, A: SeqAccess<'de>>(seq: &mut A, tag: &'static str) -> Result<Option<Atom>, A::Error> {
    match tag {
        "uuid" => operand(seq, "uuid").map(|uuid| Some(Atom::Uuid(uuid))),
        "named-uuid" => {
            let name: String = operand(seq, "named-uuid")?;
            if is_id(&name) {
                Ok(Some(Atom::NamedUuid(name)))
            } else {
                Err(de::Error::custom(ValueError::BadUuidName(name)))
            }
        }
        _ => Ok(None),
    }
}

struct AtomVisitor;

impl<'de> Visitor<'de> for AtomVisitor {
    type Value = Atom;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number, boolean, uuid or named-uuid")
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Atom, E> {
        Ok(Atom::Boolean(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Atom, E> {
        Ok(Atom::Integer(value))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Atom, E> {
        i64::try_from(value)
            .map(Atom::Integer)
            .map_err(|_| E::custom(ValueError::IntegerRange(value.to_string())))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Atom, E> {
        Real::new(value).map(Atom::Real).map_err(E::custom)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Atom, E> {
        Ok(Atom::String(text.to_owned()))
    }
    fn visit_string<E: de::Error>(self, text: String) -> Result<Atom, E> {
        Ok(Atom::String(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Atom, A::Error> {
        let tag = tag(&mut seq)?;
        tagged_atom(&mut seq, tag)?
            .ok_or_else(|| de::Error::custom(ValueError::Type { expected: "atom".into(), found: tag.into() }))
    }
}

struct DatumVisitor;

impl<'de> Visitor<'de> for DatumVisitor {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an atom, a set or a map")
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Datum, E> {
        AtomVisitor.visit_bool(value).map(Datum::scalar)
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Datum, E> {
        AtomVisitor.visit_i64(value).map(Datum::scalar)
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Datum, E> {
        AtomVisitor.visit_u64(value).map(Datum::scalar)
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Datum, E> {
        AtomVisitor.visit_f64(value).map(Datum::scalar)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Datum, E> {
        AtomVisitor.visit_str(text).map(Datum::scalar)
    }
    fn visit_string<E: de::Error>(self, text: String) -> Result<Datum, E> {
        AtomVisitor.visit_string(text).map(Datum::scalar)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Datum, A::Error> {
        let tag = tag(&mut seq)?;
        if let Some(atom) = tagged_atom(&mut seq, tag)? {
            return Ok(Datum::scalar(atom));
        }
        if tag == "set" {
            Datum::set(operand(&mut seq, "set")?).map_err(de::Error::custom)
        } else {
            Datum::map(operand(&mut seq, "map")?).map_err(de::Error::custom)
        }
    }
}
