//! XPlane files (`*.xplane.pb`), in which XLA's profiler (JAX, TensorFlow) keeps what it recorded: an XSpace of one plane for each
//! device and for the host.

mod space;

use hashbrown::HashMap;
use llmprof_units::{Bytes, Nanos};

use self::space::{Event, Line, Plane, Stat};
use super::protobuf::{Fields, first_field};
use super::xla::{self, Lane, Work, add_ops, add_range, add_work};
use super::{ImportError, Importer, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::trace::{
    AcceleratorKind, DeviceProperties, Host, HostKind, Range, RangeKind, StrId, ThreadId, Trace,
    TraceBuilder,
};

pub(crate) const IMPORTER: Importer = Importer {
    name: "xplane",
    sniff,
    read: |source| Ok(Profile::Trace(Box::new(read(source)?))),
};

const FORMAT: &str = "an XPlane file";

/// Names that planes of a profile begin with.
const PLANE_NAMES: [&[u8]; 3] = [b"/device:", b"/host:", b"/machine:"];

/// A list of planes, of which the first is there as far as `head` goes and has a name.
fn sniff(head: &[u8]) -> bool {
    // XSpace: field 1 with a length.
    let Some((0x0a, rest)) = head.split_first().map(|(tag, rest)| (*tag, rest)) else {
        return false;
    };
    let length_bytes = rest
        .iter()
        .take(9)
        .take_while(|byte| **byte & 0x80 != 0)
        .count()
        + 1;
    let plane = rest.get(length_bytes..).unwrap_or_default();
    // The id and the name come before the lines in every version; neither is long.
    let name = first_field(plane, 2).and_then(super::protobuf::Field::bytes);
    name.is_some_and(|name| PLANE_NAMES.iter().any(|known| name.starts_with(known)))
}

pub fn read(source: &Source) -> Result<Trace, ImportError> {
    let mut reading = XplaneReading::default();
    reading
        .builder
        .metadata
        .insert("tool".to_owned(), "xla".to_owned());
    reading.builder.issues.extend_from_slice(source.issues());
    for field in Fields::new(source.bytes()) {
        match field {
            Ok((1, field)) => {
                if let Some(message) = field.bytes() {
                    reading.read_plane(message);
                }
            }
            Ok(_) => {}
            // A file that was cut ends inside of a plane, whose beginning is still there.
            Err(_) => {
                reading.damaged_messages += 1;
                if let Some(plane) = space::cut_message(source.bytes(), 1) {
                    reading.read_plane(plane);
                }
            }
        }
    }
    let XplaneReading {
        mut builder,
        damaged_messages,
        unusable_events,
        started_ns,
        ..
    } = reading;
    // Times count from the start of the profiler, or since 1970 already.
    let earliest = builder
        .hosts
        .start
        .iter()
        .chain(builder.kernels.start.iter())
        .min();
    builder.clock_origin_ns = started_ns
        .filter(|started| earliest.is_some_and(|earliest| earliest < started))
        .map(Nanos);
    if builder.has_no_rows() {
        return Err(source.unusable(FORMAT, "no event could be read from it"));
    }
    if damaged_messages > 0 {
        let issue = Issue::error(IssueCode::XplaneDamaged);
        builder.issues.push(issue.counting(damaged_messages));
    }
    if unusable_events > 0 {
        let issue = Issue::warning(IssueCode::XplaneUnusableEvent);
        builder.issues.push(issue.counting(unusable_events));
    }
    Ok(builder.finish())
}

#[derive(Default)]
struct XplaneReading {
    builder: TraceBuilder,
    planes: i64,
    damaged_messages: u64,
    unusable_events: u64,
    /// Planes that each device has had so far: a TPU has one for each kind of core.
    device_planes: HashMap<u32, u32>,
    /// Interned names of events of the plane that is read, by the ids of their names.
    names: HashMap<u64, StrId>,
    /// When the profiler was started, ns since 1970.
    started_ns: Option<i64>,
}

impl XplaneReading {
    fn read_plane(&mut self, message: &[u8]) {
        let (plane, is_whole) = Plane::read(message);
        self.damaged_messages += u64::from(!is_whole);
        self.planes += 1;
        self.names.clear();
        if plane.name == "Task Environment" {
            let mut facts = plane.facts();
            let started = facts.find(|(name, _)| *name == "profile_start_time");
            self.started_ns = started.and_then(|(_, value)| value.integer());
            return;
        }
        match xla::parse_device(&plane.name) {
            Some((device, kind)) => self.read_device(&plane, device, kind),
            None => self.read_host(&plane),
        }
    }

    fn read_lines<'a>(&mut self, plane: &Plane<'a>) -> Vec<Line<'a>> {
        let mut lines = Vec::with_capacity(plane.lines.len());
        for &message in &plane.lines {
            let (line, is_whole) = Line::read(message);
            self.damaged_messages += u64::from(!is_whole);
            lines.push(line);
        }
        lines
    }

    /// The event with its beginning and duration, ns; counts one that cannot be used.
    fn place<'a>(
        &mut self,
        plane: &Plane<'a>,
        line: &Line<'a>,
        message: &'a [u8],
    ) -> Option<(Event<'a>, i64, i64)> {
        self.builder.events_read += 1;
        let placed = plane.event(message).and_then(|event| {
            let (start, duration) = span_ns(line.timestamp_ns, event.offset_ps, event.duration_ps)?;
            Some((event, start, duration))
        });
        self.unusable_events += u64::from(placed.is_none());
        placed
    }

    fn read_device(&mut self, plane: &Plane<'_>, device: u32, kind: AcceleratorKind) {
        let lines = self.read_lines(plane);
        if lines.iter().all(|line| line.events.is_empty()) {
            return;
        }
        let core = self.device_planes.entry(device).or_default();
        let stream = *core;
        *core += 1;
        if stream == 0 {
            self.builder
                .devices
                .push(device_properties(plane, device, kind));
        }
        let name = |line: &Line<'_>| String::from_utf8_lossy(line.name).into_owned();
        let has_streams = lines
            .iter()
            .any(|line| xla::stream_number(&name(line)).is_some());
        for line in &lines {
            let lane = Lane::from_name(&name(line), has_streams);
            if lane == Lane::Repeated {
                self.builder.events_read += line.events.len() as u64;
                continue;
            }
            let mut ops = Vec::new();
            for &message in &line.events {
                let Some((event, start, duration)) = self.place(plane, line, message) else {
                    continue;
                };
                let mut work = Work {
                    start,
                    duration,
                    name: self.name(&event),
                    device,
                    stream,
                    ..Work::default()
                };
                for (key, value) in plane.stats_of(&event) {
                    describe_work(&mut work, key, value);
                }
                match lane {
                    Lane::Stream(number) => add_work(
                        &mut self.builder,
                        &Work {
                            stream: number,
                            ..work
                        },
                    ),
                    Lane::Ops => ops.push(work),
                    Lane::Ranges => add_range(&mut self.builder, &work),
                    Lane::Repeated => {}
                }
            }
            add_ops(&mut self.builder, ops);
        }
    }

    fn read_host(&mut self, plane: &Plane<'_>) {
        let process = self.planes;
        if !plane.lines.is_empty() {
            self.builder.name_process(Ok(process), &plane.name);
        }
        for line in self.read_lines(plane) {
            if line.events.is_empty() {
                continue;
            }
            let thread = self.builder.thread(process, line.id);
            let name = String::from_utf8_lossy(line.name);
            self.builder.name_thread(Ok(process), Ok(line.id), &name);
            for &message in &line.events {
                if let Some((event, start, duration)) = self.place(plane, &line, message) {
                    self.add_host_event(plane, &event, thread, start, duration);
                }
            }
        }
    }

    fn add_host_event(
        &mut self,
        plane: &Plane<'_>,
        event: &Event<'_>,
        thread: ThreadId,
        start: i64,
        duration: i64,
    ) {
        let name = self.name(event);
        let (mut correlation, mut is_step, mut is_op) = (0, false, false);
        for (key, value) in plane.stats_of(event) {
            match key {
                "correlation_id" => correlation = small_integer(value).unwrap_or(0),
                // `StepTraceAnnotation` numbers what it marks.
                "step_num" => is_step = true,
                "hlo_op" => is_op = true,
                _ => {}
            }
        }
        if is_step {
            self.builder.ranges.push(Range {
                start,
                duration,
                name,
                thread,
                kind: RangeKind::ANNOTATION,
                ..Range::default()
            });
            return;
        }
        // Only calls that CUPTI or ROCtracer saw have the id of what they launched.
        let kind = if correlation != 0 {
            HostKind::RUNTIME
        } else {
            xla::host_kind(event.name, is_op)
        };
        self.builder.hosts.push(Host {
            start,
            duration,
            name,
            thread,
            kind,
            correlation,
            ..Host::default()
        });
    }

    fn name(&mut self, event: &Event<'_>) -> StrId {
        let builder = &mut self.builder;
        *self.names.entry(event.name_id).or_insert_with(|| {
            let name = String::from_utf8_lossy(without_descriptor(event.name));
            builder.intern(&name)
        })
    }
}

/// A kernel's name without the ending of its descriptor, which AMD's tools append: `f(int) [clone .kd]`, `wrapped_add.kd`.
fn without_descriptor(name: &[u8]) -> &[u8] {
    let name = name.strip_suffix(b" [clone .kd]").unwrap_or(name);
    name.strip_suffix(b".kd").unwrap_or(name)
}

fn small_integer(value: Stat<'_>) -> Option<u32> {
    u32::try_from(value.integer()?).ok()
}

/// Beginning and duration in whole nanoseconds. Both ends are rounded, so that events that touch still do.
fn span_ns(line_ns: i64, offset_ps: i64, duration_ps: i64) -> Option<(i64, i64)> {
    if duration_ps < 0 {
        return None;
    }
    let end_ps = offset_ps.checked_add(duration_ps)?;
    let nanos = |ps: i64| ps.div_euclid(1000) + i64::from(ps.rem_euclid(1000) >= 500);
    let start = line_ns.checked_add(nanos(offset_ps))?;
    let end = line_ns.checked_add(nanos(end_ps))?;
    Some((start, end - start))
}

/// Details have some hundred bytes. Longer texts, which many events may share, are not read again for each of them.
const DETAILS_MAX_BYTES: usize = 1 << 10;

/// Takes what a statistic says of work on a device.
fn describe_work(work: &mut Work, key: &str, value: Stat<'_>) {
    match (key, value) {
        ("correlation_id", _) => work.correlation = small_integer(value).unwrap_or(0),
        ("kernel_details" | "memcpy_details" | "memset_details", Stat::Text(text))
            if text.len() <= DETAILS_MAX_BYTES =>
        {
            let text = String::from_utf8_lossy(text);
            for (key, value) in text
                .split_whitespace()
                .filter_map(|word| word.split_once(':'))
            {
                describe_detail(work, key, value);
            }
        }
        _ => {}
    }
}

/// One word of ` grid:1,1,1 block:2,1,1 regs:16 occ_pct:50` or `size:4096 kind_src:pinned`.
fn describe_detail(work: &mut Work, key: &str, value: &str) {
    let three = || {
        let mut sides = value.split(',').map(|side| side.parse().ok());
        let three = [sides.next()??, sides.next()??, sides.next()??];
        sides.next().is_none().then_some(three)
    };
    let number = || value.parse().ok();
    match key {
        "grid" => work.grid = three().unwrap_or_default(),
        "block" => work.block = three().unwrap_or_default(),
        "regs" => work.registers = number().unwrap_or_default(),
        "static_shared" | "group_mem" => work.static_shared = number().unwrap_or_default(),
        "dynamic_shared" => work.dynamic_shared = number().unwrap_or_default(),
        // ROCm's says 0 for all kernels, which no kernel that runs has.
        "occ_pct" => work.occupancy = value.parse().ok().filter(|percent| *percent > 0.0),
        "size" => work.bytes = value.parse().unwrap_or_default(),
        _ => {}
    }
}

/// What the plane of a device says of it. Its bandwidth is left out: on AMD it counts one transfer a clock, half of the truth.
fn device_properties(plane: &Plane<'_>, id: u32, kind: AcceleratorKind) -> DeviceProperties {
    let mut properties = DeviceProperties {
        id,
        kind,
        ..DeviceProperties::default()
    };
    let (mut major, mut minor) = (None, None);
    for (key, value) in plane.facts() {
        match (key, value) {
            ("device_type_string", Stat::Text(name)) => {
                properties.name = String::from_utf8_lossy(name).into_owned();
            }
            ("core_count", _) => properties.sm_count = small_integer(value),
            ("memory_size", Stat::Integer(bytes)) => {
                properties.memory_bytes = u64::try_from(bytes).ok().map(Bytes);
            }
            ("clock_rate", Stat::Integer(kilohertz)) => {
                let hertz = u64::try_from(kilohertz).ok();
                properties.clock_hz = hertz.and_then(|hertz| hertz.checked_mul(1000));
            }
            ("compute_cap_major", _) => major = small_integer(value),
            ("compute_cap_minor", _) => minor = small_integer(value),
            ("device_vendor", Stat::Text(b"Nvidia")) => properties.warp_size = Some(32),
            _ => {}
        }
    }
    properties.compute_capability = major.zip(minor);
    properties
}
