//! Our end of the control channel. It never blocks, and the target does not notice if llmprof exits.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use llmprof_wire::control::{Order, Report};

use crate::descriptor::OwnDescriptor;

/// The channel; does nothing if llmprof does not listen.
pub(crate) struct Control {
    stream: Option<OwnDescriptor>,
    received: Vec<u8>,
}

pub(crate) enum Received {
    /// Orders received since the last call; may be empty.
    Orders(Vec<Order>),
    Closed,
}

impl Control {
    /// Connects to the socket at `path`.
    pub(crate) fn connect(path: Option<OsString>) -> Self {
        let stream = path.and_then(|path| UnixStream::connect(path).ok());
        let stream = stream.filter(|stream| stream.set_nonblocking(true).is_ok());
        Self {
            stream: stream.and_then(OwnDescriptor::new),
            received: Vec::new(),
        }
    }

    /// A second descriptor of the channel, to report with after this one was moved away.
    pub(crate) fn try_clone(&self) -> Self {
        Self {
            stream: self.stream.as_ref().and_then(OwnDescriptor::try_clone),
            received: Vec::new(),
        }
    }

    /// The socket to poll for orders; `None` without a profiler.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.stream.as_ref()?.raw_fd()
    }

    /// What a forked child must close.
    pub(crate) fn descriptor_owner(&self) -> Option<&OwnDescriptor> {
        self.stream.as_ref()
    }

    /// Whether the program closed or reused the descriptor, so that llmprof can no longer be heard.
    pub(crate) fn is_taken(&self) -> bool {
        self.stream
            .as_ref()
            .is_some_and(|own| own.raw_fd().is_none())
    }

    /// Sends a line; drops it if llmprof does not read.
    pub(crate) fn send(&self, report: &Report) {
        let Some(descriptor) = self.descriptor() else {
            return;
        };
        let line = format!("{report}\n");
        // SAFETY: the bytes of `line` are valid; no signal is raised when the other side is gone.
        unsafe {
            libc::send(
                descriptor,
                line.as_ptr().cast(),
                line.len(),
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            );
        }
    }

    pub(crate) fn receive_orders(&mut self) -> Received {
        let Some(stream) = &self.stream else {
            return Received::Orders(Vec::new());
        };
        let mut chunk = [0; 1024];
        let closed = loop {
            match stream.read(&mut chunk) {
                Ok(0) => break true,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
            }
        };
        let mut orders = Vec::new();
        while let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            orders.extend(Order::read(String::from_utf8_lossy(&line).trim_end()));
        }
        if closed && orders.is_empty() {
            self.stream = None;
            return Received::Closed;
        }
        Received::Orders(orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn orders_come_whole_and_the_end_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        let mut control = Control::connect(Some(path.into()));
        let (mut parent, _) = listener.accept().unwrap();
        control.send(&Report::Ended);
        parent.write_all(b"start\nnonsense\nflu").unwrap();
        let heard = |control: &mut Control| match control.receive_orders() {
            Received::Orders(orders) => orders,
            Received::Closed => panic!("closed"),
        };
        assert_eq!(heard(&mut control), [Order::Start]);
        parent.write_all(b"sh 3\nstop\n").unwrap();
        assert_eq!(heard(&mut control), [Order::Flush(3), Order::Stop]);
        let mut line = [0; 6];
        parent.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ended\n");
        drop(parent);
        assert!(matches!(control.receive_orders(), Received::Closed));
        // Nobody listens: nothing happens.
        control.send(&Report::Ended);
        assert!(matches!(control.receive_orders(), Received::Orders(orders) if orders.is_empty()));
    }
}
