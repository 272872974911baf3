//! The size of an image, from the first bytes of its file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use serde::Serialize;

/// Bytes that are read at most: a JPEG's size stands behind its metadata.
const HEAD: u64 = 1 << 20;

/// Width and height of an image in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ImageSize {
    /// Number of pixels from left to right.
    pub width: u32,
    /// Number of pixels from top to bottom.
    pub height: u32,
}

/// The size of a PNG, JPEG, GIF or BMP file; `None` for other formats and broken files.
pub fn image_size(path: &Path) -> io::Result<Option<ImageSize>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(of_bytes(&head))
}

fn of_bytes(head: &[u8]) -> Option<ImageSize> {
    let size = |width: u32, height: u32| Some(ImageSize { width, height });
    let big = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let little = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        return size(big(16)?, big(20)?);
    }
    if head.starts_with(b"GIF8") {
        return size(half(6)?.into(), half(8)?.into());
    }
    if head.starts_with(b"BM") {
        return size(little(18)?, (little(22)? as i32).unsigned_abs());
    }
    if head.starts_with(b"\xff\xd8") {
        return jpeg_size(head);
    }
    None
}

/// Walks a JPEG's segments to the one that begins a frame.
fn jpeg_size(head: &[u8]) -> Option<ImageSize> {
    let two = |at: usize| Some(u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let mut at = 2;
    loop {
        let marker = two(at)?;
        let length = usize::from(two(at + 2)?);
        let is_frame =
            matches!(marker, 0xffc0..=0xffcf) && ![0xffc4, 0xffc8, 0xffcc].contains(&marker);
        if is_frame {
            return Some(ImageSize {
                height: two(at + 5)?.into(),
                width: two(at + 7)?.into(),
            });
        }
        if marker < 0xff00 || length < 2 {
            return None;
        }
        at += 2 + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_headers() {
        let size = |width, height| Some(ImageSize { width, height });
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0";
        assert_eq!(of_bytes(png), size(640, 480));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\x01\xe0\x02\x80\x01";
        assert_eq!(of_bytes(jpeg), size(640, 480));
        assert_eq!(of_bytes(b"GIF89a\x80\x02\xe0\x01"), size(640, 480));
        let mut bmp = vec![0; 26];
        bmp[..2].copy_from_slice(b"BM");
        bmp[18..22].copy_from_slice(&640u32.to_le_bytes());
        bmp[22..26].copy_from_slice(&(-480i32).to_le_bytes());
        assert_eq!(of_bytes(&bmp), size(640, 480));
        for length in 0..jpeg.len() - 1 {
            assert_eq!(of_bytes(&jpeg[..length]), None, "{length}");
        }
        assert_eq!(of_bytes(b"RIFF"), None);
    }
}
