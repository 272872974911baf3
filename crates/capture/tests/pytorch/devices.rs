//! Devices that this machine does not have: the worker's own code with a stand-in for torch.

use std::process::Command;

use serde_json::{Value, json};

use super::support::python;

/// A torch with an Apple GPU, two Intel GPUs and a Gaudi, which counts how often each was waited for.
const STAND_IN: &str = "
import json, sys, types

class Device:
    def __init__(self, name, index=None):
        kind, _, number = str(name).partition(':')
        if kind not in ('cpu', 'cuda', 'mps', 'xpu', 'hpu'):
            raise RuntimeError('Expected one of cpu, cuda')
        self.type, self.index = kind, int(number) if number else index
    def __str__(self):
        return self.type if self.index is None else f'{self.type}:{self.index}'

waited = []
def part(kind, count):
    part = types.SimpleNamespace(is_available=lambda: count > 0, device_count=lambda: count)
    part.synchronize = lambda *_: waited.append(kind)
    return part

torch = types.ModuleType('torch')
torch.__version__ = '2.11.0'
torch.device = Device
torch.backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: True))
torch.mps, torch.xpu, torch.hpu, torch.cuda = part('mps', 1), part('xpu', 2), part('hpu', 1), part('cuda', 0)
sys.modules['torch'] = torch
sys.path.insert(0, sys.argv[1])
from llmprof_worker import devices
from llmprof_worker.failure import Failure
from llmprof_worker.issues import Issues

def tell(name):
    try:
        device = devices.device_of(name)
    except Failure as failure:
        return [failure.kind, failure.message]
    issues = Issues()
    devices.not_captured(device, issues)
    del waited[:]
    devices.synchronize(device)
    return [str(device), [issue['code'] for issue in issues.found], list(waited)]

told = {name: tell(name) for name in ('mps', 'xpu:0', 'xpu:1', 'xpu:2', 'hpu', 'cuda:0', 'cpu', 'tpu')}
core = types.ModuleType('habana_frameworks.torch.core')
sys.modules.update({'habana_frameworks': types.ModuleType('h'), 'habana_frameworks.torch': types.ModuleType('t'),
                    'habana_frameworks.torch.core': core})
told['hpu with its package'] = tell('hpu')
torch.xpu.is_available = lambda: False
told['xpu without a driver'] = tell('xpu:0')
print(json.dumps(told))
";

#[test]
#[ignore = "live: needs torch and transformers"]
fn other_devices_are_passed_on_to_torch() {
    let python = python();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let output = Command::new(python)
        .args(["-c", STAND_IN, package])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let issue = json!(["device.not_captured"]);
    assert_eq!(told["mps"], json!(["mps", issue, ["mps"]]));
    assert_eq!(told["xpu:0"], json!(["xpu:0", issue, ["xpu"]]));
    assert_eq!(told["xpu:1"], json!(["xpu:1", issue, ["xpu"]]));
    assert_eq!(told["hpu with its package"], json!(["hpu", issue, ["hpu"]]));
    assert_eq!(told["cpu"], json!(["cpu", [], []]));
    for (name, kind, word) in [
        ("xpu:2", "bad_request", "torch finds 2"),
        ("hpu", "missing", "habana_frameworks"),
        ("cuda:0", "missing", "finds no CUDA device"),
        ("tpu", "unsupported", "tpu"),
        ("xpu without a driver", "missing", "xpu:0"),
    ] {
        assert_eq!(told[name][0], kind, "{name}");
        let message = told[name][1].as_str().unwrap();
        assert!(message.contains(word), "{name}: {message}");
    }
}
