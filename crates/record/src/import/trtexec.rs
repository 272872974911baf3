//! What TensorRT's `trtexec` prints and writes: layer times (`--dumpProfile` text, `--exportProfile` JSON), layers
//! (`--exportLayerInfo`) and iterations (`--exportTimes`).

use llmprof_units::{Bytes, Flops};
use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The time of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct LayerTime {
    /// Its name, which names what was fused into it.
    pub name: String,
    /// Mean time over iterations, ms.
    pub average_ms: f64,
    /// Median over iterations, where it is said.
    pub median_ms: Option<f64>,
    /// Share of the whole, as it is said.
    pub percent: f64,
}

/// One layer as it was built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    pub name: String,
    /// Its kind: `gemm`, `CaskConvolution`, `kgen`.
    pub kind: String,
    /// Bytes of its inputs and outputs; absent where a shape is not fixed.
    pub tensor_bytes: Option<Bytes>,
    pub weight_bytes: Bytes,
    /// Floating-point operations of layers with weights: each is used once for every row or position of the output.
    pub flops: Option<Flops>,
}

/// Times of one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// From input to output, transfers included, ms.
    pub latency_ms: f64,
    /// Time on the GPU alone, ms.
    pub compute_ms: f64,
}

/// What a file of trtexec holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Trtexec {
    /// Layer times and the iterations they are means of.
    Profile {
        /// The layers in the order of the file.
        layers: Vec<LayerTime>,
        /// Iterations, where they are said.
        iterations: Option<u64>,
    },
    Layers(Vec<Layer>),
    Times(Vec<Iteration>),
}

/// Whether content that begins so may be one of the files. A log says first what the program is and how it was called.
pub fn sniff(head: &[u8]) -> bool {
    let has = |text: &[u8]| memmem::find(head, text).is_some();
    match head.trim_ascii_start().first() {
        Some(b'{') => has(b"\"Layers\""),
        Some(b'[') if has(b"\"averageMs\"") || has(b"\"latencyMs\"") => true,
        _ => has(b"trtexec") || has(b"TensorRT") || has(b"=== Profile ("),
    }
}

/// Reads any of the files, by content; `None` of another file.
pub fn read(text: &str) -> Option<Trtexec> {
    let start = text.trim_start();
    if start.starts_with('[') || start.starts_with('{') {
        // A log begins with a bracket too: `[11/16/2026-02:25:29] [I] …`.
        match serde_json::from_str::<Value>(text) {
            Ok(json) => return read_json(&json),
            Err(_) => return read_log(text),
        }
    }
    read_log(text)
}

fn read_json(json: &Value) -> Option<Trtexec> {
    if let Some(layers) = json.get("Layers").and_then(Value::as_array) {
        return Some(Trtexec::Layers(layers.iter().map(parse_layer).collect()));
    }
    let list = json.as_array()?;
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64);
    if list.iter().any(|entry| entry.get("latencyMs").is_some()) {
        let iterations = list.iter().filter_map(|entry| {
            let compute = number(entry, "computeMs").or_else(|| {
                Some(number(entry, "endComputeMs")? - number(entry, "startComputeMs")?)
            });
            Some(Iteration {
                latency_ms: number(entry, "latencyMs")?,
                compute_ms: compute?,
            })
        });
        return Some(Trtexec::Times(iterations.collect()));
    }
    let layers: Vec<LayerTime> = list
        .iter()
        .filter_map(|entry| {
            Some(LayerTime {
                name: entry.get("name")?.as_str()?.to_owned(),
                average_ms: number(entry, "averageMs")?,
                median_ms: number(entry, "medianMs"),
                percent: number(entry, "percentage").unwrap_or(0.0),
            })
        })
        .collect();
    let iterations = list.iter().find_map(|entry| entry.get("count")?.as_u64());
    (!layers.is_empty()).then_some(Trtexec::Profile { layers, iterations })
}

fn parse_layer(entry: &Value) -> Layer {
    // Without detailed verbosity a layer is its name.
    if let Some(name) = entry.as_str() {
        return Layer {
            name: name.to_owned(),
            ..Layer::default()
        };
    }
    let text = |key: &str| {
        let value = entry.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let tensors = |key: &str| {
        let list = entry.get(key).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let (inputs, outputs) = (tensors("Inputs"), tensors("Outputs"));
    let tensor_bytes = inputs
        .iter()
        .chain(&outputs)
        .try_fold(0_u64, |sum, tensor| sum.checked_add(tensor_bytes(tensor)?));
    let weights = entry.get("Weights");
    let count = weights
        .and_then(|weights| weights.get("Count")?.as_u64())
        .unwrap_or(0);
    let width = weights
        .and_then(|weights| weights.get("Type")?.as_str())
        .map_or(0, width_of);
    let parameter = text("ParameterType");
    let is_convolution = parameter.contains("Convolution");
    let is_product = is_convolution
        || ["MatrixMultiply", "FullyConnected", "Gemm"]
            .iter()
            .any(|kind| parameter.contains(kind));
    let positions = outputs
        .first()
        .and_then(tensor_dimensions)
        .and_then(|dims| {
            let elements = dims
                .iter()
                .try_fold(1_u64, |all, dim| all.checked_mul(*dim))?;
            // Channels come second in a convolution's output, last in a product's.
            let channels = if is_convolution {
                dims.get(1)
            } else {
                dims.last()
            };
            elements.checked_div(*channels?)
        });
    let kind = text("LayerType");
    Layer {
        name: text("Name"),
        kind: if kind.is_empty() {
            parameter.clone()
        } else {
            kind
        },
        tensor_bytes: tensor_bytes.filter(|_| !outputs.is_empty()).map(Bytes),
        weight_bytes: Bytes(count.saturating_mul(width)),
        flops: positions
            .filter(|_| is_product && count > 0)
            .and_then(|positions| positions.checked_mul(count)?.checked_mul(2))
            .map(Flops),
    }
}

fn tensor_dimensions(tensor: &Value) -> Option<Vec<u64>> {
    let dims = tensor.get("Dimensions")?.as_array()?;
    // −1 is a dimension that is not fixed.
    dims.iter().map(Value::as_u64).collect()
}

fn tensor_bytes(tensor: &Value) -> Option<u64> {
    let elements = tensor_dimensions(tensor)?
        .iter()
        .try_fold(1_u64, |all, dim| all.checked_mul(*dim))?;
    let format = tensor.get("Format/Datatype")?.as_str()?;
    let width = width_of(format);
    elements.checked_mul(width).filter(|_| width > 0)
}

/// Bytes of an element, by the words trtexec has for types.
fn width_of(words: &str) -> u64 {
    let words = words.to_ascii_lowercase();
    let has = |names: &[&str]| names.iter().any(|name| words.contains(name));
    if has(&["fp16", "half", "bf16", "bfloat16"]) {
        2
    } else if has(&["int8", "fp8", "uint8", "bool"]) {
        1
    } else if has(&["int64"]) {
        8
    } else if has(&["fp32", "float", "int32"]) {
        4
    } else {
        0
    }
}

/// The table of `--dumpProfile`, in either order of its columns.
fn read_log(text: &str) -> Option<Trtexec> {
    let mut iterations = None;
    let mut layers = Vec::new();
    let mut names_first = None;
    for line in text.lines() {
        let line = match line.rfind("[I] ") {
            Some(at) => &line[at + 4..],
            None => line,
        };
        if let Some(rest) = line.trim().strip_prefix("=== Profile (") {
            iterations = rest.split_whitespace().next()?.parse().ok();
            names_first = None;
            layers.clear();
            continue;
        }
        if line.contains("Layer") && (line.contains("Time (ms)") || line.contains("Time(ms)")) {
            names_first = Some(line.trim_start().starts_with("Layer"));
            continue;
        }
        let Some(names_first) = names_first else {
            continue;
        };
        match parse_row(line, names_first) {
            Some(layer) if layer.name == "Total" => break,
            Some(layer) => layers.push(layer),
            None => {}
        }
    }
    (!layers.is_empty()).then_some(Trtexec::Profile { layers, iterations })
}

/// Total, average, median and percent, before or after the name.
fn parse_row(line: &str, name_first: bool) -> Option<LayerTime> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let count = words.len().checked_sub(4)?;
    let (name, numbers) = if name_first {
        (&words[..count], &words[count..])
    } else {
        (&words[4..], &words[..4])
    };
    let numbers: Vec<f64> = numbers
        .iter()
        .map(|word| word.trim_end_matches('%').parse().ok())
        .collect::<Option<_>>()?;
    (!name.is_empty()).then(|| LayerTime {
        name: name.join(" "),
        average_ms: numbers[1],
        median_ms: Some(numbers[2]),
        percent: numbers[3],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_both_column_orders() {
        let new = "[11/16/2026-02:25:29] [I] \n[11/16/2026-02:25:29] [I] === Profile (100 iterations ) ===\n\
                   [11/16/2026-02:25:29] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer\n\
                   [11/16/2026-02:25:29] [I]       12.00       0.1200       0.1100      30.0   conv1 + relu\n\
                   [11/16/2026-02:25:29] [I]       28.00       0.2800       0.2700      70.0   /fc/MatMul\n\
                   [11/16/2026-02:25:29] [I]       40.00       0.4000       0.3800     100.0   Total\n";
        let old = "[I] === Profile (100 iterations ) ===\n[I]          Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %\n\
                   [I]   conv1 + relu   12.00   0.1200   0.1100   30.0\n[I]   /fc/MatMul   28.00   0.2800   0.2700   70.0\n[I]   Total   40.00   0.4000   0.3800   100.0\n";
        let json = r#"[{"count":100},{"name":"conv1 + relu","timeMs":12,"averageMs":0.12,"medianMs":0.11,"percentage":30},
                       {"name":"/fc/MatMul","timeMs":28,"averageMs":0.28,"medianMs":0.27,"percentage":70}]"#;
        let profile = read(new).unwrap();
        assert_eq!(read(old).unwrap(), profile);
        assert_eq!(read(json).unwrap(), profile);
        let Trtexec::Profile { layers, iterations } = profile else {
            panic!()
        };
        assert_eq!(iterations, Some(100));
        assert_eq!(layers[0].name, "conv1 + relu");
        assert_eq!(layers[1].average_ms, 0.28);
    }

    #[test]
    fn operations_and_bytes_of_layers_by_hand() {
        let json = r#"{"Layers":[{"Name":"conv","LayerType":"CaskConvolution","ParameterType":"Convolution",
            "Inputs":[{"Name":"x","Dimensions":[1,3,8,8],"Format/Datatype":"Channel major FP16 format"}],
            "Outputs":[{"Name":"y","Dimensions":[1,16,8,8],"Format/Datatype":"Channel major FP16 format"}],
            "Weights":{"Type":"Half","Count":432}},
            {"Name":"free","LayerType":"NoOp","Inputs":[],"Outputs":[{"Dimensions":[-1,4],"Format/Datatype":"Row major linear FP32"}]}, "bare"]}"#;
        let Some(Trtexec::Layers(layers)) = read(json) else {
            panic!()
        };
        // 16 × 3 × 3 × 3 weights at 64 positions.
        assert_eq!(layers[0].flops, Some(Flops(2 * 432 * 64)));
        assert_eq!(layers[0].weight_bytes, Bytes(864));
        assert_eq!(layers[0].tensor_bytes, Some(Bytes(2 * (192 + 1024))));
        assert_eq!((layers[1].flops, layers[1].tensor_bytes), (None, None));
        assert_eq!(layers[2].name, "bare");
    }

    #[test]
    fn times_and_what_is_not_trtexecs() {
        let json = r#"[{"startComputeMs":1.0,"endComputeMs":3.5,"latencyMs":3.0},{"startComputeMs":4,"endComputeMs":6,"latencyMs":2.5}]"#;
        let Some(Trtexec::Times(times)) = read(json) else {
            panic!()
        };
        assert_eq!(times[0].compute_ms, 2.5);
        for other in [
            "",
            "[]",
            "{}",
            "hello",
            "[1,2]",
            "[I] === Profile (x",
            r#"{"traceEvents":[]}"#,
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
