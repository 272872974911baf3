//! A node together with the way to it, so that relative keys and full keys can be known.

use std::rc::Rc;

use crate::key::Key;
use crate::keypath::{self, PathStep};
use crate::node::{Node, Value};
use crate::python;

/// A node in a config, or one that a resolver made and hung below a node of the config.
#[derive(Debug, Clone)]
pub(crate) struct NodePlace<'a>(Rc<PlaceData<'a>>);

#[derive(Debug)]
struct PlaceData<'a> {
    node: Held<'a>,
    parent: Option<NodePlace<'a>>,
    key: Option<Key>,
}

#[derive(Debug)]
enum Held<'a> {
    InTree(&'a Node),
    Made(Node),
    /// A bare list or mapping that a resolver returned: a value, not a config container.
    Bare(Node),
}

impl<'a> NodePlace<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Self(Rc::new(PlaceData {
            node: Held::InTree(node),
            parent: None,
            key: None,
        }))
    }

    /// A new node below `parent`, which does not know of it.
    pub(crate) fn from_resolver(
        node: Node,
        parent: Option<NodePlace<'a>>,
        key: Option<Key>,
    ) -> Self {
        Self(Rc::new(PlaceData {
            node: Held::Made(node),
            parent,
            key,
        }))
    }

    /// A computed value in place of another node. Even a list or a mapping is only a value: no
    /// key leads into it, and it cannot be stored in a config as it is.
    pub(crate) fn bare(node: Node, parent: Option<NodePlace<'a>>, key: Option<Key>) -> Self {
        Self(Rc::new(PlaceData {
            node: Held::Bare(node),
            parent,
            key,
        }))
    }

    pub(crate) fn node(&self) -> &Node {
        match &self.0.node {
            Held::InTree(node) => node,
            Held::Made(node) | Held::Bare(node) => node,
        }
    }

    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.0.node, Held::Bare(_))
    }

    /// Whether this is a mapping or a list of a config.
    pub(crate) fn is_container(&self) -> bool {
        !self.is_bare() && self.node().is_container()
    }

    /// The node for as long as the tree lives; `None` for one that was made.
    pub(crate) fn in_tree(&self) -> Option<&'a Node> {
        match self.0.node {
            Held::InTree(node) => Some(node),
            Held::Made(_) | Held::Bare(_) => None,
        }
    }

    pub(crate) fn parent(&self) -> Option<&NodePlace<'a>> {
        self.0.parent.as_ref()
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    pub(crate) fn tree_root(&self) -> &NodePlace<'a> {
        let mut place = self;
        while let Some(parent) = place.parent() {
            place = parent;
        }
        place
    }

    /// Whether both are the very same node.
    pub(crate) fn is_same(&self, other: &NodePlace<'a>) -> bool {
        std::ptr::eq(self.node(), other.node())
    }

    pub(crate) fn address(&self) -> *const Node {
        std::ptr::from_ref(self.node())
    }

    fn child(&self, key: Key, in_tree: impl Fn(&Node) -> Option<&Node>) -> Option<NodePlace<'a>> {
        let node = match &self.0.node {
            Held::InTree(node) => Held::InTree(in_tree(node)?),
            Held::Made(node) | Held::Bare(node) => Held::Made(in_tree(node)?.clone()),
        };
        Some(Self(Rc::new(PlaceData {
            node,
            parent: Some(self.clone()),
            key: Some(key),
        })))
    }

    pub(crate) fn entry(&self, key: &Key) -> Option<NodePlace<'a>> {
        self.child(key.clone(), |node| node.as_dict()?.get(key))
    }

    pub(crate) fn item(&self, index: usize) -> Option<NodePlace<'a>> {
        self.child(Key::from(index as i64), |node| node.as_list()?.get(index))
    }

    pub(crate) fn children(&self) -> Vec<NodePlace<'a>> {
        match &self.node().value {
            Value::Dict(dict) => dict.keys().filter_map(|key| self.entry(key)).collect(),
            Value::List(list) => (0..list.len()).filter_map(|i| self.item(i)).collect(),
            _ => Vec::new(),
        }
    }

    /// The child that one part of a key path names: an index in a list, a string key elsewhere.
    ///
    /// `Err` if the key of a list is not an index.
    pub(crate) fn follow_part(&self, part: &str) -> Result<Option<NodePlace<'a>>, NotAnIndex> {
        if self.node().as_list().is_none() {
            return Ok(self.entry(&Key::from(part)));
        }
        let index = python::parse_int(part).ok_or(NotAnIndex)?;
        let index = index.as_i64().and_then(|index| usize::try_from(index).ok());
        Ok(index.and_then(|index| self.item(index)))
    }

    /// The steps from the top to here.
    pub(crate) fn path_steps(&self) -> Vec<PathStep> {
        let mut steps = Vec::new();
        let mut place = self;
        while let Some(parent) = place.parent() {
            if let Some(key) = place.key() {
                steps.push(PathStep {
                    key: key.clone(),
                    in_list: parent.node().is_list(),
                });
            }
            place = parent;
        }
        steps.reverse();
        steps
    }

    /// The full key, such as `a.b[0]`; empty at the top.
    pub(crate) fn full_key(&self) -> String {
        keypath::join_steps(&self.path_steps())
    }
}

/// The key of a list is not an index.
#[derive(Debug)]
pub(crate) struct NotAnIndex;
