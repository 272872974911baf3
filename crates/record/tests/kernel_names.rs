//! One kernel under the spellings of Kineto, Nsight Systems and Nsight Compute.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use llmprof_record::kernel_name::{Category, KernelClass, Library, canonical, classify};

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

fn unpacked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(fixture(path)).expect("fixture"))
        .read_to_end(&mut bytes)
        .expect("gzip");
    bytes
}

/// Device time by name as Kineto spells it, in ps so that three decimals of a µs stay exact.
fn kineto() -> &'static BTreeMap<String, u64> {
    static ONCE: OnceLock<BTreeMap<String, u64>> = OnceLock::new();
    ONCE.get_or_init(read_kineto)
}

fn read_kineto() -> BTreeMap<String, u64> {
    let trace: serde_json::Value =
        serde_json::from_slice(&unpacked("h200/torch_shapes.json.gz")).expect("JSON");
    let mut times = BTreeMap::new();
    for event in trace["traceEvents"].as_array().expect("events") {
        if event["cat"] == "kernel" {
            let time = (event["dur"].as_f64().expect("duration") * 1e6).round() as u64;
            *times
                .entry(event["name"].as_str().expect("name").to_owned())
                .or_default() += time;
        }
    }
    times
}

/// Device time in ns by (demangled name, mangled name) as Nsight Systems spells them.
fn nsys() -> BTreeMap<(String, String), u64> {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), unpacked("h200/nsys/qwen05.sqlite.gz")).expect("written");
    let database = rusqlite::Connection::open(file.path()).expect("database");
    let mut query = database
        .prepare(
            "SELECT d.value, m.value, SUM(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k
             JOIN StringIds d ON d.id = k.demangledName JOIN StringIds m ON m.id = k.mangledName GROUP BY 1, 2",
        )
        .expect("query");
    query
        .query_map([], |row| {
            Ok(((row.get(0)?, row.get(1)?), row.get::<_, i64>(2)? as u64))
        })
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("row")
}

/// The name of each profiled launch as Nsight Compute spells it.
fn ncu() -> Vec<String> {
    let bytes = unpacked("h200/ncu/decode_raw.csv.gz");
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(&bytes[..]);
    let column = reader
        .headers()
        .expect("header")
        .iter()
        .position(|name| name == "Kernel Name")
        .expect("column");
    let rows = reader
        .records()
        .map(|row| row.expect("row")[column].to_owned());
    rows.skip(1).collect()
}

/// Kernel names of one of the ancestor's summaries, with their time.
fn ancestor(stage: &str) -> Vec<(String, u64)> {
    let mut reader =
        csv::Reader::from_path(fixture(&format!("ancestor/nsys/{stage}.csv"))).expect("fixture");
    let rows = reader.records().map(|row| row.expect("row"));
    rows.map(|row| (row[8].to_owned(), row[1].parse().expect("time")))
        .collect()
}

fn ancestor_ncu() -> Vec<String> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(fixture("ancestor/ncu"))
        .expect("folder")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let name = |folder: &PathBuf| {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_path(folder.join("ncu.metrics.csv"))
            .expect("fixture");
        reader.records().next().expect("a row").expect("row")[4].to_owned()
    };
    folders.iter().map(name).collect()
}

fn assert_distinct<'a>(names: impl IntoIterator<Item = &'a str>) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for name in names {
        if let Some(other) = seen.insert(canonical(name), name) {
            assert_eq!(other, name, "two kernels meet under one name");
        }
    }
}

#[test]
fn no_two_kernels_of_one_tool_collide() {
    assert_distinct(kineto().keys().map(String::as_str));
    assert_distinct(nsys().keys().map(|(name, _)| name.as_str()));
    assert_distinct(ncu().iter().map(String::as_str));
    assert_distinct(ancestor("all-stage").iter().map(|(name, _)| name.as_str()));
}

#[test]
fn mangled_and_demangled_names_meet() {
    for (demangled, mangled) in nsys().keys() {
        assert_eq!(canonical(mangled), canonical(demangled), "{mangled}");
    }
}

#[test]
fn kineto_and_nsys_join_on_nearly_all_device_time() {
    let kineto = kineto();
    let nsys: BTreeSet<String> = nsys().keys().map(|(name, _)| canonical(name)).collect();
    let joined: u64 = kineto
        .iter()
        .filter(|(name, _)| nsys.contains(&canonical(name)))
        .map(|(_, time)| time)
        .sum();
    let total: u64 = kineto.values().sum();
    assert!(
        joined * 1000 >= total * 990,
        "joined {joined} of {total} ps"
    );
}

#[test]
fn every_ncu_launch_joins_both_timelines() {
    let kineto: BTreeSet<String> = kineto().keys().map(|name| canonical(name)).collect();
    let nsys: BTreeSet<String> = nsys().keys().map(|(name, _)| canonical(name)).collect();
    let ncu = ncu();
    assert_eq!(ncu.len(), 40);
    for name in &ncu {
        assert!(
            nsys.contains(&canonical(name)),
            "not in nsys: {name}\n{}",
            canonical(name)
        );
        assert!(
            kineto.contains(&canonical(name)),
            "not in Kineto: {name}\n{}",
            canonical(name)
        );
    }
}

#[test]
fn names_that_ncu_2025_1_damaged_join_their_summary_row_by_row() {
    let summary = ancestor("all-stage");
    let counters = ancestor_ncu();
    assert_eq!(counters.len(), 20);
    for (name, (whole, _)) in counters.iter().zip(&summary) {
        assert_eq!(canonical(name), canonical(whole));
    }
}

#[test]
fn spellings_of_one_kernel_have_one_class() {
    let mut classes: BTreeMap<String, (KernelClass, String)> = BTreeMap::new();
    let kineto = kineto();
    let nsys = nsys();
    let ancestors: Vec<String> = ancestor("all-stage")
        .into_iter()
        .map(|(name, _)| name)
        .chain(ancestor_ncu())
        .collect();
    let names = kineto.keys().cloned();
    let names = names
        .chain(nsys.keys().flat_map(|(a, b)| [a.clone(), b.clone()]))
        .chain(ncu())
        .chain(ancestors);
    for name in names {
        let class = classify(&name);
        let (first, other) = classes
            .entry(canonical(&name))
            .or_insert((class, name.clone()));
        assert_eq!(*first, class, "{name}\n{other}");
    }
}

#[test]
fn nothing_that_holds_half_a_percent_is_unclassified() {
    let kineto: Vec<(String, u64)> = kineto().clone().into_iter().collect();
    let nsys: Vec<(String, u64)> = nsys()
        .into_iter()
        .map(|((name, _), time)| (name, time))
        .collect();
    let mut sets = vec![kineto, nsys];
    sets.extend(["all-stage", "clip", "decode", "prefill", "projector", "sam"].map(ancestor));
    for set in sets {
        let total: u64 = set.iter().map(|(_, time)| time).sum();
        for (name, time) in set {
            let class = classify(&name);
            let small = time * 200 <= total;
            assert!(small || class.category != Category::Other, "{name}");
            assert!(small || class.library != Library::Unknown, "{name}");
        }
    }
}

#[test]
fn damaged_names_do_no_harm() {
    for (name, _) in ancestor("all-stage") {
        for end in (0..name.len())
            .step_by(13)
            .filter(|&end| name.is_char_boundary(end))
        {
            let _ = classify(&name[..end]);
        }
    }
    let deep = "a<".repeat(100_000);
    assert_eq!(canonical(&deep), deep);
    let parentheses = "(".repeat(100_000);
    assert_eq!(canonical(&parentheses), parentheses);
    // Each `S_` refers to a pair of the one before it: 2^40 characters if printed.
    let bomb = format!("_Z1f{}E", "1aIS_S_".repeat(40));
    let _ = canonical(&bomb);
}

/// Names that serving engines and compilers give, which no fixture has.
const ENGINES: &[(&str, Category, Library)] = &[
    (
        "void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
        Category::Norm,
        Library::Vllm,
    ),
    (
        "void vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*)",
        Category::Norm,
        Library::Vllm,
    ),
    (
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        Category::Rope,
        Library::Vllm,
    ),
    (
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)",
        Category::Elementwise,
        Library::Vllm,
    ),
    (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)",
        Category::Cache,
        Library::Vllm,
    ),
    (
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)",
        Category::Communication,
        Library::Vllm,
    ),
    (
        "void vllm::moe::topkGatingSoftmax<8, 64, 4, 16, 32, int>(float const*)",
        Category::Moe,
        Library::Vllm,
    ),
    (
        "void vllm::scaled_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn>(c10::Float8_e4m3fn*)",
        Category::Quantize,
        Library::Vllm,
    ),
    ("fused_moe_kernel", Category::Gemm, Library::Vllm),
    (
        "kernel_unified_attention_2d",
        Category::Attention,
        Library::Vllm,
    ),
    (
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        Category::Gemm,
        Library::Triton,
    ),
    ("attn_fwd", Category::Attention, Library::Triton),
    (
        "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)",
        Category::Index,
        Library::Fbgemm,
    ),
    ("gemm_fusion_dot_12", Category::Gemm, Library::Xla),
    (
        "loop_add_multiply_fusion_3",
        Category::Elementwise,
        Library::Xla,
    ),
    (
        "RedzoneAllocatorKernelImpl",
        Category::Autotune,
        Library::Xla,
    ),
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1",
        Category::Gemm,
        Library::Tensile,
    ),
    (
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT_",
        Category::Norm,
        Library::Aiter,
    ),
    (
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u>(flashinfer::Params)",
        Category::Attention,
        Library::FlashInfer,
    ),
    (
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, float>(float*)",
        Category::Sampling,
        Library::FlashInfer,
    ),
    (
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
        Category::Norm,
        Library::FlashInfer,
    ),
    (
        "void tensorrt_llm::kernels::generalRmsNorm<__nv_bfloat16, false>(__nv_bfloat16*)",
        Category::Norm,
        Library::TensorRtLlm,
    ),
    (
        "void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<unsigned short, 128>(int)",
        Category::Attention,
        Library::TensorRtLlm,
    ),
    (
        "fmhaSm100aKernel_QkvBfloat16OBfloat16H128PagedKvCausal",
        Category::Attention,
        Library::Unknown,
    ),
    (
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Mainloop<2>>>>(int)",
        Category::Attention,
        Library::FlashAttention,
    ),
    (
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u>(float*)",
        Category::Gemm,
        Library::DeepGemm,
    ),
    (
        "void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256>(int4 const*)",
        Category::Gemm,
        Library::Unknown,
    ),
    (
        "triton_poi_fused_mul_silu_3",
        Category::Elementwise,
        Library::Triton,
    ),
    (
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
        Category::Norm,
        Library::Triton,
    ),
    (
        "triton_per_fused__softmax_1",
        Category::Softmax,
        Library::Triton,
    ),
    ("triton_tem_fused_mm_4", Category::Gemm, Library::Triton),
    (
        "triton_red_fused_argmax_2",
        Category::Reduce,
        Library::Triton,
    ),
    // A rotation that cuDNN's attention waits for, the same with a write into the cache, and a write alone.
    (
        "triton_poi_fused__scaled_dot_product_cudnn_attention__to_copy__unsafe_view_add_arange_bmm_cat_clone_cos_mul_neg_4",
        Category::Elementwise,
        Library::Triton,
    ),
    (
        "triton_poi_fused__to_copy_add_arange_bmm_cat_cos_index_copy_mul_neg_sin_slice_2",
        Category::Elementwise,
        Library::Triton,
    ),
    (
        "triton_poi_fused_add_arange_index_copy_transpose_view_3",
        Category::Index,
        Library::Triton,
    ),
    (
        "triton_poi_fused_cat_clone_7",
        Category::Cat,
        Library::Triton,
    ),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        Category::Communication,
        Library::Nccl,
    ),
    (
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        Category::Gemm,
        Library::Cublas,
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        Category::Gemm,
        Library::Cublas,
    ),
    (
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(int)",
        Category::Gemv,
        Library::Cublas,
    ),
    (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float>(float*)",
        Category::Softmax,
        Library::Aten,
    ),
    (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<int>(int)",
        Category::Elementwise,
        Library::Aten,
    ),
];

#[test]
fn kernels_of_serving_engines_are_known() {
    for (name, category, library) in ENGINES {
        let class = classify(name);
        assert_eq!(
            (&class.category, &class.library),
            (category, library),
            "{name}"
        );
    }
}

#[test]
fn spellings_meet_and_differences_stay() {
    let same = [
        (
            "void f<2u, true, 4ul>(int)",
            "void f<(unsigned int)2, (bool)1, 4>(T1)",
        ),
        ("void a::b::f<c::T const*>(int)", "void f<const T *>(int)"),
        (
            "void (anonymous namespace)::f<X<Y> >()",
            "void <unnamed>::f<X<Y>>()",
        ),
        (
            "void f<g()::{lambda(float)#2}>(int)",
            "void f<void a::g()::[lambda(float) (instance 2)]>(T1)",
        ),
        (
            "void f<g()::'lambda0'(float)>(int)",
            "void f<g()::{lambda(float)#2}>(int)",
        ),
        ("_Z1fILi7EEvi", "void f<(int)7>(int)"),
        ("void f<-2>(int)", "void f<(int)-2>(int)"),
    ];
    for (one, other) in same {
        assert_eq!(canonical(one), canonical(other));
    }
    let apart = [
        ("void f<1>(int)", "void f<2>(int)"),
        ("void f<T>(int)", "void f<const T>(int)"),
        ("void f<T*>(int)", "void f<T>(int)"),
        (
            "void f<g()::{lambda(float)#1}>()",
            "void f<g()::{lambda(double)#1}>()",
        ),
        ("void f<g()::{lambda()#1}>()", "void f<h()::{lambda()#1}>()"),
        (
            "Memcpy HtoD (Pageable -> Device)",
            "Memcpy HtoD (Pinned -> Device)",
        ),
    ];
    for (one, other) in apart {
        assert_ne!(canonical(one), canonical(other));
    }
}

#[test]
fn tensile_kernels_are_gemms() {
    // As hipBLASLt names them on an MI300X.
    let name = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB1";
    assert_eq!(classify(name).category, Category::Gemm);
}
