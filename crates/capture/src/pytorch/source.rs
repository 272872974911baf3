//! The files of the worker, as they are when the binary is built.

/// A file's name inside the package, and its text.
macro_rules! python {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/python/", $name)),
        )
    };
}

pub(super) const FILES: &[(&str, &str)] = &[
    python!("__main__.py"),
    python!("llmprof_worker/__init__.py"),
    python!("llmprof_worker/absent.py"),
    python!("llmprof_worker/batch.py"),
    python!("llmprof_worker/cases.py"),
    python!("llmprof_worker/configs.py"),
    python!("llmprof_worker/connection.py"),
    python!("llmprof_worker/decoders.py"),
    python!("llmprof_worker/devices.py"),
    python!("llmprof_worker/dtypes.py"),
    python!("llmprof_worker/dummy.py"),
    python!("llmprof_worker/failure.py"),
    python!("llmprof_worker/follower.py"),
    python!("llmprof_worker/graphs.py"),
    python!("llmprof_worker/images.py"),
    python!("llmprof_worker/inputs.py"),
    python!("llmprof_worker/issues.py"),
    python!("llmprof_worker/layers.py"),
    python!("llmprof_worker/loading.py"),
    python!("llmprof_worker/measure.py"),
    python!("llmprof_worker/memory.py"),
    python!("llmprof_worker/operators.py"),
    python!("llmprof_worker/packages.py"),
    python!("llmprof_worker/pages.py"),
    python!("llmprof_worker/pairs.py"),
    python!("llmprof_worker/pending.py"),
    python!("llmprof_worker/quantized.py"),
    python!("llmprof_worker/ranges.py"),
    python!("llmprof_worker/ranks.py"),
    python!("llmprof_worker/ready.py"),
    python!("llmprof_worker/recording.py"),
    python!("llmprof_worker/requests.py"),
    python!("llmprof_worker/sampling.py"),
    python!("llmprof_worker/server.py"),
    python!("llmprof_worker/tracing.py"),
    python!("llmprof_worker/vendor.py"),
    python!("llmprof_worker/vision.py"),
];
