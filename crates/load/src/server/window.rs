//! What happened between two pages: counters and histograms are differenced, per set of labels.

use std::collections::BTreeMap;

use llmprof_record::serving::WindowHistogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{MetricKind, MetricSample, MetricsPage};

/// A window between two pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Window {
    /// Growth of counters, label sets added up.
    pub counters: BTreeMap<String, f64>,
    /// Growth of histograms, label sets added up.
    pub histograms: BTreeMap<String, WindowHistogram>,
    /// Gauges at the end, label sets added up.
    pub gauges: BTreeMap<String, f64>,
    /// Counters that fell: the server was started again, and its window begins there.
    pub resets: Vec<String>,
}

/// The standard gauge of Prometheus' client libraries.
const PROCESS_START: &str = "process_start_time_seconds";

type Key<'a> = (&'a str, &'a BTreeMap<String, String>);

impl Window {
    /// From `before` to `after`. A label set that appears in the window began at zero.
    pub fn between(before: &MetricsPage, after: &MetricsPage) -> Self {
        let earlier: BTreeMap<Key<'_>, f64> = before
            .samples
            .iter()
            .map(|s| ((s.name.as_str(), &s.labels), s.value))
            .collect();
        let mut window = Self::default();
        let start = |page: &MetricsPage| page.total(PROCESS_START);
        // A server that was started again has counted from zero, also where it has counted further by now.
        let is_new_process = start(before).is_some() && start(before) != start(after);
        if is_new_process {
            window.resets.push(PROCESS_START.to_owned());
        }
        let mut buckets: BTreeMap<&str, BTreeMap<u64, f64>> = BTreeMap::new();
        for sample in &after.samples {
            let was = earlier
                .get(&(sample.name.as_str(), &sample.labels))
                .filter(|_| !is_new_process)
                .copied()
                .unwrap_or(0.0);
            let is_part = histogram_part(after, &sample.name);
            if is_part.is_none() && after.kind(&sample.name) != MetricKind::Counter {
                *window.gauges.entry(sample.name.clone()).or_default() += sample.value;
                continue;
            }
            let mut grown = sample.value - was;
            if grown < 0.0 || grown.is_nan() {
                window.resets.push(sample.name.clone());
                grown = if sample.value.is_finite() {
                    sample.value
                } else {
                    0.0
                };
            }
            match is_part {
                None => *window.counters.entry(sample.name.clone()).or_default() += grown,
                Some((base, part)) => {
                    let histogram = window.histograms.entry(base.to_owned()).or_default();
                    match part {
                        "_sum" => histogram.sum += grown,
                        "_count" => histogram.count += grown,
                        _ => {
                            if let Some(limit) = bucket_limit(sample) {
                                let of = buckets.entry(base).or_default();
                                *of.entry(limit.to_bits()).or_default() += grown;
                            }
                        }
                    }
                }
            }
        }
        for (base, limits) in buckets {
            if let Some(histogram) = window.histograms.get_mut(base) {
                histogram.buckets = limits
                    .into_iter()
                    .map(|(bits, count)| (f64::from_bits(bits), count))
                    .collect();
            }
        }
        window.histograms = std::mem::take(&mut window.histograms)
            .into_iter()
            .map(|(name, histogram)| (name, histogram.finished()))
            .collect();
        window.resets.sort();
        window.resets.dedup();
        window
    }
}

/// The histogram that a sample is part of, and which part.
fn histogram_part<'a>(page: &MetricsPage, name: &'a str) -> Option<(&'a str, &'static str)> {
    ["_bucket", "_sum", "_count"].into_iter().find_map(|part| {
        let base = name.strip_suffix(part)?;
        (page.kinds.get(base) == Some(&MetricKind::Histogram)).then_some((base, part))
    })
}

fn bucket_limit(sample: &MetricSample) -> Option<f64> {
    let text = sample.labels.get("le")?;
    match text.as_str() {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::serving::Bound;

    use super::*;

    fn metrics_page(counts: [u64; 3], sum: f64, total: f64, running: f64) -> MetricsPage {
        MetricsPage::read(&format!(
            "# TYPE t histogram\nt_bucket{{e=\"0\",le=\"1.0\"}} {}\nt_bucket{{e=\"0\",le=\"2.0\"}} {}\nt_bucket{{e=\"0\",le=\"+Inf\"}} {}\n\
             t_sum{{e=\"0\"}} {sum}\nt_count{{e=\"0\"}} {}\n# TYPE c counter\nc_total {total}\n# TYPE g gauge\ng {running}\n",
            counts[0], counts[1], counts[2], counts[2]
        ))
    }

    #[test]
    fn differences_by_hand() {
        let window = Window::between(
            &metrics_page([5, 5, 5], 2.0, 10.0, 1.0),
            &metrics_page([9, 13, 15], 17.0, 14.0, 3.0),
        );
        let t = &window.histograms["t"];
        assert_eq!((t.count, t.sum, t.mean), (10.0, 15.0, Some(1.5)));
        // 4 up to 1, 8 up to 2: the 5th value is a quarter into the second bucket.
        assert_eq!(t.p50, Some(1.25));
        assert_eq!(t.p99, Some(2.0));
        assert_eq!(window.counters["c_total"], 4.0);
        assert_eq!(window.gauges["g"], 3.0);
        assert!(window.resets.is_empty());
    }

    #[test]
    fn the_mean_bounds_quantiles_of_wide_buckets() {
        let window = Window::between(
            &metrics_page([0, 0, 0], 0.0, 0.0, 0.0),
            &metrics_page([40, 40, 40], 0.04, 0.0, 0.0),
        );
        let t = &window.histograms["t"];
        assert_eq!(t.quantile(0.5), Some(0.5));
        let close =
            |computed: Option<f64>, by_hand: f64| (computed.unwrap() - by_hand).abs() < 1e-12;
        assert!(close(t.p50, 0.002) && close(t.p90, 0.01) && close(t.p99, 0.1));
        let names: Vec<&str> = t.bounds.keys().map(String::as_str).collect();
        assert_eq!(names, ["p50", "p90", "p99"]);
        assert_eq!(t.bounds["p99"], Bound::AtMost);
    }

    #[test]
    fn a_quantile_in_the_last_bucket_is_a_lower_bound() {
        let none = metrics_page([0, 0, 0], 0.0, 0.0, 0.0);
        let window = Window::between(&none, &metrics_page([4, 8, 10], 90.0, 0.0, 0.0));
        let t = &window.histograms["t"];
        assert_eq!((t.p50, t.p90, t.p99), (Some(1.25), Some(2.0), Some(2.0)));
        assert_eq!(t.bounds.get("p50"), None);
        assert_eq!(
            (t.bounds["p90"], t.bounds["p99"]),
            (Bound::AtLeast, Bound::AtLeast)
        );
    }

    #[test]
    fn a_server_that_was_started_again_and_counted_further_is_told() {
        let with_start = |page: &MetricsPage, at: f64| {
            let mut page = page.clone();
            let start = format!("# TYPE {PROCESS_START} gauge\n{PROCESS_START} {at}\n");
            page.samples.extend(MetricsPage::read(&start).samples);
            page
        };
        let before = with_start(&metrics_page([5, 5, 5], 2.0, 10.0, 1.0), 100.0);
        let after = metrics_page([9, 13, 15], 17.0, 14.0, 3.0);
        let again = Window::between(&before, &with_start(&after, 130.0));
        assert_eq!(again.resets, [PROCESS_START]);
        assert_eq!(again.counters["c_total"], 14.0, "all of the new process");
        let same = Window::between(&before, &with_start(&after, 100.0));
        assert_eq!((same.resets.len(), same.counters["c_total"]), (0, 4.0));
    }

    #[test]
    fn a_server_that_was_started_again_is_told() {
        let window = Window::between(
            &metrics_page([5, 5, 5], 2.0, 10.0, 1.0),
            &metrics_page([1, 2, 2], 3.0, 2.0, 0.0),
        );
        assert_eq!(window.counters["c_total"], 2.0);
        assert!(window.resets.contains(&"c_total".to_owned()));
        assert_eq!(window.histograms["t"].count, 2.0);
    }

    #[test]
    fn empty_windows_have_no_quantiles() {
        let same = metrics_page([5, 5, 5], 2.0, 10.0, 1.0);
        let window = Window::between(&same, &same);
        assert_eq!(window.histograms["t"].mean, None);
        assert_eq!(window.histograms["t"].p50, None);
    }
}
