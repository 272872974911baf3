//! `predict --advise`: changes ranked by what they are predicted to gain, each with the overrides that try it.
//!
//! A change is a list of overrides and nothing else: it is composed like any request, so that what does not compose is no advice, and
//! predicted like any point of a grid. `run` is asked whether it accepts each one.

mod change;
mod changes;
mod design;
mod measured;

use llmprof_config::hydra::{App, Host, RunMode};
use llmprof_predict::{EfficiencyProfile, PredictionTarget, Predictor};
use llmprof_record::plan::Plan;
use llmprof_report::compose::advise::{Advised, ChangeAdvice, PredictedFigures, document};
use llmprof_theory::Model;

use self::change::RequestChange;
use super::{axes::implementation, ranks};
use crate::{
    app,
    args::{PredictArgs, PredictFormat},
    efficiency,
    failure::Failure,
    jobs,
    output::Output,
    plan::{PlanPurpose, plan},
    subject::RunSubject,
};

/// Changes that gain less are left out.
const SPEEDUP_MIN: f64 = 1.005;

/// A request that is composed, and what it is about.
pub(super) struct AdvisedRequest {
    plan: Plan,
    subject: RunSubject,
}

pub(super) struct Advisor<'a> {
    app: App,
    host: Host,
    base: &'a [String],
    profile: EfficiencyProfile,
    target: PredictionTarget,
}

/// Whether the arguments ask for it.
pub(super) fn is_asked(args: &PredictArgs) -> bool {
    args.advise || args.try_best
}

pub(super) fn advise(args: &PredictArgs, output: &mut Output) -> Result<(), Failure> {
    let host = app::host()?;
    if args.from.is_some() {
        return Err(Failure::new("--advise does not start from a run"));
    }
    let mut advisor = Advisor {
        app: app::llmprof(&host.cwd),
        base: &args.overrides,
        profile: efficiency::profile(args.efficiency.as_deref().unwrap_or("hf_eager"))?,
        host,
        target: PredictionTarget {
            ttft_ns: args.ttft.map(crate::efficiency::nanos),
            tpot_ns: args.tpot.map(crate::efficiency::nanos),
        },
    };
    if advisor
        .app
        .compose_sweep(advisor.base, &advisor.host)?
        .len()
        != 1
    {
        return Err(
            Failure::new("--advise starts from one request, not from a sweep")
                .hint("give one value per key".to_owned()),
        );
    }
    let mut request = advisor.request(&[])?;
    let plan = request.plan.clone();
    request.subject.find_device(&plan)?;
    if let (None, Some(device)) = (&args.efficiency, &request.subject.device) {
        advisor.profile = efficiency::profile(&implementation(&plan, device))?;
    }
    if let Some(device) = &request.subject.device {
        efficiency::add_curves(&mut advisor.profile, &plan.hardware.spec, device)?;
    }
    let base = figures(&request, &advisor.profile)?;
    let (advice, left_out) = advisor.rank(&request, &base)?;
    let tried = if args.try_best {
        Some(measured::try_best(&advisor, &advice, args.time)?)
    } else {
        None
    };
    let advised = Advised {
        basis: "predicted",
        model: request.subject.name.clone(),
        device: device_name(&request),
        efficiencies: advisor.profile.name.clone(),
        request: base,
        advice,
        left_out,
        tried,
    };
    match args.chosen_format() {
        PredictFormat::Table => output.document(&document(&advised)),
        PredictFormat::Json => output.json(&advised),
        PredictFormat::Csv => {
            Err(Failure::new("--advise prints a table or JSON").hint("--format json".to_owned()))
        }
    }
}

/// What a request is predicted to take with these efficiencies.
fn figures(
    request: &AdvisedRequest,
    profile: &EfficiencyProfile,
) -> Result<PredictedFigures, Failure> {
    let model: &Model = request.subject.counted()?;
    let Some(device) = &request.subject.device else {
        return Err(Failure::new("a prediction needs a device")
            .hint("hardware.spec=NAME, where `llmprof hardware list` shows the names".to_owned()));
    };
    let workload = request.plan.spread_workload();
    let predictor = Predictor::new(model, device, profile);
    let prediction = ranks::predict(&predictor, model, profile, &workload)
        .map_err(|error| Failure::new(error.to_string()))?;
    Ok(PredictedFigures::from_prediction(
        &prediction,
        &workload,
        model.parameter_count(),
    ))
}

fn device_name(request: &AdvisedRequest) -> String {
    let device = request.subject.device.as_ref();
    device.map_or_else(String::new, |device| device.name.clone())
}

impl Advisor<'_> {
    /// The request with more overrides.
    fn request(&self, more: &[String]) -> Result<AdvisedRequest, Failure> {
        let composed = self.app.compose(&self.with(more), RunMode::Run, &self.host);
        let plan = plan(&composed.map_err(app::own_failure)?, PlanPurpose::Paper)?;
        let subject = RunSubject::model_of(&plan, None)?;
        Ok(AdvisedRequest { plan, subject })
    }

    fn with(&self, more: &[String]) -> Vec<String> {
        self.base.iter().chain(more).cloned().collect()
    }

    /// Every change that composes and gains, best first; what misses a target comes after the others, what does not fit the
    /// device's memory last.
    fn rank(
        &self,
        request: &AdvisedRequest,
        base: &PredictedFigures,
    ) -> Result<(Vec<ChangeAdvice>, usize), Failure> {
        let mut advice: Vec<ChangeAdvice> = Vec::new();
        let mut left_out = 0;
        for change in changes::all(request, self.base, &self.profile)? {
            let Some(evaluated) = self.evaluate(&change, request, base) else {
                continue;
            };
            if evaluated.speedup < SPEEDUP_MIN {
                left_out += 1;
            } else {
                advice.push(evaluated);
            }
        }
        advice.sort_by(|a, b| {
            let fits = |advice: &ChangeAdvice| advice.figures.fits != Some(false);
            let meets = |advice: &ChangeAdvice| advice.meets_target != Some(false);
            let by_target = meets(b).cmp(&meets(a));
            let by_fit = fits(b).cmp(&fits(a));
            by_fit.then(by_target).then(b.speedup.total_cmp(&a.speedup))
        });
        changes::join_equal(&mut advice);
        changes::keep_best_devices(&mut advice);
        Ok((advice, left_out))
    }

    /// The prediction of a change; `None` where it does not compose or cannot be predicted.
    fn evaluate(
        &self,
        change: &RequestChange,
        base: &AdvisedRequest,
        before: &PredictedFigures,
    ) -> Option<ChangeAdvice> {
        let mut changed = self.request(&change.overrides).ok()?;
        // The device is looked up again only where it is another.
        changed.subject.device = if changed.plan.hardware.spec == base.plan.hardware.spec {
            base.subject.device.clone()
        } else {
            crate::subject::device(&changed.plan.hardware.spec).ok()
        };
        let profile = change.profile.as_ref().unwrap_or(&self.profile);
        let after = figures(&changed, profile).ok()?;
        let speedup = after.tokens_per_s / before.tokens_per_s.max(1e-12);
        let interval = after.speedup_interval(before, speedup, change.profile.is_none());
        let refused = jobs::check(&self.with(&change.overrides)).err();
        Some(ChangeAdvice {
            code: change.code,
            overrides: change.overrides.clone(),
            speedup,
            speedup_low: interval.map(|ends| ends[0]),
            speedup_high: interval.map(|ends| ends[1]),
            figures: after,
            alike: Vec::new(),
            meets_target: after.meets_target(&self.target),
            runs: refused.is_none(),
            refused: refused.map(|failure| failure.in_a_line()),
        })
    }
}
