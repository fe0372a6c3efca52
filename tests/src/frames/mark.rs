//! Telling frames apart wherever they turn up.

/// What every mark begins with.
const PREFIX: &[u8; 12] = b"fabric-frame";

/// The number of a frame, as bytes inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u32);

impl Mark {
    /// The bytes to put into a frame.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(PREFIX);
        bytes[12..].copy_from_slice(&self.0.to_be_bytes());
        bytes
    }
}

/// All marks in a frame, however deep they are.
pub fn marks(frame: &[u8]) -> impl Iterator<Item = Mark> + '_ {
    frame.windows(16).filter_map(|window| {
        let number = window.strip_prefix(PREFIX)?;
        Some(Mark(u32::from_be_bytes(number.try_into().ok()?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_wherever_they_stand() {
        let frame = [&[1, 2, 3], Mark(7).bytes().as_slice(), &[0; 5], &Mark(0x0102_0304).bytes()].concat();
        assert_eq!(marks(&frame).collect::<Vec<_>>(), [Mark(7), Mark(0x0102_0304)]);
        assert_eq!(marks(&frame[..18]).count(), 0);
    }
}
