use llmprof_record::run::{PassKind, RunRecord};

use super::csv_field;

/// When each token was there: by the host's clock since its request began, and by the device's since its batch began.
pub fn csv(record: &RunRecord) -> Option<String> {
    let mut text = "pass,kind,request,token,host_ns,device_ns\n".to_owned();
    if record.requests.is_empty() {
        return None;
    }
    for request in &record.requests {
        let kind = record
            .passes
            .get(request.pass)
            .map_or(PassKind::Plain, |pass| pass.kind);
        for (token, time) in request.token_ns.iter().enumerate() {
            let device = request.device_token_ns.get(token);
            text += &format!(
                "{},{},{},{token},{},{}\n",
                request.pass,
                kind.name(),
                csv_field(&request.id),
                (*time - request.start_ns).0,
                device.map(|time| time.0.to_string()).unwrap_or_default()
            );
        }
    }
    Some(text)
}
