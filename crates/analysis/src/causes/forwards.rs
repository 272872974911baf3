//! Forward passes by lookups in the token embedding.

use super::model_work::Forward;
use super::scene::Scene;

/// Lookups in the largest table: position embeddings are smaller.
pub(crate) fn forwards(scene: &Scene<'_>) -> Vec<Forward> {
    let lookups = scene.tops.iter().filter_map(|&row| lookup(scene, row));
    let mut found: Vec<Forward> = lookups.collect();
    let largest = found.iter().map(|forward| forward.vocabulary).max();
    found.retain(|forward| Some(forward.vocabulary) == largest);
    found
}

fn lookup(scene: &Scene<'_>, row: usize) -> Option<Forward> {
    if scene.name(row) != "aten::embedding" {
        return None;
    }
    let tensors = scene.tensors(row);
    let (&(table, _), &(ids, _)) = (tensors.first()?, tensors.get(1)?);
    let &[vocabulary, hidden] = table else {
        return None;
    };
    let (sequences, tokens) = match *ids {
        [tokens] => (1, tokens),
        [sequences, tokens] => (sequences, tokens),
        _ => return None,
    };
    Some(Forward {
        row,
        vocabulary,
        hidden,
        sequences,
        tokens,
    })
}
