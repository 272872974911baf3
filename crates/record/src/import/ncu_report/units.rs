//! Units of metrics by their names: a report has values in base units and no units.
//!
//! <https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure> has the rules of names. A
//! name that these rules do not cover has no unit; a test holds all others against the tool's own CSV page.

/// The base unit of a metric's values; empty where it has none or its name does not tell.
pub(super) fn metric_unit(name: &str) -> String {
    let (counter, suffixes) = name.split_once('.').unwrap_or((name, ""));
    if suffixes.contains("pct_of_peak") || suffixes.rsplit('.').next() == Some("pct") {
        return "%".to_owned();
    }
    // A group of metrics that are sampled over time has its own names; their values are lists.
    if suffixes.contains("__") {
        return String::new();
    }
    let base = if counter.starts_with("launch__") {
        return launch_unit(counter).to_owned();
    } else if counter.contains("average_") || counter.starts_with("derived__") {
        return String::new();
    } else if counter.ends_with("time_duration") {
        "ns"
    } else if counter.contains("_bytes") && !counter.starts_with("profiler__") {
        "byte"
    } else if counter.contains("sectors")
        && ["lts__", "l1tex__", "dram__"]
            .iter()
            .any(|unit| counter.starts_with(unit))
    {
        "sector"
    } else if counter.ends_with("cycles_elapsed") || counter.ends_with("cycles_active") {
        "cycle"
    } else if counter.starts_with("lts__t_requests") {
        "request"
    } else if counter == "sm__warps_active" {
        "warp"
    } else if counter == "sm__inst_executed" || counter == "smsp__inst_executed" {
        "inst"
    } else if counter == "sm__maximum_warps_per_active_cycle_pct" {
        "%"
    } else {
        ""
    };
    match (base, rate_unit(suffixes)) {
        ("", _) => String::new(),
        (base, None) => base.to_owned(),
        ("cycle", Some("s")) => "Hz".to_owned(),
        // Cycles of each cycle are a plain number.
        ("cycle", Some(_)) => String::new(),
        ("warp", Some("cycle")) => "warp".to_owned(),
        (base, Some(below)) => format!("{base}/{below}"),
    }
}

/// What a suffix divides by.
fn rate_unit(suffixes: &str) -> Option<&'static str> {
    if suffixes.ends_with("per_second") {
        Some("s")
    } else if suffixes.contains("per_cycle") || suffixes.contains("peak_sustained") {
        Some("cycle")
    } else {
        None
    }
}

fn launch_unit(counter: &str) -> &'static str {
    match counter {
        "launch__registers_per_thread" => "register/thread",
        "launch__shared_mem_per_block"
        | "launch__shared_mem_per_block_dynamic"
        | "launch__shared_mem_per_block_static" => "byte/block",
        "launch__thread_count" => "thread",
        "launch__sm_count" => "SM",
        limit if limit.starts_with("launch__occupancy_limit_") => "block",
        _ => "",
    }
}
