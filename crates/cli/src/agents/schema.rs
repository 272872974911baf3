//! `llmprof schema [NAME]`: JSON Schemas of what commands print.

use llmprof_view::agent::answer_schemas;

use crate::{failure::Failure, output::Output};

pub(crate) fn schema(name: Option<&str>, output: &mut Output) -> Result<(), Failure> {
    let all = answer_schemas();
    let Some(name) = name else {
        for (id, _) in &all {
            output.line(id)?;
        }
        return Ok(());
    };
    let exact: Vec<_> = all.iter().filter(|(id, _)| id == name).collect();
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
