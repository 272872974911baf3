//! The opcodes of pickle, by the names that Python's `pickletools` gives them.

/// What an opcode that is not about plain data is called, and what it would do.
pub fn refusal(byte: u8) -> Option<(&'static str, &'static str)> {
    Some(match byte {
        b'c' => ("GLOBAL", "import an object"),
        0x93 => ("STACK_GLOBAL", "import an object"),
        b'R' => ("REDUCE", "call a function"),
        b'b' => ("BUILD", "change an object"),
        b'i' => ("INST", "create an object"),
        b'o' => ("OBJ", "create an object"),
        0x81 => ("NEWOBJ", "create an object"),
        0x92 => ("NEWOBJ_EX", "create an object"),
        0x82 => ("EXT1", "import an object"),
        0x83 => ("EXT2", "import an object"),
        0x84 => ("EXT4", "import an object"),
        b'P' => ("PERSID", "look up an object elsewhere"),
        b'Q' => ("BINPERSID", "look up an object elsewhere"),
        0x97 => ("NEXT_BUFFER", "read a buffer from elsewhere"),
        0x98 => ("READONLY_BUFFER", "read a buffer from elsewhere"),
        _ => return None,
    })
}

/// The name of an opcode of plain data.
pub(super) fn name(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'(' => "MARK",
        b'.' => "STOP",
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'F' => "FLOAT",
        b'I' => "INT",
        b'J' => "BININT",
        b'K' => "BININT1",
        b'L' => "LONG",
        b'M' => "BININT2",
        b'N' => "NONE",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'X' => "BINUNICODE",
        b'a' => "APPEND",
        b'd' => "DICT",
        b'}' => "EMPTY_DICT",
        b'e' => "APPENDS",
        b'g' => "GET",
        b'h' => "BINGET",
        b'j' => "LONG_BINGET",
        b'l' => "LIST",
        b']' => "EMPTY_LIST",
        b'p' => "PUT",
        b'q' => "BINPUT",
        b'r' => "LONG_BINPUT",
        b's' => "SETITEM",
        b't' => "TUPLE",
        b')' => "EMPTY_TUPLE",
        b'u' => "SETITEMS",
        b'G' => "BINFLOAT",
        0x80 => "PROTO",
        0x85 => "TUPLE1",
        0x86 => "TUPLE2",
        0x87 => "TUPLE3",
        0x88 => "NEWTRUE",
        0x89 => "NEWFALSE",
        0x8a => "LONG1",
        0x8b => "LONG4",
        b'B' => "BINBYTES",
        b'C' => "SHORT_BINBYTES",
        0x8c => "SHORT_BINUNICODE",
        0x8d => "BINUNICODE8",
        0x8e => "BINBYTES8",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x94 => "MEMOIZE",
        0x95 => "FRAME",
        0x96 => "BYTEARRAY8",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opcode_is_known_or_refused_never_both() {
        let known = (0..=255u8).filter(|&byte| name(byte).is_some()).count();
        let refused = (0..=255u8).filter(|&byte| refusal(byte).is_some()).count();
        // Python's pickletools lists 68 opcodes for protocols 0 to 5.
        assert_eq!((known, refused), (53, 15));
        assert!((0..=255u8).all(|byte| name(byte).is_none() || refusal(byte).is_none()));
    }
}
