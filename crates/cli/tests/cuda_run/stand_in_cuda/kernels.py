"""The kernels that operators of torch launch on a CUDA device."""

from __future__ import annotations

from typing import Any

GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
ATTENTION = "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x64_4x1x1_cga1x1x1_kernel0_0"
LOOKUP = "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>(int)"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(int)"
COPY = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::{}Ops<float, float, float, float>, unsigned int, float, 4, 4> >(int)"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}_kernel_cuda(at::TensorIteratorBase&)::{{lambda()#1}}, std::array<char*, 2ul> >(int)"

# By operator: the kernel and its time in ns.
KNOWN = {
    **dict.fromkeys(["mm", "addmm", "bmm", "baddbmm"], (GEMM, 20_000)),
    **dict.fromkeys(["embedding", "index_select", "index"], (LOOKUP, 3_000)),
    **dict.fromkeys(["copy_", "_to_copy", "clone"], (COPY, 2_000)),
    **{name: (REDUCE.format(kind), 4_000) for name, kind in
       {"mean": "Mean", "sum": "Sum", "argmax": "ArgMax", "max": "Max", "any": "Or", "all": "And"}.items()},
    "cat": (CAT, 2_000),
}


def kernel_of(operator: Any) -> tuple[str, int] | None:
    """The kernel of an operator and its time; none for views and for memory that nothing is written to."""
    name = operator.overloadpacket.__name__
    if is_view(operator) or name == "_unsafe_view" or "empty" in name:
        return None
    if name.startswith("_scaled_dot_product"):
        return ATTENTION, 10_000
    return KNOWN.get(name, (ELEMENTWISE.format(name.rstrip("_")), 2_000))


def is_view(operator: Any) -> bool:
    aliases = [one.alias_info for one in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def writes_in_place(operator: Any) -> bool:
    return any(one.alias_info is not None and one.alias_info.is_write for one in operator._schema.arguments)
