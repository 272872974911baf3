//! Programs of many shapes, made from a seed, with what they did.

/// Numbers that follow from a seed (Marsaglia's xorshift64, times an odd constant).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn of(seed: u64) -> Self {
        let mut numbers = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            numbers.next();
        }
        numbers
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// From `from` to before `to`.
    pub(crate) fn within(&mut self, from: usize, to: usize) -> usize {
        from + self.next() as usize % (to - from)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.within(0, count) == 0
    }
}

/// One call and the kernels that it launched.
pub(crate) struct Call {
    pub(crate) thread: i64,
    pub(crate) at: i64,
    /// Names; several where it is a graph.
    pub(crate) kernels: Vec<String>,
    /// The number of the graph; 0 where it is none.
    pub(crate) graph: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A prefill and decode steps, several requests.
    Decode,
    /// The same with experts, of which each layer launches some.
    Experts,
    /// The same, decode steps as a graph and a few kernels.
    Graph,
    /// One forward pass.
    OnePass,
    /// Passes of a small model, then one of the large one.
    Speculative,
    /// A prompt in several passes, then decode steps.
    Chunked,
    /// Forward, backward, optimizer.
    Training,
    /// As decode, and another thread that launches something else.
    TwoThreads,
    /// Passes of a model whose kernels have no telling names.
    Nameless,
    /// One pass of a model with attention and no other telling name: blocks of an image or video model.
    Blocks,
}

pub(crate) const SHAPES: [Shape; 10] = [
    Shape::Decode,
    Shape::Experts,
    Shape::Graph,
    Shape::OnePass,
    Shape::Speculative,
    Shape::Chunked,
    Shape::Training,
    Shape::TwoThreads,
    Shape::Nameless,
    Shape::Blocks,
];

/// The launches of a program with the beginnings of its steps.
pub(crate) struct Program {
    pub(crate) shape: Shape,
    pub(crate) calls: Vec<Call>,
    /// When each forward pass, or training step, began; of one kind of pass each.
    pub(crate) steps: Vec<Vec<i64>>,
}

/// A model: what a layer launches, and what comes before and after.
struct Model {
    head: Vec<String>,
    layer: Vec<String>,
    expert: Vec<String>,
    tail: Vec<String>,
    layers: usize,
}

struct Maker {
    numbers: Numbers,
    calls: Vec<Call>,
    at: i64,
}

impl Maker {
    fn names(&mut self, tag: &str, kinds: usize, count: usize) -> Vec<String> {
        let mut some = |_| format!("{tag}_elementwise_{}", self.numbers.within(0, kinds));
        (0..count).map(&mut some).collect()
    }

    /// A model whose names begin with a tag; `named` where kernels of embedding and attention have their names.
    fn model(&mut self, tag: &str, most_layers: usize, named: bool) -> Model {
        let per_layer = self.numbers.within(8, 45);
        let kinds = self.numbers.within(6, 14);
        let mut layer = self.names(tag, kinds, per_layer);
        let (heads, tails) = (self.numbers.within(0, 6), self.numbers.within(1, 10));
        let mut head = self.names(tag, kinds, heads);
        let mut tail = self.names(&format!("{tag}_out"), kinds, tails);
        if named {
            layer[per_layer / 3] = format!("{tag}_gemm_qkv");
            layer[per_layer / 2] = format!("flash_fwd_kernel_{tag}");
            layer[per_layer - 2] = format!("{tag}_gemm_down");
            head.insert(0, "indexSelectSmallIndex".to_owned());
            tail.insert(tails / 2, format!("{tag}_gemm_logits"));
        } else {
            head.insert(0, format!("{tag}_begin"));
        }
        Model {
            head,
            layer,
            expert: self.names(&format!("{tag}_expert"), kinds, 4),
            tail,
            layers: self.numbers.within(1, most_layers + 1),
        }
    }

    fn call(&mut self, thread: i64, kernels: Vec<String>, graph: u32) {
        let jitter = self.numbers.within(0, 2_000) as i64;
        let at = self.at;
        self.at += 8_000 + jitter;
        self.calls.push(Call {
            thread,
            at,
            kernels,
            graph,
        });
    }

    fn launch(&mut self, kernel: &str) {
        self.call(1, vec![kernel.to_owned()], 0);
    }

    /// A forward pass; `suffix` is put to the names of its layers' kernels, as a prefill has others than a decode step.
    fn pass(&mut self, model: &Model, suffix: &str, experts: usize, choice: Option<&str>) -> i64 {
        self.at += 40_000 + self.numbers.within(0, 30_000) as i64;
        let began = self.at;
        for name in &model.head {
            self.launch(name);
        }
        for _ in 0..model.layers {
            for name in &model.layer {
                self.launch(&format!("{name}{suffix}"));
            }
            if experts > 0 {
                for _ in 0..self.numbers.within(experts / 2 + 1, experts + 1) {
                    for name in &model.expert {
                        self.launch(name);
                    }
                }
            }
            if self.numbers.one_in(400) {
                self.launch("now_and_then");
            }
        }
        for name in model.tail.iter().map(String::as_str).chain(choice) {
            self.launch(name);
        }
        began
    }

    /// A pass as one graph.
    fn graph(&mut self, model: &Model, number: u32) -> i64 {
        self.at += 40_000 + self.numbers.within(0, 30_000) as i64;
        let began = self.at;
        let mut kernels = model.head.clone();
        for _ in 0..model.layers {
            kernels.extend(model.layer.iter().cloned());
        }
        kernels.extend(model.tail.iter().cloned());
        self.launch("copy_inputs");
        self.call(1, kernels, number);
        self.launch(ARGMAX);
        began
    }
}

const ARGMAX: &str = "reduce_kernel<ArgMaxOps>";

/// The program of a shape and a seed.
pub(crate) fn program(shape: Shape, seed: u64) -> Program {
    let mut maker = Maker {
        numbers: Numbers::of(seed * 16 + shape as u64),
        calls: Vec::new(),
        at: 1_000,
    };
    let named = shape != Shape::Nameless;
    let model = maker.model("m", 80, named);
    let (mut prefills, mut decodes) = (Vec::new(), Vec::new());
    let requests = maker.numbers.within(1, 4);
    let experts = match shape {
        Shape::Experts => maker.numbers.within(2, 9),
        _ => 0,
    };
    match shape {
        Shape::OnePass => {
            maker.pass(&model, "", 0, Some(ARGMAX));
        }
        Shape::Blocks => {
            for _ in 0..model.layers {
                for name in &model.layer {
                    maker.launch(name);
                }
            }
        }
        Shape::Training => {
            let backward: Vec<String> = model
                .layer
                .iter()
                .rev()
                .map(|name| format!("{name}_backward"))
                .collect();
            for _ in 0..maker.numbers.within(5, 12) {
                decodes.push(maker.pass(&model, "", 0, None));
                for _ in 0..model.layers {
                    for name in &backward {
                        maker.launch(name);
                        maker.launch("gradient_gemm");
                    }
                }
                maker.launch("embedding_dense_backward");
                for _ in 0..model.layers.div_ceil(4) {
                    maker.launch("multi_tensor_apply_adam");
                }
            }
        }
        _ => {
            let draft = maker.model("d", 4, true);
            let steps = maker.numbers.within(6, 24);
            let drafts = maker.numbers.within(2, 6);
            let choice = named.then_some(ARGMAX);
            for _ in 0..requests {
                let chunks = if shape == Shape::Chunked {
                    maker.numbers.within(2, 6)
                } else {
                    1
                };
                for chunk in 1..=chunks {
                    let choice = choice.filter(|_| chunk == chunks);
                    prefills.push(maker.pass(&model, "_long", experts, choice));
                }
                for _ in 0..steps {
                    match shape {
                        Shape::Graph => decodes.push(maker.graph(&model, 7)),
                        Shape::Speculative => {
                            for _ in 0..drafts {
                                prefills.push(maker.pass(&draft, "", 0, choice));
                            }
                            decodes.push(maker.pass(&model, "", 0, choice));
                        }
                        _ => {
                            decodes.push(maker.pass(&model, "", experts, choice));
                        }
                    }
                }
            }
        }
    }
    if shape == Shape::TwoThreads {
        let end = maker.at;
        let mut at = 3_000;
        while at < end {
            maker.calls.push(Call {
                thread: 2,
                at,
                kernels: vec!["transform".to_owned()],
                graph: 0,
            });
            at += maker.numbers.within(20_000, 40_000) as i64;
        }
        maker.calls.sort_by_key(|call| call.at);
    }
    Program {
        shape,
        calls: maker.calls,
        steps: vec![decodes, prefills],
    }
}

/// What a finder said of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// It said nothing where there was something to say, or less than there is and nothing false.
    Abstained,
    Wrong,
}

/// Judges patterns of steps, each with when its steps began.
pub(crate) fn judge(program: &Program, patterns: &[Vec<i64>]) -> Verdict {
    let mut all: Vec<i64> = program.steps.iter().flatten().copied().collect();
    all.sort_unstable();
    let known = |start: &i64| all.binary_search(start).is_ok();
    let steps: Vec<&Vec<i64>> = patterns
        .iter()
        .filter(|pattern| pattern.len() > 1)
        .collect();
    if program.steps[0].is_empty() {
        // One pass has no steps.
        return if steps.is_empty() {
            Verdict::Right
        } else {
            Verdict::Wrong
        };
    }
    let of_model = steps.iter().filter(|pattern| pattern.iter().any(known));
    let (mut found, mut truly) = (0, 0);
    for pattern in of_model.clone() {
        found += pattern.len();
        truly += pattern.iter().filter(|start| known(start)).count();
    }
    // What another thread launches may repeat in its own way.
    let alien = steps
        .iter()
        .filter(|pattern| !pattern.iter().any(known))
        .count();
    let most_alien = usize::from(program.shape == Shape::TwoThreads);
    if alien > most_alien || (found > 0 && 20 * truly < 19 * found) {
        return Verdict::Wrong;
    }
    if 20 * truly >= 17 * program.steps[0].len() {
        Verdict::Right
    } else {
        Verdict::Abstained
    }
}
