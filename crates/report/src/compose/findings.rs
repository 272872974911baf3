//! Findings with links to the rows and the part of the timeline that they are about.

use std::collections::HashSet;

use llmprof_record::run::RunPhase;

use crate::analyzed::{Analysis, Conclusion, Finding, PhaseAnalysis};
use crate::document::{Document, Drawing, FindingItem, Link, ReportTarget, key};
use crate::text;
use crate::view::Timeline;

/// What the data support, ranked.
pub(super) fn items(analysis: &Analysis) -> Vec<FindingItem> {
    let numbered = (1..).zip(concluded_findings(analysis));
    numbered
        .map(|(number, finding)| item(number, finding, analysis))
        .collect()
}

/// What they do not, with the reason.
pub(super) fn abstentions(analysis: &Analysis) -> Vec<String> {
    let findings = analysis.findings.iter();
    let abstained = findings.filter_map(|finding| Some((finding, finding.abstains.as_ref()?)));
    // Phases that nothing is concluded of for one reason share a line.
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (finding, why) in abstained {
        let (phase, topic) = text::no_conclusion(finding);
        let line = format!("{topic}: {}", text::abstention(why));
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, phases)) => phases.push(phase),
            None => lines.push((line, vec![phase])),
        }
    }
    lines
        .into_iter()
        .map(|(line, phases)| format!("{}: {line}", phases.join(", ")))
        .collect()
}

/// Findings in the order of their numbers in the report, from 1.
pub fn concluded_findings(analysis: &Analysis) -> impl Iterator<Item = &Finding> {
    let findings = analysis.findings.iter();
    let kind = analysis.program.kind;
    findings.filter(move |finding| {
        let is_told = finding.abstains.is_none() && text::is_noticed(finding);
        is_told && text::program::has_words_for(kind, finding)
    })
}

fn item(number: usize, finding: &Finding, analysis: &Analysis) -> FindingItem {
    let mut evidence: Vec<String> = finding.evidence.iter().map(text::evidence).collect();
    if let Some(gain) = &finding.gain {
        evidence.push(format!("speedup = {}", text::derivation(&gain.derivation)));
    }
    FindingItem {
        key: format!("finding-{number}"),
        title: text::finding(finding),
        gain: text::gain(finding, text::whole(analysis)),
        knob: text::knob(finding, analysis),
        evidence,
        links: Vec::new(),
    }
}

/// Adds the links of findings whose targets the document has.
pub(super) fn link(document: &mut Document, analysis: &Analysis) {
    let timelines = document.charts().filter_map(|chart| match &chart.drawing {
        Drawing::Timeline(timeline) => Some(timeline),
        _ => None,
    });
    let timelines: Vec<&Timeline> = timelines.collect();
    let phases = timelines.iter().flat_map(|timeline| &timeline.phases);
    let on_timeline: Vec<String> = phases.cloned().collect();
    let names = timelines.iter().flat_map(|timeline| &timeline.names);
    let events: HashSet<String> = names.cloned().collect();
    for (index, finding) in concluded_findings(analysis).enumerate() {
        let mut links = Vec::new();
        let phase = finding.phase.and_then(|phase| phase_of(analysis, phase));
        let anchors = anchors(finding, phase);
        let target = anchors
            .into_iter()
            .find(|(anchor, _)| document.has_anchor(anchor));
        links.extend(target.map(|(anchor, label)| Link {
            label: label.to_owned(),
            target: ReportTarget::Anchor(anchor),
        }));
        let phases = phases_named(finding).into_iter();
        let phases = phases.filter_map(|phase| phase_of(analysis, phase));
        links.extend(phases.filter_map(|phase| {
            let name = phase.phase.to_string();
            on_timeline.contains(&name).then(|| Link {
                label: format!("{} on the timeline", phase.name()),
                target: ReportTarget::Phase(name),
            })
        }));
        let operator = operator_of(finding).filter(|name| events.contains(*name));
        links.extend(operator.map(|name| Link {
            label: format!("{name} on the timeline"),
            target: ReportTarget::Event(name.to_owned()),
        }));
        if let Some(item) = document.findings.get_mut(index) {
            item.links = links;
        }
    }
}

/// The operator that a cause is in.
fn operator_of(finding: &Finding) -> Option<&str> {
    match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => cause.place.operator.as_deref(),
        _ => None,
    }
}

/// The phases that the text of a finding names, in its order.
fn phases_named(finding: &Finding) -> Vec<RunPhase> {
    let mut phases: Vec<RunPhase> = match &finding.conclusion {
        Some(Conclusion::Cause { cause }) => cause.gains.iter().map(|gain| gain.phase).collect(),
        _ => Vec::new(),
    };
    if phases.is_empty() {
        phases.extend(finding.phase);
    }
    let mut seen = HashSet::new();
    phases.retain(|phase| seen.insert(*phase));
    phases
}

/// A phase of the analysis. Of several with one name (one per device) none: a wrong link is worse than none.
fn phase_of(analysis: &Analysis, phase: RunPhase) -> Option<&PhaseAnalysis> {
    let mut phases = analysis.phases.iter().filter(|one| one.phase == phase);
    let first = phases.next()?;
    phases.next().is_none().then_some(first)
}

/// Where a finding's numbers stand, the closest first.
fn anchors(finding: &Finding, phase: Option<&PhaseAnalysis>) -> Vec<(String, &'static str)> {
    let Some(phase) = phase.map(|phase| key(phase.name())) else {
        return vec![("latency".to_owned(), "latency table")];
    };
    let (code, of) = match finding.code.split_once('.') {
        Some((code, of)) => (code, of),
        None => (finding.code.as_str(), ""),
    };
    let mut anchors = match code {
        "idle" => vec![(format!("idle-{phase}"), "idle causes")],
        "inefficiency" if of == "gemm_shapes" => vec![("gemms".to_owned(), "GEMM shapes")],
        "inefficiency" => vec![(format!("operators-{phase}-{}", key(of)), "operator row")],
        "extra" | "fusion" => vec![(format!("unmatched-{phase}"), "overhead ops")],
        "copies" => vec![
            (format!("copies-{phase}"), "copies"),
            (format!("waterfall-{phase}"), "waterfall row"),
        ],
        "batching" | "quantize_weights" | "faster_format" => {
            vec![(format!("roofline-{phase}"), "roofline row")]
        }
        _ => Vec::new(),
    };
    anchors.push((format!("phase-{phase}"), "phase row"));
    anchors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cause_leads_to_each_of_its_phases_once() {
        let gain = |phase: &str| json!({"phase": phase, "steps": 1, "now_ns": 9, "saved_ns": 5, "low_ns": 4, "high_ns": 6});
        let finding = json!({
            "code": "launch_bound", "phase": "decode", "evidence": [], "gain": null, "confidence": "high", "abstains": null,
            "conclusion": {
                "kind": "cause", "cause": "blocking_launches", "count": 1.0, "place": {},
                "gains": [gain("decode"), gain("prefill"), gain("decode")],
            },
        });
        let mut finding: Finding = serde_json::from_value(finding).unwrap();
        assert_eq!(
            phases_named(&finding),
            [RunPhase::Decode, RunPhase::Prefill]
        );
        finding.conclusion = None;
        assert_eq!(phases_named(&finding), [RunPhase::Decode]);
    }
}
