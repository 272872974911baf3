use super::NcuError;
use crate::counters::{LaunchRange, ProfiledLaunch};
use crate::import::csv_text::CsvText;
use crate::kernel_name::canonical;

/// Where the columns lie that all pages share.
pub(super) struct LaunchColumns {
    id: usize,
    process: Option<usize>,
    kernel: usize,
    context: Option<usize>,
    stream: Option<usize>,
    block: Option<usize>,
    grid: Option<usize>,
    device: Option<usize>,
    compute_capability: Option<usize>,
    push_pop: Option<usize>,
    start_stop: Option<usize>,
    /// The last name seen and its canonical form: a page repeats the name on each row of a launch.
    last: Option<(String, String)>,
}

impl LaunchColumns {
    pub(super) fn from_header(table: &CsvText<'_>, place: &str) -> Result<Self, NcuError> {
        let missing = |column| NcuError::MissingColumn {
            place: place.to_owned(),
            column,
        };
        let containing = |part: &str| table.header.iter().position(|cell| cell.contains(part));
        Ok(Self {
            id: table.column("ID").ok_or_else(|| missing("ID"))?,
            process: table.column("Process ID"),
            kernel: table
                .column("Kernel Name")
                .ok_or_else(|| missing("Kernel Name"))?,
            context: table.column("Context"),
            stream: table.column("Stream"),
            block: table.column("Block Size"),
            grid: table.column("Grid Size"),
            device: table.column("Device"),
            compute_capability: table.column("CC"),
            push_pop: containing("Push/Pop_Range"),
            start_stop: containing("Start/Stop_Range"),
            last: None,
        })
    }

    /// Whether a column is one of these, or one that is left out on purpose.
    pub(super) fn is_shared(header: &str) -> bool {
        matches!(
            header,
            "ID" | "Process ID"
                | "Process Name"
                | "Host Name"
                | "Kernel Name"
                | "Context"
                | "Stream"
                | "Block Size"
                | "Grid Size"
                | "Device"
                | "CC"
        ) || header.contains("Push/Pop_Range")
            || header.contains("Start/Stop_Range")
    }

    /// The launch of a row, or the column that does not parse.
    pub(super) fn launch(&mut self, cells: &[String]) -> Result<ProfiledLaunch, &'static str> {
        let cell = |column: Option<usize>| {
            column
                .and_then(|at| cells.get(at))
                .map_or("", String::as_str)
        };
        let number = |column, name| match cell(column) {
            "" => Ok(0),
            text => parse_whole(text).ok_or(name),
        };
        let triple = |column, name| match cell(column) {
            "" => Ok(None),
            text => parse_dimensions(text).map(Some).ok_or(name),
        };
        let id = cells
            .get(self.id)
            .and_then(|cell| parse_whole(cell))
            .ok_or("ID")?;
        let kernel = cells
            .get(self.kernel)
            .filter(|name| !name.is_empty())
            .ok_or("Kernel Name")?;
        let canonical = match &self.last {
            Some((name, canonical)) if name == kernel => canonical.clone(),
            _ => {
                let fresh = canonical(kernel);
                self.last = Some((kernel.clone(), fresh.clone()));
                fresh
            }
        };
        let mut ranges = parse_ranges(cell(self.push_pop));
        ranges.extend(ranges_of_start_stop(cell(self.start_stop)));
        Ok(ProfiledLaunch {
            id,
            kernel: kernel.clone(),
            canonical,
            process: number(self.process, "Process ID")?,
            context: number(self.context, "Context")?,
            stream: number(self.stream, "Stream")?,
            device: u32::try_from(number(self.device, "Device")?).map_err(|_| "Device")?,
            compute_capability: cell(self.compute_capability).to_owned(),
            grid: triple(self.grid, "Grid Size")?,
            block: triple(self.block, "Block Size")?,
            ranges,
            ..ProfiledLaunch::default()
        })
    }
}

/// A whole number, with whatever a locale puts between thousands.
pub(super) fn parse_whole(text: &str) -> Option<u64> {
    let digits: String = text
        .chars()
        .filter(|c| !matches!(c, ',' | '.' | '\'' | '\u{a0}' | '\u{202f}'))
        .collect();
    digits.parse().ok()
}

/// The three dimensions of a cell such as `(32, 4, 1)`.
pub(super) fn parse_dimensions(text: &str) -> Option<[u32; 3]> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let mut parts = inner.split(',').map(|part| part.trim().parse::<u32>().ok());
    let triple = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(triple)
}

/// `712  "<default domain>:decode:none:none:none:none:none:none" `: ranges in quotes, each the domain, the text and
/// six fields of payload, colour and message.
fn parse_ranges(text: &str) -> Vec<LaunchRange> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted.filter_map(parse_range).collect()
}

/// The same, with the id of the range as one more field in front inside the quotes.
fn ranges_of_start_stop(text: &str) -> Vec<LaunchRange> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted
        .filter_map(|text| parse_range(text.split_once(':')?.1))
        .collect()
}

fn parse_range(text: &str) -> Option<LaunchRange> {
    const FIELDS_AFTER_TEXT: usize = 6;
    let (domain, rest) = text.split_once(':')?;
    let name = rest
        .rsplitn(FIELDS_AFTER_TEXT + 1, ':')
        .nth(FIELDS_AFTER_TEXT)?;
    Some(LaunchRange {
        domain: if domain == "<default domain>" {
            String::new()
        } else {
            domain.to_owned()
        },
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{parse_dimensions, parse_ranges};

    #[test]
    fn sizes_have_three_numbers() {
        assert_eq!(parse_dimensions("(32, 4, 1)"), Some([32, 4, 1]));
        for text in [
            "",
            "(32, 4)",
            "(32, 4, 1, 1)",
            "(a, 4, 1)",
            "32, 4, 1",
            "(-1, 4, 1)",
        ] {
            assert_eq!(parse_dimensions(text), None, "{text}");
        }
    }

    #[test]
    fn a_range_may_have_colons_in_its_text() {
        let parsed = parse_ranges(
            "712  \"<default domain>:a:b:none:none:none:none:none:none\" \"lib:c:none:none:none:none:none:none\" ",
        );
        let texts: Vec<_> = parsed
            .iter()
            .map(|range| (range.domain.as_str(), range.name.as_str()))
            .collect();
        assert_eq!(texts, [("", "a:b"), ("lib", "c")]);
    }
}
