//! The parsers on any input: no panic, errors that point into the text, and text that reads back.

use llmprof_config::grammar::overrides::{KeepOrder, SeededShuffle, parse_override};
use llmprof_config::grammar::{
    Element, GrammarError, MAX_DEPTH, Quote, QuotedString, interpolation,
};
use proptest::prelude::*;

/// Texts made mostly of what the grammars give a meaning to.
fn dense() -> impl Strategy<Value = String> {
    let lexeme = prop_oneof![
        4 => "[-+~@/=,:.$\\\\'\"(){}\\[\\] \t]",
        2 => "[a-z0-9_]{1,3}",
        1 => prop::sample::select(vec![
            "${", "k=", "\\${", "\\\\", "choice(", "range(", "sort(", "tag(", "shuffle(", "glob(", "int(", "null", "1e3", "inf",
            "1_0", "é", "\n",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(lexeme, 0..24).prop_map(|lexemes| lexemes.concat())
}

/// A text of the expectations with some characters replaced.
fn mutated() -> impl Strategy<Value = String> {
    let texts: Vec<String> = [
        include_str!("grammar/overrides.jsonl"),
        include_str!("grammar/interpolations.jsonl"),
    ]
    .iter()
    .flat_map(|lines| lines.lines())
    .filter_map(|line| {
        let line: Vec<serde_json::Value> = serde_json::from_str(line).expect("an array");
        line.iter().rev().nth(1)?.as_str().map(str::to_owned)
    })
    .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), dense()), 1..4);
    (prop::sample::select(texts), changes).prop_map(|(text, changes)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, with) in changes {
            let at = at.index(chars.len() + 1);
            let end = (at + 1).min(chars.len());
            chars.splice(at..end, with.chars().take(2));
        }
        chars.into_iter().collect()
    })
}

/// Every way in, on one text; errors must point into it.
fn parse_all(text: &str) {
    let points_inside = |error: GrammarError| {
        let span = error.span();
        assert!(
            text.get(span.start..span.end).is_some(),
            "{text:?}: {error:?}"
        );
        assert!(!error.to_string().is_empty());
    };
    for line in [text.to_owned(), format!("k={text}")] {
        match parse_override(&line, &mut SeededShuffle::new(1)) {
            Ok(parsed) => {
                let _ = parsed.value_text(true);
                let _ = parsed.sweep_texts(|_| vec!["a".to_owned()], &mut SeededShuffle::new(1));
            }
            Err(error) => assert!(line.get(error.span().start..error.span().end).is_some()),
        }
    }
    interpolation::parse_template(text).map_or_else(points_inside, drop);
    interpolation::parse_element(text).map_or_else(points_inside, drop);
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>()) {
        parse_all(&text);
    }

    #[test]
    fn dense_text_is_parsed_or_refused(text in dense()) {
        parse_all(&text);
    }

    #[test]
    fn mutated_text_is_parsed_or_refused(text in mutated()) {
        parse_all(&text);
    }

    #[test]
    fn a_quoted_string_reads_back(text in any::<String>(), double in any::<bool>()) {
        let quote = if double { Quote::Double } else { Quote::Single };
        let quoted = QuotedString { text, quote };
        let line = format!("k={}", quoted.with_quotes());
        let parsed = parse_override(&line, &mut KeepOrder).expect("a quoted string is a value");
        prop_assert_eq!(parsed.element, Some(Element::Quoted(quoted)));
    }

    #[test]
    fn written_text_means_the_same(value in dense()) {
        if let Ok(parsed) = parse_override(&format!("k={value}"), &mut KeepOrder)
            && let Ok(text) = parsed.value_text(false)
            && let Ok(again) = parse_override(&format!("k={text}"), &mut KeepOrder)
        {
            // Text from a cast or an interpolation may read back as another type, but what is written stays.
            prop_assert_eq!(again.value_text(false).expect("no sweep"), text);
        }
    }
}

#[test]
fn deep_nesting_is_an_error_not_an_overflow() {
    for open in ["[", "{a:", "int(", "choice("] {
        let error = parse_override(&format!("k={}", open.repeat(100_000)), &mut KeepOrder);
        assert!(
            matches!(
                error,
                Err(GrammarError::TooDeep {
                    limit: MAX_DEPTH,
                    ..
                })
            ),
            "{open}"
        );
    }
    for open in ["${", "${f:", "${f:[", "${f:'${"] {
        let error = interpolation::parse_template(&open.repeat(100_000));
        assert!(
            matches!(
                error,
                Err(GrammarError::TooDeep {
                    limit: MAX_DEPTH,
                    ..
                })
            ),
            "{open}"
        );
    }
}

/// The message, and the text it underlines between `>` and `<`.
fn shown(text: &str, error: &GrammarError) -> String {
    let span = error.span();
    format!(
        "{}>{}<{}\n{error}",
        &text[..span.start],
        span.slice_of(text),
        &text[span.end..]
    )
}

#[test]
fn errors_of_overrides_name_the_place() {
    for (text, expected) in [
        (
            "a b=1",
            "a> <b=1\nthe character ' ' is not allowed here in a key; a key is words of letters, digits, `_`, `-` and `$` with `.` between, or a group with `/`",
        ),
        (
            "k",
            "k><\nexpected `=` after the key, found the end of the override",
        ),
        (
            "g@a:b=c",
            "g@a>:<b=c\nexpected `=` (the form `group@from:to` is no longer supported), found `:`",
        ),
        (
            "k=a=b",
            "k=a>=<b\nexpected `,` or the end of the value (quote a value that contains `=`), found `=`",
        ),
        (
            "k='ab",
            "k=>'ab<\nthis quoted string is not closed: expected another '",
        ),
        (
            "k=[1,2",
            "k=[1,2><\nexpected `,` or `]` in this list, found the end of the override",
        ),
        (
            "k={a}",
            "k={a>}<\nexpected `:` after the key of a dictionary, found `}`",
        ),
        (
            "k=a,",
            "k=a,><\nexpected a value, found the end of the override",
        ),
        (
            "k=é",
            "k=>é<\nthe character 'é' is not allowed in an unquoted value; put the value in quotes",
        ),
        (
            "k=${a:${b}}",
            "k=${a:${b}>}<\nexpected the end of the value (quote a value that nests interpolations), found `}`",
        ),
        (
            "k=chioce(a)",
            "k=>chioce<(a)\nthere is no function `chioce`; the functions are bool, choice, float, glob, int, interval, range, shuffle, sort, str, tag",
        ),
        (
            "k=[range(a,3)]",
            "k=[>range(a,3)<]\nrange(): argument `start` must be an integer or a float, not a string",
        ),
        (
            "k=int(1,x=2)",
            "k=>int(1,x=2)<\nint(): has no argument `x`; it has value",
        ),
        (
            "k=sort(reverse=true,1)",
            "k=sort(reverse=true,>1<)\na positional argument cannot follow a named one",
        ),
        (
            "k=sort(1,a)",
            "k=>sort(1,a)<\nsort(): cannot order a string and an integer",
        ),
    ] {
        let error = parse_override(text, &mut KeepOrder).expect_err("a mistake");
        assert_eq!(shown(text, &error), expected);
    }
}

#[test]
fn errors_of_interpolations_name_the_place() {
    for (text, expected) in [
        (
            "${a",
            "${a><\nexpected `.`, `[`, `:` or `}` in this interpolation, found the end of the value",
        ),
        ("x ${}", "x ${>}<\nexpected a key or `${`, found `}`"),
        (
            "${a${b}}",
            "${a$>{<b}}\nthe character '{' is not allowed in a key; an interpolation can be a whole part of a key, as in `${a.${b}}`, not a piece of one",
        ),
        (
            "${a b}",
            "${a >b<}\nthe character 'b' is not allowed here in an interpolation; expected a key such as `a.b`, a resolver such as `oc.env:HOME`, or `}`",
        ),
        (
            "${f:a=b}",
            "${f:a>=<b}\nthe character '=' is not allowed in an unquoted argument; put the argument in quotes",
        ),
        (
            "${f:'a}",
            "${f:>'a}<\nthis quoted string is not closed: expected another '",
        ),
        (
            "${a[0]:b}",
            "${a[0]>:<b}\nexpected `}` (what stands before this `:` is not the name of a resolver), found `:`",
        ),
        (
            "${f:[a}",
            "${f:[a>}<\nexpected `,` or `]` in this list, found `}`",
        ),
    ] {
        let error = interpolation::parse_template(text).expect_err("a mistake");
        assert_eq!(shown(text, &error), expected);
    }
}
