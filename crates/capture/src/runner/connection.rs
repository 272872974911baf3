use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

/// What a look at the socket gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A whole line, without its end.
    Line(Vec<u8>),
    Pending,
    /// More than a line may have.
    TooLong,
    /// The other side closed; whether in the middle of a line.
    Closed {
        /// Whether it had begun a line.
        mid_line: bool,
    },
}

/// Lines over a socket, without ever blocking.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// How much of `buffer` is known to hold no line end.
    scanned: usize,
    max_line: usize,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, max_line: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            scanned: 0,
            max_line,
        })
    }

    /// The longest line it takes, in bytes.
    pub(super) fn max_line(&self) -> usize {
        self.max_line
    }

    /// Reads what has arrived, without waiting for more.
    pub(super) fn receive_available(&mut self) -> io::Result<Received> {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(line) = self.take_line() {
                return Ok(if line.len() > self.max_line {
                    Received::TooLong
                } else {
                    Received::Line(line)
                });
            }
            if self.buffer.len() > self.max_line {
                return Ok(Received::TooLong);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    return Ok(Received::Closed {
                        mid_line: !self.buffer.is_empty(),
                    });
                }
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Received::Pending);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A worker that is killed with bytes of ours unread resets the connection: it closed.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Received::Closed {
                        mid_line: !self.buffer.is_empty(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends as much of `bytes` as fits now, and says how much.
    pub(super) fn send_available(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write(bytes) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(0)
            }
            other => other,
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.buffer[self.scanned..]
            .iter()
            .position(|&byte| byte == b'\n');
        let Some(end) = end else {
            self.scanned = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(self.scanned + end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        self.scanned = 0;
        line.pop();
        Some(line)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected_pair(max_line: usize) -> (UnixStream, Connection) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        (theirs, Connection::new(ours, max_line).unwrap())
    }

    #[test]
    fn lines_come_out_however_they_were_cut() {
        let (mut theirs, mut ours) = connected_pair(100);
        assert_eq!(ours.receive_available().unwrap(), Received::Pending);
        theirs.write_all(b"one\ntw").unwrap();
        assert_eq!(
            ours.receive_available().unwrap(),
            Received::Line(b"one".to_vec())
        );
        assert_eq!(ours.receive_available().unwrap(), Received::Pending);
        theirs.write_all(b"o\n\nthree").unwrap();
        assert_eq!(
            ours.receive_available().unwrap(),
            Received::Line(b"two".to_vec())
        );
        assert_eq!(
            ours.receive_available().unwrap(),
            Received::Line(Vec::new())
        );
        drop(theirs);
        assert_eq!(
            ours.receive_available().unwrap(),
            Received::Closed { mid_line: true }
        );
    }

    #[test]
    fn a_line_has_a_limit_with_and_without_an_end() {
        let (mut theirs, mut ours) = connected_pair(4);
        theirs.write_all(b"1234\n12345\n").unwrap();
        assert_eq!(
            ours.receive_available().unwrap(),
            Received::Line(b"1234".to_vec())
        );
        assert_eq!(ours.receive_available().unwrap(), Received::TooLong);
        let (mut theirs, mut ours) = connected_pair(4);
        theirs.write_all(b"123456").unwrap();
        assert_eq!(ours.receive_available().unwrap(), Received::TooLong);
    }
}
