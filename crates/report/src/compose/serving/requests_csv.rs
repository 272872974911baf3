//! Requests and engine steps of a load for spreadsheets.

use llmprof_analysis::serving::parts::RequestParts;
use llmprof_record::serving::{EngineStep, RequestRecord};
use llmprof_units::Nanos;

use crate::csv_field;

/// One line a request; times in milliseconds from the start of the load, parts of its latency after them.
pub fn requests_csv(requests: &[RequestRecord], each: &[RequestParts]) -> String {
    let mut text = String::from(
        "request,session,turn,scheduled_ms,sent_ms,first_token_ms,last_token_ms,end_ms,prompt_tokens,output_tokens,token_basis,\
         ttft_ms,tpot_ms,e2e_ms,client_ms,connect_ms,queue_prefill_network_ms,running_step_ms,queue_ms,prefill_ms,network_ms,decode_ms,\
         others_prefill_ms,stall_ms,split_by,profiled,failure,message\n",
    );
    let ms = |ns: Option<f64>| ns.map_or(String::new(), |ns| format!("{:.6}", ns / 1e6));
    let whole = |ns: Option<Nanos>| ms(ns.map(|ns| ns.0 as f64));
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    let mut parts = each.iter().peekable();
    for request in requests {
        let own = parts.next_if(|parts| parts.index == request.index);
        let part = |value: fn(&RequestParts) -> Nanos| whole(own.map(value));
        let done = request.is_complete();
        let basis = serde_json::to_value(request.token_basis).unwrap_or_default();
        let split = own.map(|own| serde_json::to_value(own.split_by).unwrap_or_default());
        let cells = [
            request.index.to_string(),
            count(request.session.map(|(session, _)| session)),
            count(request.session.map(|(_, turn)| u64::from(turn))),
            whole(Some(request.scheduled_ns)),
            whole(request.sent_ns),
            whole(request.arrivals.first().map(|arrival| arrival.at_ns)),
            whole(request.arrivals.last().map(|arrival| arrival.at_ns)),
            whole(Some(request.end_ns)),
            count(request.prompt_tokens),
            count(request.output_tokens),
            basis.as_str().unwrap_or_default().to_owned(),
            whole(request.ttft_ns().filter(|_| done)),
            ms(request.tpot_ns().filter(|_| done)),
            whole(request.e2e_ns()),
            part(|p| p.client_ns),
            part(|p| p.connect_ns),
            part(|p| p.unsplit_ns),
            part(|p| p.running_step_ns),
            part(|p| p.queue_ns),
            part(|p| p.prefill_ns),
            part(|p| p.network_ns),
            part(|p| p.decode_ns),
            part(|p| p.others_prefill_ns),
            part(|p| p.stall_ns),
            split
                .as_ref()
                .and_then(|s| s.as_str())
                .unwrap_or_default()
                .to_owned(),
            u8::from(request.was_profiled).to_string(),
            request
                .failure
                .as_ref()
                .map_or("", |failure| failure.kind.name())
                .to_owned(),
            request
                .failure
                .as_ref()
                .map_or("", |failure| failure.message.as_str())
                .to_owned(),
        ];
        let cells: Vec<String> = cells.iter().map(|cell| csv_field(cell)).collect();
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

/// Engine steps, a line each; times in milliseconds from the start of the load.
pub fn steps_csv(steps: &[EngineStep], started_unix_ns: Nanos) -> String {
    let mut text = String::from(
        "start_ms,duration_ms,prefill_sequences,prefill_tokens,decode_sequences,decode_context_tokens,gpu_busy_ms,roofline_ms\n",
    );
    let ms = |time: Option<Nanos>| time.map_or(String::new(), |ns| format!("{:.6}", ns.millis()));
    for step in steps {
        text += &format!(
            "{:.6},{:.6},{},{},{},{},{},{}\n",
            (step.start_unix_ns - started_unix_ns).millis(),
            (step.end_unix_ns - step.start_unix_ns).millis(),
            step.prefill.sequences,
            step.prefill.tokens,
            step.decode.sequences,
            step.decode
                .context
                .map_or(String::new(), |tokens| tokens.to_string()),
            ms(step.busy_ns),
            ms(step.roofline_ns),
        );
    }
    text
}
