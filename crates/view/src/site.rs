//! What a page can ask for: paths and their answers.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::assets::{ASSETS, BINARY, HTML, JSON, SVG};
use crate::compare_page::compare_json;
use crate::opened_run::OpenedRun;
use crate::pages::{PAGES, page_json};
use crate::query::{self, QueryLimits, QueryTable};
use crate::tile::TilePlace;
use crate::track::EventRef;

/// An answer with its content type.
pub struct SiteReply {
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// Whether the answer may run its own scripts: a report carries its policy itself.
    pub is_report: bool,
}

impl SiteReply {
    fn new(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            content_type,
            body: body.into(),
            is_report: false,
        }
    }
}

impl From<Value> for SiteReply {
    fn from(value: Value) -> Self {
        Self::new(JSON, value.to_string())
    }
}

/// Everything that one page shows.
pub struct Site {
    pub runs: Vec<Arc<OpenedRun>>,
}

impl Site {
    /// The answer to a path without its leading slash; `None` where there is nothing.
    pub fn reply(&self, path: &str, query: &[(String, String)]) -> Option<SiteReply> {
        let asset = if path.is_empty() { "index.html" } else { path };
        if let Some((_, content_type, text)) = ASSETS.iter().find(|(name, _, _)| *name == asset) {
            return Some(SiteReply::new(content_type, *text));
        }
        if path == "tables.json" {
            let tables = QueryTable::ALL.iter();
            let tables = tables.map(|table| json!([table.name(), table.columns()]));
            return Some(tables.collect::<Value>().into());
        }
        if path == "runs.json" {
            return Some(self.runs_json().into());
        }
        let numbered = |number: &str| self.runs.get(number.parse::<usize>().ok()?);
        if let Some(pair) = path.strip_prefix("compare/") {
            let (a, b) = pair.strip_suffix(".json")?.split_once('/')?;
            return Some(compare_json(numbered(a)?, numbered(b)?).into());
        }
        let mut parts = path.strip_prefix("r/")?.split('/');
        let run = numbered(parts.next()?)?;
        let parts: Vec<&str> = parts.collect();
        run.reply(&parts, query)
    }

    pub(crate) fn runs_json(&self) -> Value {
        let runs = self.runs.iter().map(|run| {
            json!({
                "title": run.title,
                "name": run.record.name,
                "notes": run.notes,
                "device": run.analysis.as_ref().and_then(|analysis| analysis.device.clone()),
                "events": run.timeline.events(),
                "span_ns": run.timeline.span,
                "has_report": run.report.is_some(),
            })
        });
        json!({"runs": runs.collect::<Vec<_>>()})
    }
}

impl OpenedRun {
    pub(crate) fn reply(
        self: &Arc<Self>,
        parts: &[&str],
        values: &[(String, String)],
    ) -> Option<SiteReply> {
        let timeline = &self.timeline;
        let text = |key: &str| {
            let pair = values.iter().find(|(name, _)| name == key);
            pair.map(|(_, value)| value.as_str())
        };
        let number = |key: &str| text(key)?.parse::<i64>().ok();
        let reply = match parts {
            ["run.json"] => SiteReply::new(JSON, self.page().json.as_slice()),
            ["report.html"] => SiteReply {
                is_report: true,
                ..SiteReply::new(HTML, self.report.clone()?)
            },
            ["plot", name] => {
                let name = name.strip_suffix(".svg")?;
                let mut plots = self.page().plots.iter();
                let plot = plots.find(|(known, _)| known == name)?;
                SiteReply::new(SVG, plot.1.as_str())
            }
            [page]
                if page
                    .strip_suffix(".json")
                    .is_some_and(|page| PAGES.contains(&page)) =>
            {
                page_json(self, page.strip_suffix(".json")?)?.into()
            }
            ["lanes.json"] => timeline.lanes_json().into(),
            ["names", block] => {
                let block = block.strip_suffix(".json")?.parse().ok()?;
                timeline.names_json(block)?.into()
            }
            ["tile", lane, level, x] => {
                let place = TilePlace {
                    level: level.parse().ok()?,
                    x: x.parse().ok()?,
                };
                SiteReply::new(BINARY, timeline.tile(lane.parse().ok()?, place)?)
            }
            ["trace.pftrace"] => {
                let mut trace = Vec::new();
                // A vector takes whatever is written to it.
                timeline.write_pftrace(&self.record, &mut trace).ok()?;
                SiteReply::new(BINARY, trace)
            }
            ["event", trace, event] => {
                let event = EventRef(event.parse().ok()?);
                let trace = trace.parse().ok()?;
                self.event_json(trace, event)?.into()
            }
            ["instances", name] => timeline.instances_json(name.parse().ok()?)?.into(),
            ["totals"] => {
                let (from, to) = (number("from")?, number("to")?);
                timeline.totals_json(&self.record, from, to).into()
            }
            ["search"] => timeline.search_json(text("text")?).into(),
            ["query"] => match query::query(self, text("sql")?, QueryLimits::default()) {
                Ok(answer) => answer.json().into(),
                Err(error) => json!({"error": error.to_string()}).into(),
            },
            ["find"] => {
                let name = text("name").and_then(|name| name.parse().ok());
                let is_forward = text("back").is_none();
                let words = text("text").unwrap_or_default();
                timeline
                    .find_json(words, name, number("time")?, is_forward)
                    .into()
            }
            _ => return None,
        };
        Some(reply)
    }
}
