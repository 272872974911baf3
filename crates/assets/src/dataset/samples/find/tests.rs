use super::*;
use crate::dataset::samples::{DatasetSamples, SampleContent, SampleError};

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn names(samples: &DatasetSamples) -> Vec<&str> {
    samples.ids().collect()
}

#[test]
fn text_files_are_found_by_name() {
    let root = folder(&[
        ("b.txt", b"two"),
        ("a/z.md", b"one"),
        ("a/README.md", b"a text like any other"),
        ("README.md", b"about the data"),
        ("c.png", b"\x89PNG"),
        (".hidden/d.txt", b"no"),
    ]);
    std::os::unix::fs::symlink(root.path(), root.path().join("a/circle")).unwrap();
    let samples = DatasetSamples::find_below(root.path()).unwrap();
    assert_eq!(names(&samples), ["a/README.md", "a/z.md", "b.txt"]);
    let sample = samples.sample(2).unwrap();
    assert_eq!(sample.content, SampleContent::Text("two".to_owned()));
    assert_eq!(sample.file, root.path().join("b.txt"));
    let one = DatasetSamples::find_below(&root.path().join("b.txt")).unwrap();
    assert_eq!(names(&one), ["b.txt"]);
}

/// A table beside images is a table of samples where its first row is one.
#[test]
fn rows_of_csv_are_samples_where_they_hold_some() {
    let samples = |csv: &[u8]| {
        let root = folder(&[("labels.csv", csv), ("x.png", b"\x89PNG")]);
        let samples = DatasetSamples::find_below(root.path()).unwrap();
        names(&samples)
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(samples(b"file,label\nx.png,cat\n"), ["x.png"]);
    assert_eq!(samples(b"image\nabsent.png\n"), ["x.png"]);
    assert_eq!(
        samples(b"text,label\n\"A\nB\",0\n,1\n"),
        ["labels.csv:1", "labels.csv:2"]
    );
    let root = folder(&[("a.csv", b"text,label\nA,0\n,1\n")]);
    let error = DatasetSamples::find_below(root.path())
        .unwrap()
        .sample(1)
        .unwrap_err();
    assert!(
        error.to_string().contains("a.csv:2: there is no `text`"),
        "{error}"
    );
}

#[test]
fn lines_are_samples_with_ids_of_their_own() {
    let root = folder(&[(
        "data.jsonl",
        b"{\"id\": \"first\", \"text\": \"A\"}\n\n\"B\"\r\n{\"id\": 7, \"tokens\": [1, 2]}\n{\"image\": \"x.png\"}\n{\"other\": 1}",
    ), ("x.png", b"\x89PNG")]);
    let samples = DatasetSamples::find_below(root.path()).unwrap();
    assert_eq!(samples.len(), 5, "an image beside texts is none of them");
    let read = |index| samples.sample(index).unwrap();
    assert_eq!(
        (read(0).id.as_str(), read(0).content),
        ("first", SampleContent::Text("A".to_owned()))
    );
    assert_eq!(
        (read(1).id.as_str(), read(1).content),
        ("data.jsonl:3", SampleContent::Text("B".to_owned()))
    );
    assert_eq!(
        (read(2).id.as_str(), read(2).content),
        ("7", SampleContent::Tokens(vec![1, 2]))
    );
    assert_eq!(
        read(3).content,
        SampleContent::Image(root.path().join("x.png"))
    );
    let error = samples.sample(4).unwrap_err().to_string();
    assert!(
        error.contains("data.jsonl:6") && error.contains("other"),
        "{error}"
    );
    for wrong in [
        "[1]",
        "{",
        "{\"text\": 1}",
        "{\"text\": \"\"}",
        "{\"tokens\": []}",
        "{\"tokens\": [-1]}",
        "{\"image\": \"absent.png\"}",
        "{\"id\": [], \"text\": \"x\"}",
        "\u{feff}",
    ] {
        let root = folder(&[("data.jsonl", wrong.as_bytes())]);
        let error = DatasetSamples::find_below(root.path())
            .unwrap()
            .sample(0)
            .unwrap_err();
        assert!(
            matches!(error, SampleError::BadLine { line: 1, .. }),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn pages_of_omnidocbench_come_in_its_order() {
    let pages = br#"[{"layout_dets": [], "page_info": {"page_no": 1, "height": 2, "width": 3, "image_path": "b, c.1.png"}},
        {"page_info": {"image_path": "a.png"}, "extra": {}}]"#;
    let root = folder(&[
        ("OmniDocBench.json", pages),
        ("README.md", b"about"),
        ("images/a.png", b"x"),
        ("images/b, c.1.png", b"x"),
        ("images/unlisted.png", b"x"),
    ]);
    let samples = DatasetSamples::find_below(root.path()).unwrap();
    assert_eq!(names(&samples), ["images/b, c.1.png", "images/a.png"]);
    fs::remove_file(root.path().join("images/a.png")).unwrap();
    let error = DatasetSamples::find_below(root.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("1 of 2 files"), "{error}");
    fs::write(root.path().join("OmniDocBench.json"), "{}").unwrap();
    assert!(DatasetSamples::find_below(root.path()).is_err());
}

#[test]
fn images_are_samples_where_there_is_no_text() {
    let root = folder(&[
        ("images/a.PNG", b"x"),
        ("images/b.jpeg", b"x"),
        ("c.bin", b"x"),
    ]);
    let samples = DatasetSamples::find_below(root.path()).unwrap();
    assert_eq!(names(&samples), ["images/a.PNG", "images/b.jpeg"]);
}

#[test]
fn a_list_is_looked_for_in_one_place_after_the_other() {
    let root = folder(&[
        ("images/a, b.c.txt", b"A"),
        ("d.txt", b"D"),
        ("lines.jsonl", b"{\"text\": \"x\"}\n{\"text\": \"y\"}\n"),
        ("list.txt", b"d.txt\nlines.jsonl:2\n"),
    ]);
    let cwd = folder(&[("list.txt", b"\xef\xbb\xbfd.txt\r\n\n  images/a, b.c.txt \n")]);
    let list = Path::new("list.txt");
    let samples = DatasetSamples::read_list(root.path(), list, &[cwd.path(), root.path()]).unwrap();
    assert_eq!(names(&samples), ["d.txt", "images/a, b.c.txt"]);
    let places = [Path::new("/nowhere"), root.path(), cwd.path()];
    let samples = DatasetSamples::read_list(root.path(), list, &places).unwrap();
    assert_eq!(names(&samples), ["d.txt", "lines.jsonl:2"]);
    let error =
        DatasetSamples::read_list(root.path(), Path::new("absent.txt"), &places).unwrap_err();
    for place in places {
        let tried = place.join("absent.txt").display().to_string();
        assert!(error.to_string().contains(&tried), "{error}");
    }
}

#[test]
fn every_missing_file_is_listed() {
    let named: Vec<String> = (0..25).map(|n| format!("{n:02}.txt")).collect();
    let list = named.join("\n");
    let root = folder(&[
        ("00.txt", b"x"),
        ("list", list.as_bytes()),
        ("01.txt/folder", b"x"),
    ]);
    let error =
        DatasetSamples::read_list(root.path(), Path::new("list"), &[root.path()]).unwrap_err();
    let SampleError::Missing { missing, total, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((missing.len(), *total), (24, 25));
    assert!(error.to_string().contains("24 of 25 files"), "{error}");
    assert!(error.to_string().ends_with("and 4 more"), "{error}");
}

#[test]
fn nothing_to_read_is_an_error() {
    let root = folder(&[("list", b"\n \n"), ("a.bin", b"x")]);
    let empty = DatasetSamples::find_below(root.path()).unwrap_err();
    assert!(
        empty
            .to_string()
            .starts_with("the dataset is empty: there is no .txt"),
        "{empty}"
    );
    let empty =
        DatasetSamples::read_list(root.path(), Path::new("list"), &[root.path()]).unwrap_err();
    assert!(matches!(empty, SampleError::Empty { .. }), "{empty}");
    let absent = DatasetSamples::find_below(&root.path().join("absent")).unwrap_err();
    assert!(matches!(absent, SampleError::Read { .. }), "{absent}");
    let root = folder(&[("a.txt", b""), ("b.txt", b"b")]);
    let blank = DatasetSamples::find_below(root.path()).unwrap_err();
    assert!(
        matches!(&blank, SampleError::Blank { files } if files.len() == 1),
        "{blank}"
    );
    let root = folder(&[("a.txt", b"ab\xff")]);
    let binary = DatasetSamples::find_below(root.path())
        .unwrap()
        .sample(0)
        .unwrap_err();
    assert!(
        matches!(binary, SampleError::NotText { at: 2, .. }),
        "{binary}"
    );
}

/// Lines as datasets publish them: C4's `.json.gz`, `.jsonl.zst`, and `.json` that is lines. Other `.json` files are not samples.
#[test]
fn packed_lines_are_samples() {
    use std::io::Write as _;

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let line = |text: &str| format!("{{\"text\": \"{text}\", \"url\": \"u\"}}\n");
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(root.join("a.json.gz")).unwrap(),
        flate2::Compression::default(),
    );
    gzip.write_all((line("one") + "\n" + &line("two")).as_bytes())
        .unwrap();
    gzip.finish().unwrap();
    let zstd = zstd::encode_all(line("three").as_bytes(), 0).unwrap();
    fs::write(root.join("b.jsonl.zst"), zstd).unwrap();
    fs::write(root.join("c.json"), line("four")).unwrap();
    fs::write(root.join("config.json"), "{\"model_type\": \"llama\"}").unwrap();
    fs::write(root.join("other.tar.gz"), "x").unwrap();
    let samples = crate::dataset::samples::DatasetSamples::find_below(root).unwrap();
    let contents: Vec<(String, crate::dataset::samples::SampleContent)> = (0..samples.len())
        .map(|index| {
            let sample = samples.sample(index).unwrap();
            (sample.id, sample.content)
        })
        .collect();
    let text = |text: &str| crate::dataset::samples::SampleContent::Text(text.to_owned());
    let expected = [
        ("a.json.gz:1", "one"),
        ("a.json.gz:3", "two"),
        ("b.jsonl.zst:1", "three"),
        ("c.json:1", "four"),
    ];
    assert_eq!(
        contents,
        expected.map(|(id, content)| (id.to_owned(), text(content)))
    );
    fs::write(root.join("d.jsonl.gz"), "not gzip").unwrap();
    let error = crate::dataset::samples::DatasetSamples::find_below(root).unwrap_err();
    assert!(error.to_string().contains("d.jsonl.gz"), "{error}");
}
