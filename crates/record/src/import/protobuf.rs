//! Fields of a protocol buffer message, as they lie in the file.

/// Why a message cannot be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) struct Damaged;

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::import) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(in crate::import) fn whole(self) -> Option<u64> {
        match self {
            Self::Varint(value) => Some(value),
            _ => None,
        }
    }

    pub(in crate::import) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(in crate::import) fn text(self) -> Option<String> {
        let bytes = self.bytes()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Reads the fields of a message one after the other. A message that ends inside a field gives [`Damaged`] once.
pub(in crate::import) struct Fields<'a> {
    rest: &'a [u8],
}

/// The last field of a message that ends inside of it: its number and what is there of its bytes. `None` where the message is whole,
/// or damaged otherwise.
pub(in crate::import) fn cut_field(message: &[u8]) -> Option<(u64, &[u8])> {
    let mut fields = Fields::new(message);
    while !fields.rest.is_empty() {
        let mut ahead = Fields { rest: fields.rest };
        if fields.field().is_err() {
            let key = ahead.varint().ok()?;
            let length = (key & 7 == 2).then(|| ahead.varint().ok())??;
            let is_cut = usize::try_from(length).is_ok_and(|length| length > ahead.rest.len());
            return is_cut.then_some((key >> 3, ahead.rest));
        }
    }
    None
}

impl<'a> Fields<'a> {
    pub(in crate::import) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Result<u64, Damaged> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Damaged)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Damaged> {
        let length = usize::try_from(length).map_err(|_| Damaged)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Field<'a>), Damaged> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(take_array(self.take(8)?)?)),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(take_array(self.take(4)?)?)),
            _ => return Err(Damaged),
        };
        Ok((key >> 3, value))
    }
}

fn take_array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Damaged> {
    bytes.try_into().map_err(|_| Damaged)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The first field of a number in a message; a damaged message has what comes before the damage.
pub(in crate::import) fn first_field(message: &[u8], number: u64) -> Option<Field<'_>> {
    let fields = Fields::new(message).map_while(Result::ok);
    fields
        .into_iter()
        .find_map(|(key, value)| (key == number).then_some(value))
}

/// All messages or texts of a number.
pub(in crate::import) fn all_bytes(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(message).map_while(Result::ok);
    fields.filter_map(move |(key, value)| (key == number).then(|| value.bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_their_wire_types() {
        // The examples of the encoding's own documentation: field 1 is 150, field 2 "testing".
        let message = [
            0x08, 0x96, 0x01, 0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g',
        ];
        let fields: Vec<_> = Fields::new(&message).collect();
        assert_eq!(
            fields,
            [
                Ok((1, Field::Varint(150))),
                Ok((2, Field::Bytes(b"testing")))
            ]
        );
        assert_eq!(
            first_field(&message, 2).and_then(Field::text).as_deref(),
            Some("testing")
        );
    }

    #[test]
    fn the_beginning_of_a_cut_field_is_there() {
        let message = [0x08, 0x96, 0x01, 0x12, 7, b't', b'e', b's', b't'];
        assert_eq!(cut_field(&message), Some((2, &b"test"[..])));
        assert_eq!(cut_field(&message[..3]), None);
        assert_eq!(cut_field(&[0x08, 0x96]), None);
        assert_eq!(cut_field(&[0x0b, 1]), None);
    }

    #[test]
    fn a_cut_message_ends_with_damage() {
        for cut in [
            &[0x12, 7, b't'][..],
            &[0x08, 0x96],
            &[0x09, 1, 2],
            &[0x0b],
            &[0xff; 11],
        ] {
            let fields: Vec<_> = Fields::new(cut).collect();
            assert_eq!(fields, [Err(Damaged)], "{cut:?}");
        }
    }
}
