//! Forward passes by lookups in the token embedding.

use super::model_work::Forward;
use super::scene::Scene;

/// Forward passes by their lookups in the largest table: position embeddings are smaller.
pub(crate) fn forward_passes(scene: &Scene<'_>) -> Vec<Forward> {
    let lookups = scene.tops.iter().filter_map(|&row| read_lookup(scene, row));
    let mut forwards: Vec<Forward> = lookups.collect();
    let largest = forwards.iter().map(|forward| forward.vocabulary).max();
    forwards.retain(|forward| Some(forward.vocabulary) == largest);
    forwards
}

fn read_lookup(scene: &Scene<'_>, row: usize) -> Option<Forward> {
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
