//! Pages: PNG and JPEG files, turned as their EXIF orientation says.

use std::{fs::File, io::BufReader, path::Path};

use image::{
    DynamicImage, ImageDecoder, ImageFormat, ImageReader, RgbImage, metadata::Orientation,
};

fn open_image(path: &Path) -> Result<ImageReader<BufReader<File>>, String> {
    let reader = ImageReader::open(path)
        .and_then(ImageReader::with_guessed_format)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err(format!("{} is not a PNG or JPEG file", path.display()));
    }
    Ok(reader)
}

fn broken_image(path: &Path, error: &image::ImageError) -> String {
    format!("{} cannot be decoded: {error}", path.display())
}

/// Width and height, from the head of the file alone.
pub fn size(path: &Path) -> Result<(u64, u64), String> {
    let mut decoder = open_image(path)?
        .into_decoder()
        .map_err(|error| broken_image(path, &error))?;
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
pub fn read(path: &Path) -> Result<RgbImage, String> {
    let mut decoder = open_image(path)?
        .into_decoder()
        .map_err(|error| broken_image(path, &error))?;
    let turned = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image =
        DynamicImage::from_decoder(decoder).map_err(|error| broken_image(path, &error))?;
    image.apply_orientation(turned);
    Ok(image.into_rgb8())
}
