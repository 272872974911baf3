use std::time::Duration;

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// An HTTP status instead of an answer.
    Status(u16),
    /// The connection ends after this many tokens, in the middle of an event.
    DieAfter(u64),
    /// The connection is reset after this many tokens.
    ResetAfter(u64),
    /// The stream goes silent after this many tokens.
    StallAfter(u64),
    /// A pause after the first token.
    Pause(Duration),
    /// The request is never answered.
    HalfOpen,
    /// The request is read in small pieces with pauses.
    SlowReader(Duration),
    /// One event is not valid JSON.
    BadEvent,
    /// HTML with the content type of events.
    Html,
    /// The answer is bytes that are not HTTP.
    NotHttp,
    /// An error inside of the stream.
    ErrorEvent,
    /// `usage` states zero tokens for an answer that has some.
    UsageZero,
    /// More tokens in usage than were asked for.
    UsageTooMany,
    /// `usage` of a later event states fewer tokens than an earlier one.
    UsageFalls,
    /// All tokens in one event at the end.
    HeldBack,
    /// The answer ends with `[DONE]`, and neither its last chunk nor the end of the connection follows.
    OpenAfterDone,
    /// The server ends: neither this request nor any later one is answered.
    Stop,
    /// The head of the answer comes a few bytes at a time, with a pause after each piece.
    SlowHead(Duration),
}
