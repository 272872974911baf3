//! GEMMs from the logs of cuBLAS (`CUBLAS_LOGINFO_DBG=1`) and cuBLASLt (`CUBLASLT_LOG_LEVEL=5`).
//!
//! The libraries log the arguments of every call and no time: calls return before the device is done. cuBLAS passes most GEMMs on to
//! cuBLASLt, which logs them again, so the two logs of one run must not be added up.

use std::collections::{BTreeMap, HashMap};

use super::{ImportError, Importer, Profile, Source};
use crate::issue::{Issue, IssueCode};
use crate::summary::{GemmRow, Summary, SummaryTable};

pub(crate) const IMPORTER: Importer = Importer {
    name: "cublas_log",
    sniff,
    read,
};

/// The first lines have the mark of either log; a program may have printed before them.
fn sniff(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().take(200);
    lines.any(|line| line.starts_with("I! cuBLAS (v") || line.contains("][cublasLt]["))
}

fn read(source: &Source) -> Result<Profile, ImportError> {
    let text = String::from_utf8_lossy(source.bytes());
    let mut gemms = Gemms::default();
    let mut call: Option<CublasCall<'_>> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("I! cuBLAS (v") {
            gemms.end(call.take());
            call = CublasCall::parse_header(rest);
        } else if let Some(argument) = line.strip_prefix("i!  ") {
            if let Some(call) = &mut call {
                call.take(argument);
            }
        } else if let Some((_, rest)) = line.split_once("[Trace][cublasLt") {
            // `Api` lines have addresses of descriptors, `Trace` lines what is in them.
            if let Some((function, arguments)) = rest.split_once("] ")
                && function.ends_with("Matmul")
            {
                gemms.add(parse_matmul(function, arguments));
            }
        }
    }
    gemms.end(call);
    let mut issues = source.issues().to_vec();
    if gemms.unread > 0 {
        issues.push(Issue::warning(IssueCode::CublasLogUnread).counting(gemms.unread));
    }
    if gemms.rows.is_empty() {
        return Err(source.unusable("a log of cuBLAS", "it has no GEMM with a shape"));
    }
    issues.push(Issue::info(IssueCode::CublasLogNoTimes));
    let (rows, order) = gemms.sorted();
    Ok(Profile::Summary(Box::new(SummaryTable {
        summary: Summary::Gemms(rows),
        order,
        issues,
    })))
}

#[derive(Default)]
struct Gemms {
    rows: Vec<GemmRow>,
    known: HashMap<String, u32>,
    /// The row of each call, in the order of the log.
    order: Vec<u32>,
    unread: u64,
}

impl Gemms {
    fn add(&mut self, gemm: Option<GemmRow>) {
        let Some(gemm) = gemm else {
            self.unread += 1;
            return;
        };
        let rows = &mut self.rows;
        let row = *self.known.entry(format!("{gemm:?}")).or_insert_with(|| {
            rows.push(gemm);
            rows.len() as u32 - 1
        });
        self.rows[row as usize].calls += 1;
        self.order.push(row);
    }

    /// The rows with the most operations first, and the row of each call.
    fn sorted(self) -> (Vec<GemmRow>, Vec<u32>) {
        let mut rows: Vec<(u32, GemmRow)> = (0..).zip(self.rows).collect();
        rows.sort_by(|(_, a), (_, b)| b.total_flops().total_cmp(&a.total_flops()));
        let mut place = vec![0; rows.len()];
        for (now, (before, _)) in (0_u32..).zip(&rows) {
            place[*before as usize] = now;
        }
        let order = self.order.iter().map(|row| place[*row as usize]).collect();
        (rows.into_iter().map(|(_, row)| row).collect(), order)
    }

    fn end(&mut self, call: Option<CublasCall<'_>>) {
        if let Some(call) = call {
            self.add(call.gemm());
        }
    }
}

/// A call of cuBLAS and its arguments so far.
struct CublasCall<'a> {
    function: &'a str,
    arguments: BTreeMap<&'a str, &'a str>,
}

impl<'a> CublasCall<'a> {
    /// `13.1.0) function cublasStatus_t cublasGemmEx(…) called:`; `None` of a function that is no GEMM.
    fn parse_header(rest: &'a str) -> Option<Self> {
        let (_, signature) = rest.split_once(" function ")?;
        let (before, _) = signature.split_once('(')?;
        let function = before.rsplit(' ').next()?;
        let name = function.strip_prefix("cublas")?;
        let is_gemm = name.starts_with("Gemm")
            || name
                .get(1..)
                .is_some_and(|rest| rest.to_ascii_lowercase().starts_with("gemm"));
        is_gemm.then(|| Self {
            function,
            arguments: BTreeMap::new(),
        })
    }

    /// Reads one field of a call: `m: type=int; val=896`.
    fn take(&mut self, line: &'a str) {
        if let Some((name, rest)) = line.split_once(": type=")
            && let Some((_, value)) = rest.split_once("; val=")
        {
            let value = value.split_whitespace().next().unwrap_or_default();
            self.arguments.entry(name.trim()).or_insert(value);
        }
    }

    fn gemm(&self) -> Option<GemmRow> {
        let number = |name: &str| self.arguments.get(name)?.parse::<u64>().ok();
        // `CUBLAS_OP_T(1)`, `CUDA_R_16BF(14)`
        let constant = |name: &str| Some(self.arguments.get(name)?.split('(').next()?.to_owned());
        let letter = self.function.as_bytes().get("cublas".len())?;
        let by_letter = match letter {
            b'S' => "R_32F",
            b'D' => "R_64F",
            b'H' => "R_16F",
            b'C' => "C_32F",
            b'Z' => "C_64F",
            _ => "",
        };
        let dtype = constant("Atype").map_or(by_letter.to_owned(), |name| {
            name.trim_start_matches("CUDA_").to_owned()
        });
        let is_transposed = |name: &str| constant(name).is_some_and(|op| op != "CUBLAS_OP_N");
        Some(GemmRow {
            function: self.function.to_owned(),
            m: number("m")?,
            n: number("n")?,
            k: number("k")?,
            batch: number("batchCount").unwrap_or(1),
            dtype,
            transposed: [is_transposed("transa"), is_transposed("transb")],
            calls: 0,
        })
    }
}

/// `Adesc=[type=R_16BF rows=896 cols=64 ld=896] … computeDesc=[… transa=OP_T …]`
fn parse_matmul(function: &str, arguments: &str) -> Option<GemmRow> {
    let group = |name: &str| {
        let (_, rest) = arguments.split_once(&format!("{name}=["))?;
        Some(rest.split_once(']')?.0)
    };
    let value = |group: &'_ str, name: &str| -> Option<String> {
        let mut words = group.split_whitespace();
        words.find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
    };
    let (a, d) = (group("Adesc")?, group("Ddesc")?);
    let compute = group("computeDesc").unwrap_or_default();
    let number = |group: &str, name: &str| value(group, name)?.parse::<u64>().ok();
    let is_transposed = |name: &str| value(compute, name).is_some_and(|op| op != "OP_N");
    let transposed = [is_transposed("transa"), is_transposed("transb")];
    Some(GemmRow {
        function: format!("cublasLt{function}"),
        m: number(d, "rows")?,
        n: number(d, "cols")?,
        k: number(a, if transposed[0] { "rows" } else { "cols" })?,
        batch: number(d, "batchCount").unwrap_or(1),
        dtype: value(a, "type").unwrap_or_default(),
        transposed,
        calls: 0,
    })
}
