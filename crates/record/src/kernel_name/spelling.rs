//! Repairs of text that a tool damaged before we saw it.
//!
//! Nsight Compute 2025.1 shortens names by cutting everything up to the last `::` or `<` of a namespace, which eats
//! half of `<unnamed>` and the opening of a lambda that follows a `const` function:
//! `at::native::<unnamed>::f<at::native::<unnamed>::T>` becomes `unnamed>::f<unnamed>::T>`, and
//! `operator ()() const::[lambda(float) (instance 1)]` becomes `operator ()() lambda(float) (instance 1)]`.

const UNNAMED: &str = "unnamed>::";

/// The name with anonymous namespaces of Nsight's spelling removed and cut lambdas opened again.
pub(super) fn repair_name(name: &str) -> String {
    open_lambdas(&drop_unnamed(name))
}

fn drop_unnamed(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(UNNAMED) {
        out.push_str(&rest[..at]);
        // A bracket after a name opens that name's arguments and stays; elsewhere it belongs to `<unnamed>`.
        let mut before = out.chars().rev();
        if before.next() == Some('<') && !before.next().is_some_and(is_word) {
            out.pop();
        }
        rest = &rest[at + UNNAMED.len()..];
    }
    out.push_str(rest);
    out
}

fn open_lambdas(name: &str) -> String {
    const CUT: &str = ") lambda(";
    name.replace(CUT, ")::[lambda(")
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '.') || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::repair_name;

    #[test]
    fn anonymous_namespaces_go_whether_whole_or_cut() {
        assert_eq!(
            repair_name("void at::<unnamed>::f<at::<unnamed>::T<2>>"),
            "void at::f<at::T<2>>"
        );
        assert_eq!(
            repair_name("void unnamed>::f<unnamed>::T<2>>"),
            "void f<T<2>>"
        );
        assert_eq!(repair_name("void <unnamed>::f<int>"), "void f<int>");
    }

    #[test]
    fn a_lambda_cut_after_const_is_opened() {
        assert_eq!(
            repair_name(
                "g(X &)::[lambda() (instance 3)]::operator ()() lambda(float) (instance 1)]"
            ),
            "g(X &)::[lambda() (instance 3)]::operator ()()::[lambda(float) (instance 1)]"
        );
    }
}
