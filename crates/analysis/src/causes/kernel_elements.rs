//! How many elements an elementwise kernel of PyTorch, or one that concatenates or gathers, works on, by its name and grid.

/// What a thread of a concatenation or a gather moves at once.
const VECTOR_BYTES: i64 = 16;

/// What a thread of an unrolled elementwise kernel computes (`thread_work_size` of PyTorch).
const UNROLLED_ELEMENTS: i64 = 4;

/// 16-bit elements that a block of a gather moves.
fn gathered_by_block(block: [u32; 3]) -> i64 {
    i64::from(block[0]) * VECTOR_BYTES / 2
}

/// Elements of each row that a gather copies: its grid has rows in one dimension and parts of a row in the other.
pub(super) fn gathered_row(name: &str, grid: [u32; 3], block: [u32; 3]) -> Option<(i64, i64)> {
    let of_block = gathered_by_block(block);
    name.contains("vectorized_gather_kernel<")
        .then_some((i64::from(grid[1]) * of_block, of_block))
}

/// Elements of all blocks, of which the last may be partly empty, and of one block.
pub(super) fn kernel_elements(name: &str, grid: [u32; 3], block: [u32; 3]) -> Option<(i64, i64)> {
    let blocks: i64 = grid.iter().map(|&blocks| i64::from(blocks)).product();
    if name.contains("CatArrayBatchedCopy_vectorized<") {
        // Blocks of each tensor in one dimension, tensors in the other.
        let (_, opaque) = name.split_once("OpaqueType<")?;
        let bytes = opaque.split_once('u')?.0.parse::<i64>().ok()?;
        let of_block = i64::from(block[0]) * VECTOR_BYTES.checked_div(bytes)?;
        return Some((blocks.checked_mul(of_block)?, of_block));
    }
    if name.contains("vectorized_gather_kernel<") {
        return Some((
            blocks.checked_mul(gathered_by_block(block))?,
            gathered_by_block(block),
        ));
    }
    let (kind, arguments) = name.split_once("elementwise_kernel<")?;
    if kind.ends_with("unrolled_") {
        let of_block = i64::from(block[0]) * UNROLLED_ELEMENTS;
        return Some((blocks.checked_mul(of_block)?, of_block));
    }
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
        // fixtures/faults/practiced: an LM head of 152,064 × 2048 cast to float32, and 32 choices of experts of 2048 × 2048.
        let cast =
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda";
        assert_eq!(
            kernel_elements(cast, [608_256, 1, 1], [128, 1, 1]),
            Some((152_064 * 2048, 512))
        );
        let gather = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int";
        assert_eq!(
            kernel_elements(gather, [32, 2048, 1], [256, 1, 1]),
            Some((32 * 2048 * 2048, 2048))
        );
        assert_eq!(
            gathered_row(gather, [32, 2048, 1], [256, 1, 1]),
            Some((2048 * 2048, 2048))
        );
        // fixtures/faults/reviewed: 32 matrices of 2048 × 2048.
        let cat = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 128, 1, 16, 8>";
        let stacked = kernel_elements(cat, [4096, 32, 1], [128, 1, 1]);
        assert_eq!(stacked, Some((32 * 2048 * 2048, 1024)));
    }
}
