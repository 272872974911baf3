use llmprof_capture::doctor::check_machine;
use llmprof_report::compose::listings;

use crate::{args_kernels::DoctorArgs, failure::Failure, output::Output};

pub(crate) fn doctor(args: &DoctorArgs, output: &mut Output) -> Result<(), Failure> {
    let checks = check_machine(&args.python);
    if args.json {
        return output.json(&checks);
    }
    let rows = checks.into_iter().map(|check| {
        [
            check.name.to_owned(),
            check.state.word().to_owned(),
            check.found,
            check.fix.unwrap_or_default(),
        ]
    });
    output.table(&listings::checks(rows))
}
