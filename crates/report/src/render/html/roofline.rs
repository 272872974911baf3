//! The roofline with its filters.

use crate::{
    chart::{self, escaped},
    view::{Roofline, RooflineCeiling},
};

/// `id` keeps the radio buttons of several rooflines apart.
pub(super) fn figure(roofline: &Roofline, id: &str) -> String {
    let id = escaped(id);
    let mut text =
        format!("<figure class=\"roofline\" id=\"chart-{id}\">\n<div class=\"controls\">\n");
    // Those of the legend: what has no place cannot be hidden.
    let drawn = || roofline.points.iter().filter(|point| point.is_drawable());
    let (shapes, colors) = match &roofline.titles {
        Some(titles) => (titles.shapes, titles.colors),
        None => ("phase", "kind"),
    };
    text += &choices("phase", shapes, drawn().map(|point| point.phase.as_str()));
    text += &choices("kind", colors, drawn().map(|point| point.kind.as_str()));
    let (own, others): (Vec<&RooflineCeiling>, Vec<&RooflineCeiling>) =
        roofline.roofs.iter().partition(|roof| roof.is_own);
    if let (Some(own), false) = (own.first(), others.is_empty()) {
        let own = own.basis.to_string();
        let opens_with = if roofline.own_lacks_peak {
            "datasheet"
        } else {
            "measured"
        };
        text += "<fieldset><legend>peaks</legend>";
        for (value, label) in [
            ("measured", own.as_str()),
            ("datasheet", "datasheet"),
            ("", "both"),
        ] {
            let checked = if value == opens_with { " checked" } else { "" };
            text += &format!(
                "<label><input type=\"radio\" name=\"basis-{id}\" class=\"basis\" value=\"{value}\"{checked}>{label}</label>"
            );
        }
        text += "</fieldset>\n";
    }
    text += "<output></output>\n</div>\n";
    text += &super::both(|width| chart::roofline(roofline, width));
    text + "</figure>\n"
}

fn choices<'a>(name: &str, legend: &str, values: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    if seen.len() < 2 {
        return String::new();
    }
    let boxes: String = seen.iter().enumerate().fold(String::new(), |out, (index, value)| {
        let value = escaped(value);
        let swatch = if name == "kind" {
            format!("<i class=\"swatch c{}\"></i>", index % chart::CATEGORIES)
        } else {
            String::new()
        };
        out + &format!("<label><input type=\"checkbox\" data-filter=\"{name}\" value=\"{value}\" checked>{swatch}{value}</label>")
    });
    format!("<fieldset><legend>{legend}</legend>{boxes}</fieldset>\n")
}
