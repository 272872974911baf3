//! One page with what a model found on it.

use std::path::Path;

use image::{ExtendedColorType, RgbImage, codecs::jpeg::JpegEncoder, imageops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    glyphs,
    markdown::to_markdown,
    page,
    paint::{self, PixelFrame},
    parse::{Box999, EDGE, parse},
};

/// Edges of letters and boxes stay sharp.
const JPEG_QUALITY: u8 = 90;

/// What could not be taken as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PageCounts {
    /// Regions that the text names.
    pub regions: u64,
    /// Number of boxes that these regions have.
    pub boxes: u64,
    /// Tags that are not a region.
    pub malformed: u64,
    /// Boxes that reach beyond the page.
    pub out_of_range: u64,
    /// Labels that stand as a box number in the image: they have letters that the font lacks.
    pub labels_not_drawn: u64,
}

/// A box in pixels, with its label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct PixelBox {
    /// From 1, in the order of the text.
    pub number: usize,
    /// Left edge in pixels from the page's left.
    pub x: u32,
    /// Upper edge in pixels from the page's top.
    pub y: u32,
    /// Width of the box in pixels.
    pub w: u32,
    /// Height of the box in pixels.
    pub h: u32,
    /// Label that the model gave the region.
    pub text: String,
    /// The file of its crop, for a region labelled `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<String>,
}

/// What `info.json` says of one page: its boxes and what could not be read.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Info {
    /// Path of the image file of the page.
    pub source_image: String,
    /// Width of the page, pixels.
    pub width: u32,
    /// Height of the page, pixels.
    pub height: u32,
    /// The model's answer, as it was generated.
    pub text_raw: String,
    /// Time of each phase of the batch.
    pub timings_ms: Map<String, Value>,
    /// Boxes in the order of the text.
    pub boxes: Vec<PixelBox>,
    /// Tags that are not a region.
    pub malformed: Vec<String>,
    /// Numbers of regions and boxes.
    pub counts: PageCounts,
}

/// The files of one page.
#[derive(Debug)]
pub struct Visual {
    /// The page with its boxes drawn: `result_with_boxes.jpg`.
    pub drawn: Vec<u8>,
    /// The text with crops in place of boxes: `result.mmd`.
    pub markdown: String,
    /// Cut-out images by file name, for the folder `images/`.
    pub crops: Vec<(String, Vec<u8>)>,
    pub info: Info,
}

/// Draws what `text` says of the image at `path`.
pub fn visual(path: &Path, text: &str, timings_ms: Map<String, Value>) -> Result<Visual, String> {
    page::with_large_alone(path, || draw_page(path, text, timings_ms))
}

fn draw_page(path: &Path, text: &str, timings_ms: Map<String, Value>) -> Result<Visual, String> {
    let page = page::read_page(path)?;
    let grounded = parse(text);
    let mut drawn = page.clone();
    let (mut boxes, mut crops, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = PageCounts {
        regions: grounded.regions.len() as u64,
        malformed: grounded.malformed.len() as u64,
        out_of_range: grounded.out_of_range,
        ..PageCounts::default()
    };
    let mut labels = Vec::new();
    for region in &grounded.regions {
        let colour = paint::label_colour(&region.label);
        let line = if region.label == "title" { 4 } else { 2 };
        let mut of_region = Vec::new();
        for one in &region.boxes {
            let frame = pixel_frame(*one, page.width(), page.height());
            let number = boxes.len() + 1;
            paint::paint_area(&mut drawn, frame, colour, line);
            let shown = if glyphs::can_draw(&region.label) {
                region.label.clone()
            } else {
                counts.labels_not_drawn += 1;
                format!("#{number}")
            };
            labels.push((frame, shown, colour));
            let crop = if region.label == "image" {
                let name = format!("images/{}.jpg", crops.len());
                let cut = imageops::crop_imm(&page, frame.x, frame.y, frame.width, frame.height);
                crops.push((name.clone(), encode_jpeg(&cut.to_image())?));
                of_region.push(name.clone());
                Some(name)
            } else {
                None
            };
            boxes.push(PixelBox {
                number,
                x: frame.x,
                y: frame.y,
                w: frame.width,
                h: frame.height,
                text: region.label.clone(),
                crop,
            });
        }
        names.push(of_region);
    }
    // Labels last, so that no area covers one.
    for (frame, shown, colour) in labels {
        paint::paint_label(&mut drawn, frame, &shown, colour);
    }
    counts.boxes = boxes.len() as u64;
    let markdown = to_markdown(text, &grounded, |number, _| {
        names.get(number).cloned().unwrap_or_default()
    });
    let malformed = grounded.malformed.iter();
    let malformed = malformed.map(|one| format!("byte {}: {}", one.at, one.what));
    Ok(Visual {
        drawn: encode_jpeg(&drawn)?,
        markdown,
        crops,
        info: Info {
            source_image: path.to_string_lossy().into_owned(),
            width: page.width(),
            height: page.height(),
            text_raw: text.to_owned(),
            timings_ms,
            boxes,
            malformed: malformed.collect(),
            counts,
        },
    })
}

/// A box in pixels of a page, at least one pixel each way: pixel = coordinate ÷ 999 × size, rounded down.
fn pixel_frame(one: Box999, width: u32, height: u32) -> PixelFrame {
    let pixel = |value: i64, size: u32| {
        (value.clamp(0, EDGE) * i64::from(size) / EDGE).clamp(0, i64::from(size)) as u32
    };
    let x = pixel(one.left, width).min(width.saturating_sub(1));
    let y = pixel(one.top, height).min(height.saturating_sub(1));
    PixelFrame {
        x,
        y,
        width: pixel(one.right, width).saturating_sub(x).max(1),
        height: pixel(one.bottom, height).saturating_sub(y).max(1),
    }
}

fn encode_jpeg(image: &RgbImage) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY)
        .encode(
            image,
            image.width(),
            image.height(),
            ExtendedColorType::Rgb8,
        )
        .map_err(|error| format!("cannot encode a JPEG file: {error}"))?;
    Ok(bytes)
}
