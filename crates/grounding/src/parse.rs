//! From text to regions. Nothing in a model's output can be relied on: what is not a region stays text and is counted.

use std::ops::Range;

use serde::{Deserialize, Serialize};

const REF: &str = "<|ref|>";
const REF_END: &str = "<|/ref|>";
const DET: &str = "<|det|>";
const DET_END: &str = "<|/det|>";
/// How each of them begins.
const TAG_START: &str = "<|";

/// The largest coordinate: the right and the lower edge of a page.
pub(crate) const EDGE: i64 = 999;

/// Left, top, right and lower coordinates, 0 to 999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Box999 {
    pub left: i64,
    pub top: i64,
    pub right: i64,
    pub bottom: i64,
}

/// What stands in one or several places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub label: String,
    pub boxes: Vec<Box999>,
    /// The bytes of its tags in the text.
    pub span: Range<usize>,
}

/// Tags that are not a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte where they begin.
    pub at: usize,
    pub what: String,
}

/// All that a text says of places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grounded {
    pub regions: Vec<Region>,
    pub malformed: Vec<Malformed>,
    /// Boxes with a coordinate outside 0 to 999, cut to the page; those that lie outside of it altogether are left out.
    pub out_of_range: u64,
}

/// Whether a text has tags at all.
pub fn is_grounded(text: &str) -> bool {
    [REF, REF_END, DET, DET_END]
        .iter()
        .any(|tag| text.contains(tag))
}

/// Reads every region of a text.
pub fn parse(text: &str) -> Grounded {
    let mut grounded = Grounded::default();
    let mut at = 0;
    while let Some((start, tag)) = next_tag(text, at) {
        let read = match tag {
            REF => parse_region(text, start),
            _ => Err((
                start + tag.len(),
                format!("`{tag}` without `{REF}` before it"),
            )),
        };
        match read {
            Ok((label, list, span)) => {
                at = span.end;
                match parse_boxes(list) {
                    Ok(read) => {
                        let (kept, outside) = on_page(read);
                        grounded.out_of_range += outside;
                        grounded.regions.push(Region {
                            label,
                            boxes: kept,
                            span,
                        });
                    }
                    Err(what) => grounded.malformed.push(Malformed { at: start, what }),
                }
            }
            Err((after, what)) => {
                at = after;
                grounded.malformed.push(Malformed { at: start, what });
            }
        }
    }
    grounded
}

/// The first tag from a byte on.
fn next_tag(text: &str, from: usize) -> Option<(usize, &'static str)> {
    let tags = [REF, REF_END, DET, DET_END];
    // One pass: a search for each tag would read to the end of the text again and again for one that does not occur.
    text[from..]
        .match_indices(TAG_START)
        .find_map(|(place, _)| {
            let place = from + place;
            let tag = tags.iter().find(|tag| text[place..].starts_with(**tag))?;
            Some((place, *tag))
        })
}

type Read<'t> = (String, &'t str, Range<usize>);

/// A label and its list of boxes; else where to go on, and what is wrong.
fn parse_region(text: &str, start: usize) -> Result<Read<'_>, (usize, String)> {
    let label_start = start + REF.len();
    let (label_end, tag) =
        next_tag(text, label_start).ok_or((text.len(), format!("`{REF}` is not closed")))?;
    if tag != REF_END {
        return Err((label_end, format!("`{REF}` is not closed before `{tag}`")));
    }
    let after_label = label_end + REF_END.len();
    let space = text[after_label..].len() - text[after_label..].trim_start().len();
    let det = after_label + space;
    if !text[det..].starts_with(DET) {
        return Err((after_label, format!("no `{DET}` after `{REF_END}`")));
    }
    let list_start = det + DET.len();
    let (list_end, tag) =
        next_tag(text, list_start).ok_or((text.len(), format!("`{DET}` is not closed")))?;
    if tag != DET_END {
        return Err((list_end, format!("`{DET}` is not closed before `{tag}`")));
    }
    let label = text[label_start..label_end].trim().to_owned();
    Ok((
        label,
        &text[list_start..list_end],
        start..list_end + DET_END.len(),
    ))
}

/// The boxes of a list: `[[1,2,3,4],[5,6,7,8]]`, or one box alone.
fn parse_boxes(list: &str) -> Result<Vec<Box999>, String> {
    let excerpt = || list.trim().chars().take(60).collect::<String>();
    let bad = |what: &str| format!("{what}: {}", excerpt());
    let lists: Vec<Vec<f64>> = match serde_json::from_str::<Vec<Vec<f64>>>(list.trim()) {
        Ok(lists) => lists,
        Err(_) => match serde_json::from_str::<Vec<f64>>(list.trim()) {
            Ok(one) => vec![one],
            Err(_) => return Err(bad("not a list of boxes")),
        },
    };
    if lists.is_empty() {
        return Err(bad("no box"));
    }
    let mut boxes = Vec::with_capacity(lists.len());
    for list in lists {
        let &[left, top, right, bottom] = list.as_slice() else {
            return Err(bad("a box has four coordinates"));
        };
        if right < left || bottom < top {
            return Err(bad("a box ends before it begins"));
        }
        let whole = |value: f64| value.round() as i64;
        boxes.push(Box999 {
            left: whole(left),
            top: whole(top),
            right: whole(right),
            bottom: whole(bottom),
        });
    }
    Ok(boxes)
}

/// The boxes cut to the page, and how many reached beyond it.
fn on_page(boxes: Vec<Box999>) -> (Vec<Box999>, u64) {
    let mut outside = 0;
    let kept = boxes.into_iter().filter_map(|one| {
        let inside = |value: i64| (0..=EDGE).contains(&value);
        if inside(one.left) && inside(one.top) && inside(one.right) && inside(one.bottom) {
            return Some(one);
        }
        outside += 1;
        let misses = one.left > EDGE || one.top > EDGE || one.right < 0 || one.bottom < 0;
        (!misses).then(|| Box999 {
            left: one.left.clamp(0, EDGE),
            top: one.top.clamp(0, EDGE),
            right: one.right.clamp(0, EDGE),
            bottom: one.bottom.clamp(0, EDGE),
        })
    });
    let kept = kept.collect();
    (kept, outside)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(label: &str, list: &str) -> String {
        format!("{REF}{label}{REF_END}{DET}{list}{DET_END}")
    }

    /// Reading to the end of the text for each of them would take hours.
    #[test]
    fn many_tags_that_are_not_closed_are_read_in_one_pass() {
        let text = REF.repeat(400_000);
        assert_eq!(parse(&text).malformed.len(), 400_000);
    }

    #[test]
    fn regions_are_read_with_their_boxes() {
        let text = format!(
            "{}\n# Title\n{} body",
            one("title", "[[10, 20, 500, 60]]"),
            one("图 1", "[[0,0,999,999],[1,2,3,4]]")
        );
        let grounded = parse(&text);
        assert_eq!(grounded.regions.len(), 2);
        assert_eq!(grounded.regions[0].label, "title");
        assert_eq!(
            grounded.regions[0].boxes,
            [Box999 {
                left: 10,
                top: 20,
                right: 500,
                bottom: 60
            }]
        );
        assert_eq!(grounded.regions[1].label, "图 1");
        assert_eq!(grounded.regions[1].boxes.len(), 2);
        assert!(grounded.malformed.is_empty() && grounded.out_of_range == 0);
        assert_eq!(&text[grounded.regions[1].span.end..], " body");
    }

    #[test]
    fn what_is_not_a_region_is_counted_and_the_next_one_read() {
        let cases = [
            ("<|ref|>a", "not closed"),
            ("<|ref|>a<|/ref|> text", "no `<|det|>`"),
            ("<|ref|>a<|/ref|><|det|>[[1,2,3,4]]", "not closed"),
            ("<|det|>[[1,2,3,4]]", "without"),
            ("<|/ref|>", "without"),
            (&one("a", "[[1,2,3]]"), "four coordinates"),
            (&one("a", "[[5,2,3,4]]"), "ends before"),
            (&one("a", "[]"), "no box"),
            (&one("a", "[[1,2,3,'x']]"), "not a list"),
            (&one("a", "[[1,2,3,NaN]]"), "not a list"),
        ];
        for (text, what) in cases {
            let text = format!("{text}{}", one("next", "[[1,2,3,4]]"));
            let grounded = parse(&text);
            assert!(!grounded.malformed.is_empty(), "{text}");
            assert!(
                grounded.malformed[0].what.contains(what),
                "{text}: {grounded:?}"
            );
            assert_eq!(
                grounded.regions.last().map(|region| region.label.as_str()),
                Some("next"),
                "{text}: {grounded:?}"
            );
        }
    }

    #[test]
    fn boxes_beyond_the_page_are_cut_or_left_out() {
        let grounded = parse(&one("a", "[[-5,10,1200,20],[1000,0,1100,5],[0,0,1,1]]"));
        assert_eq!(grounded.out_of_range, 2);
        assert_eq!(
            grounded.regions[0].boxes,
            [
                Box999 {
                    left: 0,
                    top: 10,
                    right: 999,
                    bottom: 20
                },
                Box999 {
                    left: 0,
                    top: 0,
                    right: 1,
                    bottom: 1
                }
            ]
        );
    }

    proptest! {
        /// Tags in any order and number never end in a panic, and regions lie in the text, one after the other.
        #[test]
        fn any_text_can_be_read(parts in prop::collection::vec(
            prop_oneof![
                Just(REF.to_owned()), Just(REF_END.to_owned()), Just(DET.to_owned()), Just(DET_END.to_owned()),
                Just("[[1,2,3,4]]".to_owned()), Just("[[9e99,-1,1e300,4]]".to_owned()), Just("页é".to_owned()), ".{0,5}",
            ], 0..24)) {
            let text = parts.concat();
            let grounded = parse(&text);
            let mut end = 0;
            for region in &grounded.regions {
                prop_assert!(region.span.start >= end && text.is_char_boundary(region.span.end));
                end = region.span.end;
            }
        }
    }
}
