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
    paint::{self, Frame},
    parse::{Box999, EDGE, parse},
};

const QUALITY: u8 = 90;

/// What could not be taken as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[schemars(rename = "PageCounts")]
pub struct Counts {
    /// Regions that the text names.
    pub regions: u64,
    /// Boxes of these regions.
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
    /// Left edge, pixels.
    pub x: u32,
    /// Upper edge, pixels.
    pub y: u32,
    /// Width, pixels.
    pub w: u32,
    /// Height, pixels.
    pub h: u32,
    /// Label of the box.
    pub text: String,
    /// The file of its crop, for a region labelled `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop: Option<String>,
}

/// The contents of `info.json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Info {
    /// File of the page.
    pub source_image: String,
    /// Width of the page, pixels.
    pub width: u32,
    /// Height of the page, pixels.
    pub height: u32,
    /// What the model said.
    pub text_raw: String,
    /// Time of each phase of the batch.
    pub timings_ms: Map<String, Value>,
    /// Boxes in the order of the text.
    pub boxes: Vec<PixelBox>,
    /// Tags that are not a region.
    pub malformed: Vec<String>,
    /// Numbers of regions and boxes.
    pub counts: Counts,
}

/// The files of one page.
#[derive(Debug)]
pub struct Visual {
    /// `result_with_boxes.jpg`.
    pub drawn: Vec<u8>,
    /// `result.mmd`.
    pub markdown: String,
    /// `images/…`: name and contents.
    pub crops: Vec<(String, Vec<u8>)>,
    pub info: Info,
}

/// Draws what `text` says of the image at `path`.
pub fn visual(path: &Path, text: &str, timings_ms: Map<String, Value>) -> Result<Visual, String> {
    let page = page::read(path)?;
    let found = parse(text);
    let mut drawn = page.clone();
    let (mut boxes, mut crops, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = Counts {
        regions: found.regions.len() as u64,
        malformed: found.malformed.len() as u64,
        out_of_range: found.out_of_range,
        ..Counts::default()
    };
    let mut labels = Vec::new();
    for region in &found.regions {
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
    let markdown = to_markdown(text, &found, |number, _| {
        names.get(number).cloned().unwrap_or_default()
    });
    let malformed = found.malformed.iter();
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
fn pixel_frame(one: Box999, width: u32, height: u32) -> Frame {
    let pixel = |value: i64, size: u32| {
        (value.clamp(0, EDGE) * i64::from(size) / EDGE).clamp(0, i64::from(size)) as u32
    };
    let x = pixel(one.left, width).min(width.saturating_sub(1));
    let y = pixel(one.top, height).min(height.saturating_sub(1));
    Frame {
        x,
        y,
        width: pixel(one.right, width).saturating_sub(x).max(1),
        height: pixel(one.bottom, height).saturating_sub(y).max(1),
    }
}

fn encode_jpeg(image: &RgbImage) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, QUALITY)
        .encode(
            image,
            image.width(),
            image.height(),
            ExtendedColorType::Rgb8,
        )
        .map_err(|error| format!("cannot encode a JPEG file: {error}"))?;
    Ok(bytes)
}
