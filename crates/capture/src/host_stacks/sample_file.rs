//! The wire file of one sampled process.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use llmprof_wire::{EXTENSION, Header, HostSample, Sampler, StackFrame, Text};

use crate::clock;

pub(super) struct SampleFile {
    file: File,
    pending: Vec<u8>,
    texts: HashMap<String, u32>,
    frames: HashMap<(u32, u32, u32, u32), u32>,
}

impl SampleFile {
    pub(super) fn create(directory: &Path, process: u32) -> io::Result<Self> {
        let time = clock::now().0;
        let header = Header {
            process,
            parent: std::process::id(),
            time,
            unix_offset: clock::unix_offset().0,
        };
        let path = directory.join(format!("host-{process}-{time}.{EXTENSION}"));
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut pending = header.bytes().to_vec();
        Sampler { time }.put(&mut pending);
        let mut samples = Self {
            file,
            pending,
            texts: HashMap::new(),
            frames: HashMap::new(),
        };
        samples.flush()?;
        Ok(samples)
    }

    /// The number of a text; 0 for an empty one.
    pub(super) fn text_number(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&id) = self.texts.get(text) {
            return id;
        }
        let id = self.texts.len() as u32 + 1;
        self.texts.insert(text.to_owned(), id);
        let text = text.as_bytes();
        Text { id, text }.put(&mut self.pending);
        id
    }

    /// The number of a frame below its caller.
    pub(super) fn frame_number(
        &mut self,
        parent: u32,
        function: &str,
        file: &str,
        line: u32,
    ) -> u32 {
        let (function, file) = (self.text_number(function), self.text_number(file));
        let key = (parent, function, file, line);
        if let Some(&id) = self.frames.get(&key) {
            return id;
        }
        let id = self.frames.len() as u32 + 1;
        self.frames.insert(key, id);
        let frame = StackFrame {
            id,
            parent,
            function,
            file,
            line,
        };
        frame.put(&mut self.pending);
        id
    }

    pub(super) fn add_sample(&mut self, sample: &HostSample) {
        sample.put(&mut self.pending);
    }

    /// Writes what there is. A file that takes no more keeps what it has.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.pending);
        self.pending.clear();
        written
    }
}
