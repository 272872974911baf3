//! Files of records: what is written is read, and a cut or damaged file is read up to there.

use llmprof_wire::{
    Attachment, Call, Checkpoint, End, Ended, HEADER_BYTES, Header, Kept, Kernel, Pop, Push,
    Reader, Record, TEXT_MAX_BYTES, Text,
};
use proptest::prelude::*;

fn kernel(seed: u32) -> Kernel {
    Kernel {
        start: i64::from(seed) * 1000,
        end: i64::from(seed) * 1000 + 7,
        graph_node: u64::from(seed) << 33,
        name: seed,
        device: 1,
        context: 2,
        stream: 3,
        correlation: seed,
        graph: 4,
        grid: [seed, 5, 6],
        block: [7, 8, 9],
        static_shared: 10,
        dynamic_shared: 11,
        registers: 12,
    }
}

fn file() -> (Vec<u8>, Vec<usize>) {
    let header = Header {
        process: 1,
        parent: 2,
        time: 3,
        unix_offset: 4,
    };
    let mut bytes = header.bytes().to_vec();
    let mut ends = vec![bytes.len()];
    let name = b"_Z6kernelv";
    let records = [
        Record::Text(Text { id: 1, text: name }),
        Record::Kernel(kernel(1)),
        Record::Push(Push {
            time: 5,
            thread: 6,
            domain: 0,
            text: "décode".as_bytes(),
        }),
        Record::Call(Call {
            status: 700,
            ..Call::default()
        }),
        Record::Pop(Pop {
            time: 9,
            thread: 6,
            domain: 0,
        }),
        Record::Attachment(Attachment {
            time: 9,
            took: 1,
            on: 0,
        }),
        Record::Kept(Kept {
            time: 9,
            text: b"graphs",
        }),
        Record::Checkpoint(Checkpoint { time: 10 }),
        Record::Unknown(999),
        Record::Ended(Ended {
            time: 11,
            dropped: 0,
        }),
    ];
    for record in records {
        record.put(&mut bytes);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

#[test]
fn a_file_cut_at_any_byte_is_read_up_to_the_cut() {
    let (bytes, ends) = file();
    for cut in HEADER_BYTES..=bytes.len() {
        let (_, mut reader) = Reader::new(&bytes[..cut]).unwrap();
        let read = reader.by_ref().count();
        let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
        assert_eq!(read, whole, "cut at {cut}");
        let expected = if ends.contains(&cut) {
            End::Whole
        } else {
            End::Cut { at: ends[whole] }
        };
        assert_eq!(reader.end(), expected, "cut at {cut}");
    }
}

#[test]
fn an_impossible_length_ends_the_reading_there() {
    let (mut bytes, ends) = file();
    for length in [0_u32, 7, u32::MAX] {
        bytes[ends[2]..ends[2] + 4].copy_from_slice(&length.to_le_bytes());
        let (_, mut reader) = Reader::new(&bytes).unwrap();
        assert_eq!(reader.by_ref().count(), 2);
        assert_eq!(reader.end(), End::Damaged { at: ends[2] });
    }
}

#[test]
fn a_record_with_more_than_is_known_reads_as_far_as_it_is_known() {
    let mut bytes = Vec::new();
    kernel(3).put(&mut bytes);
    bytes.extend_from_slice(&[1, 2, 3]);
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let mut reader = Reader::records(&bytes, 0);
    assert_eq!(reader.next(), Some(Record::Kernel(kernel(3))));
    assert_eq!(reader.next(), None);
    assert_eq!(reader.end(), End::Whole);
}

#[test]
fn a_long_text_is_cut() {
    let text = vec![b'x'; TEXT_MAX_BYTES + 5];
    let mut bytes = Vec::new();
    Text { id: 1, text: &text }.put(&mut bytes);
    let Some(Record::Text(read)) = Reader::records(&bytes, 0).next() else {
        panic!("a text");
    };
    assert_eq!(read.text.len(), TEXT_MAX_BYTES);
}

proptest! {
    /// Whatever the bytes, reading ends, and what was read is written again as it was.
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut reader = Reader::records(&bytes, 0);
        let records: Vec<_> = reader.by_ref().collect();
        prop_assert!(records.len() <= bytes.len() / 8);
        let mut file = Header { process: 0, parent: 0, time: 0, unix_offset: 0 }.bytes().to_vec();
        file.extend_from_slice(&bytes);
        let _ = Reader::new(&bytes).map(|(_, records)| records.count());
        prop_assert_eq!(Reader::new(&file).unwrap().1.count(), records.len());
    }

    #[test]
    fn records_read_back(seeds in proptest::collection::vec(any::<u32>(), 0..40), text in any::<Vec<u8>>()) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for seed in seeds {
            expected.push(Record::Kernel(kernel(seed)));
            expected.push(Record::Text(Text { id: seed, text: &text }));
        }
        for record in &expected {
            record.put(&mut bytes);
        }
        let read: Vec<_> = Reader::records(&bytes, 0).collect();
        prop_assert_eq!(read, expected);
    }
}
