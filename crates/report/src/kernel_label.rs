//! Kernel names for tables: the function, its tile, what it computes and in which dtype.
//!
//! C++ names of kernels are hundreds of characters long, and what tells two of them apart stands deep in template arguments:
//! `elementwise_kernel<128, 4, gpu_kernel_impl_nocast<BinaryFunctor<BFloat16, …, MulFunctor<float>>>…>` is a multiplication in bf16.

use llmprof_record::kernel_name::canonical;

/// Labels are cut to this many characters.
const LABEL_CHARS_MAX: usize = 76;
/// What tells two kernels of one label apart is cut to this many characters.
const DIFFERENCE_MAX_CHARS: usize = 32;

/// Types that only pass another one on: the argument is what matters.
const WRAPPERS: [&str; 11] = [
    "AUnaryFunctor",
    "BUnaryFunctor",
    "BinaryFunctor",
    "ReduceOp",
    "distribution_nullary_kernel",
    "enable_3x_kernel_for_sm9x",
    "enable_sm80_to_sm89",
    "enable_sm90",
    "enable_sm90_or_later",
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
];
/// Kernels that are nothing but their first argument.
const SHELLS: [&str; 3] = ["Kernel", "Kernel2", "device_kernel"];
/// Arguments that say how a kernel addresses memory, not what it does.
const NOISE: [&str; 7] = [
    "LoadWith",
    "OffsetCalculator",
    "OpaqueType",
    "StoreWith",
    "TrivialOffsetCalculator",
    "array",
    "function_traits",
];
const DTYPES: [(&str, &str); 14] = [
    ("BFloat16", "bf16"),
    ("bfloat16_t", "bf16"),
    ("__nv_bfloat16", "bf16"),
    ("Half", "f16"),
    ("half_t", "f16"),
    ("__half", "f16"),
    ("float", "f32"),
    ("double", "f64"),
    ("float_e4m3_t", "fp8"),
    ("float_e5m2_t", "fp8"),
    ("Float8_e4m3fn", "fp8"),
    ("Float8_e5m2", "fp8"),
    ("long", "i64"),
    ("int", "i32"),
];

/// What tells a kernel apart, in at most 76 characters. Names that are no C++ come back as they are, cut if need be.
pub fn kernel_label(name: &str) -> String {
    let is_plain = !name.contains(['<', '(']) && !name.starts_with("_Z");
    if is_plain || name.starts_with(['[', '(']) || name.contains("->") {
        return cut(name);
    }
    // Names of counters are canonical already, and lose the functions around lambdas if they are made so again.
    let is_canonical = name.ends_with('>');
    let canonical = if is_canonical {
        name.to_owned()
    } else {
        canonical(name)
    };
    let Some((head, arguments)) = split(&canonical) else {
        return cut(&canonical);
    };
    if SHELLS.contains(&head)
        && let Some(first) = arguments.first()
    {
        let inner = described(first);
        return cut(&inner.label());
    }
    // `gemvx::kernel<int, int, __nv_bfloat16, …, 7, 0, cublasGemvParamsEx<…>>`: the name is that of any kernel.
    if arguments
        .iter()
        .any(|one| one.starts_with("cublasGemvParams"))
    {
        let dtype = dtype_inside(&canonical).unwrap_or_default();
        let numbers = arguments.iter().filter(|one| one.parse::<i64>().is_ok());
        let numbers: Vec<&str> = numbers.copied().collect();
        return cut(&format!("gemvx<{}> {dtype}", numbers.join(", ")));
    }
    let tile = leading_numbers(&arguments);
    let functor = arguments.iter().find(|argument| is_functor(argument));
    let Some(functor) = functor else {
        return cut(&canonical);
    };
    let inner = described(functor);
    let tile = match tile.as_slice() {
        [] => String::new(),
        numbers => format!("<{}>", numbers.join(", ")),
    };
    cut(&format!("{head}{tile} {}", inner.label()))
}

/// Labels of kernels that are named together: where two of them are the same, each has what differs in its name.
pub(crate) fn distinct_labels(names: &[&str]) -> Vec<String> {
    let labels: Vec<String> = names.iter().map(|name| kernel_label(name)).collect();
    let distinct = names.iter().zip(&labels).map(|(name, label)| {
        let twins = names.iter().zip(&labels);
        let twin = twins
            .filter(|(other, known)| *known == label && *other != name)
            .map(|(other, _)| *other)
            .next();
        match twin.map(|twin| difference(name, twin)) {
            Some(part) if !part.is_empty() => format!("{label} (…{part})"),
            _ => label.clone(),
        }
    });
    distinct.collect()
}

/// The beginning of what a name has that another one does not, from its last argument that both have.
fn difference(name: &str, other: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let same = letters.iter().copied().zip(other.chars());
    let same = same.take_while(|(a, b)| a == b).count();
    let is_separator = |letter: &char| matches!(letter, ',' | '<' | '(');
    let begin = letters[..same].iter().rposition(is_separator);
    let part: String = letters[begin.map_or(same, |begin| begin + 1)..]
        .iter()
        .take(DIFFERENCE_MAX_CHARS)
        .collect();
    part.trim().to_owned()
}

/// What an argument says of its kernel.
struct Functor {
    name: String,
    tile: Vec<String>,
    dtype: Option<&'static str>,
}

impl Functor {
    fn label(&self) -> String {
        let mut parts = Vec::new();
        // Traits are nothing but their numbers.
        if !self.name.ends_with("traits") {
            parts.push(self.name.clone());
        }
        if !self.tile.is_empty() {
            parts.push(self.tile.join("x"));
        }
        parts.extend(self.dtype.map(str::to_owned));
        parts.join(" ")
    }
}

fn described(argument: &str) -> Functor {
    let argument = argument.trim().trim_start_matches("const ");
    if let Some((base, lambdas)) = split_lambda(argument) {
        if let Some(inner) = wrapped(base) {
            return described(inner);
        }
        let (name, arguments) = split(base).unwrap_or((base, Vec::new()));
        return of_lambda(name, &arguments, lambdas);
    }
    if let Some(inner) = wrapped(argument) {
        let (head, arguments) = split(argument).unwrap_or((argument, Vec::new()));
        let inner = described(inner);
        // Which operand is the scalar.
        let name = match head {
            "AUnaryFunctor" | "BUnaryFunctor" => format!("{head}<{}>", inner.name),
            _ => inner.name,
        };
        return Functor {
            name,
            tile: inner.tile,
            dtype: first_dtype(&arguments).or(inner.dtype),
        };
    }
    match split(argument) {
        None => Functor {
            name: argument.to_owned(),
            tile: Vec::new(),
            dtype: None,
        },
        Some((head, arguments)) => Functor {
            name: match arguments.first() {
                // Many matrices at once, as of experts.
                Some(shape) if shape.starts_with("GroupProblemShape") => {
                    format!("{head}<GroupProblemShape>")
                }
                _ => head.to_owned(),
            },
            tile: leading_numbers(&arguments),
            dtype: first_dtype(&arguments).or_else(|| dtype_inside(argument)),
        },
    }
}

/// The function around a lambda, and the lambda with those inside it.
fn split_lambda(argument: &str) -> Option<(&str, &str)> {
    const LAMBDA: &str = "::{lambda";
    let mut depth = 0_i32;
    for (at, letter) in argument.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            ':' if depth == 0 && argument[at..].starts_with(LAMBDA) => {
                return Some((&argument[..at], &argument[at + LAMBDA.len()..]));
            }
            _ => {}
        }
    }
    None
}

/// A lambda is known by the function around it and by the type that it takes; the number of the lambda around it tells
/// instances apart that take integers.
fn of_lambda(function: &str, arguments: &[&str], lambdas: &str) -> Functor {
    let all: Vec<&str> = lambdas.split("::{lambda").collect();
    let takes = |lambda: &str| {
        let inside = lambda.trim_start_matches('(');
        let first = inside.split([',', ')']).next().unwrap_or("").trim();
        dtype(first)
    };
    let dtype = all.last().and_then(|last| takes(last));
    let dtype = dtype.or_else(|| first_dtype(arguments));
    let mut name = function.to_owned();
    let is_float = dtype.is_some_and(|dtype| !dtype.starts_with('i'));
    if !is_float && let [.., around, _] = all.as_slice() {
        let number = around.rsplit_once('#').map(|(_, rest)| rest);
        let number = number.and_then(|rest| rest.split('}').next());
        name += &number
            .map(|number| format!("#{number}"))
            .unwrap_or_default();
    }
    Functor {
        name,
        tile: Vec::new(),
        dtype,
    }
}

/// The argument that a wrapper passes on.
fn wrapped(text: &str) -> Option<&str> {
    let (head, arguments) = split(text)?;
    if !WRAPPERS.contains(&head) {
        return None;
    }
    arguments.into_iter().find(|argument| is_functor(argument))
}

/// Whether an argument is a type with something inside, and not one that says how memory is addressed.
fn is_functor(argument: &str) -> bool {
    let has_inside = argument.contains('<') || argument.contains("{lambda");
    has_inside && !NOISE.iter().any(|noise| argument.starts_with(noise))
}

/// `f<a, b>` as `f` and its arguments; nothing where the text does not end with them.
fn split(text: &str) -> Option<(&str, Vec<&str>)> {
    let open = text.find('<')?;
    let inner = text[open + 1..].strip_suffix('>')?;
    let mut arguments = Vec::new();
    let (mut depth, mut begin) = (0_i32, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(inner[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        // The last `>` belongs to something else: `f<a>::g<b>`.
        if depth < 0 {
            return None;
        }
    }
    arguments.push(inner[begin..].trim());
    Some((&text[..open], arguments))
}

fn leading_numbers(arguments: &[&str]) -> Vec<String> {
    let numbers = arguments
        .iter()
        .take_while(|argument| argument.parse::<i64>().is_ok());
    numbers.map(|number| (*number).to_owned()).collect()
}

fn first_dtype(arguments: &[&str]) -> Option<&'static str> {
    arguments.iter().find_map(|argument| dtype(argument))
}

fn dtype(text: &str) -> Option<&'static str> {
    let known = DTYPES.iter().find(|(name, _)| *name == text)?;
    Some(known.1)
}

/// The first dtype anywhere inside.
fn dtype_inside(text: &str) -> Option<&'static str> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let mut floats = words.filter_map(dtype);
    floats.find(|dtype| !dtype.starts_with('i'))
}

/// Without what every kernel of a library begins with; of what is still too long the middle goes, since tiles stand at the end.
fn cut(text: &str) -> String {
    let text = text
        .strip_prefix("cudnn_generated_fort_native_")
        .unwrap_or(text);
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= LABEL_CHARS_MAX {
        return text.to_owned();
    }
    let (first, last) = (
        LABEL_CHARS_MAX / 2,
        LABEL_CHARS_MAX - LABEL_CHARS_MAX / 2 - 1,
    );
    let begin: String = letters[..first].iter().collect();
    let end: String = letters[letters.len() - last..].iter().collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of real kernels, as Kineto and Nsight Systems spell them.
    #[test]
    fn what_tells_kernels_apart_stays() {
        let cases = [
            (
                "void gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 7, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, float> >(cublasGemvParamsEx<int>)",
                "gemvx<0, 1, 1, 0, 7, 0> bf16",
            ),
            (
                "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
                "fused_add_rms_norm_kernel<BFloat16, 8>",
            ),
            (
                "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> >, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90ArrayTmaGmmaWarpSpecialized<4>, cutlass::bfloat16_t> > > >(Params)",
                "GemmUniversal<GroupProblemShape> bf16",
            ),
            (
                "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1})",
                "elementwise_kernel<128, 4> MulFunctor bf16",
            ),
            (
                "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
                "elementwise_kernel<128, 2> MulFunctor f32",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<(int)8, at::native::<unnamed>::silu_kernel(at::TensorIteratorBase &)::[lambda() (instance 1)]::operator ()() const::[lambda() (instance 6)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)",
                "vectorized_elementwise_kernel<8> silu_kernel bf16",
            ),
            (
                "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<c10::BFloat16, at::native::ArgMaxOps<float>, unsigned int, long, (int)4, (int)4>>(T3)",
                "reduce_kernel<512, 1> ArgMaxOps bf16",
            ),
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>)",
                "reduce_kernel<512, 1> MeanOps f32",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
                "vectorized_elementwise_kernel<8> CUDAFunctor_add bf16",
            ),
            (
                "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_tn_align1>(T1::Params)",
                "cutlass_80_simt_sgemm_128x32_8x5_tn_align1",
            ),
            (
                "void <unnamed>::elementwise_kernel_with_index<int, at::native::arange_cuda_out(const c10::Scalar &, const c10::Scalar &, const c10::Scalar &, at::Tensor &)::[lambda() (instance 1)]::operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda(long) (instance 1)]>(T1, T2, function_traits<T2>::result_type *)",
                "elementwise_kernel_with_index arange_cuda_out#7 i64",
            ),
            (
                "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>, (int)4, TrivialOffsetCalculator<(int)1, unsigned int>, TrivialOffsetCalculator<(int)1, unsigned int>, at::native::memory::LoadWithCast<(int)1>, at::native::memory::StoreWithCast<(int)1>>(int, T1, T2, T4, T5, T6, T7)",
                "unrolled_elementwise_kernel direct_copy_kernel_cuda f32",
            ),
            (
                "void pytorch_flash::flash_fwd_splitkv_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 64, 256, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 64, 256, 4, cutlass::bfloat16_t> >, false, false, false, false, true, false, false>(pytorch_flash::Flash_fwd_params)",
                "flash_fwd_splitkv_kernel 64x64x256x4x0x0 bf16",
            ),
            (
                "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<at::native::neg_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::[lambda() (instance 9)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)]>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
                "elementwise_kernel<128, 4> neg_kernel_cuda bf16",
            ),
            (
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(at::native::(anonymous namespace)::OpaqueType<2u>*, at::native::(anonymous namespace)::CatArrInputTensorMetadata<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 64, 64>, at::native::(anonymous namespace)::TensorSizeStride<unsigned int, 4u>, int, unsigned int)",
                "CatArrayBatchedCopy<OpaqueType<2>, unsigned int, 4, 64, 64>",
            ),
            (
                "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x64_4x1x1_cga1x1x1_kernel0_0",
                "sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x64_4x1x1_cga1x1x1_kernel0_0",
            ),
            (
                "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
                "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
            ),
            ("aten::mm", "aten::mm"),
            (
                "Memcpy HtoD (Pageable -> Device)",
                "Memcpy HtoD (Pageable -> Device)",
            ),
            ("[CUDA memset]", "[CUDA memset]"),
        ];
        for (name, label) in cases {
            assert_eq!(kernel_label(name), label);
        }
    }

    #[test]
    fn nothing_is_too_long_or_breaks() {
        let deep = format!("void f<{}", "g<".repeat(300));
        for name in [
            "",
            "<",
            "f<",
            "f<>",
            "f<a>::g<b>()",
            &deep,
            "void é<1>(int)",
        ] {
            assert!(
                kernel_label(name).chars().count() <= LABEL_CHARS_MAX,
                "{name}"
            );
        }
    }

    /// Kernels of a real program that differ have labels that differ.
    #[test]
    fn labels_of_a_trace_are_distinct() {
        use llmprof_record::import::{Limits, Profile, import};
        for name in ["torch_shapes.json.gz", "nsys/qwen05.sqlite.gz"] {
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../fixtures/h200")
                .join(name);
            let Ok((_, Profile::Trace(trace))) = import(&file, &Limits::default()) else {
                panic!("{name} is a trace");
            };
            let mut labels = std::collections::BTreeMap::new();
            let ids: std::collections::BTreeSet<_> = (0..trace.kernels.len())
                .map(|row| trace.kernels.name[row])
                .collect();
            for id in ids {
                let full = canonical(trace.text(id));
                let label = kernel_label(trace.text(id));
                assert_eq!(
                    kernel_label(&full),
                    label,
                    "the same from the canonical name"
                );
                let known = labels.entry(label.clone()).or_insert_with(|| full.clone());
                assert_eq!(*known, full, "{label}");
            }
            assert!(labels.len() > 35, "{name}: {} kernels", labels.len());
        }
    }
}
