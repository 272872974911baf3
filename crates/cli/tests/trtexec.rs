//! `llmprof import` of what `trtexec` leaves.

use std::process::Command;

use serde_json::Value;

#[test]
fn layers_types_and_their_roofline() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "profile.json",
        r#"[{"count":10},{"name":"fc","timeMs":10,"averageMs":1.0,"medianMs":1.0,"percentage":80},{"name":"copy","timeMs":2.5,"averageMs":0.25,"medianMs":0.25,"percentage":20}]"#,
    );
    // 4096 × 4096 weights of two bytes for one row: 33.6 MB, 33.6 MFLOP.
    write(
        "layers.json",
        r#"{"Layers":[{"Name":"fc","LayerType":"gemm","ParameterType":"MatrixMultiply",
            "Inputs":[{"Dimensions":[1,4096],"Format/Datatype":"Row major linear FP16 format"}],
            "Outputs":[{"Dimensions":[1,4096],"Format/Datatype":"Row major linear FP16 format"}],
            "Weights":{"Type":"Half","Count":16777216}},
            {"Name":"copy","LayerType":"Reformat","Inputs":[],"Outputs":[{"Dimensions":[-1],"Format/Datatype":"FP16"}]}]}"#,
    );
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .args([
            "import",
            "profile.json",
            "layers.json",
            "--device",
            "h200",
            "--json",
            "-o",
            "run",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["types"][0]["kind"], "gemm");
    assert_eq!(json["types"][0]["flops"], 2 * 16_777_216);
    assert_eq!(json["types"][0]["bytes"], 2 * 16_777_216 + 4 * 4096);
    // 33.57 MB at the H200's 4.8 TB/s take 7.0 µs of the measured millisecond.
    let share = json["types"][0]["of_roofline"].as_f64().unwrap();
    assert!((0.0069..0.0071).contains(&share), "{share}");
    assert_eq!(json["types"][1]["of_roofline"], Value::Null);
    let report = std::fs::read_to_string(dir.path().join("run/report.md")).unwrap();
    assert!(
        report.contains("gemm") && report.contains("Reformat"),
        "{report}"
    );
}
