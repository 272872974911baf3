//! Rectangles and labels on an image.

use image::{Rgb, RgbImage};

use crate::glyphs;

/// Pixels from left and top, and sizes, inside the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PixelFrame {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// Letters of a label, at most.
const LABEL_MAX_CHARS: usize = 24;

/// A colour that is the same for a label in every image: strong enough for an outline, with dark text on it.
pub(crate) fn label_colour(label: &str) -> Rgb<u8> {
    const COLOURS: [[u8; 3]; 8] = [
        [230, 97, 1],
        [31, 120, 180],
        [51, 160, 44],
        [227, 26, 28],
        [148, 103, 189],
        [23, 160, 160],
        [190, 130, 20],
        [214, 70, 150],
    ];
    let hash = label.bytes().fold(17usize, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    Rgb(COLOURS[hash % COLOURS.len()])
}

fn blend_pixel(image: &mut RgbImage, x: u32, y: u32, colour: Rgb<u8>, alpha: u32) {
    if let Some(pixel) = image.get_pixel_mut_checked(x, y) {
        for (old, new) in pixel.0.iter_mut().zip(colour.0) {
            let mixed = u32::from(*old) * (255 - alpha) + u32::from(new) * alpha;
            *old = (mixed / 255) as u8;
        }
    }
}

fn fill_frame(image: &mut RgbImage, frame: PixelFrame, colour: Rgb<u8>, alpha: u32) {
    for y in frame.y..frame.y.saturating_add(frame.height) {
        for x in frame.x..frame.x.saturating_add(frame.width) {
            blend_pixel(image, x, y, colour, alpha);
        }
    }
}

/// A tinted area with an outline of `line` pixels, inside the frame.
pub(crate) fn paint_area(image: &mut RgbImage, frame: PixelFrame, colour: Rgb<u8>, line: u32) {
    // An eighth of the colour, so that the text below stays legible.
    const TINT: u32 = 32;
    fill_frame(image, frame, colour, TINT);
    let line = line.min(frame.width).min(frame.height);
    let edges = [
        PixelFrame {
            height: line,
            ..frame
        },
        PixelFrame {
            y: frame.y + frame.height - line,
            height: line,
            ..frame
        },
        PixelFrame {
            width: line,
            ..frame
        },
        PixelFrame {
            x: frame.x + frame.width - line,
            width: line,
            ..frame
        },
    ];
    for edge in edges {
        fill_frame(image, edge, colour, 255);
    }
}

/// A label above the frame, or inside it if there is no room above.
pub(crate) fn paint_label(image: &mut RgbImage, frame: PixelFrame, text: &str, colour: Rgb<u8>) {
    // Pages are drawn large and seen small.
    let scale = (image.width() / 300).clamp(1, 6);
    let letters: Vec<char> = text.chars().take(LABEL_MAX_CHARS).collect();
    let width = (letters.len() as u32 * (glyphs::WIDTH + 1) + 3) * scale;
    let height = (glyphs::HEIGHT + 4) * scale;
    let x = frame.x.min(image.width().saturating_sub(width));
    let y = if frame.y >= height {
        frame.y - height
    } else {
        frame.y
    };
    let back = PixelFrame {
        x,
        y,
        width,
        height,
    };
    fill_frame(image, back, colour, 255);
    for (number, letter) in letters.into_iter().enumerate() {
        let left = x + (2 + number as u32 * (glyphs::WIDTH + 1)) * scale;
        for (row, bits) in glyphs::glyph_rows(letter).into_iter().enumerate() {
            for column in 0..glyphs::WIDTH {
                if bits >> (glyphs::WIDTH - 1 - column) & 1 == 1 {
                    let dot = PixelFrame {
                        x: left + column * scale,
                        y: y + (2 + row as u32) * scale,
                        width: scale,
                        height: scale,
                    };
                    fill_frame(image, dot, Rgb([255, 255, 255]), 255);
                }
            }
        }
    }
}
