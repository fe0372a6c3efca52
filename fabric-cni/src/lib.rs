//! The CNI plugin of Fabric, and the types it shares with the agent.
//!
//! The Container Network Interface (specification 1.1.0) is a protocol of processes:
//! the runtime runs a plugin with its request in the environment and a configuration
//! on standard input, and reads the result from standard output. This library reads
//! that request ([`mod@env`], [`conf`]), gives it to the agent in one line of JSON and
//! waits for one line back ([`protocol`], [`client`]), and shapes the result as the
//! requested version of the specification wants it ([`result`]).

pub mod address;
pub mod args;
pub mod client;
pub mod conf;
pub mod env;
pub mod error;
pub mod protocol;
pub mod result;
pub mod version;

pub use error::{Code, Error};
pub use version::Version;
