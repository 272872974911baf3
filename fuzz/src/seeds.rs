//! The seeds of a target, and which damaged copy of them has which number.

use std::fs;
use std::io;
use std::path::Path;

use super::mutate::{CaseRandom, mutated};

#[derive(Clone, Default)]
pub struct Seeds(Vec<Vec<u8>>);

impl Seeds {
    /// Those in `corpus/NAME` of the folder `fuzz`, in the same order everywhere.
    pub fn read(fuzz: &Path, name: &str) -> io::Result<Self> {
        let mut seeds = Vec::new();
        for entry in fs::read_dir(fuzz.join("corpus").join(name))? {
            seeds.push(fs::read(entry?.path())?);
        }
        if seeds.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        seeds.sort();
        Ok(Self(seeds))
    }

    /// Bytes that are not in the corpus.
    pub fn one(seed: Vec<u8>) -> Self {
        Self(vec![seed])
    }

    pub fn all(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// The same copy for the same number.
    pub fn damaged(&self, number: u64) -> Vec<u8> {
        let mut random = CaseRandom::from_seed(number);
        let seed = &self.0[random.below(self.0.len())];
        let other = &self.0[random.below(self.0.len())];
        mutated(seed, other, &mut random)
    }
}
