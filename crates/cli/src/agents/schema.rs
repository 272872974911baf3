//! `llmprof schema [NAME]`: JSON Schemas of what is written and printed.

use crate::{contracts::all_schemas, failure::Failure, output::Output};

pub(crate) fn schema(name: Option<&str>, output: &mut Output) -> Result<(), Failure> {
    let all = all_schemas();
    let Some(name) = name else {
        for (id, _) in &all {
            output.line(id)?;
        }
        return Ok(());
    };
    // `analysis` is `llmprof.analysis/3`.
    let is_exact = |id: &str| {
        let short = id.strip_prefix("llmprof.").unwrap_or(id);
        let short = short.split('/').next().unwrap_or(short);
        [id, short].contains(&name)
    };
    let exact: Vec<_> = all.iter().filter(|(id, _)| is_exact(id)).collect();
    let matching: Vec<_> = all.iter().filter(|(id, _)| id.contains(name)).collect();
    match (exact.as_slice(), matching.as_slice()) {
        ([(_, schema)], _) | ([], [(_, schema)]) => output.json(schema),
        (_, []) => Err(Failure::new(format!("no schema is called `{name}`"))
            .hint("llmprof schema lists them".to_owned())),
        (_, several) => {
            let ids: Vec<&str> = several.iter().map(|(id, _)| id.as_str()).collect();
            let hint = format!("one of {}", ids.join(", "));
            Err(Failure::new(format!("`{name}` is a part of several names")).hint(hint))
        }
    }
}
