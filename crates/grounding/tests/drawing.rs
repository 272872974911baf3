//! Drawing, looked at pixel by pixel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use image::{Rgb, RgbImage};
use llmprof_grounding::{page, visual};

/// A white page of 999 × 1998 pixels as a PNG file, so that a coordinate across is a pixel.
fn white(name: &str) -> (tempdir::Folder, PathBuf) {
    let folder = tempdir::Folder::new(name);
    let path = folder.0.join("page.png");
    RgbImage::from_pixel(999, 1998, Rgb([255, 255, 255]))
        .save(&path)
        .unwrap();
    (folder, path)
}

/// A folder that goes when it is dropped.
mod tempdir {
    use std::path::PathBuf;

    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("llmprof-grounding-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[test]
fn boxes_lie_where_the_coordinates_say() {
    let (_folder, path) = white("boxes");
    let text = "<|ref|>text<|/ref|><|det|>[[100,300,400,500]]<|/det|>\nHello\n\
                <|ref|>image<|/ref|><|det|>[[500,600,700,800]]<|/det|>\n\
                <|ref|>表格<|/ref|><|det|>[[10,900,20,950]]<|/det|>a \\coloneqq b<｜end▁of▁sentence｜>";
    let made = visual(&path, text, serde_json::Map::new()).unwrap();
    let drawn = image::load_from_memory(&made.drawn).unwrap().into_rgb8();
    let is_white = |x: u32, y: u32| drawn.get_pixel(x, y).0.iter().all(|value| *value > 245);
    // Pixel down = coordinate ÷ 999 × 1998: twice the coordinate.
    for (x, y) in [(101, 800), (399, 800), (250, 601), (250, 998)] {
        assert!(!is_white(x, y), "the outline at {x}, {y}");
    }
    for (x, y) in [(80, 800), (420, 800), (250, 1020)] {
        assert!(is_white(x, y), "the page at {x}, {y}");
    }
    let inside = drawn.get_pixel(250, 800).0;
    assert!(
        inside != [255, 255, 255] && inside.iter().all(|value| *value > 200),
        "a tint: {inside:?}"
    );
    let boxes: Vec<_> = made
        .info
        .boxes
        .iter()
        .map(|one| (one.x, one.y, one.w, one.h))
        .collect();
    assert_eq!(
        boxes,
        [
            (100, 600, 300, 400),
            (500, 1200, 200, 400),
            (10, 1800, 10, 100)
        ]
    );
    assert_eq!(made.crops.len(), 1);
    let crop = image::load_from_memory(&made.crops[0].1).unwrap();
    assert_eq!((crop.width(), crop.height()), (200, 400));
    assert_eq!(made.markdown, "Hello\n![](images/0.jpg)\na := b\n");
    assert_eq!(made.info.boxes[2].text, "表格");
    assert_eq!(made.info.counts.labels_not_drawn, 1);
}

#[test]
fn a_box_at_the_edge_and_one_without_extent_are_drawn() {
    let (_folder, path) = white("edge");
    let text = "<|ref|>a<|/ref|><|det|>[[999,999,999,999],[0,0,0,0],[0,0,999,999]]<|/det|>";
    let made = visual(&path, text, serde_json::Map::new()).unwrap();
    assert_eq!(made.info.counts.boxes, 3);
    assert_eq!((made.info.boxes[0].x, made.info.boxes[0].w), (998, 1));
    assert_eq!((made.info.boxes[2].w, made.info.boxes[2].h), (999, 1998));
}

/// A PNG file as far as its first row of pixels.
fn png_head(width: u32, height: u32) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], content: &[u8]| {
        file.extend((content.len() as u32).to_be_bytes());
        let checked = [kind.as_slice(), content].concat();
        file.extend(&checked);
        file.extend(crc32(&checked).to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // Eight bits a channel, RGB.
    chunk(b"IHDR", &[size.as_slice(), &[8, 2, 0, 0, 0]].concat());
    chunk(b"IDAT", &[0x78, 0x9c]);
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(u32::MAX, |mut sum, byte| {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
        sum
    });
    !sum
}

#[test]
fn a_file_that_ends_early_or_is_too_large_is_an_error() {
    let (_folder, path) = white("short");
    assert_eq!(page::page_size(&path).unwrap(), (999, 1998));
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 7, 40, whole.len() / 2, whole.len() - 20] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(
            page::read_page(&path).is_err(),
            "{length} bytes of {}",
            whole.len()
        );
    }
    // The head alone promises more pixels than a machine holds, or just too many.
    for (width, height, what) in [
        (1 << 30, 1 << 30, "Memory limit exceeded"),
        (10_001, 10_000, "10001 × 10000 pixels"),
    ] {
        std::fs::write(&path, png_head(width, height)).unwrap();
        let refused = [
            page::page_size(&path).unwrap_err(),
            page::read_page(&path).unwrap_err(),
            visual(&path, "text", serde_json::Map::new()).unwrap_err(),
        ];
        for why in refused {
            assert!(why.contains(what), "{why}");
        }
    }
    std::fs::write(&path, png_head(10_000, 10_000)).unwrap();
    assert_eq!(page::page_size(&path).unwrap(), (10_000, 10_000));
    std::fs::write(&path, "GIF89a no image").unwrap();
    assert!(
        page::page_size(&path)
            .unwrap_err()
            .contains("not a PNG or JPEG")
    );
}
