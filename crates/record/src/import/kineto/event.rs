//! One event of the file, its fields picked out of the text.

use super::cursor::{Cursor, Text};
use super::field::Field;
use super::habits::{Habits, InputHabits};
use super::losses::Tally;
use super::merged_ranks::{rank_label, rank_mark};
use super::number::{parse_integer, parse_unsigned, strip_quotes, take_nanos};
use crate::trace::RawInputs;

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
    pub(super) inputs: RawInputs<'a>,
    /// The same lists have the same number in a piece; 0 where they have none.
    pub(super) inputs_number: u32,
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

/// What reading a piece learns of how its events are written.
#[derive(Default)]
pub(super) struct Learnt<'a> {
    between: Habits,
    inputs: InputHabits<'a>,
}

impl<'a> Event<'a> {
    /// Reads the event whose opening brace the cursor is at into one that has nothing yet. Nothing where it is not JSON, or ends
    /// early.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'a>,
        learnt: &mut Learnt<'a>,
        bad_fields: &mut Tally,
        base: u64,
    ) -> Option<()> {
        self.read_fields(cursor, learnt, bad_fields, base)?;
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
        learnt: &mut Learnt<'a>,
        bad_fields: &mut Tally,
        base: u64,
    ) -> Option<()> {
        let event = self;
        let mut number = Numbers {
            bad: bad_fields,
            base,
        };
        cursor.take(b'{')?;
        learnt.between.begin();
        let mut field = learnt.between.first(cursor)?;
        loop {
            match field {
                Field::End => return Some(()),
                Field::Phase => event.phase = cursor.text()?.raw.first().copied().unwrap_or(0),
                Field::Category => event.category = cursor.text()?.raw,
                Field::Name if cursor.peek() == b'"' => event.name = Some(cursor.text()?),
                Field::Process => event.process = id(cursor)?,
                Field::Thread => event.thread = id(cursor)?,
                Field::Time => event.time = take_nanos(cursor)?,
                Field::Duration => event.duration = take_nanos(cursor)?,
                Field::Flow => event.flow = flow_id(cursor)?,
                Field::Args if cursor.peek() == b'{' => {
                    let name = event.name.map_or(&b""[..], |name| name.raw);
                    event.args.read(cursor, learnt, name, &mut number)?;
                }
                Field::Args => {
                    if cursor.peek() != b'n' {
                        number.bad.add(base + cursor.at as u64);
                    }
                    cursor.value()?;
                }
                _ => {
                    cursor.value()?;
                }
            }
            field = learnt.between.next(cursor)?;
        }
    }
}

impl<'a> Args<'a> {
    /// Reads them behind their brace; `name` is that of the event.
    fn read(
        &mut self,
        cursor: &mut Cursor<'a>,
        learnt: &mut Learnt<'a>,
        name: &[u8],
        number: &mut Numbers<'_>,
    ) -> Option<()> {
        cursor.at += 1;
        let mut field = learnt.between.first(cursor)?;
        loop {
            let is_text = cursor.peek() == b'"';
            match field {
                Field::End => return Some(()),
                Field::External => self.external = number.unsigned(cursor)?,
                Field::AutogradSequence => self.autograd_sequence = Some(number.signed(cursor)?),
                Field::Correlation => self.correlation = number.small(cursor)?,
                _ if field.is_inputs() => {
                    field = self.read_inputs(field, cursor, learnt, name)?;
                    continue;
                }
                Field::PythonId => self.python_id = number.small(cursor)?,
                Field::PythonParent => self.python_parent = number.small(cursor)?,
                Field::Device => self.device = Some(number.small(cursor)?),
                Field::Context => self.context = number.small(cursor)?,
                Field::Stream => self.stream = Some(number.small(cursor)?),
                Field::Grid => self.grid = number.three(cursor)?,
                Field::Block => self.block = number.three(cursor)?,
                Field::Registers => self.registers = number.small(cursor)?,
                Field::Shared => self.shared = number.small(cursor)?,
                Field::StaticShared => self.static_shared = number.small(cursor)?,
                Field::DynamicShared => self.dynamic_shared = number.small(cursor)?,
                Field::Occupancy => self.occupancy = number.fraction(cursor)?,
                Field::Graph => self.graph = number.small(cursor)?,
                Field::GraphNode => self.graph_node = number.unsigned(cursor)?,
                Field::Bytes => self.bytes = number.signed(cursor)?,
                Field::Size if cursor.peek().is_ascii_digit() => {
                    self.size = number.signed(cursor)?;
                }
                Field::Direction if is_text => self.direction = Some(cursor.text()?),
                Field::Address => self.address = number.unsigned(cursor)?,
                Field::Allocated => self.allocated = number.unsigned(cursor)?,
                Field::Reserved => self.reserved = number.unsigned(cursor)?,
                Field::DeviceType => self.device_type = Some(number.signed(cursor)?),
                Field::Name if is_text => self.name = Some(cursor.text()?),
                Field::Domain if is_text => self.domain = Some(cursor.text()?),
                Field::Mangled if is_text => self.mangled = Some(cursor.text()?),
                Field::Kernel if is_text => self.kernel = Some(cursor.text()?),
                Field::XlaOp => {
                    self.is_xla_op = true;
                    cursor.value()?;
                }
                Field::XlaStep => {
                    self.is_xla_step = true;
                    cursor.value()?;
                }
                _ => self.collective.read(field, cursor, number)?,
            }
            field = learnt.between.next(cursor)?;
        }
    }

    /// Reads lists of inputs that follow each other, the cursor being at the value of `first`; the answer is what comes after them.
    fn read_inputs(
        &mut self,
        first: Field,
        cursor: &mut Cursor<'a>,
        learnt: &mut Learnt<'a>,
        name: &[u8],
    ) -> Option<Field> {
        let is_all = self.inputs == RawInputs::default();
        let Learnt { between, inputs } = learnt;
        if is_all && let Some((number, raw)) = inputs.take(first, name, cursor, between) {
            (self.inputs, self.inputs_number) = (raw, number);
            return between.next(cursor);
        }
        self.inputs_number = 0;
        let (begin, repaired) = (cursor.at, cursor.repaired);
        let mut field = first;
        let (last, next) = loop {
            let value = cursor.value()?;
            match field {
                Field::Dims => self.inputs.dims = value,
                Field::Strides => self.inputs.strides = value,
                Field::Dtypes => self.inputs.dtypes = value,
                _ => self.inputs.values = value,
            }
            let (end, before) = (cursor.at, between.last());
            field = between.next(cursor)?;
            if !field.is_inputs() {
                break ((value, end, before), field);
            }
        };
        // A list ends with its bracket, whatever follows; other values end where something else begins.
        let (value, end, before) = last;
        if is_all && value.starts_with(b"[") && cursor.repaired == repaired {
            let text = &cursor.bytes[begin..end];
            self.inputs_number = inputs.keep(first, name, text, self.inputs, before);
        }
        Some(next)
    }
}

impl<'a> CollectiveArgs<'a> {
    /// Reads a field of a collective, and steps over any other.
    fn read(
        &mut self,
        field: Field,
        cursor: &mut Cursor<'a>,
        number: &mut Numbers<'_>,
    ) -> Option<()> {
        let is_text = cursor.peek() == b'"';
        match field {
            Field::Collective if is_text => self.name = Some(cursor.text()?),
            Field::Dtype if is_text => self.dtype = Some(cursor.text()?),
            Field::Group if is_text => self.group = Some(cursor.text()?),
            Field::GroupDescription if is_text => self.group_description = Some(cursor.text()?),
            Field::GroupRanks => self.group_ranks = cursor.value()?,
            Field::GroupSize => self.group_size = number.small(cursor)?,
            Field::Sequence => self.sequence = Some(number.signed(cursor)?),
            Field::InElements => self.in_elements = Some(number.signed(cursor)?),
            Field::OutElements => self.out_elements = Some(number.signed(cursor)?),
            _ => {
                cursor.value()?;
            }
        }
        Some(())
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
        self.parse(cursor, parse_unsigned)
            .map(Option::unwrap_or_default)
    }

    fn signed(&mut self, cursor: &mut Cursor<'_>) -> Option<i64> {
        if let Some(value) = cursor.digits() {
            return Some(value as i64);
        }
        self.parse(cursor, parse_integer)
            .map(Option::unwrap_or_default)
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
        let read = |text: &[u8]| match parse_integer(text)? {
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
        let mut ahead = cursor.clone();
        if let Some(three) = three_digits(&mut ahead) {
            cursor.at = ahead.at;
            return Some(three);
        }
        let read = |text: &[u8]| {
            let inside = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
            let mut three = [0; 3];
            let mut parts = inside.split(|&byte| byte == b',');
            for place in &mut three {
                *place = u32::try_from(parse_integer(parts.next()?.trim_ascii())?).ok()?;
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
        let value = read(strip_quotes(text));
        if value.is_none() && text != b"null" {
            self.bad.add(at);
        }
        Some(value)
    }
}

/// Steps over a list of three plain numbers; stays anywhere at anything else.
#[inline]
fn three_digits(cursor: &mut Cursor<'_>) -> Option<[u32; 3]> {
    let mut three = [0; 3];
    for (place, before) in three.iter_mut().zip(*b"[,,") {
        cursor.take(before)?;
        cursor.skip_space();
        *place = u32::try_from(cursor.digits()?).ok()?;
    }
    cursor.take(b']')?;
    Some(three)
}

fn id<'a>(cursor: &mut Cursor<'a>) -> Option<Id<'a>> {
    if cursor.peek() == b'"' {
        let text = cursor.text()?;
        return Some(parse_integer(text.raw).map_or(Id::Label(text), Id::Number));
    }
    if let Some(number) = cursor.digits() {
        return Some(Id::Number(number as i64));
    }
    Some(parse_integer(cursor.value()?).map_or(Id::Missing, Id::Number))
}

/// The id of a flow: a number, or in other programs' traces a text, often hexadecimal.
fn flow_id(cursor: &mut Cursor<'_>) -> Option<u64> {
    let text = cursor.value()?;
    let bare = strip_quotes(text);
    let hexadecimal = || {
        let digits = str::from_utf8(bare.strip_prefix(b"0x")?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    };
    Some(parse_unsigned(bare).or_else(hexadecimal).unwrap_or(0))
}
