//! Where the time of a device went: busy by class, idle by cause, per interval of time and per stream.
//!
//! Events are clipped to the interval. S is the sum of their times, B the length of their union; overlap = S − B and
//! idle = W − B for an interval of length W. Time in which several classes are active belongs to the first of
//! [`Class::ALL`], so exposed times sum to B.

use std::collections::BTreeMap;

use llmprof_record::summary::Spread;
use llmprof_record::trace::Trace;
use llmprof_units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timeline::device_events::{Class, DeviceEvent};
use crate::timeline::idle::{Gap, HostActivity, HostOperatorIdle, IdleCauses, IdleSums};
use crate::timeline::intervals::{Union, add_saturating};
use crate::timeline::launches::EventCalls;

/// Time of one class of device events, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct ClassTime {
    /// Class that the events were counted as.
    pub class: Class,
    /// Events that began in the interval.
    pub events: u64,
    /// The sum of their times.
    pub sum_ns: Nanos,
    /// The part in which no class before it was active, ns: for communication, what computing did not hide.
    pub exposed_ns: Nanos,
}

/// What one device did in one interval of time, or in several that are summed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct DeviceTime {
    /// W: the length of the interval.
    pub span_ns: Nanos,
    /// B: time with at least one event.
    pub busy_ns: Nanos,
    /// S: the sum of all times.
    pub sum_ns: Nanos,
    /// S − B: time counted more than once because events ran at once.
    pub overlap_ns: Nanos,
    /// W − B: time without an event.
    pub idle_ns: Nanos,
    /// The idle time by cause.
    pub idle: IdleCauses,
    /// Events that began in the interval.
    pub events: u64,
    /// The events among them that are kernels.
    pub kernels: u64,
    /// Time of events that had begun before the interval. Part of S.
    pub carried_in_ns: Nanos,
    /// The classes, each event in one.
    pub classes: [ClassTime; 4],
}

impl Default for DeviceTime {
    fn default() -> Self {
        Self {
            span_ns: Nanos(0),
            busy_ns: Nanos(0),
            sum_ns: Nanos(0),
            overlap_ns: Nanos(0),
            idle_ns: Nanos(0),
            idle: IdleCauses::default(),
            events: 0,
            kernels: 0,
            carried_in_ns: Nanos(0),
            classes: Class::ALL.map(|class| ClassTime {
                class,
                events: 0,
                sum_ns: Nanos(0),
                exposed_ns: Nanos(0),
            }),
        }
    }
}

impl DeviceTime {
    /// The time of one class.
    pub fn class(&self, class: Class) -> &ClassTime {
        &self.classes[class as usize]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.span_ns, other.span_ns),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.sum_ns, other.sum_ns),
            (&mut self.overlap_ns, other.overlap_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.carried_in_ns, other.carried_in_ns),
        ] {
            add_saturating(&mut sum.0, more.0);
        }
        self.idle.add(&other.idle);
        self.events += other.events;
        self.kernels += other.kernels;
        for (sum, more) in self.classes.iter_mut().zip(&other.classes) {
            sum.events += more.events;
            add_saturating(&mut sum.sum_ns.0, more.sum_ns.0);
            add_saturating(&mut sum.exposed_ns.0, more.exposed_ns.0);
        }
    }
}

/// Busy and idle time of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct StreamTime {
    /// Number of the CUDA context.
    pub context: u32,
    /// Number of the stream in its context.
    pub stream: u32,
    /// Events that began in the interval.
    pub events: u64,
    /// The sum of their times.
    pub sum_ns: Nanos,
    /// Time with at least one event.
    pub busy_ns: Nanos,
    /// The rest of the interval.
    pub idle_ns: Nanos,
}

/// How long events waited after their launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Queueing {
    /// From the beginning of the launch call to the start on the device, ns.
    pub launch_delay_ns: Spread,
    /// Events that were launched and had not begun, counted at each launch: the mean.
    pub mean_depth: f64,
    /// Largest number of events that were launched and had not begun.
    pub max_depth: u64,
}

/// What one device did in the intervals of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct DeviceBreakdown {
    /// Number of the device in the trace.
    pub device: u32,
    /// Sums over all intervals of the phase.
    pub total: DeviceTime,
    /// Streams of the device that ran events.
    pub streams: Vec<StreamTime>,
    /// What the host did while the device waited for it.
    pub host_operators: Vec<HostOperatorIdle>,
    /// Distinct calls that launched the events.
    pub launches: u64,
    /// How long events waited; absent where no launch call is known.
    pub queueing: Option<Queueing>,
    /// The single intervals, in order of time.
    pub instances: Vec<DeviceTime>,
}

/// The events of one device, ready to be cut into intervals.
pub(crate) struct DeviceTimeline<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) calls: &'a EventCalls,
    /// What the host did meanwhile; absent where idle time gets no causes.
    pub(crate) activity: Option<&'a HostActivity<'a>>,
    /// The events of one device in order.
    pub(crate) events: &'a [DeviceEvent],
    /// The number of the first of them among the events of all devices.
    pub(crate) first: usize,
    /// Queue depth at the launch of each event, by [`queue_depths`].
    pub(crate) depths: Vec<u64>,
}

/// What the intervals of one group add up to.
#[derive(Default)]
struct BreakdownSums {
    total: DeviceTime,
    idle: IdleSums,
    streams: BTreeMap<(u32, u32), StreamTime>,
    instances: Vec<DeviceTime>,
    calls: Vec<u32>,
    delays: Vec<i64>,
    depth_sum: u64,
    depth_max: u64,
}

impl BreakdownSums {
    fn into_breakdown(mut self, trace: &Trace, device: u32) -> DeviceBreakdown {
        let launched = self.delays.len() as f64;
        self.calls.sort_unstable();
        self.calls.dedup();
        for stream in self.streams.values_mut() {
            let span = self.total.span_ns.0;
            stream.idle_ns = Nanos(span.saturating_sub(stream.busy_ns.0));
        }
        DeviceBreakdown {
            device,
            total: self.total,
            streams: self.streams.into_values().collect(),
            host_operators: self.idle.operators(trace),
            launches: self.calls.len() as u64,
            queueing: Spread::from_values(&mut self.delays).map(|launch_delay_ns| Queueing {
                launch_delay_ns,
                mean_depth: self.depth_sum as f64 / launched,
                max_depth: self.depth_max,
            }),
            instances: self.instances,
        }
    }
}

/// An event as far as it lies inside an interval.
#[derive(Clone, Copy)]
struct Clipped {
    start: i64,
    end: i64,
    index: usize,
}

impl DeviceTimeline<'_> {
    pub(crate) fn device(&self) -> u32 {
        self.events.first().map_or(0, |event| event.device)
    }

    /// Breaks down intervals that come in order and do not overlap. Where the last one is `closed`, an event without
    /// length at its very end is in it.
    pub(crate) fn break_down(&self, windows: &[(i64, i64)], closed: bool) -> DeviceBreakdown {
        let windows = windows.iter().map(|&window| (window, 0));
        let mut groups = self.break_down_groups(windows, 1, closed);
        groups.remove(0)
    }

    /// The same for intervals of several groups, each with the number of its group: the events are walked once.
    pub(crate) fn break_down_groups(
        &self,
        windows: impl ExactSizeIterator<Item = ((i64, i64), usize)>,
        count: usize,
        closed: bool,
    ) -> Vec<DeviceBreakdown> {
        let mut groups: Vec<BreakdownSums> = (0..count).map(|_| BreakdownSums::default()).collect();
        let mut carry: Vec<usize> = Vec::new();
        let mut next = 0;
        let last_order = windows.len().saturating_sub(1);
        for (order, ((start, end), group)) in windows.enumerate() {
            let sums = &mut groups[group];
            let last = closed && order == last_order;
            // What began between the intervals may reach into this one.
            while next < self.events.len() && self.events[next].start < start {
                carry.push(next);
                next += 1;
            }
            carry.retain(|&index| self.events[index].end > start);
            let mut clipped: Vec<Clipped> = carry
                .iter()
                .map(|&index| Clipped {
                    start,
                    end: self.events[index].end.min(end),
                    index,
                })
                .collect();
            let carried = clipped.len();
            while next < self.events.len()
                && (self.events[next].start < end || last && self.events[next].start == end)
            {
                let event = &self.events[next];
                clipped.push(Clipped {
                    start: event.start,
                    end: event.end.min(end),
                    index: next,
                });
                if event.end > end {
                    carry.push(next);
                }
                if let Some(call) = self.calls.call(self.first + next) {
                    let launched = self.trace.hosts.start[call as usize];
                    sums.calls.push(call);
                    sums.delays.push(event.start.saturating_sub(launched));
                    sums.depth_sum += self.depths[next];
                    sums.depth_max = sums.depth_max.max(self.depths[next]);
                }
                next += 1;
            }
            let instance = self.measure_interval(start, end, &clipped, carried, &mut sums.idle);
            self.add_by_stream(&clipped, carried, &mut sums.streams);
            sums.total.add(&instance);
            sums.instances.push(instance);
        }
        let finish = |sums: BreakdownSums| sums.into_breakdown(self.trace, self.device());
        groups.into_iter().map(finish).collect()
    }

    fn measure_interval(
        &self,
        start: i64,
        end: i64,
        clipped: &[Clipped],
        carried: usize,
        idle: &mut IdleSums,
    ) -> DeviceTime {
        let mut time = DeviceTime {
            span_ns: Nanos(end.saturating_sub(start)),
            ..DeviceTime::default()
        };
        let mut own = IdleSums::default();
        let mut union = Union::default();
        let mut gap_start = start;
        let mut before = None;
        for (order, event) in clipped.iter().enumerate() {
            let source = &self.events[event.index];
            let length = event.end.saturating_sub(event.start);
            let class = &mut time.classes[source.class as usize];
            add_saturating(&mut class.sum_ns.0, length);
            add_saturating(&mut time.sum_ns.0, length);
            if order < carried {
                add_saturating(&mut time.carried_in_ns.0, length);
            } else {
                class.events += 1;
                time.events += 1;
                time.kernels += u64::from(matches!(
                    source.class,
                    Class::Compute | Class::Communication
                ));
            }
            if event.start > gap_start {
                let gap = Gap {
                    start: gap_start,
                    end: event.start,
                    next: Some((self.first + event.index, event.start)),
                    before,
                };
                self.split_gap(&gap, &mut own);
            }
            gap_start = gap_start.max(event.end);
            before = Some(self.first + event.index);
            union.add(event.start, event.end);
        }
        if gap_start < end {
            let next = self.events.partition_point(|event| event.start < end);
            let gap = Gap {
                start: gap_start,
                end,
                next: (self.events.get(next)).map(|event| (self.first + next, event.start)),
                before,
            };
            self.split_gap(&gap, &mut own);
        }
        time.busy_ns = Nanos(union.length());
        time.overlap_ns = Nanos(time.sum_ns.0.saturating_sub(time.busy_ns.0));
        time.idle_ns = Nanos(time.span_ns.0.saturating_sub(time.busy_ns.0));
        time.idle = own.causes;
        idle.absorb(own);
        self.expose(clipped, &mut time);
        time
    }

    fn split_gap(&self, gap: &Gap, idle: &mut IdleSums) {
        match self.activity {
            Some(activity) => activity.split(gap, idle),
            None => idle.add_unknown(gap),
        }
    }

    /// Gives every moment with an active event to the first class that is active.
    fn expose(&self, clipped: &[Clipped], time: &mut DeviceTime) {
        let single = time
            .classes
            .iter()
            .filter(|class| class.sum_ns > Nanos(0))
            .count()
            <= 1;
        if single || time.overlap_ns == Nanos(0) {
            for class in &mut time.classes {
                class.exposed_ns = if single && class.sum_ns > Nanos(0) {
                    time.busy_ns
                } else {
                    class.sum_ns
                };
            }
            return;
        }
        let mut points: Vec<(i64, i32, Class)> = Vec::with_capacity(2 * clipped.len());
        for event in clipped {
            let class = self.events[event.index].class;
            points.push((event.start, 1, class));
            points.push((event.end, -1, class));
        }
        points.sort_unstable();
        let mut active = [0_i32; 4];
        let mut last = 0;
        for (at, change, class) in points {
            if let Some(first) = active.iter().position(|&count| count > 0) {
                add_saturating(
                    &mut time.classes[first].exposed_ns.0,
                    at.saturating_sub(last),
                );
            }
            active[class as usize] += change;
            last = at;
        }
    }

    fn add_by_stream(
        &self,
        clipped: &[Clipped],
        carried: usize,
        streams: &mut BTreeMap<(u32, u32), StreamTime>,
    ) {
        let mut unions: BTreeMap<(u32, u32), Union> = BTreeMap::new();
        for (order, event) in clipped.iter().enumerate() {
            let key = self.events[event.index].stream;
            let stream = streams.entry(key).or_insert(StreamTime {
                context: key.0,
                stream: key.1,
                events: 0,
                sum_ns: Nanos(0),
                busy_ns: Nanos(0),
                idle_ns: Nanos(0),
            });
            stream.events += u64::from(order >= carried);
            add_saturating(&mut stream.sum_ns.0, event.end.saturating_sub(event.start));
            unions.entry(key).or_default().add(event.start, event.end);
        }
        for (key, union) in unions {
            if let Some(stream) = streams.get_mut(&key) {
                add_saturating(&mut stream.busy_ns.0, union.length());
            }
        }
    }
}

/// For each event, how many were launched and had not begun when it was launched, itself included.
pub(crate) fn queue_depths(
    trace: &Trace,
    calls: &EventCalls,
    events: &[DeviceEvent],
    first: usize,
) -> Vec<u64> {
    let launch = |index: usize| {
        let call = calls.call(first + index)?;
        Some(trace.hosts.start[call as usize])
    };
    let mut launches: Vec<(i64, usize)> = (0..events.len())
        .filter_map(|index| Some((launch(index)?, index)))
        .collect();
    let mut starts: Vec<i64> = launches
        .iter()
        .map(|&(_, index)| events[index].start)
        .collect();
    launches.sort_unstable();
    starts.sort_unstable();
    let mut depths = vec![0; events.len()];
    let mut begun = 0;
    for (launched, &(time, index)) in launches.iter().enumerate() {
        while begun < starts.len() && starts[begun] <= time {
            begun += 1;
        }
        depths[index] = (launched as u64 + 1).saturating_sub(begun as u64);
    }
    depths
}
