//! Where an allocation was made.

use rustc_hash::FxHashMap;

use super::pickle::{Heap, Value};

/// Names of places, each once.
#[derive(Debug, Default)]
pub(super) struct Sites {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    /// What is known of frames that were seen: snapshots share them between stacks.
    frames: FxHashMap<u32, SiteFrame>,
}

#[derive(Clone, Copy, Debug)]
struct SiteFrame {
    kind: FrameKind,
    site: u32,
}

/// What a frame tells a reader, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FrameKind {
    /// Python code of a model or a program.
    Program,
    Torch,
    /// A function in a library.
    Native,
    /// What took the stack, or has no name: every stack begins with it.
    Unwinder,
}

impl Sites {
    /// The place that a stack, its innermost frame first, says most about: the first frame of Python code outside of
    /// torch, else the first of Python code, else the first that did not take the stack itself.
    pub(super) fn of(&mut self, heap: &Heap<'_>, stack: Value) -> Option<u32> {
        let mut best: Option<SiteFrame> = None;
        for &frame in heap.items(stack)? {
            if !heap.spend(1) {
                return None;
            }
            let Value::Dict(number) = frame else { continue };
            let known = self.frames.get(&number).copied();
            let Some(frame) = known.or_else(|| self.describe(heap, frame)) else {
                continue;
            };
            self.frames.insert(number, frame);
            if frame.kind == FrameKind::Program {
                return Some(frame.site);
            }
            if best.is_none_or(|best| frame.kind < best.kind) {
                best = Some(frame);
            }
        }
        best.map(|frame| frame.site)
    }

    fn describe(&mut self, heap: &Heap<'_>, frame: Value) -> Option<SiteFrame> {
        let function = heap.text(heap.get(frame, "name")?)?;
        let file = heap
            .get(frame, "filename")
            .and_then(|file| heap.text(file))
            .unwrap_or("");
        let line = match heap.get(frame, "line") {
            Some(Value::Int(line)) => line,
            _ => 0,
        };
        let (kind, name) = if is_python(file) {
            let file = shorten_path(file);
            let kind = if file.starts_with("torch/") {
                FrameKind::Torch
            } else {
                FrameKind::Program
            };
            (kind, format!("{file}:{line} {function}"))
        } else if is_unwinder(function) {
            (FrameKind::Unwinder, function.to_owned())
        } else {
            (FrameKind::Native, function.to_owned())
        };
        let site = *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            (self.names.len() - 1) as u32
        });
        Some(SiteFrame { kind, site })
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }
}

fn is_python(file: &str) -> bool {
    file.rsplit_once('.')
        .is_some_and(|(_, extension)| extension == "py")
}

/// Functions of torch by which its allocator takes a stack of C++ frames.
fn is_unwinder(function: &str) -> bool {
    let plumbing = ["torch::unwind", "torch::CapturedTraceback"];
    plumbing.iter().any(|begin| function.starts_with(begin))
        || function.contains("gather_with_cpp")
        || matches!(function, "" | "??")
}

/// A path from the package on, or its last part: where a package is installed says nothing, and a home directory is
/// nobody's business.
fn shorten_path(file: &str) -> &str {
    for folder in ["site-packages/", "dist-packages/"] {
        if let Some((_, rest)) = file.rsplit_once(folder) {
            return rest;
        }
    }
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::torch_memory::pickle::{Limits, load};

    /// A stack as a pickle of protocol 0: pairs of file and function, line 7.
    fn site(stack: &[(&str, &str)]) -> Option<String> {
        let mut text = String::from("(l");
        for (file, function) in stack {
            text += &format!("(dVname\nV{function}\nsVfilename\nV{file}\nsVline\nI7\nsa");
        }
        text.push('.');
        let pickle = load(text.as_bytes(), &Limits::default()).unwrap();
        let mut sites = Sites::default();
        let number = sites.of(&pickle.heap, pickle.root)?;
        sites.into_names().into_iter().nth(number as usize)
    }

    #[test]
    fn the_program_goes_before_torch_and_torch_before_libraries() {
        let native = ("??", "c10::alloc()");
        let torch = (
            "/opt/v/lib/python3.12/site-packages/torch/nn/functional.py",
            "embedding",
        );
        let model = (
            "/srv/site-packages/transformers/models/qwen2/modeling_qwen2.py",
            "forward",
        );
        let script = ("/srv/run.py", "<module>");
        assert_eq!(
            site(&[native, torch, model, script]).unwrap(),
            "transformers/models/qwen2/modeling_qwen2.py:7 forward"
        );
        assert_eq!(site(&[native, torch, script]).unwrap(), "run.py:7 <module>");
        assert_eq!(
            site(&[native, torch]).unwrap(),
            "torch/nn/functional.py:7 embedding"
        );
        assert_eq!(site(&[native, ("x.cpp", "f")]).unwrap(), "c10::alloc()");
        let unwinder = ("??", "torch::unwind::unwind()");
        let gather = ("??", "torch::CapturedTraceback::gather(bool, bool, bool)");
        assert_eq!(site(&[unwinder, gather, native]).unwrap(), "c10::alloc()");
        assert_eq!(site(&[unwinder, gather]).unwrap(), unwinder.1);
        assert_eq!(site(&[]), None);
    }
}
