use std::sync::LazyLock;

/// The vector instructions that kernels may use on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    /// AVX-512 F and BW, with AVX2 and FMA.
    Avx512,
    Avx2,
    /// What the compiler's target has.
    Portable,
}

impl Isa {
    /// The widest that the processor has.
    pub(crate) fn detected() -> Self {
        static DETECTED: LazyLock<Isa> = LazyLock::new(detect_isa);
        *DETECTED
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Portable => "portable",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect_isa() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        Isa::Avx512
    } else if avx2 {
        Isa::Avx2
    } else {
        Isa::Portable
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect_isa() -> Isa {
    Isa::Portable
}

/// Compiles a function body once per instruction set and calls the widest that the processor has.
///
/// The bodies are plain loops that the compiler turns into vector code; what they need is permission to use wide
/// registers, which `target_feature` gives.
macro_rules! vectorized {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        #[expect(unsafe_code, reason = "calls compiled for instructions that the processor was seen to have")]
        $visibility fn $name($($argument: $type),*) {
            #[inline(always)]
            fn body($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx2,fma")]
                fn avx512($($argument: $type),*) {
                    body($($argument),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $type),*) {
                    body($($argument),*);
                }
                match $crate::kernel::Isa::detected() {
                    // SAFETY: the features were detected.
                    $crate::kernel::Isa::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: the features were detected.
                    $crate::kernel::Isa::Avx2 => return unsafe { avx2($($argument),*) },
                    $crate::kernel::Isa::Portable => {}
                }
            }
            body($($argument),*);
        }
    };
}
pub(crate) use vectorized;
