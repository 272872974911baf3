//! Labels of steps by `llmprof_harness.step`: `llmprof.step decode batch=8 new=1 cached=512`.
//!
//! The numbers differ from step to step, so what comes back is the label without them.

/// What every label of a step begins with.
const LABEL_PREFIX: &[u8] = b"llmprof.step ";

/// The name by which a range is known when it comes back: `llmprof.step decode` of a step's label, else the name itself.
pub(crate) fn recurring_name(name: &[u8]) -> &[u8] {
    let Some(rest) = name.strip_prefix(LABEL_PREFIX) else {
        return name;
    };
    match rest.iter().position(|&byte| byte == b' ') {
        Some(end) => &name[..LABEL_PREFIX.len() + end],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_a_step_is_known_without_its_numbers() {
        let known: [(&[u8], &[u8]); 5] = [
            (
                b"llmprof.step decode batch=8 new=1 cached=512",
                b"llmprof.step decode",
            ),
            (
                b"llmprof.step mixed batch=1,7 new=512,1 cached=0,512",
                b"llmprof.step mixed",
            ),
            (b"llmprof.step decode", b"llmprof.step decode"),
            (b"llmprof.steps of mine", b"llmprof.steps of mine"),
            (b"", b""),
        ];
        for (name, recurring) in known {
            assert_eq!(recurring_name(name), recurring);
        }
    }
}
