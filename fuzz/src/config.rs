//! A config: parsed, and every interpolation in it resolved.

use llmprof_config::{
    context::Context,
    grammar::overrides::{KeepOrder, parse_override},
    resolve::resolve_all,
    source::SourceText,
    yaml,
};

/// True where it could be.
pub fn read(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        let _ = parse_override(line, &mut KeepOrder);
    }
    let Ok(mut node) = yaml::load_config(&SourceText::new("input", text)) else {
        return false;
    };
    resolve_all(&mut node, &Context::new()).is_ok()
}
