//! Devices that are not NVIDIA's: XPlane files of JAX on a GPU and a TPU, Ascend's `trace_view.json`, MTIA. Expected numbers were summed
//! by a separate reader of the files.

use crate::support;

use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::trace::{AcceleratorKind, HostKind, RangeKind, SyncKind, Trace};
use support::{check_timeline, import_bytes};

fn kernel_sum(trace: &Trace, device: u32) -> (usize, i64) {
    let rows = trace
        .kernels
        .rows()
        .filter(|kernel| kernel.device == device);
    rows.fold((0, 0), |(count, sum), kernel| {
        (count + 1, sum + kernel.duration)
    })
}

#[test]
fn an_xplane_of_a_gpu_has_its_streams_and_launch_calls() {
    let (trace, _) = check_timeline("xplane/jax_gpu.xplane.pb.gz", "xplane");
    assert_eq!(trace.accelerator(), AcceleratorKind::Gpu);
    let [device] = &trace.devices[..] else {
        panic!("one device did something: {:?}", trace.devices)
    };
    assert_eq!(device.sm_count, Some(256));
    let copies: i64 = trace.copies.duration.iter().sum();
    let memsets: i64 = trace.memsets.duration.iter().sum();
    let rows = trace.kernels.len() + trace.copies.len() + trace.memsets.len();
    assert_eq!(rows, 150);
    let (_, kernels) = kernel_sum(&trace, 0);
    assert_eq!(kernels + copies + memsets, 12_133_585);
    let first = trace.kernels.row(0);
    assert_eq!(trace.text(first.name), "wrapped_convert");
    assert_eq!((first.start, first.duration), (9_716_533_018, 2_960));
    assert_eq!(
        (first.stream, first.grid, first.block),
        (2, [1, 1, 1], [2, 1, 1])
    );
    let call = trace
        .hosts
        .rows()
        .find(|host| host.correlation == first.correlation)
        .unwrap();
    assert_eq!(trace.text(call.name), "hipModuleLaunchKernel");
    assert_eq!(call.kind, HostKind::RUNTIME);
    assert!(trace.hosts.kind.contains(&HostKind::PYTHON));
    assert_eq!(trace.clock_origin_ns.unwrap().0, 1_779_266_702_889_805_563);
    assert_eq!(trace.issues, []);
}

#[test]
fn an_xplane_of_a_tpu_has_the_ops_of_each_core() {
    let (trace, _) = check_timeline("xplane/tpu_inference.xplane.pb.gz", "xplane");
    assert_eq!(trace.accelerator(), AcceleratorKind::Tpu);
    assert_eq!(trace.devices.len(), 4);
    assert_eq!(trace.devices[0].name, "TPU v6 Lite");
    assert_eq!(kernel_sum(&trace, 0), (1504, 78_784_927_652));
    assert_eq!(kernel_sum(&trace, 3), (1503, 78_766_281_687));
    // Programs, and copies in flight, are ranges; they are no further work.
    let of_first = |range: &llmprof_record::trace::Range| {
        range.kind == RangeKind::DEVICE_ANNOTATION && range.device == 0
    };
    assert_eq!(trace.ranges.rows().filter(of_first).count(), 105 + 600);
    let communication = trace
        .kernels
        .rows()
        .filter(|kernel| classify(trace.text(kernel.name)).category == Category::Communication);
    assert_eq!(communication.count(), 3 * 4);
}

#[test]
fn an_ascend_trace_is_read_by_names_and_arrows() {
    let (trace, _) = check_timeline("ascend/trace_view.json", "kineto");
    assert_eq!(trace.accelerator(), AcceleratorKind::Npu);
    let names: Vec<&str> = trace
        .kernels
        .name
        .iter()
        .map(|id| trace.text(*id))
        .collect();
    assert_eq!(
        names,
        [
            "aclnnMm_CastAiCore_Cast",
            "aclnnMm_MatMulCommon_MatMulV2",
            "aclnnRelu_Relu_Relu",
            "hcom_allReduce__204_0_1"
        ]
    );
    assert_eq!(trace.kernels.duration[..], [1_500, 30_125, 2_000, 20_000]);
    assert_eq!(trace.kernels.start[0], 1_700_000_000_000_020_000);
    assert_eq!(trace.copies.len(), 1);
    assert_eq!(trace.syncs.kind[..], [SyncKind::STREAM_WAIT]);
    // The operator and the call that asked for a task.
    let owner = |kernel: usize, kind: HostKind| {
        let (external, correlation) = (
            trace.kernels.external[kernel],
            trace.kernels.correlation[kernel],
        );
        let host = trace.hosts.rows().find(|host| {
            host.kind == kind
                && match kind {
                    HostKind::OPERATOR => host.external == external && external != 0,
                    _ => host.correlation == correlation && correlation != 0,
                }
        });
        host.map(|host| trace.text(host.name))
    };
    assert_eq!(owner(0, HostKind::OPERATOR), Some("aclnnMm"));
    assert_eq!(owner(1, HostKind::OPERATOR), Some("aclnnMm"));
    assert_eq!(owner(2, HostKind::OPERATOR), Some("aten::relu"));
    assert_eq!(owner(1, HostKind::RUNTIME), Some("AscendCL@aclnnMm"));
    assert_eq!(owner(2, HostKind::RUNTIME), Some("AscendCL@aclnnRelu"));
    assert_eq!(owner(3, HostKind::RUNTIME), None);
    // What PyTorch annotates is a range, wherever a profiler writes it.
    let ranges: Vec<&str> = trace.ranges.name.iter().map(|id| trace.text(*id)).collect();
    assert_eq!(
        ranges,
        [
            "ProfilerStep#1",
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        ]
    );
    let others = trace
        .hosts
        .kind
        .iter()
        .filter(|kind| **kind == HostKind::OTHER);
    assert_eq!(others.count(), 0, "the overlap repeats what tasks show");
}

#[test]
fn waits_and_transfers_of_an_mtia_are_no_kernels() {
    let event = |name: &str, ts: u32| {
        format!(
            r#"{{"ph": "X", "cat": "mtia_ccp_events", "name": "{name}", "pid": 2, "tid": 1, "ts": {ts}, "dur": 5, "args": {{}}}}"#
        )
    };
    let content = format!(
        "[{},{},{}]",
        event("event_wait", 1),
        event("pe_exe", 10),
        event("dma_request", 20)
    );
    let trace = import_bytes(content.as_bytes()).unwrap();
    assert_eq!(trace.accelerator(), AcceleratorKind::Mtia);
    assert_eq!(
        (trace.kernels.len(), trace.copies.len(), trace.syncs.len()),
        (1, 1, 1)
    );
    assert_eq!(trace.devices[0].id, 2);
}

/// XLA on the CPU: ops of compiled programs are operators, Python functions and marks of its own are not.
#[test]
fn what_xla_runs_on_the_cpu_are_operators() {
    let event = |name: &str, ts: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "name": "{name}", "pid": 701, "tid": 9, "ts": {ts}, "dur": 5, "args": {{{args}}}}}"#
        )
    };
    let content = format!(
        "[{},{},{},{}]",
        event("train", 1, r#""step_num": "7""#),
        event("$core.py:660 bind", 1, ""),
        event("ThunkExecutor::Execute", 2, ""),
        event("dot.3", 3, r#""hlo_op": "dot.3", "hlo_module": "jit_f""#)
    );
    let trace = import_bytes(content.as_bytes()).unwrap();
    let hosts: Vec<_> = trace
        .hosts
        .rows()
        .map(|row| (trace.text(row.name), row.kind))
        .collect();
    assert_eq!(
        hosts,
        [
            ("$core.py:660 bind", HostKind::PYTHON),
            ("ThunkExecutor::Execute", HostKind::OTHER),
            ("dot.3", HostKind::OPERATOR),
        ]
    );
    assert_eq!(trace.text(trace.ranges.name[0]), "train");
    assert_eq!(trace.ranges.kind[0], RangeKind::ANNOTATION);
}

/// Two ranks, each with a device 0 and ids from 1.
#[test]
fn ranks_of_a_merged_file_stay_apart() {
    let rank = |label: &str, device: u32, shift: u32| {
        let args = format!(r#""args": {{"correlation": 7, "device": {device}, "stream": 7}}"#);
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": "{label} 99", "tid": 1, "ts": {0}, "dur": 1, {args}}},
            {{"ph": "X", "cat": "kernel", "name": "k{label}", "pid": "{label} {device}", "tid": 7, "ts": {1}, "dur": 1, {args}}}"#,
            shift,
            shift + 2
        )
    };
    let merge = |first: &str, second: &str| {
        import_bytes(format!("{{\"traceEvents\": [{first},{second}]}}").as_bytes()).unwrap()
    };
    let shared = merge(&rank("[TP00]", 0, 1), &rank("[TP01]", 0, 1));
    assert_eq!(shared.kernels.device[..], [0, 1]);
    assert_eq!(shared.text(shared.kernels.name[1]), "k[TP01]");
    assert_eq!(shared.issues[0].code.as_str(), "kineto.devices_renumbered");
    assert_ne!(shared.kernels.correlation[0], shared.kernels.correlation[1]);
    let absurd = merge(&rank("[TP00]", u32::MAX, 1), &rank("[TP01]", 2, 1));
    assert_eq!(absurd.kernels.device[..], [2, u32::MAX]);
    let own = merge(&rank("[TP00]", 4, 1), &rank("[TP01]", 2, 1));
    assert_eq!(own.kernels.device[..], [2, 4]);
    assert_eq!(own.issues, []);
}
