//! Why a session, or something asked of it, failed.

use crate::message::OfError;
use crate::wire::DecodeError;

/// Why a session ended. A new connection is the remedy for all but [`SessionError::TooOld`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The peer closed the connection between two messages.
    #[error("the switch closed the connection")]
    PeerClosed,
    /// The peer closed the connection within a message.
    #[error("the stream ends inside a message: {have} of {length} bytes came")]
    Truncated {
        /// Bytes of the message that came.
        have: usize,
        /// Bytes that its header promised; 8 if even the header is not whole.
        length: usize,
    },
    /// Nothing came from the peer for so long that it must be dead.
    #[error("the switch has been silent for {seconds} s and {probes} echo requests")]
    Silent {
        /// Whole seconds since its last byte.
        seconds: u64,
        /// Echo requests without an answer.
        probes: u32,
    },
    /// The peer does not speak OpenFlow 1.5.
    #[error(
        "the switch offers {offered}, not OpenFlow 1.5: Open vSwitch 2.12 or newer is needed, and the bridge's \
         `protocols` must allow OpenFlow15"
    )]
    TooOld {
        /// The versions that it offers.
        offered: String,
    },
    /// The peer refused the hello.
    #[error("the switch refused the hello: {0}")]
    HelloRefused(String),
    /// The peer refused a message that sets up the connection.
    #[error("the switch refused {what}: {error}")]
    SetupRefused {
        /// The message.
        what: &'static str,
        /// Its answer.
        error: OfError,
    },
    /// Bytes from the peer that are not a message.
    #[error("message type {kind} from the switch: {error}")]
    Malformed {
        /// Message type (`OFPT_*`).
        kind: u8,
        /// What is wrong.
        error: DecodeError,
    },
    /// A well-formed message that does not belong here.
    #[error("unexpected {what} from the switch")]
    Unexpected {
        /// The message.
        what: &'static str,
    },
}

/// Why something could not be asked of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The handshake is not over, or the session has ended.
    #[error("the switch is not connected")]
    NotReady,
    /// A message has no wire form because it is longer than 65,535 bytes.
    #[error("a message of {length} bytes is longer than the 65,535 that OpenFlow allows")]
    TooLong {
        /// Its length.
        length: usize,
    },
}

/// Why a bundle was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The switch refused a message of it, or all of it; nothing changed in the switch.
    #[error("the switch refused the bundle: {0}")]
    Refused(OfError),
    /// The connection ended before the commit was sent; nothing changed in the switch.
    #[error("the connection ended before the bundle was committed")]
    NotCommitted,
    /// The connection ended after the commit was sent and before its answer: read the switch to know.
    #[error("the connection ended during the commit: whether the bundle took effect is unknown")]
    UnknownOutcome,
}

/// Why a multipart request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The switch refused it.
    #[error("the switch refused the request: {0}")]
    Refused(OfError),
    /// The answer is larger than the session's limit.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The parts of the answer do not belong together.
    #[error("the parts of the answer are of different kinds")]
    Mixed,
    /// The connection ended before the answer was whole.
    #[error("the connection ended before the answer was whole")]
    Lost,
}
