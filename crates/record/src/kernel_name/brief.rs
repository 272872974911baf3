/// What says nothing about a kernel to a reader, in the order in which it is taken out.
const NOISE: [&str; 6] = [
    "void ",
    "at::native::",
    "(anonymous namespace)::",
    "c10::",
    "std::",
    "at::",
];

/// A name of at most `most` characters for a table. Of a longer one the result type and the namespaces of PyTorch go first: what
/// tells elementwise kernels apart stands behind them, deep in their arguments.
pub fn brief(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let mut short = name.to_owned();
    for noise in NOISE {
        short = without(&short, noise);
    }
    if short.is_empty() {
        name.clone_into(&mut short);
    }
    if short.chars().count() > most {
        short = short.chars().take(most.saturating_sub(1)).collect();
        short.push('…');
    }
    short
}

/// `name` without `noise`, unless that is only the end of a longer word.
fn without(name: &str, noise: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(noise) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if out.chars().next_back().is_some_and(is_word) {
            out.push_str(noise);
        }
        rest = &from[noise.len()..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_kernels_apart_stays() {
        let product = "void at::native::elementwise_kernel<128, 4, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)>";
        assert_eq!(
            brief(product, 72),
            "elementwise_kernel<128, 4, gpu_kernel_impl_nocast<BinaryFunctor<BFloat1…"
        );
        assert_eq!(brief(product, 72).chars().count(), 72);
        assert_eq!(brief("void at::native::f()", 96), "void at::native::f()");
        assert_eq!(brief("void at::native::f()", 19), "f()");
        assert_eq!(brief("flat::f(avoid x, std::y)", 20), "flat::f(avoid x, y)");
        assert_eq!(brief("nvjet_sm90", 5), "nvje…");
        assert_eq!(brief("void std::", 3), "vo…");
    }
}
