//! Summaries as files: a head with version and checksum, then compressed JSON.

use std::io::Read as _;

use thiserror::Error;

use super::{Between, KernelSums, RankCollective, RankStep, RankSummary};

/// The folder of a run that has the summaries of its ranks.
pub const RANK_FOLDER: &str = "ranks";
/// How the names of their files end.
pub const RANK_FILE_SUFFIX: &str = ".rank";
/// A file of more bytes, packed or unpacked, is not a summary that llmprof wrote.
pub const RANK_FILE_MAX_BYTES: u64 = 1 << 30;

const MAGIC: &[u8; 8] = b"llmprank";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = MAGIC.len() + 8;
/// Level 3 is the default of zstd: half the size of level 1 is not to be had below level 19.
const COMPRESSION_LEVEL: i32 = 3;

/// 78 hours in ns, 281 TB in bytes: no profile has more in one number, and sums over tens of thousands of them fit 64 bits.
const NUMBER_MAX: u64 = 1 << 48;
/// The first event, since 1970: in the year 2116.
const BEGIN_MAX_NS: u64 = 1 << 62;

/// Bytes that so many packed ones may unpack to. Rows of numbers pack to an eighth or so; in memory they take up to nine times their text,
/// so a small file must not unpack to all of [`RANK_FILE_MAX_BYTES`].
fn unpacked_max(packed: u64) -> u64 {
    (packed.saturating_mul(24) + (32 << 20)).min(RANK_FILE_MAX_BYTES)
}

/// Why bytes are not a summary.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RankFileError {
    #[error("not a rank summary of llmprof")]
    Other,
    #[error("layout version {0}, and this llmprof reads version {VERSION}")]
    Version(u32),
    #[error("damaged: {0}")]
    Damaged(String),
}

impl RankSummary {
    /// `rank-00017.rank`: sorted by name, files are sorted by rank.
    pub fn file_name(rank: u32) -> String {
        format!("rank-{rank:05}{RANK_FILE_SUFFIX}")
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        Self::pack(&serde_json::to_vec(self).expect("a summary has no maps with keys but texts"))
    }

    /// A file with this text.
    pub fn pack(json: &[u8]) -> Vec<u8> {
        let packed = zstd::bulk::compress(json, COMPRESSION_LEVEL)
            .expect("compression into memory has nothing to fail at");
        let mut bytes = Vec::with_capacity(HEAD_BYTES + packed.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&packed).to_le_bytes());
        bytes.extend_from_slice(&packed);
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RankFileError> {
        let damaged = |what: &str| RankFileError::Damaged(what.to_owned());
        let rest = bytes.strip_prefix(MAGIC).ok_or(RankFileError::Other)?;
        let (version, rest) = rest.split_first_chunk().ok_or_else(|| damaged("cut off"))?;
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(RankFileError::Version(version));
        }
        let (checksum, packed) = rest.split_first_chunk().ok_or_else(|| damaged("cut off"))?;
        if crc32fast::hash(packed) != u32::from_le_bytes(*checksum) {
            return Err(damaged("its checksum is wrong"));
        }
        let decoder = zstd::stream::read::Decoder::new(packed)
            .map_err(|error| RankFileError::Damaged(error.to_string()))?;
        let limit = unpacked_max(packed.len() as u64);
        let mut json = Vec::new();
        decoder
            .take(limit + 1)
            .read_to_end(&mut json)
            .map_err(|error| RankFileError::Damaged(error.to_string()))?;
        if json.len() as u64 > limit {
            return Err(damaged("it unpacks to more than a summary has"));
        }
        let summary: Self = serde_json::from_slice(&json)
            .map_err(|error| RankFileError::Damaged(error.to_string()))?;
        summary.check().map_err(damaged)?;
        Ok(summary)
    }

    /// Whoever joins summaries may use their numbers as indices and take their times to be in order.
    fn check(&self) -> Result<(), &'static str> {
        let (names, groups) = (self.names.len() as u32, self.groups.len() as u32);
        let mut kernels = self.steps.iter().flat_map(|step| &step.kernels);
        let calls = &self.collectives;
        if kernels.any(|kernel| kernel.name >= names) {
            return Err("a kernel has a name that is not listed");
        }
        if calls
            .iter()
            .any(|call| call.kind >= names || call.group >= groups)
        {
            return Err("a collective has a group that is not listed");
        }
        let is_late = |end: i64| end > self.recorded_ns;
        if calls.iter().any(|call| is_late(call.end_ns)) || self.recorded_ns < 0 {
            return Err("a collective ends after the recording");
        }
        if !self.is_within_bounds() {
            return Err("a number is larger than any that was measured");
        }
        if !calls.is_sorted_by_key(|call| call.start_ns) {
            return Err("collectives are out of order");
        }
        let is_step = |step: &super::RankStep| step.start_ns <= step.end_ns;
        let follow = |pair: &[super::RankStep]| pair[0].end_ns <= pair[1].start_ns;
        if !self.steps.iter().all(is_step) || !self.steps.windows(2).all(follow) {
            return Err("steps are out of order");
        }
        Ok(())
    }

    /// Whether all numbers are small enough that sums over a job fit 64 bits.
    fn is_within_bounds(&self) -> bool {
        let between = |between: &Between| {
            [between.compute_ns, between.copies_ns, between.idle_ns]
                .into_iter()
                .all(is_bounded)
        };
        let kernel = |kernel: &KernelSums| {
            let times = [kernel.sum_ns, kernel.min_ns, kernel.max_ns];
            times.into_iter().all(is_bounded) && kernel.calls <= NUMBER_MAX
        };
        let step = |step: &RankStep| {
            let times = [
                step.start_ns,
                step.end_ns,
                step.compute_ns,
                step.exposed_communication_ns,
                step.copies_ns,
                step.other_ns,
            ];
            times.into_iter().chain(step.idle_ns).all(is_bounded)
                && step.other_events <= NUMBER_MAX
                && step.kernels.iter().all(kernel)
        };
        let call = |call: &RankCollective| {
            let exposed = call.exposed.iter().flat_map(|(start, end)| [*start, *end]);
            let counts = [Some(call.group_size), call.given, call.got];
            [call.start_ns, call.end_ns]
                .into_iter()
                .chain(exposed)
                .all(is_bounded)
                && between(&call.before)
                && counts
                    .into_iter()
                    .flatten()
                    .all(|count| count <= NUMBER_MAX)
        };
        is_bounded(self.recorded_ns)
            && self.begin_ns.unsigned_abs() <= BEGIN_MAX_NS
            && self.events <= NUMBER_MAX
            && between(&self.tail)
            && self.steps.iter().all(step)
            && self.collectives.iter().all(call)
    }
}

fn is_bounded(number: i64) -> bool {
    number.unsigned_abs() <= NUMBER_MAX
}

#[cfg(test)]
mod tests {
    use super::super::{Digest, ProcessGroup};
    use super::*;

    fn summary() -> RankSummary {
        let mut digest = Digest::default();
        digest.add(1_000);
        digest.add(3_000);
        RankSummary {
            rank: 17,
            world_size: Some(1_024),
            begin_ns: 1_763_000_000_000_000_000,
            recorded_ns: 9_000,
            names: vec!["gemm".to_owned(), "all_reduce".to_owned()],
            groups: vec![ProcessGroup {
                name: "tp".to_owned(),
                ranks: "[16, 17]".to_owned(),
            }],
            steps: vec![RankStep {
                number: Some(3),
                end_ns: 9_000,
                kernels: vec![KernelSums {
                    name: 0,
                    calls: 2,
                    sum_ns: 4_000,
                    min_ns: 1_000,
                    max_ns: 3_000,
                    digest,
                }],
                ..RankStep::default()
            }],
            collectives: vec![
                RankCollective {
                    start_ns: 4_000,
                    end_ns: 6_000,
                    kind: 1,
                    sequence: Some(8),
                    given: Some(256),
                    exposed: vec![(4_000, 6_000)],
                    ..RankCollective::default()
                },
                RankCollective {
                    start_ns: 7_000,
                    end_ns: 9_000,
                    kind: 1,
                    before: Between {
                        compute_ns: 600,
                        copies_ns: 0,
                        idle_ns: 400,
                    },
                    exposed: vec![(7_100, 7_200), (8_000, 9_000)],
                    ..RankCollective::default()
                },
            ],
            ..RankSummary::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let summary = summary();
        assert_eq!(RankSummary::from_bytes(&summary.to_bytes()), Ok(summary));
    }

    #[test]
    fn damage_at_any_place_is_an_error() {
        let bytes = summary().to_bytes();
        for at in 0..bytes.len() {
            assert!(
                RankSummary::from_bytes(&bytes[..at]).is_err(),
                "cut at {at}"
            );
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(
                RankSummary::from_bytes(&flipped).is_err(),
                "flipped at {at}"
            );
        }
    }

    #[test]
    fn numbers_that_would_mislead_a_reader_are_refused() {
        let refused = |change: fn(&mut RankSummary)| {
            let mut summary = summary();
            change(&mut summary);
            let error = RankSummary::from_bytes(&summary.to_bytes()).expect_err("refused");
            assert!(matches!(error, RankFileError::Damaged(_)), "{error}");
        };
        refused(|summary| summary.collectives[0].group = 9);
        refused(|summary| summary.collectives[1].end_ns = 10_000);
        refused(|summary| summary.collectives[1].start_ns = 3_000);
        refused(|summary| summary.steps[0].kernels[0].name = 2);
        refused(|summary| summary.steps[0].kernels[0].calls = 3);
        refused(|summary| summary.steps[0].start_ns = 9_001);
        refused(|summary| summary.tail.compute_ns = i64::MAX);
        refused(|summary| summary.begin_ns = i64::MIN);
        refused(|summary| summary.steps[0].idle_ns[7] = 1 << 49);
        refused(|summary| summary.collectives[0].given = Some(1 << 62));
    }

    #[test]
    fn a_small_file_does_not_unpack_to_gigabytes() {
        let mut json = serde_json::to_vec(&summary()).expect("it is serialized above");
        json.extend(vec![b' '; 40 << 20]);
        let bytes = RankSummary::pack(&json);
        assert!(bytes.len() < 100_000);
        let why = RankSummary::from_bytes(&bytes).expect_err("refused");
        let why = why.to_string();
        assert!(why.contains("unpacks to more"), "{why}");
    }
}
