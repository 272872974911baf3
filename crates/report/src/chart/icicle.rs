use super::{
    CATEGORIES, Width, shortened,
    svg::{Element, Svg},
};
use crate::view::Icicle;

const TOP: f64 = 30.0;
const ROW: f64 = 20.0;
/// Narrower parts are not drawn.
const NARROWEST: f64 = 0.4;

/// Rows from the outermost part down; a name stands where it fits.
pub fn icicle(view: &Icicle, width: Width) -> Svg {
    let depth = view.parts.iter().map(|part| part.depth + 1).max().unwrap_or(0);
    let mut svg = Svg::new(&view.title, width, TOP + ROW * depth as f64 + 6.0);
    let roots = view.parts.iter().filter(|part| part.depth == 0);
    let whole: f64 = roots.map(|part| part.value).sum();
    let scale = width.pixels() / whole.max(f64::MIN_POSITIVE);
    for part in &view.parts {
        let wide = part.value * scale;
        if wide < NARROWEST {
            continue;
        }
        let (x, y) = (part.start * scale, TOP + ROW * part.depth as f64);
        let kind = class_number(&part.name);
        svg.add(
            Element::rect(x, y, (wide - 0.5).max(NARROWEST), ROW - 1.0)
                .class(&format!("c{kind} flat"))
                .tooltip(&format!("{}: {}", part.path, view.unit.format(part.value))),
        );
        let letters = ((wide - 4.0) / 6.6).max(0.0) as usize;
        if letters >= 3 {
            let label = shortened(&part.name, letters);
            svg.add(Element::text(x + 3.0, y + 14.0, &label).class("halo"));
        }
    }
    svg
}

/// Modules of one class have one color: `Qwen2MLP_3` and `Qwen2MLP_4` differ by number alone.
fn class_number(name: &str) -> usize {
    let class = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_');
    let hash = class.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(byte)));
    hash % CATEGORIES
}
