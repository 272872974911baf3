//! Colours, stated once for both themes and used by charts and pages alike.

/// How many colours tell categories apart; further categories start again.
pub(crate) const CATEGORIES: usize = 10;

/// Name, colour on a light ground, colour on a dark ground.
const COLORS: &[(&str, &str, &str)] = &[
    ("ground", "#ffffff", "#14171c"),
    ("panel", "#f6f7f9", "#1c2027"),
    ("ink", "#1c2128", "#e3e6ea"),
    ("muted", "#5c6570", "#9aa3ae"),
    ("rule", "#dfe3e8", "#323842"),
    ("accent", "#0a66c2", "#5aa9f5"),
    ("error", "#b42318", "#ff8a7a"),
    ("warning", "#8a5a00", "#e9b949"),
    ("info", "#3d5a80", "#8fb4dd"),
    ("roofline", "#1a8754", "#3cbf83"),
    ("inefficiency", "#d9730d", "#f0954a"),
    ("overhead", "#b8921a", "#dcb944"),
    ("copies", "#8250c4", "#ab87e6"),
    ("communication", "#0f7c8c", "#4fb9c9"),
    ("unattributed", "#7d8590", "#8d96a0"),
    ("idle", "#c4455a", "#e5738a"),
    ("overlap", "#5c6570", "#9aa3ae"),
    ("c0", "#2f6fb7", "#6aa9ea"),
    ("c1", "#d9730d", "#f0954a"),
    ("c2", "#1a8754", "#3cbf83"),
    ("c3", "#b03a78", "#e47fb3"),
    ("c4", "#b8921a", "#dcb944"),
    ("c5", "#0e8a99", "#46c3d1"),
    ("c6", "#8250c4", "#ab87e6"),
    ("c7", "#8a5a3c", "#c69474"),
    ("c8", "#c4455a", "#e5738a"),
    ("c9", "#6b7480", "#98a2ae"),
];

const CHART_CSS: &str = include_str!("../../assets/chart.css");

fn literal(css: &str, dark: bool) -> String {
    // Longest names first would matter if one name began another inside `var(…)`; the bracket ends each.
    COLORS
        .iter()
        .fold(css.to_owned(), |css, (name, light, night)| {
            css.replace(&format!("var(--{name})"), if dark { night } else { light })
        })
}

/// The style of a chart that is a file of its own. Colours are literal: several viewers of SVG know no variables.
pub(super) fn file_style() -> String {
    format!(
        "{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        literal(CHART_CSS, false),
        literal(CHART_CSS, true)
    )
}

/// The colours and the style of charts inside a page, where `data-theme` on the root overrides the reader's preference.
pub(crate) fn page_theme() -> String {
    let variables = |dark: bool| {
        COLORS
            .iter()
            .fold(String::new(), |css, (name, light, night)| {
                css + &format!("--{name}:{};", if dark { night } else { light })
            })
    };
    let (light, dark) = (variables(false), variables(true));
    format!(
        ":root{{color-scheme:light;{light}}}\n\
         @media screen and (prefers-color-scheme: dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n\
         @media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n{CHART_CSS}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_a_style_uses_is_defined() {
        assert!(!file_style().contains("var("));
        let used = include_str!("../../assets/page.css")
            .split("var(--")
            .skip(1);
        for name in used.filter_map(|rest| rest.split(')').next()) {
            assert!(COLORS.iter().any(|(known, ..)| *known == name), "{name}");
        }
    }
}
