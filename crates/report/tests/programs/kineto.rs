//! Writes the trace that a profiler would of a program: a host that launches, devices that run behind it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A Kineto file that grows as the program "runs". Times are µs.
pub(crate) struct Kineto {
    events: Vec<Value>,
    metadata: serde_json::Map<String, Value>,
    process: i64,
    thread: i64,
    device: u32,
    stream: u32,
    /// When each thread of a process can go on.
    host: BTreeMap<(i64, i64), f64>,
    /// When each stream of a device is free.
    free: BTreeMap<(u32, u32), f64>,
    correlation: u64,
    launch_us: f64,
    records_launches: bool,
    records_devices: bool,
}

impl Kineto {
    pub(crate) fn new() -> Self {
        Self {
            events: Vec::new(),
            metadata: serde_json::Map::new(),
            process: 100,
            thread: 100,
            device: 0,
            stream: 7,
            host: BTreeMap::new(),
            free: BTreeMap::new(),
            correlation: 0,
            launch_us: 5.0,
            records_launches: true,
            records_devices: true,
        }
    }

    pub(crate) fn meta(&mut self, key: &str, value: Value) {
        self.metadata.insert(key.to_owned(), value);
    }

    pub(crate) fn without_launches(&mut self) {
        self.records_launches = false;
    }

    pub(crate) fn with_launches(&mut self) {
        self.records_launches = true;
    }

    pub(crate) fn without_devices(&mut self) {
        self.records_devices = false;
    }

    /// Goes on in another process, on a device of its own, from the beginning.
    pub(crate) fn enter_process(&mut self, process: i64, device: u32) {
        (self.process, self.thread, self.device) = (process, process, device);
    }

    pub(crate) fn on_device(&mut self, device: u32) {
        self.device = device;
    }

    pub(crate) fn now(&mut self) -> f64 {
        *self.clock()
    }

    fn clock(&mut self) -> &mut f64 {
        self.host
            .entry((self.process, self.thread))
            .or_insert(1000.0)
    }

    /// The host does something that nothing records.
    pub(crate) fn wait(&mut self, us: f64) {
        *self.clock() += us;
    }

    fn slice(&mut self, category: &str, name: &str, start: f64, args: &Value) {
        let (process, thread) = (self.process, self.thread);
        let duration = self.now() - start;
        self.events.push(json!({
            "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
            "ts": start, "dur": duration, "args": args,
        }));
    }

    fn inside(&mut self, category: &str, name: &str, args: &Value, body: impl FnOnce(&mut Self)) {
        let start = self.now();
        self.wait(1.0);
        body(self);
        self.wait(1.0);
        self.slice(category, name, start, args);
    }

    /// A range of the program.
    pub(crate) fn range(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.inside("user_annotation", name, &json!({}), body);
    }

    pub(crate) fn op(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.inside("cpu_op", name, &json!({}), body);
    }

    pub(crate) fn module(&mut self, class: &str, body: impl FnOnce(&mut Self)) {
        self.inside(
            "python_function",
            &format!("nn.Module: {class}_0"),
            &json!({}),
            body,
        );
    }

    /// Another thread works while this one waits for it.
    pub(crate) fn on_thread(&mut self, thread: i64, body: impl FnOnce(&mut Self)) {
        let (caller, now) = (self.thread, self.now());
        self.thread = thread;
        *self.clock() = now;
        body(self);
        let now = self.now();
        self.thread = caller;
        *self.clock() = now;
    }

    pub(crate) fn on_stream(&mut self, stream: u32, body: impl FnOnce(&mut Self)) {
        let caller = std::mem::replace(&mut self.stream, stream);
        body(self);
        self.stream = caller;
    }

    /// A call of the runtime.
    pub(crate) fn call(&mut self, name: &str, us: f64) {
        self.correlation += 1;
        let start = self.now();
        self.wait(us);
        if self.records_launches {
            let correlation = self.correlation;
            self.slice(
                "cuda_runtime",
                name,
                start,
                &json!({"correlation": correlation}),
            );
        }
    }

    fn run(&mut self, category: &str, name: &str, us: f64, extra: &[(&str, Value)]) {
        let earliest = self.now() + 2.0;
        let (device, stream) = (self.device, self.stream);
        let free = self.free.entry((device, stream)).or_insert(0.0);
        let start = free.max(earliest);
        *free = start + us;
        if !self.records_devices {
            return;
        }
        let mut args = json!({"device": device, "stream": stream, "correlation": self.correlation});
        for (key, value) in extra {
            args[*key] = value.clone();
        }
        self.events.push(json!({
            "ph": "X", "cat": category, "name": name, "pid": device, "tid": stream,
            "ts": start, "dur": us, "args": args,
        }));
    }

    pub(crate) fn kernel(&mut self, name: &str, us: f64) {
        self.call("cudaLaunchKernel", self.launch_us);
        self.run("kernel", name, us, &[]);
    }

    pub(crate) fn copy_in(&mut self, bytes: u64, us: f64) {
        self.call("cudaMemcpyAsync", self.launch_us);
        let name = "Memcpy HtoD (Pageable -> Device)";
        self.run("gpu_memcpy", name, us, &[("bytes", json!(bytes))]);
    }

    pub(crate) fn copy_out(&mut self, bytes: u64, us: f64) {
        self.call("cudaMemcpyAsync", self.launch_us);
        let name = "Memcpy DtoH (Device -> Pinned)";
        self.run("gpu_memcpy", name, us, &[("bytes", json!(bytes))]);
    }

    /// A range of the device around what runs on it; it is free when it begins.
    pub(crate) fn device_range(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let (device, stream) = (self.device, self.stream);
        let start = self.now() + 2.0;
        body(self);
        let end = self.free.get(&(device, stream)).copied().unwrap_or(start);
        self.events.push(json!({
            "ph": "X", "cat": "gpu_user_annotation", "name": name, "pid": device, "tid": stream,
            "ts": start, "dur": end - start, "args": {"device": device, "stream": stream},
        }));
    }

    /// A graph of kernels, launched by one call.
    pub(crate) fn graph(&mut self, kernels: &[(&str, f64)]) {
        self.call("cudaGraphLaunch", 20.0);
        for (node, (name, us)) in (1..).zip(kernels) {
            self.run("kernel", name, *us, &[("graph node id", json!(node))]);
        }
    }

    /// The host waits until the device is done.
    pub(crate) fn synchronize(&mut self) {
        let device = self.device;
        let own = self.free.iter().filter(|((one, _), _)| *one == device);
        let done = own.map(|(_, free)| *free).fold(0.0, f64::max);
        let start = self.now();
        let end = done.max(start) + 3.0;
        *self.clock() = end;
        if self.records_launches {
            self.slice("cuda_runtime", "cudaDeviceSynchronize", start, &json!({}));
        }
    }

    /// An operator with the shapes of its inputs.
    pub(crate) fn shaped_op(&mut self, name: &str, dims: &Value, body: impl FnOnce(&mut Self)) {
        let args = json!({"Input Dims": dims, "Input type": ["c10::BFloat16", "long int"]});
        self.inside("cpu_op", name, &args, body);
    }

    /// The same events with starts and durations rounded to whole µs, each for itself, as older profilers wrote them.
    pub(crate) fn round_times(&mut self) {
        for event in &mut self.events {
            for key in ["ts", "dur"] {
                if let Some(time) = event[key].as_f64() {
                    event[key] = json!(time.round() as i64);
                }
            }
        }
    }

    /// An event as it stands.
    pub(crate) fn event(&mut self, event: Value) {
        self.events.push(event);
    }

    pub(crate) fn text(&self) -> String {
        let mut file = json!({"schemaVersion": 1, "traceEvents": self.events});
        for (key, value) in &self.metadata {
            file[key] = value.clone();
        }
        file.to_string()
    }
}
