//! `visualizations/`: what models found on pages, drawn from the predictions of a run, and a gallery of all of them.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use llmprof_capture::session::{Feed, Halt, Observer, Outcome};
use llmprof_grounding::{PageCounts, is_grounded, visual};
use llmprof_record::{
    issue::{Issue, IssueCode},
    plan::Plan,
    predictions::{Prediction, PredictionLog},
    store::RunDir,
};
use llmprof_report::{render::gallery, view::GalleryPage};
use llmprof_units::Count;
use serde_json::{Map, Value, json};

use crate::outputs::{PageTotals, SampleTotals};
use crate::progress::Show;

const FOLDER: &str = "visualizations";

#[derive(Default)]
pub(super) struct DrawnPages {
    pages: u64,
    counts: PageCounts,
    /// The first sample with tags that cannot be read, and what is wrong with them.
    malformed: Option<(String, String)>,
    out_of_range: Option<String>,
    unreadable: Vec<(String, String)>,
}

/// One page that was drawn, or why not.
type Result1 = Result<(GalleryPage, PageCounts, Option<String>), String>;

/// Draws every prediction of an image whose text has grounding tags.
pub(super) fn draw(plan: &Plan, store: &mut RunDir, show: Show) -> Result<DrawnPages, Halt> {
    let direct = &plan.pipeline.direct_inference;
    let wanted = if direct.enable {
        direct.output.visualization.enable
    } else {
        plan.output.visualizations
    };
    if !wanted || !PredictionLog::exists(store.path()) {
        return Ok(DrawnPages::default());
    }
    let mut predictions = PredictionLog::read(store.path())?;
    predictions.sort_by_key(|one| one.index);
    let pages: Vec<&Prediction> = predictions
        .iter()
        .filter(|one| one.image.is_some() && one.grounded_text().is_some_and(is_grounded))
        .collect();
    if pages.is_empty() {
        return Ok(DrawnPages::default());
    }
    let stage = show.stage_begins("visualizations", pages.len() as u64);
    let results = all(&pages, store, &|done| stage.step_done(done))?;
    let mut drawn = DrawnPages::default();
    let mut shown = Vec::new();
    for (one, result) in pages.iter().zip(results) {
        match result {
            Ok((page, counts, malformed)) => {
                drawn.add(&one.id, counts, malformed);
                shown.push(page);
            }
            Err(why) => drawn.unreadable.push((one.id.clone(), why)),
        }
    }
    store.write(
        &format!("{FOLDER}/index.html"),
        gallery::gallery(&plan.model.name, &shown),
    )?;
    stage.stage_ends(Outcome::Drawn {
        pages: drawn.pages,
        boxes: drawn.counts.boxes,
    });
    Ok(drawn)
}

/// What became of the samples, for `metrics.json`; none where nothing was kept.
pub(super) fn predictions(
    run: &Path,
    feed: &Feed,
    drawn: &DrawnPages,
) -> Result<Option<SampleTotals>, Halt> {
    if !PredictionLog::exists(run) {
        return Ok(None);
    }
    let all = PredictionLog::read(run)?;
    let count = |finish: &str| all.iter().filter(|one| one.finish == finish).count();
    let asked = feed.names().len() + feed.skipped().len();
    Ok(Some(SampleTotals {
        samples: all.len(),
        skipped: asked.saturating_sub(all.len()),
        stopped: count("stop"),
        at_length_limit: count("length"),
        prompt_tokens: all.iter().map(|one| one.prompt_tokens).sum(),
        output_tokens: all.iter().map(|one| one.output_tokens).sum(),
        grounding: drawn.totals(),
    }))
}

/// Draws pages on every core.
fn all(pages: &[&Prediction], store: &RunDir, done: &dyn Fn(u64)) -> Result<Vec<Result1>, Halt> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, finished) = (AtomicUsize::new(0), AtomicU64::new(0));
    let results: Mutex<Vec<(usize, Result<Result1, Halt>)>> = Mutex::new(Vec::new());
    let work = |tell: Option<&dyn Fn(u64)>| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = pages.get(number) else {
                return;
            };
            let result = page(one, store);
            if let Ok(mut results) = results.lock() {
                results.push((number, result));
            }
            let finished = finished.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(tell) = tell {
                tell(finished);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(pages.len()) {
            scope.spawn(|| work(None));
        }
        work(Some(done));
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Draws one page and writes its files.
fn page(one: &Prediction, store: &RunDir) -> Result<Result1, Halt> {
    let (Some(image), Some(text)) = (&one.image, one.grounded_text()) else {
        return Ok(Err("there is no image".to_owned()));
    };
    let made = match visual(image, text, timings(one)) {
        Ok(made) => made,
        Err(why) => return Ok(Err(why)),
    };
    let folder = format!("{FOLDER}/{}", one.name);
    store.write(&format!("{folder}/result_with_boxes.jpg"), &made.drawn)?;
    store.write(&format!("{folder}/result.mmd"), &made.markdown)?;
    for (file, bytes) in &made.crops {
        store.write(&format!("{folder}/{file}"), bytes)?;
    }
    let info = serde_json::to_string_pretty(&made.info).expect("info has only string keys");
    store.write(&format!("{folder}/info.json"), info + "\n")?;
    let labels = made.info.boxes.iter();
    let labels = labels.map(|labelled| (labelled.number, labelled.text.clone()));
    let shown = GalleryPage {
        folder: one.name.clone(),
        id: one.id.clone(),
        width: made.info.width,
        height: made.info.height,
        labels: labels.collect(),
        malformed: made.info.malformed.clone(),
        out_of_range: made.info.counts.out_of_range,
        crops: made.crops.into_iter().map(|(file, _)| file).collect(),
        markdown: made.markdown,
        duration_ns: one.duration_ns,
        output_tokens: one.output_tokens,
    };
    let malformed = made.info.malformed.first().cloned();
    Ok(Ok((shown, made.info.counts, malformed)))
}

/// Milliseconds of the phases of the sample's batch.
fn timings(one: &Prediction) -> Map<String, Value> {
    let mut times = Map::new();
    for span in &one.phases {
        let ms = span.duration().0 as f64 / 1e6;
        let before = times.get(span.phase.name()).and_then(Value::as_f64);
        times.insert(
            span.phase.name().to_owned(),
            json!(before.unwrap_or(0.0) + ms),
        );
    }
    times
}

impl DrawnPages {
    fn add(&mut self, id: &str, counts: PageCounts, malformed: Option<String>) {
        self.pages += 1;
        self.counts.regions += counts.regions;
        self.counts.boxes += counts.boxes;
        self.counts.malformed += counts.malformed;
        self.counts.out_of_range += counts.out_of_range;
        self.counts.labels_not_drawn += counts.labels_not_drawn;
        if self.malformed.is_none() {
            self.malformed = malformed.map(|what| (id.to_owned(), what));
        }
        if counts.out_of_range > 0 && self.out_of_range.is_none() {
            self.out_of_range = Some(id.to_owned());
        }
    }

    /// What could not be taken as the model said it.
    pub(super) fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        if let Some((first, what)) = &self.malformed {
            let issue = Issue::warning(IssueCode::GroundingMalformed)
                .with("first", first.clone())
                .with("what", what.clone());
            issues.push(issue.counting(self.counts.malformed));
        }
        if let Some(first) = &self.out_of_range {
            let issue = Issue::warning(IssueCode::GroundingOutOfRange).with("first", first.clone());
            issues.push(issue.counting(self.counts.out_of_range));
        }
        if self.counts.labels_not_drawn > 0 {
            let issue = Issue::info(IssueCode::GroundingLabelsNotDrawn);
            issues.push(issue.counting(self.counts.labels_not_drawn));
        }
        if let Some((first, why)) = self.unreadable.first() {
            let issue = Issue::warning(IssueCode::GroundingImageUnreadable)
                .with("first", first.clone())
                .with("why", why.clone());
            issues.push(issue.counting(self.unreadable.len() as u64));
        }
        issues
    }

    pub(super) fn summary(&self) -> Option<String> {
        (self.pages > 0).then(|| {
            format!(
                "{} on {} drawn: {FOLDER}/index.html",
                Count(self.counts.boxes, "box"),
                Count(self.pages, "page"),
            )
        })
    }

    /// Page totals for `metrics.json`; `None` if nothing was drawn.
    fn totals(&self) -> Option<PageTotals> {
        (self.pages > 0).then_some(PageTotals {
            pages: self.pages,
            counts: self.counts,
        })
    }
}
