//! A device seen and used below IP (`packet(7)`).

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc::PACKET_OUTGOING;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, send, setsockopt,
    socket, sockopt,
};

use crate::lab::{LabError, netns};

/// Room for frames that nobody has read yet, bytes.
const BUFFER: usize = 8 << 20;

/// A raw socket on one device.
#[derive(Debug)]
pub struct Tap {
    name: String,
    socket: OwnedFd,
    mac: [u8; 6],
}

impl Tap {
    /// Opens a device of a namespace; frames are captured from now on.
    ///
    /// # Errors
    /// [`LabError::Io`] where there is no such device.
    pub fn open(namespace: &str, device: &str) -> Result<Self, LabError> {
        let what = || format!("open {device} in {namespace} for raw frames");
        let failed = |errno: Errno| LabError::io(what())(errno.into());
        netns::inside(namespace, || {
            let mut links = getifaddrs().map_err(failed)?.filter(|entry| entry.interface_name == device);
            let link = links.find_map(|entry| entry.address?.as_link_addr().copied());
            let link = link.ok_or_else(|| failed(Errno::ENODEV))?;
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll);
            let socket = socket.map_err(failed)?;
            setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).map_err(failed)?;
            bind(socket.as_raw_fd(), &link).map_err(failed)?;
            let name = format!("{device} in {namespace}");
            Ok(Self { name, socket, mac: link.addr().unwrap_or_default() })
        })
    }

    /// The hardware address of the device.
    #[must_use]
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// [`LabError::Io`] where the device refuses it: one that is longer than its MTU allows.
    pub fn send(&self, frame: &[u8]) -> Result<(), LabError> {
        loop {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                // The device is behind; it takes the frame in a moment.
                Err(Errno::EAGAIN | Errno::ENOBUFS) => std::thread::yield_now(),
                sent => {
                    let what = || format!("send {} bytes on {}", frame.len(), self.name);
                    return sent.map(drop).map_err(|errno| LabError::io(what())(errno.into()));
                }
            }
        }
    }

    /// Waits until a frame is there, or this long.
    pub fn wait(&self, patience: Duration) {
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        // Interrupted or broken: whoever asks for the frames finds out.
        let _ = poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout);
    }

    /// The frames that came in since the last call; not those that this host sent itself.
    ///
    /// # Errors
    /// [`LabError::Io`] where the device is gone.
    pub fn captured(&self) -> Result<Vec<Vec<u8>>, LabError> {
        self.taken(|direction| direction != Some(PACKET_OUTGOING))
    }

    /// The frames that this host sent through the device since the last call, as they leave: with the VLAN tag, which
    /// the kernel takes from those that come in.
    ///
    /// # Errors
    /// As [`Tap::captured`].
    pub fn sent(&self) -> Result<Vec<Vec<u8>>, LabError> {
        self.taken(|direction| direction == Some(PACKET_OUTGOING))
    }

    fn taken(&self, wanted: impl Fn(Option<u8>) -> bool) -> Result<Vec<Vec<u8>>, LabError> {
        let mut frames = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut buffer) {
                Err(Errno::EAGAIN) => return Ok(frames),
                Err(errno) => return Err(LabError::io(format!("capture on {}", self.name))(errno.into())),
                Ok((length, from)) => {
                    if wanted(from.map(|from| from.pkttype())) {
                        frames.extend(buffer.get(..length).map(<[u8]>::to_vec));
                    }
                }
            }
        }
    }
}
