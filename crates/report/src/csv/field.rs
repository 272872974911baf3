//! Cells of CSV files.

/// A field of a CSV file, quoted where it must be. A text that a spreadsheet would take for a formula begins with an
/// apostrophe.
pub fn csv_field(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let neutral = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    let text = neutral.as_str();
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Lines of cells as CSV.
pub fn csv_lines(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line.iter().map(|cell| csv_field(cell)).collect();
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

/// A JSON value as a cell; null is empty.
pub fn json_cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_no_formula() {
        assert_eq!(csv_field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(csv_field("@sum"), "'@sum");
        for number in ["-1.5", "+3", "-2e-9", "-inf"] {
            assert_eq!(csv_field(number), number);
        }
        assert_eq!(csv_field("void f<-1>"), "void f<-1>");
    }
}
