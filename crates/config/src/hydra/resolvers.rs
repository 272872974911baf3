//! The resolvers that Hydra adds: `now` and `hydra`.

use super::Host;
use super::clock::strftime;
use crate::context::Context;
use crate::error::{Error, ErrorKind};
use crate::node::{Node, Value};
use crate::resolve;

impl Host {
    /// Resolvers as they are while a config is composed: `hydra:` has nothing to show yet.
    pub(super) fn compose_context(&self) -> Context {
        let variables = self
            .env
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()));
        let mut context = Context::new()
            .with_environment(variables)
            .with_warnings(self.warnings.clone());
        let now = self.now;
        context.register_cached("now", move |call| {
            let pattern = single_argument("now", call.args)?;
            Ok(Node::new(strftime(now, pattern)))
        });
        context.register("hydra", |_| {
            Err(failed_resolver(
                "the Hydra config is not known before composition is done",
            ))
        });
        context
    }

    /// Resolvers for a composed config.
    ///
    /// `${hydra:key}` looks into the `hydra` node; interpolations found there are resolved from
    /// `root`, which need not hold the node any more.
    pub(super) fn context_with_hydra(&self, hydra: Node, mut root: Node) -> Context {
        const HIDDEN: &str = "\0hydra";
        let mut context = self.compose_context();
        let inner = self.compose_context();
        root.insert(HIDDEN, hydra);
        context.register("hydra", move |call| {
            let key = single_argument("hydra", call.args)?;
            let node = resolve::select_key(&root, &format!("{HIDDEN}.{key}"), &inner)?;
            let mut node = node.unwrap_or_else(|| Node::new(Value::Null));
            node.flags.readonly = Some(true);
            Ok(node)
        });
        context
    }
}

fn single_argument<'a>(name: &str, args: &'a [Node]) -> Result<&'a str, Error> {
    match args {
        [argument] => argument
            .as_str()
            .ok_or_else(|| failed_resolver(&format!("`{name}` takes a string"))),
        _ => Err(failed_resolver(&format!(
            "`{name}` takes one argument, not {}",
            args.len()
        ))),
    }
}

fn failed_resolver(message: &str) -> Error {
    ErrorKind::Value(message.to_owned()).into()
}
