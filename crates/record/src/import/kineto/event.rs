//! One event of the file, its fields picked out of the text.

use super::cursor::{Cursor, Text};
use super::losses::Tally;
use super::merged_ranks::{rank_label, rank_mark};
use super::number::{integer, take_nanos, unquoted, unsigned};

/// A process or thread id: a number, or a text in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Id<'a> {
    #[default]
    Missing,
    Number(i64),
    Label(Text<'a>),
}

/// The fields that some table wants. What is not there has its default; 0 is no id of any tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Event<'a> {
    pub(super) phase: u8,
    pub(super) category: &'a [u8],
    pub(super) name: Option<Text<'a>>,
    pub(super) process: Id<'a>,
    pub(super) thread: Id<'a>,
    pub(super) time: Option<i64>,
    pub(super) duration: Option<i64>,
    pub(super) flow: u64,
    /// Whose event it is in a file of several ranks.
    pub(super) rank: Option<&'a [u8]>,
    pub(super) args: Args<'a>,
}

/// The fields of `args`.
#[derive(Clone, Debug, Default)]
pub(super) struct Args<'a> {
    pub(super) external: u64,
    /// The number of the next node of autograd's graph; negative where gradients are off.
    pub(super) autograd_sequence: Option<i64>,
    pub(super) correlation: u32,
    pub(super) device: Option<u32>,
    pub(super) context: u32,
    pub(super) stream: Option<u32>,
    pub(super) graph: u32,
    pub(super) graph_node: u64,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) registers: u32,
    pub(super) shared: u32,
    pub(super) static_shared: u32,
    pub(super) dynamic_shared: u32,
    pub(super) occupancy: Option<f32>,
    pub(super) bytes: i64,
    /// What the DMA engines of MTIA move, and which way: `HOST_TO_DEVICE`.
    pub(super) size: i64,
    pub(super) direction: Option<Text<'a>>,
    pub(super) dims: &'a [u8],
    pub(super) strides: &'a [u8],
    pub(super) dtypes: &'a [u8],
    pub(super) values: &'a [u8],
    pub(super) python_id: u32,
    pub(super) python_parent: u32,
    pub(super) address: u64,
    pub(super) allocated: u64,
    pub(super) reserved: u64,
    pub(super) device_type: Option<i64>,
    pub(super) name: Option<Text<'a>>,
    pub(super) domain: Option<Text<'a>>,
    pub(super) mangled: Option<Text<'a>>,
    pub(super) kernel: Option<Text<'a>>,
    /// What XLA's profiler says of an event: an op of a compiled program, or a step that the program numbers.
    pub(super) is_xla_op: bool,
    pub(super) is_xla_step: bool,
    pub(super) collective: CollectiveArgs<'a>,
}

/// What `args` say of a collective.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectiveArgs<'a> {
    pub(super) name: Option<Text<'a>>,
    pub(super) dtype: Option<Text<'a>>,
    pub(super) group: Option<Text<'a>>,
    pub(super) group_description: Option<Text<'a>>,
    /// A list, or a list in quotes.
    pub(super) group_ranks: &'a [u8],
    pub(super) group_size: u32,
    pub(super) sequence: Option<i64>,
    pub(super) in_elements: Option<i64>,
    pub(super) out_elements: Option<i64>,
}

const BEGIN: &[u8] = b"\"ph\": \"X\", ";

impl<'a> Event<'a> {
    /// Reads the event whose opening brace the cursor is at into one that has nothing yet. Nothing where it is not JSON, or ends
    /// early.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'a>,
        bad_fields: &mut Tally,
        base: u64,
    ) -> Option<()> {
        self.read_fields(cursor, bad_fields, base)?;
        if let Id::Label(label) = self.process {
            self.rank = rank_label(label.raw);
        }
        if let Some(rank) = self.rank {
            self.keep_ids_apart(rank);
        }
        Some(())
    }

    /// Ids of ranks whose traces were merged into one file each begin at one.
    fn keep_ids_apart(&mut self, rank: &[u8]) {
        let mark = rank_mark(rank);
        let args = &mut self.args;
        if args.correlation != 0 {
            args.correlation = (args.correlation ^ (mark >> 32) as u32).max(1);
        }
        if args.external != 0 {
            args.external = (args.external ^ mark).max(1);
        }
        if self.flow != 0 {
            self.flow = u64::from((self.flow as u32 ^ (mark >> 32) as u32).max(1));
        }
    }

    fn read_fields(
        &mut self,
        cursor: &mut Cursor<'a>,
        bad_fields: &mut Tally,
        base: u64,
    ) -> Option<()> {
        let event = self;
        let mut number = Numbers {
            bad: bad_fields,
            base,
        };
        cursor.take(b'{')?;
        cursor.skip_space();
        if cursor.peek() == b'}' {
            cursor.at += 1;
            return Some(());
        }
        // As nearly all events begin where Kineto writes them.
        if cursor.bytes[cursor.at..].starts_with(BEGIN) {
            cursor.at += BEGIN.len();
            event.phase = b'X';
        }
        loop {
            let key = cursor.key()?;
            match key {
                b"ph" => event.phase = cursor.text()?.raw.first().copied().unwrap_or(0),
                b"cat" => event.category = cursor.text()?.raw,
                b"name" if cursor.peek() == b'"' => event.name = Some(cursor.text()?),
                b"pid" => event.process = id(cursor)?,
                b"tid" => event.thread = id(cursor)?,
                b"ts" => event.time = take_nanos(cursor)?,
                b"dur" => event.duration = take_nanos(cursor)?,
                b"id" => event.flow = flow_id(cursor)?,
                b"args" if cursor.peek() == b'{' => event.args.read(cursor, &mut number)?,
                b"args" => {
                    if cursor.peek() != b'n' {
                        number.bad.add(base + cursor.at as u64);
                    }
                    cursor.value()?;
                }
                _ => {
                    cursor.value()?;
                }
            }
            cursor.skip_space();
            match cursor.peek() {
                b',' => cursor.at += 1,
                b'}' => {
                    cursor.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

impl<'a> Args<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>, number: &mut Numbers<'_>) -> Option<()> {
        cursor.at += 1;
        cursor.skip_space();
        if cursor.peek() == b'}' {
            cursor.at += 1;
            return Some(());
        }
        loop {
            let key = cursor.key()?;
            match key {
                b"External id" | b"external id" => self.external = number.unsigned(cursor)?,
                b"Sequence number" => self.autograd_sequence = Some(number.signed(cursor)?),
                b"correlation" => self.correlation = number.small(cursor)?,
                b"Input Dims" | b"Input dims" => self.dims = cursor.value()?,
                b"Input Strides" => self.strides = cursor.value()?,
                b"Input type" => self.dtypes = cursor.value()?,
                b"Concrete Inputs" => self.values = cursor.value()?,
                b"Python id" => self.python_id = number.small(cursor)?,
                b"Python parent id" => self.python_parent = number.small(cursor)?,
                b"device" | b"Device Id" => self.device = Some(number.small(cursor)?),
                b"context" => self.context = number.small(cursor)?,
                b"stream" => self.stream = Some(number.small(cursor)?),
                b"grid" => self.grid = number.three(cursor)?,
                b"block" => self.block = number.three(cursor)?,
                b"registers per thread" => self.registers = number.small(cursor)?,
                b"shared memory" => self.shared = number.small(cursor)?,
                b"static shared memory" => self.static_shared = number.small(cursor)?,
                b"dynamic shared memory" => self.dynamic_shared = number.small(cursor)?,
                b"est. achieved occupancy %" => self.occupancy = number.fraction(cursor)?,
                b"graph id" => self.graph = number.small(cursor)?,
                b"graph node id" => self.graph_node = number.unsigned(cursor)?,
                b"bytes" | b"Bytes" => self.bytes = number.signed(cursor)?,
                b"size" if cursor.peek().is_ascii_digit() => self.size = number.signed(cursor)?,
                b"direction" if cursor.peek() == b'"' => self.direction = Some(cursor.text()?),
                b"Addr" => self.address = number.unsigned(cursor)?,
                b"Total Allocated" => self.allocated = number.unsigned(cursor)?,
                b"Total Reserved" => self.reserved = number.unsigned(cursor)?,
                b"Device Type" => self.device_type = Some(number.signed(cursor)?),
                b"name" if cursor.peek() == b'"' => self.name = Some(cursor.text()?),
                b"domain" if cursor.peek() == b'"' => self.domain = Some(cursor.text()?),
                b"mangled name" if cursor.peek() == b'"' => self.mangled = Some(cursor.text()?),
                b"kernel" if cursor.peek() == b'"' => self.kernel = Some(cursor.text()?),
                b"hlo_op" => {
                    self.is_xla_op = true;
                    cursor.value()?;
                }
                b"step_num" => {
                    self.is_xla_step = true;
                    cursor.value()?;
                }
                _ if self.collective.read(key, cursor, number)? => {}
                _ => {
                    cursor.value()?;
                }
            }
            cursor.skip_space();
            match cursor.peek() {
                b',' => cursor.at += 1,
                b'}' => {
                    cursor.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }
}

impl<'a> CollectiveArgs<'a> {
    /// Whether `key` is one of a collective, which is read then; nothing where it is not JSON.
    fn read(
        &mut self,
        key: &[u8],
        cursor: &mut Cursor<'a>,
        number: &mut Numbers<'_>,
    ) -> Option<bool> {
        let is_text = cursor.peek() == b'"';
        match key {
            b"Collective name" if is_text => self.name = Some(cursor.text()?),
            b"dtype" if is_text => self.dtype = Some(cursor.text()?),
            b"Process Group Name" if is_text => self.group = Some(cursor.text()?),
            b"Process Group Description" if is_text => {
                self.group_description = Some(cursor.text()?);
            }
            b"Process Group Ranks" => self.group_ranks = cursor.value()?,
            b"Group size" => self.group_size = number.small(cursor)?,
            b"Seq" => self.sequence = Some(number.signed(cursor)?),
            b"In msg nelems" => self.in_elements = Some(number.signed(cursor)?),
            b"Out msg nelems" => self.out_elements = Some(number.signed(cursor)?),
            _ => return Some(false),
        }
        Some(true)
    }
}

/// Reads numbers of `args`, counting those that are none or out of range.
struct Numbers<'t> {
    bad: &'t mut Tally,
    base: u64,
}

impl Numbers<'_> {
    fn unsigned(&mut self, cursor: &mut Cursor<'_>) -> Option<u64> {
        if let Some(value) = cursor.digits() {
            return Some(value);
        }
        self.parse(cursor, unsigned).map(Option::unwrap_or_default)
    }

    fn signed(&mut self, cursor: &mut Cursor<'_>) -> Option<i64> {
        if let Some(value) = cursor.digits() {
            return Some(value as i64);
        }
        self.parse(cursor, integer).map(Option::unwrap_or_default)
    }

    /// A number of 32 bits. −1 is how some fields say "all", and becomes the largest.
    fn small(&mut self, cursor: &mut Cursor<'_>) -> Option<u32> {
        let at = cursor.at as u64;
        if let Some(value) = cursor.digits() {
            let fits = u32::try_from(value);
            if fits.is_err() {
                self.bad.add(self.base + at);
            }
            return Some(fits.unwrap_or_default());
        }
        let read = |text: &[u8]| match integer(text)? {
            -1 => Some(u32::MAX),
            value => u32::try_from(value).ok(),
        };
        self.parse(cursor, read).map(Option::unwrap_or_default)
    }

    #[expect(
        clippy::option_option,
        reason = "outside: is it JSON; inside: does it say something"
    )]
    fn fraction(&mut self, cursor: &mut Cursor<'_>) -> Option<Option<f32>> {
        let read = |text: &[u8]| {
            let value: f32 = str::from_utf8(text).ok()?.parse().ok()?;
            value.is_finite().then_some(value)
        };
        self.parse(cursor, read)
    }

    fn three(&mut self, cursor: &mut Cursor<'_>) -> Option<[u32; 3]> {
        let read = |text: &[u8]| {
            let inside = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
            let mut three = [0; 3];
            let mut parts = inside.split(|&byte| byte == b',');
            for place in &mut three {
                *place = u32::try_from(integer(parts.next()?.trim_ascii())?).ok()?;
            }
            parts.next().is_none().then_some(three)
        };
        self.parse(cursor, read).map(Option::unwrap_or_default)
    }

    /// Steps over the value; the inner option is what it says. `null` says nothing, and is no mistake.
    #[expect(
        clippy::option_option,
        reason = "outside: is it JSON; inside: does it say something"
    )]
    #[inline]
    fn parse<T>(
        &mut self,
        cursor: &mut Cursor<'_>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<Option<T>> {
        let at = self.base + cursor.at as u64;
        let text = cursor.value()?;
        let value = read(unquoted(text));
        if value.is_none() && text != b"null" {
            self.bad.add(at);
        }
        Some(value)
    }
}

fn id<'a>(cursor: &mut Cursor<'a>) -> Option<Id<'a>> {
    if cursor.peek() == b'"' {
        let text = cursor.text()?;
        return Some(integer(text.raw).map_or(Id::Label(text), Id::Number));
    }
    if let Some(number) = cursor.digits() {
        return Some(Id::Number(number as i64));
    }
    Some(integer(cursor.value()?).map_or(Id::Missing, Id::Number))
}

/// The id of a flow: a number, or in other programs' traces a text, often hexadecimal.
fn flow_id(cursor: &mut Cursor<'_>) -> Option<u64> {
    let text = cursor.value()?;
    let bare = unquoted(text);
    let hexadecimal = || {
        let digits = str::from_utf8(bare.strip_prefix(b"0x")?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    };
    Some(unsigned(bare).or_else(hexadecimal).unwrap_or(0))
}
