use std::path::Path;

use llmprof_capture::{
    native::NativeBackend,
    runner::{protocol::SOCKET_VARIABLE, serve_requests},
};

use crate::failure::Failure;

/// The native engine as a worker. llmprof starts itself like this; it is of no use to people.
pub(crate) fn worker() -> Result<(), Failure> {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE) else {
        return Err(Failure::new(format!("{SOCKET_VARIABLE} is not set"))
            .hint("workers are started by `llmprof run`".to_owned()));
    };
    serve_requests(&mut NativeBackend::default(), Path::new(&socket))
        .map_err(|error| Failure::new(error.to_string()))
}
