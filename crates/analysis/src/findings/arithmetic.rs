//! Products in a format that the device multiplies slowly, where it has units for a narrower one.

use llmprof_theory::device::Engine;
use llmprof_theory::roofline::Resource;
use llmprof_theory::{Kind, Pass, Precision, Workload};
use llmprof_units::{Basis, DType, FlopsPerSecond, Nanos, Percent, Times};

use crate::bottleneck::PhaseClass;
use crate::evidence::Evidence;
use crate::findings::finding::{Confidence, Finding};
use crate::findings::what_if::Subject;
use crate::findings::{Facts, WORTH_SAYING, hidden_by_the_host};
use crate::matching::groups::OperatorGroup;
use crate::phase_analysis::PhaseAnalysis;
use llmprof_record::run::RunPhase;

/// A peak that is this many times the one that products are judged by has units of its own.
const WELL_ABOVE: f64 = 1.5;
/// Part of a phase that products must take, where its class does not say that arithmetic holds it back.
const MOST: f64 = 0.5;
/// Products below this share of roofline have other problems than their format.
const SOME_OF_THE_ROOF: f64 = 0.2;

impl Facts<'_> {
    /// Products with weights in f32 on a device that multiplies 16-bit floats much faster, in a phase that their arithmetic
    /// holds back.
    ///
    /// The products alone are counted again in the narrow format: weights, cache and everything else stay in theirs, so
    /// that nothing is gained but arithmetic. Products of attention stay in f32 too.
    pub(crate) fn faster_format(&self, phase: &PhaseAnalysis, passes: &[Pass]) -> Option<Finding> {
        let ((model, workload_now), roof) = (self.subject?, self.roof?);
        let formats = model.formats(&workload_now.precision);
        if formats.compute != DType::F32 || hidden_by_the_host(phase) {
            return None;
        }
        let narrow = match formats.weights.element() {
            DType::F16 => DType::F16,
            _ => DType::Bf16,
        };
        let peak = |dtype| roof.device().peak(dtype, Engine::Tensor).ok();
        let (used, unused) = (peak(formats.compute)?, peak(narrow)?);
        let times = unused.dense_flops_per_s.0 / used.dense_flops_per_s.0;
        // Without units for it the peak of a narrow format is that of f32.
        if times < WELL_ABOVE {
            return None;
        }
        let products = Products::of(phase)?;
        let share = phase.judged_share(products.time);
        let is_held_back = phase.class.class == Some(PhaseClass::ComputeBound) || share >= MOST;
        if !is_held_back || products.roofline_fraction() < SOME_OF_THE_ROOF {
            return None;
        }
        let workload = Workload {
            precision: Precision {
                weights: Some(formats.weights),
                plain: Some(formats.plain),
                activations: Some(formats.activations),
                kv: Some(formats.kv),
                compute: Some(narrow),
            },
            ..*workload_now
        };
        let subject = Subject {
            model,
            workload: workload_now,
            passes,
            phase,
        };
        // Where memory holds products back then, they read as decode does, which it holds back now.
        let decode = self.phases.iter().map(|(other, _)| *other);
        let decode = decode
            .filter(|other| other.phase != phase.phase)
            .find(|other| other.phase == RunPhase::Decode);
        let outcome = subject.with(roof, &workload, passes, decode, 1.0)?;
        let wall = phase.judged_wall();
        let saved = wall.seconds() - outcome.wall;
        if saved < WORTH_SAYING * wall.seconds() {
            return None;
        }
        let gain = self.saving(
            phase,
            saved,
            format!(
                "{wall} ÷ {}: weight GEMMs in {narrow} have {:.2} of the phase's roofline time; each stays at its present share of \
                     roofline, or at that of decode where it becomes memory-bound; everything else keeps its time",
                Nanos::from_seconds(outcome.wall),
                outcome.roofline_ratio
            ),
        )?
        .at_most();
        let achieved = FlopsPerSecond(products.flops / products.time.seconds());
        Some(Finding {
            code: "faster_format".to_owned(),
            phase: Some(phase.phase),
            title: format!(
                "{}: weight GEMMs take {} of the time and run in {}, with a peak of {}; the {narrow} peak is {}, {} as high, and \
                 the phase would be up to {} faster{}",
                phase.name(),
                Percent(share),
                formats.compute,
                used.dense_flops_per_s,
                unused.dense_flops_per_s,
                Times(times),
                Times(gain.phase_factor?),
                remedy(phase, narrow)
            ),
            evidence: vec![
                Evidence::time("weight GEMMs", products.time, Basis::Measured),
                Evidence::new(
                    format!("achieved, in {}", formats.compute),
                    achieved.0,
                    "FLOP/s",
                    Basis::Derived,
                ),
                Evidence::new(
                    format!("peak in {}", formats.compute),
                    used.dense_flops_per_s.0,
                    "FLOP/s",
                    used.basis,
                ),
                Evidence::new(
                    format!("peak in {narrow}"),
                    unused.dense_flops_per_s.0,
                    "FLOP/s",
                    unused.basis,
                ),
                Evidence::share(
                    "roofline time after ÷ before",
                    outcome.roofline_ratio,
                    Basis::Derived,
                ),
            ],
            gain: Some(gain),
            // Other kernels on other units: the faster they are, the harder they are to feed. On a Xeon with AMX torch's products in
            // bf16, whose weights are not packed for the tiles, took a third of the f32 time where a tenth was computed.
            confidence: Confidence::Low,
            abstains: None,
        })
    }
}

/// What products with weights that arithmetic holds back did.
struct Products {
    time: Nanos,
    roofline: Nanos,
    flops: f64,
}

impl Products {
    fn of(phase: &PhaseAnalysis) -> Option<Self> {
        let is_product = |group: &&OperatorGroup| {
            matches!(group.kind, Kind::Linear | Kind::Experts)
                && group.binds == Some(Resource::Tensor)
        };
        let mut products = Self {
            time: Nanos(0),
            roofline: Nanos(0),
            flops: 0.0,
        };
        for group in phase.by_kind.iter().filter(is_product) {
            let add = |sum: Nanos, time: Nanos| Nanos(sum.0.saturating_add(time.0));
            products.time = add(products.time, group.measured_ns);
            products.roofline = add(products.roofline, group.roofline_ns?);
            products.flops += group.flops.0 as f64;
        }
        (products.time.0 > 0).then_some(products)
    }

    fn roofline_fraction(&self) -> f64 {
        self.roofline.seconds() / self.time.seconds()
    }
}

/// What multiplies in the narrow format: the native engine, which alone knows its operators, does not.
fn remedy(phase: &PhaseAnalysis, narrow: DType) -> String {
    if phase
        .traced
        .as_ref()
        .is_some_and(|traced| traced.by_identity)
    {
        format!("; the native engine has no {narrow} GEMM, PyTorch has (`runtime=pytorch`)")
    } else {
        format!("; load the model in {narrow} where its precision is enough")
    }
}
