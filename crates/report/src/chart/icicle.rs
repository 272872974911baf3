use super::{
    CATEGORIES, ChartWidth, distinct, shortened,
    svg::{Svg, SvgElement},
};
use crate::view::Icicle;

const TOP: f64 = 30.0;
const ROW: f64 = 20.0;
/// Narrower parts are not drawn.
const PART_WIDTH_MIN: f64 = 0.4;

/// Rows from the outermost part down; a name stands where it fits.
pub fn icicle(view: &Icicle, width: ChartWidth) -> Svg {
    let depth = view
        .parts
        .iter()
        .map(|part| part.depth + 1)
        .max()
        .unwrap_or(0);
    let mut svg = Svg::new(&view.title, width, TOP + ROW * depth as f64 + 6.0);
    let roots = view.parts.iter().filter(|part| part.depth == 0);
    let whole: f64 = roots.map(|part| part.value).sum();
    let scale = width.pixels() / whole.max(f64::MIN_POSITIVE);
    let classes = distinct(view.parts.iter().map(|part| class_of(&part.name)));
    for part in &view.parts {
        let wide = part.value * scale;
        if wide < PART_WIDTH_MIN {
            continue;
        }
        let (x, y) = (part.start * scale, TOP + ROW * part.depth as f64);
        let class = class_of(&part.name);
        let kind = classes
            .iter()
            .position(|known| *known == class)
            .unwrap_or(0)
            % CATEGORIES;
        svg.add(
            SvgElement::rect(x, y, (wide - 0.5).max(PART_WIDTH_MIN), ROW - 1.0)
                .class(&format!("c{kind} flat"))
                .tooltip(&format!("{}: {}", part.path, view.unit.format(part.value))),
        );
        // A part that is too narrow for its name has its number.
        let letters = ((wide - 4.0) / 6.6).max(0.0) as usize;
        let count = part.name.chars().count();
        let label = if count <= letters || letters >= 12 {
            shortened(&part.name, letters)
        } else {
            part.name[class.len()..].trim_start_matches('_').to_owned()
        };
        if !label.is_empty() && label.chars().count() <= letters {
            svg.add(SvgElement::text(x + 3.0, y + 14.0, &label).class("halo"));
        }
    }
    svg
}

/// Modules of one class have one color: `Qwen2MLP_3` and `Qwen2MLP_4` differ by number alone.
fn class_of(name: &str) -> &str {
    let class = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    class
        .strip_suffix('_')
        .filter(|class| !class.is_empty())
        .unwrap_or(name)
}
