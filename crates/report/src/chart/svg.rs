//! A small writer of SVG: elements with escaped attributes and text, and numbers printed the same everywhere.

use super::{ChartWidth, shortened, theme};

/// Ground around a chart that is a file of its own.
const MARGIN: f64 = 16.0;

#[derive(Clone, Debug)]
pub struct Svg {
    title: String,
    width: ChartWidth,
    height: f64,
    body: String,
}

impl Svg {
    /// A chart with its title as the heading.
    pub(super) fn new(title: impl Into<String>, width: ChartWidth, height: f64) -> Self {
        let mut svg = Self {
            title: title.into(),
            width,
            height,
            body: String::new(),
        };
        // Letters of a heading are larger and bolder than others.
        let heading = shortened(&svg.title, width.letters(0.0) * 5 / 6);
        svg.add(SvgElement::text(0.0, 16.0, &heading).class("heading"));
        svg
    }

    pub(super) fn add(&mut self, element: SvgElement) {
        element.print(&mut self.body);
        self.body.push('\n');
    }

    /// The chart as an element of a page, whose style sheet it uses.
    pub fn inline(&self) -> String {
        self.element("", 0.0, "")
    }

    /// The chart as a file, with its own style for light and dark viewers.
    pub fn file(&self) -> String {
        let mut head = format!(
            "<title>{}</title>\n<style>\n{}</style>\n",
            escaped(&self.title),
            theme::file_style()
        );
        let ground = SvgElement::rect(
            -MARGIN,
            -MARGIN,
            self.width.pixels() + 2.0 * MARGIN,
            self.height + 2.0 * MARGIN,
        );
        ground.class("ground").print(&mut head);
        head.push('\n');
        self.element(" xmlns=\"http://www.w3.org/2000/svg\"", MARGIN, &head)
    }

    fn element(&self, attributes: &str, margin: f64, head: &str) -> String {
        let (corner, width, height) = (
            number(-margin),
            number(self.width.pixels() + 2.0 * margin),
            number(self.height + 2.0 * margin),
        );
        format!(
            "<svg{attributes} class=\"chart {}\" viewBox=\"{corner} {corner} {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{}\">\n{head}{}</svg>\n",
            self.width.pick("wide", "narrow"),
            escaped(&self.title),
            self.body
        )
    }
}

pub(super) struct SvgElement {
    name: &'static str,
    attributes: String,
    content: String,
}

impl SvgElement {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            attributes: String::new(),
            content: String::new(),
        }
    }

    pub(super) fn rect(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self::new("rect")
            .number("x", x)
            .number("y", y)
            .number("width", width)
            .number("height", height)
    }

    pub(super) fn line(x1: f64, y1: f64, x2: f64, y2: f64) -> Self {
        Self::new("line")
            .number("x1", x1)
            .number("y1", y1)
            .number("x2", x2)
            .number("y2", y2)
    }

    pub(super) fn text(x: f64, y: f64, text: &str) -> Self {
        let mut element = Self::new("text").number("x", x).number("y", y);
        element.content = escaped(text);
        element
    }

    pub(super) fn polyline(points: &[(f64, f64)]) -> Self {
        let points: Vec<String> = points
            .iter()
            .map(|&(x, y)| format!("{},{}", number(x), number(y)))
            .collect();
        Self::new("polyline").attribute("points", &points.join(" "))
    }

    pub(super) fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes += &format!(" {name}=\"{}\"", escaped(value));
        self
    }

    pub(super) fn number(self, name: &str, value: f64) -> Self {
        self.attribute(name, &number(value))
    }

    pub(super) fn class(self, classes: &str) -> Self {
        self.attribute("class", classes)
    }

    pub(super) fn child(mut self, element: Self) -> Self {
        element.print(&mut self.content);
        self
    }

    /// What a reader sees on hovering; also what a screen reader says.
    pub(super) fn tooltip(mut self, text: &str) -> Self {
        self.content += &format!("<title>{}</title>", escaped(text));
        self
    }

    fn print(self, out: &mut String) {
        let Self {
            name,
            attributes,
            content,
        } = self;
        *out += &if content.is_empty() {
            format!("<{name}{attributes}/>")
        } else {
            format!("<{name}{attributes}>{content}</{name}>")
        };
    }
}

/// A coordinate with at most two decimals. What is not finite would void the whole element, so it becomes zero.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// Text that is safe between tags and inside quoted attributes, in HTML and in XML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(character),
            // XML 1.0 has no way to write the other control characters, nor two non-characters.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_always_valid() {
        let printed = [1.0, -0.001, 2.505, 1e-9, f64::NAN, f64::INFINITY, 1234.567].map(number);
        assert_eq!(printed, ["1", "0", "2.5", "0", "0", "0", "1234.57"]);
    }

    #[test]
    fn text_cannot_leave_its_element() {
        let element =
            SvgElement::text(0.0, 0.0, "</script><b a='\"'>&\0").attribute("data-x", "\"><i>");
        let mut text = String::new();
        element.print(&mut text);
        assert_eq!(
            text,
            "<text x=\"0\" y=\"0\" data-x=\"&quot;&gt;&lt;i&gt;\">&lt;/script&gt;&lt;b a=&#39;&quot;&#39;&gt;&amp;\u{fffd}</text>"
        );
    }
}
