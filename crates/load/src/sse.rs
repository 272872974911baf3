//! Server-sent events, split as bytes arrive.
//!
//! An event is due when the last byte of its data is there, not when its blank line is: some servers send the blank line with
//! the next event, which would put every token one gap late.

use llmprof_units::Nanos;
use memchr::memchr2;

/// Longest event that is kept. A server that sends more before a line end, or more lines of data before a blank one, is broken.
pub const EVENT_MAX_BYTES: usize = 16 << 20;

/// One event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEvent<'a> {
    /// Its data; several `data:` lines are joined by line feeds.
    pub data: &'a [u8],
    /// When the last byte of its data arrived.
    pub at: Nanos,
    /// Whether the stream ended before its blank line.
    pub is_cut: bool,
}

/// Splits a stream into events, whatever pieces it comes in.
#[derive(Debug, Default)]
pub struct Splitter {
    /// A line whose end has not come.
    line: Vec<u8>,
    /// When the last byte of `line` came.
    line_at: Nanos,
    /// Data of the event so far.
    data: Vec<u8>,
    /// When its last byte came; absent before an event's first data.
    data_at: Option<Nanos>,
    /// A carriage return was the last byte: a line feed after it belongs to it.
    after_return: bool,
    has_begun: bool,
    /// Nothing is kept of a stream any more that had an event beyond the limit.
    is_too_long: bool,
    /// Lines that no field of the format has.
    foreign_lines: u64,
}

impl Splitter {
    /// Takes what arrived at `at`, and hands every event that is complete to `sink`.
    pub fn push(&mut self, mut bytes: &[u8], at: Nanos, mut sink: impl FnMut(StreamEvent<'_>)) {
        if self.is_too_long {
            return;
        }
        if !self.has_begun && !bytes.is_empty() {
            self.has_begun = true;
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (head, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            if rest[0] == b'\r' {
                match bytes.split_first() {
                    Some((b'\n', after)) => bytes = after,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            if self.line.is_empty() {
                self.take_line(head, at, &mut sink);
            } else {
                // A line end alone says nothing new: the line was there before.
                let came = if head.is_empty() { self.line_at } else { at };
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, came, &mut sink);
                line.clear();
                self.line = line;
            }
        }
        if !bytes.is_empty() {
            if self.line.len() + bytes.len() > EVENT_MAX_BYTES {
                self.give_up();
                return;
            }
            self.line.extend_from_slice(bytes);
            self.line_at = at;
        }
    }

    /// Ends the stream: data without a blank line is handed over as cut.
    pub fn finish(&mut self, mut sink: impl FnMut(StreamEvent<'_>)) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, self.line_at, &mut sink);
        }
        self.hand_over(true, &mut sink);
    }

    /// Whether an event had more bytes than are kept.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    fn give_up(&mut self) {
        (self.line, self.data) = (Vec::new(), Vec::new());
        (self.data_at, self.is_too_long) = (None, true);
    }

    fn hand_over(&mut self, is_cut: bool, sink: &mut impl FnMut(StreamEvent<'_>)) {
        if let Some(at) = self.data_at.take() {
            sink(StreamEvent {
                data: &self.data,
                at,
                is_cut,
            });
            self.data.clear();
        }
    }

    /// Lines that are not of the format.
    pub fn foreign_lines(&self) -> u64 {
        self.foreign_lines
    }

    fn take_line(&mut self, line: &[u8], at: Nanos, sink: &mut impl FnMut(StreamEvent<'_>)) {
        if line.is_empty() {
            self.hand_over(false, sink);
            return;
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match name {
            b"data" if self.data.len() + value.len() >= EVENT_MAX_BYTES => self.give_up(),
            b"data" => {
                if self.data_at.is_some() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.data_at = Some(at);
            }
            // A comment (a keep-alive), and fields that say nothing of tokens.
            b"" | b"event" | b"id" | b"retry" => {}
            _ => self.foreign_lines += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split_pieces(pieces: &[(&[u8], i64)]) -> (Vec<(String, i64, bool)>, u64) {
        let mut splitter = Splitter::default();
        let mut events = Vec::new();
        let mut keep = |event: StreamEvent<'_>| {
            let text = String::from_utf8_lossy(event.data).into_owned();
            events.push((text, event.at.0, event.is_cut));
        };
        for (bytes, at) in pieces {
            splitter.push(bytes, Nanos(*at), &mut keep);
        }
        splitter.finish(&mut keep);
        (events, splitter.foreign_lines())
    }

    fn new_event(text: &str, at: i64) -> (String, i64, bool) {
        (text.to_owned(), at, false)
    }

    #[test]
    fn an_event_is_due_when_its_data_is_there() {
        // The blank line of each comes with the next one.
        let pieces: &[(&[u8], i64)] =
            &[(b"data: a", 1), (b"\n\ndata: b\n", 5), (b"\ndata:c\n\n", 9)];
        let (events, _) = split_pieces(pieces);
        assert_eq!(
            events,
            [new_event("a", 1), new_event("b", 5), new_event("c", 9)]
        );
    }

    #[test]
    fn several_data_lines_comments_and_line_ends() {
        let stream = "\u{feff}: ping\r\nevent: x\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\rdata\n\n";
        let (events, foreign) = split_pieces(&[(stream.as_bytes(), 1)]);
        assert_eq!(
            events,
            [new_event("a\nb", 1), new_event("c", 1), new_event("", 1)]
        );
        assert_eq!(foreign, 0);
    }

    #[test]
    fn what_is_no_event_is_counted_and_a_cut_one_is_told() {
        let (events, foreign) = split_pieces(&[(b"<html>\n<body>\ndata: {\"a\"", 1)]);
        assert_eq!(events, [("{\"a\"".to_owned(), 1, true)]);
        assert_eq!(foreign, 2);
    }

    /// Lines of data without a blank line were kept until the request's time was over.
    #[test]
    fn an_event_without_end_is_not_kept() {
        let endless = vec![b'x'; 1 << 16];
        let line = [b"data: ", &endless[..], b"\n"].concat();
        for piece in [line, endless] {
            let mut splitter = Splitter::default();
            for at in 0..1000 {
                splitter.push(&piece, Nanos(at), |_| panic!("no event ends"));
                assert!(splitter.line.capacity() + splitter.data.capacity() <= 4 * EVENT_MAX_BYTES);
            }
            splitter.finish(|_| panic!("nothing of it is kept"));
            assert!(splitter.is_too_long());
            assert_eq!(splitter.line.capacity() + splitter.data.capacity(), 0);
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(texts in prop::collection::vec("[a-z:{} ]{1,12}", 1..6), cuts in prop::collection::vec(0usize..200, 0..8), crlf: bool) {
            let end = if crlf { "\r\n" } else { "\n" };
            let stream: String = texts.iter().flat_map(|text| ["data: ", text, end, end]).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<(&[u8], i64)> = cuts.windows(2).map(|pair| (&stream.as_bytes()[pair[0]..pair[1]], 1)).collect();
            let (events, foreign) = split_pieces(&pieces);
            let expected: Vec<_> = texts.iter().map(|text| new_event(text, 1)).collect();
            prop_assert_eq!(events, expected);
            prop_assert_eq!(foreign, 0);
        }
    }
}
