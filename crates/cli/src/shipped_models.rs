//! The models of the shipped config tree, by their names and by their ids on the Hugging Face hub.

use llmprof_config::hydra::{FileTree, OptionAlias};

/// The group of the config tree that has them.
pub(crate) const GROUP: &str = "model";

pub(crate) struct ShippedModel {
    pub(crate) name: &'static str,
    pub(crate) hub_id: &'static str,
}

/// Every model of the tree that states its id, in order of names.
pub(crate) fn shipped_models(tree: FileTree) -> Vec<ShippedModel> {
    let read = |(path, text): &(&'static str, &'static str)| {
        let name = path.strip_prefix("model/")?.strip_suffix(".yaml")?;
        let hub_id = text
            .lines()
            .find_map(|line| line.strip_prefix("hf_src: "))?;
        hub_id
            .contains('/')
            .then_some(ShippedModel { name, hub_id })
    };
    tree.iter().filter_map(read).collect()
}

/// `model=ORGANIZATION/NAME` for each of them.
pub(crate) fn hub_aliases(tree: FileTree) -> Vec<OptionAlias> {
    let alias = |model: ShippedModel| OptionAlias {
        group: GROUP,
        alias: model.hub_id.to_owned(),
        option: model.name.to_owned(),
    };
    shipped_models(tree).into_iter().map(alias).collect()
}
