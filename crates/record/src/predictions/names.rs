use std::collections::HashSet;

/// Bytes of a name; file systems take 255, and endings come on top.
const FILE_NAME_MAX_BYTES: usize = 150;

/// A file name for each id, in their order: letters, digits, `.`, `-` and `_` stay. Two ids that become one name, or one id
/// that occurs twice, are numbered by their place in the order.
pub fn file_names<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    ids.enumerate()
        .map(|(index, id)| {
            let mut name = plain_name(id);
            while !taken.insert(name.to_lowercase()) {
                name = format!("{}-{index}", plain_name(id));
                if taken.contains(&name.to_lowercase()) {
                    name = format!("{name}-again");
                }
            }
            name
        })
        .collect()
}

fn plain_name(id: &str) -> String {
    let mut name = String::new();
    for letter in id.trim_start_matches(['.', '/']).chars() {
        let is_kept = letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_');
        let letter = if is_kept { letter } else { '_' };
        if name.len() + letter.len_utf8() > FILE_NAME_MAX_BYTES {
            break;
        }
        name.push(letter);
    }
    if name.is_empty() {
        name.push_str("sample");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_stay_in_their_folder() {
        let ids = [
            "images/a b.png",
            "images/a:b.png",
            "../x",
            "",
            "é/页.jpg",
            "../x",
        ];
        let names = file_names(ids.into_iter());
        assert_eq!(
            names,
            [
                "images_a_b.png",
                "images_a_b.png-1",
                "x",
                "sample",
                "é_页.jpg",
                "x-5"
            ]
        );
        let long = "a".repeat(1000);
        let names = file_names([long.as_str(), long.as_str()].into_iter());
        assert!(names[0].len() == FILE_NAME_MAX_BYTES && names[0] != names[1]);
    }
}
