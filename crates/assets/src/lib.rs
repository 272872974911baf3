//! What a team keeps around the profiler: the project's folders, links to models and datasets, prepared variants of the
//! data, and the sources of others.
//!
//! Every command first makes its [`Changes`], which can be printed, and only then applies them. Applied twice they do
//! nothing the second time; ended anywhere in between, the next call goes on from there.

mod archive;
pub mod bootstrap;
mod changes;
pub mod dataset;
mod document;
mod error;
pub mod externals;
mod hub_cache;
mod link;
mod lock;
pub mod project;
mod surroundings;

pub use changes::{Change, Changes};
pub use error::AssetError;
pub use hub_cache::{RepoKind, Snapshot, snapshot};
pub use lock::ProjectLock;
pub use surroundings::Surroundings;

/// What a function of this crate gives.
pub type Result<T> = std::result::Result<T, AssetError>;
