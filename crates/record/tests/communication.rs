//! NCCL's debug log of an H200, NCCL Inspector's records and dumps of torch's flight recorder.

use std::path::{Path, PathBuf};

use llmprof_record::communication::Communication;
use llmprof_record::import::{self, Limits, Profile};
use llmprof_record::run::RunRecord;
use llmprof_units::{Bytes, Nanos};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str, format: &str) -> Communication {
    let (importer, profile) =
        import::import(&root().join(file), &Limits::default()).expect("a profile that can be read");
    assert_eq!(importer, format);
    match profile {
        Profile::Communication(communication) => *communication,
        _ => panic!("{file} is of a communication library"),
    }
}

#[test]
fn a_debug_log_of_one_rank() {
    let communication = read("fixtures/h200/nccl_debug.log", "nccl_log");
    let versions: Vec<(&str, &str)> = communication
        .versions
        .iter()
        .map(|(name, version)| (name.as_str(), version.as_str()))
        .collect();
    assert_eq!(
        versions,
        [
            ("cuda_driver", "13000"),
            ("nccl", "2.28.9+cuda13.0"),
            ("network", "Socket")
        ]
    );
    let [group] = communication.communicators.as_slice() else {
        panic!("one communicator: {:?}", communication.communicators);
    };
    assert_eq!(group.id, "0xc021225b1a6c66bb");
    assert_eq!(
        (group.ranks, group.nodes, group.seen.as_slice()),
        (1, Some(1), &[0][..])
    );
    assert_eq!(
        (group.channels, group.nvls_channels, group.p2p_channels),
        (Some(64), Some(0), Some(64))
    );
    assert_eq!(group.init_ns, Some(Nanos(550_000_000)));
    let [calls] = communication.collectives.as_slice() else {
        panic!("one size: {:?}", communication.collectives);
    };
    assert_eq!(
        (calls.collective.as_str(), calls.calls, calls.ranks),
        ("AllReduce", 3, 1)
    );
    assert_eq!(calls.bytes, Some(Bytes(4 << 20)));
    let text = serde_json::to_string(&communication).expect("plain data");
    assert!(
        !text.contains("192.0.2.2") && !text.contains("eth0"),
        "addresses are not kept: {text}"
    );
}

#[test]
fn dumps_of_the_flight_recorder_of_two_ranks_are_one() {
    let mut record = RunRecord::default();
    for rank in 0..2 {
        let dump = read(
            "fuzz/corpus/flight_recorder/protocol2.pickle",
            "flight_recorder",
        );
        let file = format!("nccl_trace_rank_{rank}");
        let added = record.add_profile(&file, Profile::Communication(Box::new(dump)));
        added.expect("any number of dumps");
    }
    let communication = record.communication.as_ref().expect("two dumps");
    let pending: Vec<_> = communication
        .pending
        .iter()
        .map(|pending| (pending.rank, pending.sequence, pending.source.as_deref()))
        .collect();
    assert_eq!(
        pending,
        [
            (Some(0), 2, Some("train.py:12 step")),
            (Some(1), 2, Some("train.py:12 step"))
        ]
    );
    assert_eq!(communication.versions["nccl"], "2.27.3");
    let last: Vec<i64> = communication
        .progress
        .iter()
        .map(|progress| progress.completed)
        .collect();
    assert_eq!(last, [1, 1]);
    let calls = &communication.collectives[0];
    assert_eq!(
        (calls.collective.as_str(), calls.ranks, calls.bytes),
        ("all_reduce", 2, Some(Bytes(1 << 20)))
    );
    assert_eq!(calls.median_ns, Some(Nanos(250_000)));
    let folder = tempfile::tempdir().expect("a folder");
    record.save(folder.path()).expect("it can be written");
    let loaded = RunRecord::load(folder.path())
        .expect("it can be read")
        .expect("it is there");
    assert_eq!(loaded.communication, record.communication);
}

#[test]
fn kineto_says_what_a_collective_is_on_the_host_and_at_the_kernel() {
    let facts = r#""Collective name":"allreduce","dtype":"BFloat16","In msg nelems":4096,"Out msg nelems":4096,"Group size":8,"Process Group Name":"3","Process Group Description":"tp","Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]","Seq":117"#;
    let text = format!(
        r#"{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":5,"world_size":8}},"traceEvents":[
{{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":2,"ts":10,"dur":5,"args":{{"External id":7,{facts}}}}},
{{"ph":"X","cat":"user_annotation","name":"nccl:all_gather","pid":1,"tid":2,"ts":30,"dur":5,"args":{{"Input Dims":[[16, 8]],"Input type":["float"]}}}},
{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL","pid":0,"tid":20,"ts":12,"dur":9,"args":{{"device":0,"stream":20,"correlation":99,{facts}}}}}
]}}"#
    );
    let source = import::Source::from_bytes(
        Path::new("trace.json"),
        text.into_bytes(),
        &Limits::default(),
    )
    .expect("bytes");
    let trace = import::kineto::read(&source).expect("a trace");
    assert_eq!(llmprof_record::run::rank_of(&trace), Some(5));
    let table = &trace.collectives;
    assert_eq!(table.len(), 3);
    let at = |name: &str, on_device: bool| {
        let mut rows = 0..table.len();
        let row = rows.find(|&row| {
            trace.text(table.name[row]) == name && (table.correlation[row] != 0) == on_device
        });
        table.row(row.expect("a row"))
    };
    for on_device in [false, true] {
        let row = at("allreduce", on_device);
        assert_eq!(
            (row.sequence, row.group_size, row.in_elements),
            (117, 8, 4096)
        );
        assert_eq!(trace.text(row.process_group), "3 tp");
        assert_eq!(trace.text(row.group_ranks), "[0, 1, 2, 3, 4, 5, 6, 7]");
        assert_eq!(trace.text(row.dtype), "BFloat16");
    }
    assert_eq!(at("allreduce", true).correlation, 99);
    let old = at("nccl:all_gather", false);
    assert_eq!(
        (old.sequence, old.in_elements, old.out_elements),
        (-1, 128, -1)
    );
}
