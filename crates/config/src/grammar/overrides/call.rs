//! Calls: which functions there are.

use super::arguments::CallArguments;
use super::cast::{Cast, cast_call};
use super::element::Element;
use super::functions;
use super::shuffle::Shuffle;
use crate::grammar::{GrammarError, TextSpan};

/// Every function, in alphabetical order.
const FUNCTIONS: &str = "bool, choice, float, glob, int, interval, range, shuffle, sort, str, tag";

/// A call with its arguments evaluated.
#[derive(Debug)]
pub(super) struct FunctionCall {
    pub(super) name: String,
    pub(super) name_span: TextSpan,
    pub(super) positional: Vec<Element>,
    pub(super) named: Vec<(String, Element)>,
    pub(super) span: TextSpan,
}

/// The value of a call.
pub(super) fn evaluate_call(
    call: FunctionCall,
    shuffle: &mut dyn Shuffle,
) -> Result<Element, GrammarError> {
    let FunctionCall {
        name,
        name_span,
        positional,
        named,
        span,
    } = call;
    let args = CallArguments::new(positional, named);
    let result = match name.as_str() {
        "int" => cast_call(Cast::Int, args),
        "float" => cast_call(Cast::Float, args),
        "str" => cast_call(Cast::Str, args),
        "bool" => cast_call(Cast::Bool, args),
        "choice" => functions::eval_choice(args),
        "range" => functions::eval_range(args),
        "interval" => functions::eval_interval(args),
        "glob" => functions::eval_glob(args),
        "tag" => functions::eval_tag(args),
        "sort" => functions::eval_sort(args),
        "shuffle" => functions::eval_shuffle(args, shuffle),
        _ => {
            return Err(GrammarError::UnknownFunction {
                name,
                available: FUNCTIONS.to_owned(),
                span: name_span,
            });
        }
    };
    result.map_err(|reason| GrammarError::Call {
        function: name,
        reason,
        span,
    })
}
