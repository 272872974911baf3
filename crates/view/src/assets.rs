//! Files of the page, inside the binary.

/// Name, content type, contents.
pub(crate) const ASSETS: [(&str, &str, &str); 19] = [
    ("index.html", HTML, include_str!("../web/index.html")),
    (
        "style.css",
        "text/css; charset=utf-8",
        include_str!("../web/style.css"),
    ),
    ("app.js", JS, include_str!("../web/app.js")),
    ("compare.js", JS, include_str!("../web/compare.js")),
    ("data.js", JS, include_str!("../web/data.js")),
    ("format.js", JS, include_str!("../web/format.js")),
    ("table.js", JS, include_str!("../web/table.js")),
    ("timeline.js", JS, include_str!("../web/timeline.js")),
    ("draw.js", JS, include_str!("../web/draw.js")),
    ("tiles.js", JS, include_str!("../web/tiles.js")),
    ("query.js", JS, include_str!("../web/query.js")),
    ("run.js", JS, include_str!("../web/run.js")),
    ("perfetto.js", JS, include_str!("../web/perfetto.js")),
    ("picture.js", JS, include_str!("../web/picture.js")),
    ("steps.js", JS, include_str!("../web/steps.js")),
    ("requests.js", JS, include_str!("../web/requests.js")),
    ("ranks.js", JS, include_str!("../web/ranks.js")),
    ("memory.js", JS, include_str!("../web/memory.js")),
    ("flame.js", JS, include_str!("../web/flame.js")),
];

pub(crate) const HTML: &str = "text/html; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
pub(crate) const SVG: &str = "image/svg+xml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const BINARY: &str = "application/octet-stream";
