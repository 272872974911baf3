//! Our end of the control channel: watched processes connect and report, and take orders.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use llmprof_wire::control::{Order, Report};

use crate::scratch::Scratch;

/// More than this without a line is no report.
const LINE_MAX_BYTES: usize = 64 << 10;

/// What a process has reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each reported by itself"
)]
pub struct Watched {
    pub process: u32,
    pub file: String,
    /// The version of CUPTI, once it is in use.
    pub cupti: Option<u32>,
    /// Why CUPTI cannot be used.
    pub refused: Option<String>,
    /// Whether the process is recording now.
    pub is_capturing: bool,
    /// Whether it ever did; not known with a budget.
    pub has_captured: bool,
    /// Records that were dropped, and why.
    pub dropped: Option<(u64, String)>,
    /// The last flush that it has done.
    pub flushed: u32,
    /// Whether its file has all the bytes that it may have.
    pub is_full: bool,
    /// Whether the process closed the connection with a message.
    pub has_ended: bool,
}

struct ChannelConnection {
    stream: UnixStream,
    received: Vec<u8>,
    is_open: bool,
    /// Whether [`Channel::take_new`] gave it out.
    is_known: bool,
    watched: Watched,
}

/// The channel. Its socket lies in a folder of its own, since paths of sockets must be short.
pub struct Channel {
    listener: UnixListener,
    folder: Scratch,
    connections: Vec<ChannelConnection>,
    /// What a process that connects is sent first.
    first_order: Option<Order>,
    flushes: u32,
}

impl Channel {
    pub fn open() -> io::Result<Self> {
        let folder = Scratch::new()?;
        let listener = UnixListener::bind(folder.path().join("control"))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            folder,
            connections: Vec::new(),
            first_order: None,
            flushes: 0,
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> PathBuf {
        Path::join(self.folder.path(), "control")
    }

    /// The processes that have said who they are since this was last asked.
    pub fn take_new(&mut self) -> Vec<u32> {
        let new = self.connections.iter_mut().filter_map(|connection| {
            let process = connection.watched.process;
            let is_new = process != 0 && !std::mem::replace(&mut connection.is_known, process != 0);
            is_new.then_some(process)
        });
        new.collect()
    }

    /// All processes that have reported.
    pub fn processes(&self) -> impl Iterator<Item = &Watched> {
        self.connections
            .iter()
            .map(|connection| &connection.watched)
    }

    /// What to wait for: whenever one of these is readable, [`serve_connections`](Self::serve_connections) has something to do.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let open = self.connections.iter().filter(|one| one.is_open);
        std::iter::once(self.listener.as_fd())
            .chain(open.map(|one| one.stream.as_fd()))
            .collect()
    }

    /// Takes new connections and reads reports.
    pub fn serve_connections(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut connection = ChannelConnection {
                stream,
                received: Vec::new(),
                is_open: true,
                is_known: false,
                watched: Watched::default(),
            };
            if let Some(order) = self.first_order {
                connection.send_to(order);
            }
            self.connections.push(connection);
        }
        for connection in &mut self.connections {
            connection.read_reports();
        }
    }

    /// Signals all processes, and with start and stop those that come later too.
    pub fn send_order(&mut self, order: Order) {
        if matches!(order, Order::Start | Order::Stop) {
            self.first_order = Some(order);
        }
        for connection in &mut self.connections {
            connection.send_to(order);
        }
    }

    /// Asks all processes to write what they have.
    pub fn request_flush(&mut self) {
        self.flushes += 1;
        self.send_order(Order::Flush(self.flushes));
    }

    /// Whether all processes that are still there have done the last flush.
    pub(super) fn is_flushed(&self) -> bool {
        self.connections
            .iter()
            .all(|one| !one.is_open || one.watched.has_ended || one.watched.flushed >= self.flushes)
    }
}

impl ChannelConnection {
    fn send_to(&mut self, order: Order) {
        if self.is_open && writeln!(self.stream, "{order}").is_err() {
            self.is_open = false;
        }
    }

    fn read_reports(&mut self) {
        let mut chunk = [0; 4096];
        while self.is_open {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_open = false,
            }
            self.is_open &= self.received.len() <= LINE_MAX_BYTES;
        }
        while let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some(report) = Report::read(line.trim_end_matches('\n')) {
                self.take_report(report);
            }
        }
    }

    fn take_report(&mut self, report: Report) {
        let watched = &mut self.watched;
        match report {
            Report::Hello { process, file, .. } => {
                watched.process = process;
                watched.file = file;
            }
            Report::Attached { cupti } => watched.cupti = Some(cupti),
            Report::Refused { why } => watched.refused = Some(why),
            Report::Capture { on } => {
                watched.is_capturing = on;
                watched.has_captured |= on;
            }
            Report::Flushed { number } => watched.flushed = number,
            Report::Dropped { count, why } => watched.dropped = Some((count, why)),
            Report::Full => watched.is_full = true,
            Report::Ended => watched.has_ended = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_report_and_take_orders() {
        let mut channel = Channel::open().unwrap();
        channel.send_order(Order::Start);
        let mut process = UnixStream::connect(channel.path()).unwrap();
        process
            .write_all(b"hello 1 42 42-1.wire\nattached 130001\ndropped 3 no sp")
            .unwrap();
        channel.serve_connections();
        process.write_all(b"ace\nnonsense\n").unwrap();
        channel.request_flush();
        assert!(!channel.is_flushed());
        process.write_all(b"flushed 1\n").unwrap();
        channel.serve_connections();
        assert!(channel.is_flushed());
        assert_eq!((channel.take_new(), channel.take_new()), (vec![42], vec![]));
        let watched: Vec<_> = channel.processes().cloned().collect();
        assert_eq!(
            watched,
            [Watched {
                process: 42,
                file: "42-1.wire".to_owned(),
                cupti: Some(130_001),
                refused: None,
                is_capturing: false,
                has_captured: false,
                dropped: Some((3, "no space".to_owned())),
                flushed: 1,
                is_full: false,
                has_ended: false,
            }]
        );
        let mut reported = [0; 14];
        process.read_exact(&mut reported).unwrap();
        assert_eq!(&reported, b"start\nflush 1\n");
        // Closed, not only dropped: a program that another test is just starting may have a copy.
        process.shutdown(std::net::Shutdown::Both).unwrap();
        channel.request_flush();
        channel.serve_connections();
        assert!(
            channel.is_flushed(),
            "a process that is gone is not waited for"
        );
    }
}
