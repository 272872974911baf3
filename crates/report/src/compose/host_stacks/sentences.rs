//! What the host did while no GPU was busy.

use llmprof_analysis::host_stacks::{HostActivity, HostPlace, HostStacks, StackSource};

/// What the tables and flame graphs show.
pub(super) fn basis(host: &HostStacks) -> String {
    let (idle, whole) = (&host.idle, &host.whole);
    match host.source {
        StackSource::Sampled => format!(
            "Threads that launch GPU work were sampled from outside: {} samples, {} of them while no GPU was busy. Times are samples × period. Native frames \
             are not seen; a thread that is ready to run but has no CPU counts as running.",
            whole.samples, idle.samples
        ),
        StackSource::RecordedFunctions => format!(
            "Python functions as torch.profiler recorded them (with_stack) on threads that launch GPU work: {} of {} while no GPU was busy. Whether they ran or \
             waited is not recorded.",
            idle.sampled_ns, whole.sampled_ns
        ),
    }
}

pub(super) fn idle_flame() -> &'static str {
    "Host stacks while no GPU was busy"
}

pub(super) fn whole_flame() -> &'static str {
    "Host stacks, all the time"
}

pub(super) fn activity(place: &HostPlace) -> String {
    match place.activity {
        HostActivity::Running => "running".to_owned(),
        HostActivity::CollectingGarbage => "Python garbage collection".to_owned(),
        HostActivity::WaitingForGil if place.gil_held_by.is_empty() => {
            "waiting for the GIL".to_owned()
        }
        HostActivity::WaitingForGil => {
            format!("waiting for the GIL, held by {}", place.gil_held_by)
        }
        HostActivity::WaitingForLock => "waiting for a lock".to_owned(),
        HostActivity::Sleeping => "sleeping".to_owned(),
        HostActivity::Blocked if place.call.is_empty() => "blocked".to_owned(),
        HostActivity::Blocked => format!("blocked in {}", place.call),
        HostActivity::Unknown => crate::text::dash(),
    }
}

pub(super) fn function(place: &HostPlace) -> String {
    if place.function.is_empty() {
        return "(no Python stack)".to_owned();
    }
    place.function.clone()
}

pub(super) fn line(place: &HostPlace) -> String {
    if place.file.is_empty() {
        return crate::text::dash();
    }
    format!("{}:{}", place.file, place.line)
}
