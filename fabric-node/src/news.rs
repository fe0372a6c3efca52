//! What the kernel tells of its devices, addresses, routes and neighbours.
//!
//! News are of the network namespace of the thread that asks for them. The kernel drops what is not read in time, and says so.

use std::io;

use futures_util::{Stream, StreamExt};
pub use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::RouteNetlinkMessage;

/// One piece of news.
#[derive(Debug, Clone, Copy)]
pub enum News<'a> {
    /// Something came, changed or went.
    Message(&'a RouteNetlinkMessage),
    /// News were lost: anything may have changed.
    Lost,
}

/// News of some groups, as far as `read` finds a change in them. The task that reads the socket ends with the stream.
///
/// # Errors
/// The socket cannot be opened.
pub fn follow<C, F>(
    groups: &[MulticastGroup],
    read: F,
) -> io::Result<impl Stream<Item = C> + Unpin + use<C, F>>
where
    F: Fn(News<'_>) -> Option<C>,
{
    let (connection, keep, messages) = rtnetlink::new_multicast_connection(groups)?;
    tokio::spawn(connection);
    Ok(messages.filter_map(move |(message, _)| {
        let _ = &keep; // the connection ends with its last handle
        std::future::ready(match &message.payload {
            NetlinkPayload::InnerMessage(message) => read(News::Message(message)),
            NetlinkPayload::Overrun(_) => read(News::Lost),
            _ => None,
        })
    }))
}
