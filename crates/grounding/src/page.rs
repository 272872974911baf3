//! Pages: PNG and JPEG files, turned as their EXIF orientation says.

use std::{path::Path, sync::Mutex};

use image::{
    DynamicImage, ImageDecoder, ImageFormat, ImageReader, RgbImage, metadata::Orientation,
};

/// Larger images are refused, however few bytes their files have: a page of 100 million pixels takes about 1 GB to draw.
pub const PIXELS_MAX: u64 = 100_000_000;
/// Of larger images one is read at a time, on however many cores pages are drawn.
const PIXELS_AT_ONCE: u64 = 16_000_000;

static LARGE_IMAGE: Mutex<()> = Mutex::new(());

fn open_image(path: &Path) -> Result<impl ImageDecoder, String> {
    let reader = ImageReader::open(path)
        .and_then(ImageReader::with_guessed_format)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err(format!("{} is not a PNG or JPEG file", path.display()));
    }
    let decoder = reader
        .into_decoder()
        .map_err(|error| broken_image(path, &error))?;
    if pixel_count(&decoder) > PIXELS_MAX {
        let (width, height) = decoder.dimensions();
        return Err(format!(
            "{} has {width} × {height} pixels, and at most {PIXELS_MAX} are read; scale it down",
            path.display()
        ));
    }
    Ok(decoder)
}

fn pixel_count(decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    u64::from(width) * u64::from(height)
}

/// Calls `work`, alone where the image is large.
pub(crate) fn with_large_alone<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let is_large = pixel_count(&open_image(path)?) > PIXELS_AT_ONCE;
    // A panic of another page leaves nothing behind.
    let _alone = is_large.then(|| LARGE_IMAGE.lock());
    work()
}

fn broken_image(path: &Path, error: &image::ImageError) -> String {
    format!("{} cannot be decoded: {error}", path.display())
}

/// Width and height, from the head of the file alone.
pub fn page_size(path: &Path) -> Result<(u64, u64), String> {
    let mut decoder = open_image(path)?;
    let (width, height) = decoder.dimensions();
    let turned = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let is_across = matches!(
        turned,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    );
    let (width, height) = (u64::from(width), u64::from(height));
    Ok(if is_across {
        (height, width)
    } else {
        (width, height)
    })
}

/// Every pixel. A file that ends early is an error.
pub fn read_page(path: &Path) -> Result<RgbImage, String> {
    let mut decoder = open_image(path)?;
    let turned = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image =
        DynamicImage::from_decoder(decoder).map_err(|error| broken_image(path, &error))?;
    image.apply_orientation(turned);
    Ok(image.into_rgb8())
}
