//! Wakes workers when requests are due.
//!
//! A thread of its own: tokio's timers fire up to a millisecond late, which is the whole budget. Bodies are built here as well,
//! ahead of their time, so that making a long prompt delays nothing.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use llmprof_units::Nanos;
use tokio::sync::mpsc::UnboundedSender;

use super::shared::SharedLoad;
use crate::body::ChatMessage;

/// How often a sleeping thread looks whether it shall stop.
const POLL: Duration = Duration::from_millis(50);

/// A request that is due.
pub(crate) struct Due {
    pub(crate) index: usize,
    pub(crate) scheduled: Nanos,
    pub(crate) body: Bytes,
    /// What was said before in its conversation.
    pub(crate) history: Vec<ChatMessage>,
}

/// A later turn: known once the turn before it ended.
pub(crate) struct Later {
    pub(crate) index: usize,
    pub(crate) scheduled: Nanos,
    pub(crate) history: Vec<ChatMessage>,
}

/// Runs until nothing is left and nobody can add anything.
pub(crate) fn run_schedule(
    shared: &Arc<SharedLoad>,
    workers: &[UnboundedSender<Due>],
    later: &Receiver<Later>,
) {
    let first = shared.plan.requests.iter().enumerate();
    let mut heap: BinaryHeap<Reverse<(Nanos, usize)>> = first
        .filter_map(|(index, request)| Some(Reverse((request.at?, index))))
        .collect();
    let has_turns = shared.plan.requests.iter().any(|request| request.has_next);
    let mut histories: std::collections::HashMap<usize, Vec<ChatMessage>> =
        std::collections::HashMap::new();
    loop {
        if shared.is_stopped() {
            return;
        }
        let Some(&Reverse((at, index))) = heap.peek() else {
            if !has_turns {
                return;
            }
            match later.recv_timeout(POLL) {
                Ok(turn) => add_turn(&mut heap, &mut histories, turn),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            continue;
        };
        let history = histories.get(&index).cloned().unwrap_or_default();
        let body = shared.request_body(index, &history);
        let due = shared.clock.instant(at);
        // A turn that is due earlier may be added meanwhile.
        let mut is_first = true;
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            if shared.is_stopped() {
                return;
            }
            match later.recv_timeout(left.min(POLL)) {
                Ok(turn) => {
                    is_first = turn.scheduled >= at;
                    add_turn(&mut heap, &mut histories, turn);
                    if !is_first {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(left.min(POLL));
                }
            }
        }
        if !is_first {
            continue;
        }
        heap.pop();
        histories.remove(&index);
        let request = Due {
            index,
            scheduled: at,
            body,
            history,
        };
        // A worker that is gone has panicked; the others go on, and the request is missing in the end.
        let _ = workers[index % workers.len()].send(request);
    }
}

fn add_turn(
    heap: &mut BinaryHeap<Reverse<(Nanos, usize)>>,
    histories: &mut std::collections::HashMap<usize, Vec<ChatMessage>>,
    turn: Later,
) {
    heap.push(Reverse((turn.scheduled, turn.index)));
    histories.insert(turn.index, turn.history);
}
