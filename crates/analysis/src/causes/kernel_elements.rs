//! How many elements an elementwise kernel of PyTorch, or one that concatenates, works on, by its name and grid.

/// What a thread of a concatenation moves at once, bytes.
const CAT_VECTOR_BYTES: i64 = 16;

/// Elements of all blocks, of which the last may be partly empty, and of one block.
pub(super) fn kernel_elements(name: &str, grid: [u32; 3], block: [u32; 3]) -> Option<(i64, i64)> {
    let blocks: i64 = grid.iter().map(|&blocks| i64::from(blocks)).product();
    if name.contains("CatArrayBatchedCopy_vectorized<") {
        // Blocks of each tensor in one dimension, tensors in the other.
        let (_, opaque) = name.split_once("OpaqueType<")?;
        let bytes = opaque.split_once('u')?.0.parse::<i64>().ok()?;
        let of_block = i64::from(block[0]) * CAT_VECTOR_BYTES.checked_div(bytes)?;
        return Some((blocks.checked_mul(of_block)?, of_block));
    }
    let (kind, arguments) = name.split_once("elementwise_kernel<")?;
    let mut numbers = arguments
        .split([',', '>'])
        .map_while(|part| part.trim().parse::<i64>().ok());
    let first = numbers.next()?;
    let of_block = if kind.ends_with("vectorized_") {
        // The argument is the width of a vector; a thread takes at least four elements.
        i64::from(block[0]) * first.max(4)
    } else {
        // Threads of a block and elements of a thread.
        first * numbers.next()?
    };
    Some((blocks.checked_mul(of_block)?, of_block))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grids as torch 2.11 launched them on an H200 (fixtures/faults/varied).
    #[test]
    fn grids_tell_the_size_of_a_tensor() {
        let copy = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy";
        let weight = kernel_elements(copy, [45056, 1, 1], [128, 1, 1]);
        assert_eq!(weight, Some((2 * 5632 * 2048, 512)));
        let add = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, ";
        let sum = kernel_elements(add, [64, 1, 1], [128, 1, 1]);
        assert_eq!(sum, Some((32 * 2048, 1024)));
        assert_eq!(
            kernel_elements("nvjet_sm90_tst", [4, 22, 1], [384, 1, 1]),
            None
        );
        // fixtures/faults/reviewed: 32 matrices of 2048 × 2048.
        let cat = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 128, 1, 16, 8>";
        let stacked = kernel_elements(cat, [4096, 32, 1], [128, 1, 1]);
        assert_eq!(stacked, Some((32 * 2048 * 2048, 1024)));
    }
}
