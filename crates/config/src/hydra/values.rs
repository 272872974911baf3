//! STUB
use super::Host;
use crate::error::Error as ValueError;
use crate::node::Node;
pub(super) struct UpdateMode;
impl UpdateMode { pub(super) fn replace()->Self{Self} pub(super) fn merge()->Self{Self} pub(super) fn force_merge()->Self{Self} }
pub(super) fn update(_: &mut Node, _: &str, _: Node, _: UpdateMode) -> Result<(), ValueError> { unimplemented!() }
pub(super) fn set_child(_: &mut Node, _: &str, _: Node) -> Result<(), ValueError> { unimplemented!() }
pub(super) fn merge_with(_: &mut Node, _: &Node) -> Result<(), ValueError> { unimplemented!() }
pub(super) fn delete_key(_: &mut Node, _: &str) -> Result<(), ValueError> { unimplemented!() }
impl Host {
 pub(super) fn select(&self, _: &Node, _: &str) -> Result<Option<Node>, ValueError> { unimplemented!() }
 pub(super) fn resolve_in(&self, _: Node, _: &str) -> Result<Node, ValueError> { unimplemented!() }
}
