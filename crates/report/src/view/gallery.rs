//! Pages with boxes, for the gallery.

use llmprof_units::Nanos;

#[derive(Clone, Debug)]
pub struct GalleryPage {
    /// The folder of its files, beside the gallery.
    pub folder: String,
    pub id: String,
    pub width: u32,
    pub height: u32,
    /// Number and label of each box.
    pub labels: Vec<(usize, String)>,
    /// Tags that are not a region, each with its place.
    pub malformed: Vec<String>,
    pub out_of_range: u64,
    /// Files of crops, below the folder.
    pub crops: Vec<String>,
    pub markdown: String,
    pub duration_ns: Nanos,
    pub output_tokens: u64,
}
