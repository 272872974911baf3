//! Prometheus' text format, and what of OpenMetrics servers send.

use std::collections::BTreeMap;

/// What a metric is, as its page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only rises, until the process starts again.
    Counter,
    Gauge,
    /// Counts of observations, in buckets by upper limit.
    Histogram,
    /// Quantiles of observations, computed by the server.
    Summary,
    /// The page declares no type.
    Untyped,
}

/// One line: a name, labels, a value.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// The name, with `_bucket`, `_sum`, `_count` or `_total`.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// The value; may be infinite or not a number.
    pub value: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsPage {
    /// The samples in the order of the page.
    pub samples: Vec<MetricSample>,
    /// Kinds by the name that the page declares.
    pub kinds: BTreeMap<String, MetricKind>,
    /// Lines that are not of the format.
    pub broken_lines: u64,
}

impl MetricsPage {
    /// Reads a page. Lines that are not of the format are counted and left out: one bad line must not hide the others.
    pub fn read(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                let mut words = comment.split_whitespace();
                if words.next() == Some("TYPE")
                    && let (Some(name), Some(kind)) = (words.next(), words.next())
                {
                    let kind = match kind {
                        "counter" => MetricKind::Counter,
                        "gauge" => MetricKind::Gauge,
                        "histogram" => MetricKind::Histogram,
                        "summary" => MetricKind::Summary,
                        _ => MetricKind::Untyped,
                    };
                    page.kinds.insert(name.to_owned(), kind);
                }
            } else if !line.is_empty() {
                match parse_sample(line) {
                    Some(sample) => page.samples.push(sample),
                    None => page.broken_lines += 1,
                }
            }
        }
        page
    }

    /// What a sample is: by the declared kind, which `_total` and the parts of histograms do not repeat.
    pub fn kind(&self, name: &str) -> MetricKind {
        if let Some(kind) = self.kinds.get(name) {
            return *kind;
        }
        for ending in ["_total", "_bucket", "_sum", "_count", "_created"] {
            if let Some(base) = name.strip_suffix(ending)
                && let Some(kind) = self.kinds.get(base)
            {
                return match (ending, kind) {
                    ("_created", _) => MetricKind::Gauge,
                    // Sums and counts of histograms and summaries only rise.
                    ("_sum" | "_count", MetricKind::Summary | MetricKind::Histogram) => {
                        MetricKind::Counter
                    }
                    _ => *kind,
                };
            }
        }
        if name.ends_with("_total") {
            MetricKind::Counter
        } else {
            MetricKind::Untyped
        }
    }

    /// The sum over all label sets of a name; `None` where it is not on the page.
    pub fn total(&self, name: &str) -> Option<f64> {
        let mut samples = self.samples.iter().filter(|sample| sample.name == name);
        let first = samples.next()?.value;
        Some(samples.fold(first, |sum, sample| sum + sample.value))
    }
}

/// `name{label="value",…} value [timestamp] [# exemplar]`.
fn parse_sample(line: &str) -> Option<MetricSample> {
    let end = line.find(['{', ' ', '\t'])?;
    let name = &line[..end];
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
        && !name.as_bytes()[0].is_ascii_digit();
    if !is_name {
        return None;
    }
    let mut rest = &line[end..];
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = self::parse_labels(inside, &mut labels)?;
    }
    let value = rest.split_whitespace().next()?;
    let value = match value {
        "+Inf" | "Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        number => number.parse().ok()?,
    };
    Some(MetricSample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// Reads labels up to their brace; what follows it.
fn parse_labels<'a>(mut rest: &'a str, labels: &mut BTreeMap<String, String>) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        let (name, after) = rest.split_once('=')?;
        let mut characters = after.trim_start().strip_prefix('"')?.char_indices();
        let text = after.trim_start().strip_prefix('"')?;
        let mut value = String::new();
        let end = loop {
            let (at, character) = characters.next()?;
            match character {
                '"' => break at,
                '\\' => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        };
        labels.insert(name.trim().to_owned(), value);
        rest = &text[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_forms() {
        let page = MetricsPage::read(
            "# HELP a b\n# TYPE vllm:x counter\nvllm:x_total{engine=\"0\",path=\"C:\\\\a \\\"q\\\"\\n}\"} 3.0\n\
             plain 1e3 1395066363000\nh_bucket{le=\"+Inf\"} 7 # {trace_id=\"a\"} 1\nnan NaN\n{} 1\nbad line here\n9a 1\nopen{a=\"b 1\n",
        );
        assert_eq!(page.samples.len(), 4);
        assert_eq!(page.broken_lines, 4);
        assert_eq!(page.samples[0].labels["path"], "C:\\a \"q\"\n}");
        assert_eq!(page.kind("vllm:x_total"), MetricKind::Counter);
        assert_eq!(page.samples[1].value, 1000.0);
        assert_eq!(page.samples[2].labels["le"], "+Inf");
        assert!(page.samples[3].value.is_nan());
    }
}
