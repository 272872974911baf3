//! The stack machine.

use rustc_hash::FxHashMap;

use super::{
    PickleError,
    bytes::Bytes,
    heap::{Heap, Value},
    integer::Integer,
    opcode, text,
};

/// The newest protocol that is known.
const NEWEST: u8 = 5;

/// Steps that a reader may take for each byte. Snapshots of torch take about 4: they share stacks between events.
pub(in crate::import::torch_memory) const STEPS_PER_BYTE: u64 = 64;
/// What a reader may take whatever the size.
const FREE_STEPS: u64 = 1 << 20;

/// How much a pickle may build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most values that are put on the stack; each takes 16 bytes where it is kept, and is asked for by at least one
    /// byte of the pickle.
    pub values: usize,
    /// The most collections that are open at once.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            values: 1 << 27,
            depth: 1 << 16,
        }
    }
}

/// A pickle that was read.
#[derive(Debug)]
pub struct Pickle<'a> {
    pub heap: Heap<'a>,
    pub root: Value,
    /// Where it ends; what follows is not part of it.
    pub end: usize,
}

/// Reads one pickle from the beginning of `bytes`.
pub fn load<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Pickle<'a>, PickleError> {
    let mut machine = Machine {
        bytes: Bytes::new(bytes),
        heap: Heap::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: FxHashMap::default(),
        limits: Limits {
            values: limits.values.min(u32::MAX as usize),
            ..*limits
        },
        pushed: 0,
        opcode: "",
        offset: 0,
    };
    let root = machine.run()?;
    let steps = (bytes.len() as u64).saturating_mul(STEPS_PER_BYTE);
    machine.heap.steps_left.set(steps.max(FREE_STEPS));
    Ok(Pickle {
        root,
        end: machine.bytes.position(),
        heap: machine.heap,
    })
}

struct Machine<'a> {
    bytes: Bytes<'a>,
    heap: Heap<'a>,
    stack: Vec<Value>,
    /// Heights of the stack at which collections began.
    marks: Vec<usize>,
    memo: FxHashMap<u64, Value>,
    limits: Limits,
    pushed: usize,
    /// The opcode at work and where it stands, for errors.
    opcode: &'static str,
    offset: usize,
}

type Step<T = ()> = Result<T, PickleError>;

impl Machine<'_> {
    fn run(&mut self) -> Step<Value> {
        loop {
            self.offset = self.bytes.position();
            let byte = self.bytes.u8("a pickle without STOP")?;
            if let Some((opcode, effect)) = opcode::refusal(byte) {
                return Err(PickleError::Refused {
                    opcode,
                    offset: self.offset,
                    effect,
                });
            }
            self.opcode = opcode::name(byte).ok_or(PickleError::Unknown {
                byte,
                offset: self.offset,
            })?;
            match byte {
                b'.' => return self.pop(),
                b'(' | b'0' | b'1' | b'2' => self.arrange(byte)?,
                b'g' | b'h' | b'j' | b'p' | b'q' | b'r' | 0x94 => self.remember(byte)?,
                b']'
                | b'l'
                | b'a'
                | b'e'
                | b')'
                | b't'
                | 0x85..=0x87
                | b'}'
                | b'd'
                | b's'
                | b'u'
                | 0x8f..=0x91 => self.collect(byte)?,
                0x80 | 0x95 => self.head(byte)?,
                _ => {
                    let value = self.scalar(byte)?;
                    self.push(value)?;
                }
            }
        }
    }

    fn wrong(&self, what: &'static str) -> PickleError {
        PickleError::Malformed {
            opcode: self.opcode,
            offset: self.offset,
            what,
        }
    }

    fn push(&mut self, value: Value) -> Step {
        self.pushed += 1;
        if self.pushed > self.limits.values {
            return Err(PickleError::TooLarge {
                offset: self.offset,
                limit: self.limits.values,
                what: "values",
            });
        }
        self.stack.push(value);
        Ok(())
    }

    /// The value on top, which must belong to the collection that is open.
    fn top(&self) -> Step<Value> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack
            .last()
            .filter(|_| self.stack.len() > floor)
            .copied()
            .ok_or_else(|| self.wrong("needs a value that is not there"))
    }

    fn pop(&mut self) -> Step<Value> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    /// What was put on the stack since the last mark.
    fn pop_to_mark(&mut self) -> Step<Vec<Value>> {
        let mark = self
            .marks
            .pop()
            .ok_or_else(|| self.wrong("needs a MARK that is not there"))?;
        Ok(self.stack.split_off(mark))
    }

    fn arrange(&mut self, byte: u8) -> Step {
        match byte {
            b'(' => {
                if self.marks.len() >= self.limits.depth {
                    return Err(PickleError::TooLarge {
                        offset: self.offset,
                        limit: self.limits.depth,
                        what: "open collections",
                    });
                }
                self.marks.push(self.stack.len());
            }
            // As in Python, POP right after MARK takes the mark.
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
            }
            b'0' => {
                self.pop()?;
            }
            b'1' => {
                self.pop_to_mark()?;
            }
            _ => {
                let value = self.top()?;
                self.push(value)?;
            }
        }
        Ok(())
    }

    fn remember(&mut self, byte: u8) -> Step {
        let index = match byte {
            b'g' | b'p' => {
                let line = self.bytes.line(self.opcode)?;
                std::str::from_utf8(line)
                    .ok()
                    .and_then(|line| line.parse().ok())
                    .ok_or_else(|| self.wrong("has an index that is not a number"))?
            }
            b'h' | b'q' => u64::from(self.bytes.u8(self.opcode)?),
            b'j' | b'r' => u64::from(self.bytes.u32(self.opcode)?),
            _ => self.memo.len() as u64,
        };
        if matches!(byte, b'g' | b'h' | b'j') {
            let value = self
                .memo
                .get(&index)
                .copied()
                .ok_or_else(|| self.wrong("asks for what was never stored"))?;
            return self.push(value);
        }
        let value = self.top()?;
        self.memo.insert(index, value);
        Ok(())
    }

    fn head(&mut self, byte: u8) -> Step {
        if byte == 0x80 {
            let protocol = self.bytes.u8(self.opcode)?;
            return (protocol <= NEWEST)
                .then_some(())
                .ok_or_else(|| self.wrong("names a protocol that is not known"));
        }
        // Frames only help to read ahead.
        let length = self.bytes.u64(self.opcode)?;
        if self.bytes.has(length) {
            return Ok(());
        }
        self.bytes.take(length, "a frame").map(|_| ())
    }

    fn sequence(&mut self, items: Vec<Value>) -> u32 {
        self.heap.sequences.push(items);
        last(self.heap.sequences.len())
    }

    fn collect(&mut self, byte: u8) -> Step {
        let value = match byte {
            b']' => Value::List(self.sequence(Vec::new())),
            0x8f => Value::Set(self.sequence(Vec::new())),
            b')' => Value::Tuple(self.sequence(Vec::new())),
            b'l' => {
                let items = self.pop_to_mark()?;
                Value::List(self.sequence(items))
            }
            b't' => {
                let items = self.pop_to_mark()?;
                Value::Tuple(self.sequence(items))
            }
            0x91 => {
                let items = self.pop_to_mark()?;
                self.check_keys(items.iter().copied())?;
                Value::FrozenSet(self.sequence(items))
            }
            0x85..=0x87 => {
                let mut items = Vec::with_capacity(usize::from(byte - 0x84));
                for _ in 0x84..byte {
                    items.push(self.pop()?);
                }
                items.reverse();
                Value::Tuple(self.sequence(items))
            }
            b'}' | b'd' => {
                let pairs = if byte == b'd' {
                    self.pairs_to_mark()?
                } else {
                    Vec::new()
                };
                self.heap.dicts.push(pairs);
                Value::Dict(last(self.heap.dicts.len()))
            }
            _ => return self.extend(byte),
        };
        self.push(value)
    }

    /// Puts what is on the stack into the collection below it.
    fn extend(&mut self, byte: u8) -> Step {
        match byte {
            b'a' | b'e' | 0x90 => {
                let items = if byte == b'a' {
                    vec![self.pop()?]
                } else {
                    self.pop_to_mark()?
                };
                let index = match (self.top()?, byte) {
                    (Value::Set(index), 0x90) => {
                        self.check_keys(items.iter().copied())?;
                        index
                    }
                    (Value::List(index), b'a' | b'e') => index,
                    _ => return Err(self.wrong("has no collection to add to")),
                };
                self.heap.sequences[index as usize].extend(items);
            }
            _ => {
                let pairs = if byte == b's' {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.check_keys([key].into_iter())?;
                    vec![(key, value)]
                } else {
                    self.pairs_to_mark()?
                };
                let Value::Dict(index) = self.top()? else {
                    return Err(self.wrong("has no dictionary to add to"));
                };
                self.heap.dicts[index as usize].extend(pairs);
            }
        }
        Ok(())
    }

    fn pairs_to_mark(&mut self) -> Step<Vec<(Value, Value)>> {
        let items = self.pop_to_mark()?;
        if items.len() % 2 != 0 {
            return Err(self.wrong("has a key without a value"));
        }
        let pairs: Vec<_> = items
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .collect();
        self.check_keys(pairs.iter().map(|(key, _)| *key))?;
        Ok(pairs)
    }

    /// What can change cannot be a key or an element of a set.
    fn check_keys(&self, mut keys: impl Iterator<Item = Value>) -> Step {
        let changes = |key| matches!(key, Value::List(_) | Value::Dict(_) | Value::Set(_));
        if keys.any(changes) {
            return Err(self.wrong("has a key that can change"));
        }
        Ok(())
    }

    fn scalar(&mut self, byte: u8) -> Step<Value> {
        let opcode = self.opcode;
        Ok(match byte {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(self.bytes.i32(opcode)?)),
            b'K' => Value::Int(i64::from(self.bytes.u8(opcode)?)),
            b'M' => Value::Int(i64::from(self.bytes.u16(opcode)?)),
            b'G' => Value::Float(self.bytes.f64(opcode)?),
            b'I' => match self.bytes.line(opcode)? {
                b"00" => Value::Bool(false),
                b"01" => Value::Bool(true),
                digits => self.decimal(digits)?,
            },
            b'L' => {
                let line = self.bytes.line(opcode)?;
                self.decimal(line.strip_suffix(b"L").unwrap_or(line))?
            }
            b'F' => {
                let line = self.bytes.line(opcode)?;
                let number = std::str::from_utf8(line)
                    .ok()
                    .and_then(|line| line.parse().ok());
                Value::Float(number.ok_or_else(|| self.wrong("has no number"))?)
            }
            0x8a | 0x8b => {
                let length = if byte == 0x8a {
                    u64::from(self.bytes.u8(opcode)?)
                } else {
                    self.signed_length()?
                };
                let integer = Integer::from_le_bytes(self.bytes.take(length, opcode)?);
                self.integer(integer)
            }
            _ => return self.text_or_bytes(byte),
        })
    }

    fn text_or_bytes(&mut self, byte: u8) -> Step<Value> {
        let opcode = self.opcode;
        if let b'V' | b'S' = byte {
            let line = self.bytes.line(opcode)?;
            let text = if byte == b'V' {
                text::raw_unicode_escape(line)
            } else {
                text::quoted(line)
            };
            let text = text.ok_or_else(|| self.wrong("has no text that can be read"))?;
            self.heap.texts.push(text.into());
            return Ok(Value::Text(last(self.heap.texts.len())));
        }
        let length = match byte {
            b'U' | b'C' | 0x8c => u64::from(self.bytes.u8(opcode)?),
            b'T' => self.signed_length()?,
            b'X' | b'B' => u64::from(self.bytes.u32(opcode)?),
            _ => self.bytes.u64(opcode)?,
        };
        let content = self.bytes.take(length, opcode)?;
        if let b'B' | b'C' | 0x8e | 0x96 = byte {
            self.heap.bytes.push(content);
            return Ok(Value::Bytes(last(self.heap.bytes.len())));
        }
        if let b'T' | b'U' = byte
            && !content.is_ascii()
        {
            return Err(self.wrong("holds Python 2 bytes that are not text"));
        }
        self.heap.texts.push(text::utf8(content));
        Ok(Value::Text(last(self.heap.texts.len())))
    }

    fn signed_length(&mut self) -> Step<u64> {
        let length = self.bytes.i32(self.opcode)?;
        u64::try_from(length).map_err(|_| self.wrong("has a negative length"))
    }

    fn decimal(&mut self, digits: &[u8]) -> Step<Value> {
        let integer = Integer::from_decimal(digits).ok_or_else(|| self.wrong("has no number"))?;
        Ok(self.integer(integer))
    }

    fn integer(&mut self, integer: Integer) -> Value {
        if let Some(small) = integer.to_i64() {
            return Value::Int(small);
        }
        self.heap.integers.push(integer);
        Value::Integer(last(self.heap.integers.len()))
    }
}

/// The index of the last of `length` elements; their number is below the limit of values, which fits.
fn last(length: usize) -> u32 {
    (length - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> PickleError {
        load(bytes, &Limits::default()).unwrap_err()
    }

    #[test]
    fn whatever_is_no_plain_data_is_refused_by_name_and_place() {
        // What `pickle.dumps(print)` gives, in protocols 0 and 4.
        let refused = error(b"cbuiltins\nprint\np0\n.");
        assert_eq!(
            refused.to_string(),
            "the opcode GLOBAL at byte 0 would import an object; only plain data is read"
        );
        let refused =
            error(b"\x80\x04\x95\x16\0\0\0\0\0\0\0\x8c\x08builtins\x94\x8c\x05print\x94\x93\x94.");
        assert_eq!(
            refused,
            PickleError::Refused {
                opcode: "STACK_GLOBAL",
                offset: 30,
                effect: "import an object"
            }
        );
        for byte in 0..=255u8 {
            if let Some((opcode, effect)) = opcode::refusal(byte) {
                let offset = 2;
                assert_eq!(
                    error(&[b'N', b'N', byte]),
                    PickleError::Refused {
                        opcode,
                        offset,
                        effect
                    }
                );
            }
        }
    }

    #[test]
    fn what_is_shared_stays_shared_and_a_list_may_hold_itself() {
        // x = []; x.append(x)
        let pickle = load(b"]q\0h\0a.", &Limits::default()).unwrap();
        assert_eq!(pickle.heap.items(pickle.root).unwrap(), [pickle.root]);
        // x = [1]; (x, x), with the element put in after x was stored.
        let pickle = load(b"]q\0K\x01ah\0\x86.", &Limits::default()).unwrap();
        let both = pickle.heap.items(pickle.root).unwrap();
        assert_eq!(both[0], both[1]);
        assert_eq!(pickle.heap.items(both[0]).unwrap(), [Value::Int(1)]);
    }

    #[test]
    fn damage_is_named_with_its_place() {
        assert_eq!(
            error(b"").to_string(),
            "the pickle is truncated at byte 0, inside a pickle without STOP"
        );
        assert_eq!(
            error(b"X\x05\0\0\0ab").to_string(),
            "the pickle is truncated at byte 7, inside BINUNICODE"
        );
        assert_eq!(
            error(b"NK\x01\xfe").to_string(),
            "the byte 0xfe at 3 is not an opcode"
        );
        for (bytes, opcode) in [
            (&b"."[..], "STOP"),
            (b"a", "APPEND"),
            (b"Na", "APPEND"),
            (b"NNa", "APPEND"),
            (b"e", "APPENDS"),
            (b"](a", "APPEND"),
            (b"(Nd", "DICT"),
            (b"}]Ns", "SETITEM"),
            (b"h\0", "BINGET"),
            (b"gx\n", "GET"),
            (b"\x80\x06", "PROTO"),
            (b"\x8b\xff\xff\xff\xff", "LONG4"),
            (b"I1e\n", "INT"),
            (b"F1,5\n", "FLOAT"),
            (b"U\x01\xff", "SHORT_BINSTRING"),
            (b"\x8f(]\x90", "ADDITEMS"),
        ] {
            match error(bytes) {
                PickleError::Malformed {
                    opcode: reported, ..
                } => assert_eq!(reported, opcode),
                other => panic!("{bytes:?}: {other}"),
            }
        }
        // A frame that is longer than the file.
        assert!(matches!(
            error(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN."),
            PickleError::Truncated {
                what: "a frame",
                ..
            }
        ));
    }

    #[test]
    fn limits_hold() {
        let limits = Limits {
            values: 10,
            depth: 3,
        };
        let too_many = [&b"("[..], &[b'N'; 11], b"t."].concat();
        assert!(matches!(
            load(&too_many, &limits).unwrap_err(),
            PickleError::TooLarge {
                limit: 10,
                offset: 11,
                ..
            }
        ));
        assert!(matches!(
            load(b"((((", &limits).unwrap_err(),
            PickleError::TooLarge {
                limit: 3,
                offset: 3,
                ..
            }
        ));
        // A million lists in each other need no depth of calls.
        let mut deep = vec![b']'; 1_000_000];
        deep.extend(vec![b'a'; 999_999]);
        deep.push(b'.');
        assert!(load(&deep, &Limits::default()).is_ok());
        // A memo of one entry at the largest index takes no memory for the others.
        assert!(load(b"Nr\xff\xff\xff\xff.", &Limits::default()).is_ok());
    }
}
