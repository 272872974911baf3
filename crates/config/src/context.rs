//! What resolvers may know of the world: environment variables and registered functions.
//!
//! Everything is passed in, so that composing the same files twice gives the same config.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;

use crate::error::Result;
use crate::node::Node;
use crate::warnings::Warnings;

/// A function behind `${name:args}`. Errors it returns are reported as failed interpolations.
pub(crate) type Function = dyn Fn(&ResolverCall<'_>) -> Result<Node>;

/// One call of a resolver.
#[derive(Debug)]
pub struct ResolverCall<'a> {
    pub args: &'a [Node],
    /// The whole config the interpolation stands in.
    pub root: &'a Node,
    /// The full key of the node that holds the interpolation.
    pub key: &'a str,
}

/// Results by resolver and the text of its arguments.
type Cache = HashMap<(String, Vec<String>), Node>;

#[derive(Clone)]
struct RegisteredResolver {
    function: Rc<Function>,
    cached: bool,
}

/// The surroundings in which interpolations are resolved.
#[derive(Clone, Default)]
pub struct Context {
    environment: BTreeMap<String, String>,
    functions: HashMap<String, RegisteredResolver>,
    cache: Rc<RefCell<Cache>>,
    warnings: Warnings,
}

impl Context {
    /// An empty environment with OmegaConf's own resolvers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same context with these environment variables, which `oc.env` reads.
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        self.environment = variables.into_iter().collect();
        self
    }

    /// The value of an environment variable.
    pub fn environment_variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    pub fn environment_variables(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Adds or replaces a resolver.
    pub fn register(
        &mut self,
        name: &str,
        function: impl Fn(&ResolverCall<'_>) -> Result<Node> + 'static,
    ) {
        self.insert_resolver(name, Rc::new(function), false);
    }

    /// Adds or replaces a resolver whose result is kept for each text of its arguments.
    pub(crate) fn register_cached(
        &mut self,
        name: &str,
        function: impl Fn(&ResolverCall<'_>) -> Result<Node> + 'static,
    ) {
        self.insert_resolver(name, Rc::new(function), true);
    }

    fn insert_resolver(&mut self, name: &str, function: Rc<Function>, cached: bool) {
        self.functions
            .insert(name.to_owned(), RegisteredResolver { function, cached });
    }

    /// The names of the registered resolvers.
    pub fn resolver_names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Calls a registered resolver; `None` when there is none of that name.
    pub(crate) fn call_resolver(
        &self,
        name: &str,
        call: &ResolverCall<'_>,
        texts: &[String],
    ) -> Option<Result<Node>> {
        let registered = self.functions.get(name)?;
        if !registered.cached {
            return Some((registered.function)(call));
        }
        let key = (name.to_owned(), texts.to_vec());
        if let Some(known) = self.cache.borrow().get(&key) {
            return Some(Ok(known.clone()));
        }
        let result = (registered.function)(call);
        if let Ok(node) = &result {
            self.cache.borrow_mut().insert(key, node.clone());
        }
        Some(result)
    }

    pub(crate) fn warn(&self, message: String) {
        self.warnings.add_once(message);
    }

    /// The same context, whose resolvers warn there.
    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: Warnings) -> Self {
        self.warnings = warnings;
        self
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of environment variables may be secrets.
        f.debug_struct("Context")
            .field("functions", &self.functions.keys())
            .finish_non_exhaustive()
    }
}
