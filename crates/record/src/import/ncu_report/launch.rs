//! One profiled launch of a report.

use std::collections::HashMap;

use super::super::protobuf::{Field, all_bytes, first_field};
use super::units::metric_unit;
use crate::counters::{
    CountersBuilder, EstimatedSpeedup, LaunchRange, Metric, MetricId, ProfiledLaunch, Reading,
    Rule, RuleKind, Value,
};
use crate::kernel_name::canonical;

/// Reads launches. Names of metrics are stated once, before the first launch that has them.
#[derive(Default)]
pub(super) struct LaunchReader {
    /// The process of the block that is read.
    pub(super) process: u64,
    names: Vec<String>,
    /// The metric of each name, as far as one was needed.
    metrics: Vec<Option<MetricId>>,
}

impl LaunchReader {
    /// Adds the names that a block states.
    pub(super) fn learn(&mut self, strings: &[u8]) {
        let new = all_bytes(strings, 1).map(|text| String::from_utf8_lossy(text).into_owned());
        self.names.extend(new);
        self.metrics.resize(self.names.len(), None);
    }

    /// Adds a launch; `None` where it has no name or size, which every one has.
    pub(super) fn read(&mut self, entry: &[u8], builder: &mut CountersBuilder) -> Option<()> {
        // Kernels with C names have no demangled one; functions and symbols follow.
        let names = [7, 6, 5].map(|number| first_field(entry, number).and_then(Field::text));
        let kernel = names.into_iter().flatten().find(|name| !name.is_empty())?;
        let whole = |number| first_field(entry, number).and_then(Field::whole);
        let mut launch = ProfiledLaunch {
            id: builder.counters.launches.len() as u64,
            process: self.process,
            canonical: canonical(&kernel),
            kernel,
            context: whole(22).unwrap_or(0),
            stream: whole(23).unwrap_or(0),
            grid: first_field(entry, 10).and_then(parse_size),
            block: first_field(entry, 11).and_then(parse_size),
            ranges: launch_ranges(entry, whole(1)?),
            rules: all_bytes(entry, 19).flat_map(read_rules).collect(),
            ..ProfiledLaunch::default()
        };
        for result in all_bytes(entry, 13) {
            launch.readings.extend(self.reading(result, builder));
        }
        let device = builder.counters.number(&launch, "launch__device_id");
        launch.device = device.map_or(0, |device| device as u32);
        builder.counters.launches.push(launch);
        Some(())
    }

    fn reading(&mut self, result: &[u8], builder: &mut CountersBuilder) -> Option<Reading> {
        let index = usize::try_from(first_field(result, 1)?.whole()?).ok()?;
        let name = self.names.get(index)?;
        let slot = self.metrics.get_mut(index)?;
        let metric = *slot.get_or_insert_with(|| {
            builder.metric(Metric {
                section: String::new(),
                label: String::new(),
                name: name.clone(),
                unit: metric_unit(name),
            })
        });
        let value = first_field(result, 2).and_then(Field::bytes);
        Some(Reading {
            metric,
            value: value.map_or(Value::Absent, number_or_text),
            printed_unit: metric_unit(name),
        })
    }
}

/// Names that each of their users gets a copy of are cut to so many bytes.
const NAME_MAX_BYTES: usize = 256;

fn short_name(field: Field<'_>) -> Option<String> {
    let bytes = field.bytes()?;
    let kept = &bytes[..bytes.len().min(NAME_MAX_BYTES)];
    Some(String::from_utf8_lossy(kept).into_owned())
}

/// Gives launches the attributes of their devices, which a report states once, after its launches. Each launch gets a copy;
/// of more than `most` readings none is made, and false is the answer.
pub(super) fn describe(builder: &mut CountersBuilder, devices: &[&[u8]], most: usize) -> bool {
    let mut launches: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, launch) in builder.counters.launches.iter().enumerate() {
        launches.entry(launch.device.into()).or_default().push(at);
    }
    let mut copied = 0_usize;
    for device in devices {
        let id = first_field(device, 1).and_then(Field::whole).unwrap_or(0);
        // The first description of a device counts.
        let Some(launches) = launches.remove(&id) else {
            continue;
        };
        let readings: Vec<Reading> = all_bytes(device, 3)
            .filter_map(|attribute| attribute_reading(attribute, builder))
            .collect();
        let counters = &mut builder.counters;
        for at in launches {
            copied += readings.len();
            if copied > most {
                return false;
            }
            counters.launches[at].readings.extend(readings.clone());
            let number = |name: &str| counters.number(&counters.launches[at], name);
            let major = number("device__attribute_compute_capability_major");
            let minor = number("device__attribute_compute_capability_minor");
            if let Some((major, minor)) = major.zip(minor) {
                counters.launches[at].compute_capability = format!("{major}.{minor}");
            }
        }
    }
    true
}

fn attribute_reading(attribute: &[u8], builder: &mut CountersBuilder) -> Option<Reading> {
    let name = first_field(attribute, 1)?.text()?;
    let value = number_or_text(first_field(attribute, 2)?.bytes()?);
    Some(Reading {
        metric: builder.metric(Metric {
            section: String::new(),
            label: String::new(),
            name,
            unit: String::new(),
        }),
        value,
        printed_unit: String::new(),
    })
}

/// A value has one of its fields.
fn number_or_text(message: &[u8]) -> Value {
    let number = |number: f64| {
        if number.is_finite() {
            Value::Number(number)
        } else {
            Value::Absent
        }
    };
    for at in 1..=5 {
        match (at, first_field(message, at)) {
            (1, Some(Field::Bytes(text))) => {
                return Value::Text(String::from_utf8_lossy(text).into_owned());
            }
            (2, Some(Field::Fixed32(bits))) => return number(f64::from(f32::from_bits(bits))),
            (3, Some(Field::Fixed64(bits))) => return number(f64::from_bits(bits)),
            (_, Some(Field::Varint(whole))) => return number(whole as f64),
            _ => {}
        }
    }
    Value::Absent
}

fn parse_size(field: Field<'_>) -> Option<[u32; 3]> {
    let message = field.bytes()?;
    let side = |number| {
        let side = first_field(message, number)
            .and_then(Field::whole)
            .unwrap_or(1);
        u32::try_from(side).ok()
    };
    Some([side(1)?, side(2)?, side(3)?])
}

/// Push/pop ranges of the launching thread, outermost first.
fn launch_ranges(entry: &[u8], thread: u64) -> Vec<LaunchRange> {
    let Some(state) = first_field(entry, 21).and_then(Field::bytes) else {
        return Vec::new();
    };
    let id = |message: &[u8]| first_field(message, 1).and_then(Field::whole);
    let mut domain_names: HashMap<Option<u64>, String> = HashMap::new();
    for domain in all_bytes(state, 1) {
        let name = first_field(domain, 2).and_then(short_name);
        let name = name.filter(|name| name != "<default domain>");
        domain_names
            .entry(id(domain))
            .or_insert(name.unwrap_or_default());
    }
    let own = all_bytes(state, 2).filter(|message| id(message) == Some(thread));
    let domains = own.flat_map(|message| all_bytes(message, 2));
    domains
        .flat_map(|domain| {
            let domain_name = domain_names.get(&id(domain)).cloned().unwrap_or_default();
            all_bytes(domain, 3).filter_map(move |range| {
                Some(LaunchRange {
                    domain: domain_name.clone(),
                    name: first_field(range, 1)?.text()?,
                })
            })
        })
        .collect()
}

/// The messages of one rule.
fn read_rules(result: &[u8]) -> Vec<Rule> {
    let name = |number| {
        first_field(result, number)
            .and_then(short_name)
            .unwrap_or_default()
    };
    let (name, section) = (name(1), name(4));
    let body = first_field(result, 3)
        .and_then(Field::bytes)
        .unwrap_or_default();
    let mut rules: Vec<Rule> = Vec::new();
    for item in all_bytes(body, 1) {
        // An estimate is beside its message, or an item of its own after it.
        let estimate = first_field(item, 10)
            .and_then(Field::bytes)
            .and_then(parse_speedup);
        let Some(message) = first_field(item, 1).and_then(Field::bytes) else {
            if let (Some(estimate), Some(rule)) = (estimate, rules.last_mut()) {
                rule.speedup = Some(estimate);
            }
            continue;
        };
        let kind = match first_field(message, 2).and_then(Field::whole) {
            Some(1) => RuleKind::Information,
            Some(2) => RuleKind::Warning,
            Some(4) => RuleKind::Optimization,
            // A title or a table of the page.
            None | Some(0) => continue,
            Some(other) => RuleKind::Other(other.to_string()),
        };
        rules.push(Rule {
            section: section.clone(),
            name: name.clone(),
            kind,
            description: plain_text(
                &first_field(message, 1)
                    .and_then(Field::text)
                    .unwrap_or_default(),
            ),
            speedup: estimate,
        });
    }
    rules
}

fn parse_speedup(message: &[u8]) -> Option<EstimatedSpeedup> {
    let Some(Field::Fixed64(bits)) = first_field(message, 2) else {
        return None;
    };
    Some(EstimatedSpeedup {
        of_whole_kernel: first_field(message, 1).and_then(Field::whole) == Some(2),
        percent: f64::from_bits(bits),
    })
}

/// A message without its links: `@section:LaunchStats:Launch Statistics@` and `@url:Title:https://…@` are their titles.
fn plain_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('@') {
        plain.push_str(before);
        let link = after.split_once('@').and_then(|(link, rest)| {
            let mut parts = link.splitn(3, ':');
            let title = match parts.next()? {
                "section" | "metric" | "source" => parts.nth(1)?,
                "url" | "sass" => parts.next()?,
                _ => return None,
            };
            Some((title, rest))
        });
        if let Some((title, after)) = link {
            plain.push_str(title);
            rest = after;
        } else {
            plain.push('@');
            rest = after;
        }
    }
    plain.push_str(rest);
    plain
}
