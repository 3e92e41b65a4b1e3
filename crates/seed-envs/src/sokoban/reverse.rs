//! The reference's reverse search: from the finished room, pull boxes away as far as a bounded search gets.

use super::room::{Ground, Move};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Boxes that a state's key has room for.
pub(super) const MAX_BOXES: usize = 13;
/// States after which the reference stops looking.
const MAX_STATES: usize = 300_000;

/// The best start that was found.
pub(super) struct Found {
    /// The player's cell.
    pub(super) player: usize,
    /// The cell of each target's box, in the targets' order.
    pub(super) boxes: Vec<usize>,
    /// Steps between the boxes and their targets, summed; 0 when no box could be spread.
    pub(super) displacement: usize,
}

/// Depth-first over up, down, left, right; each move pulls a box that stands behind the player.
///
/// The first strictly best state wins by: changes of the pulled box times displacement, 0 unless every target is free.
pub(super) fn search(
    ground: &[Ground],
    columns: usize,
    player: usize,
    targets: &[usize],
    depth: usize,
) -> Found {
    let mut there = vec![0u8; ground.len()];
    for (number, &target) in targets.iter().enumerate() {
        there[target] = number as u8 + 1;
    }
    let mut search = Search {
        ground,
        columns,
        targets,
        there,
        boxes: targets.to_vec(),
        pulled: vec![false; targets.len()],
        player,
        seen: HashSet::with_capacity_and_hasher(1024, BuildHasherDefault::default()),
        best_score: -1,
        best: Found { player, boxes: targets.to_vec(), displacement: 0 },
    };
    search.visit(0, None, depth);
    search.best
}

struct Search<'a> {
    ground: &'a [Ground],
    columns: usize,
    targets: &'a [usize],
    /// The number of the box on each cell, from 1; 0 for none.
    there: Vec<u8>,
    boxes: Vec<usize>,
    /// The reference writes another number into the cell of a box that was ever pulled, so that the same boxes in the
    /// same places can be two states.
    pulled: Vec<bool>,
    player: usize,
    seen: HashSet<u128, BuildHasherDefault<KeyHasher>>,
    best_score: i64,
    best: Found,
}

impl Search<'_> {
    fn visit(&mut self, swaps: usize, last: Option<u8>, depth: usize) {
        let depth = depth.saturating_sub(1);
        if depth == 0 || self.seen.len() >= MAX_STATES {
            return;
        }
        if !self.seen.insert(self.key()) {
            return;
        }
        self.score(swaps);
        for direction in Move::ALL {
            let from = self.player;
            let next = direction.from(from, self.columns);
            if self.ground[next] == Ground::Wall || self.there[next] != 0 {
                // The same state again, which was seen.
                continue;
            }
            self.player = next;
            let behind = direction.back().from(from, self.columns);
            let number = self.there[behind];
            if number == 0 {
                self.visit(swaps, last, depth);
            } else {
                let index = usize::from(number) - 1;
                let before = std::mem::replace(&mut self.pulled[index], true);
                self.there[behind] = 0;
                self.there[from] = number;
                self.boxes[index] = from;
                let changed = usize::from(last != Some(number));
                self.visit(swaps + changed, Some(number), depth);
                self.boxes[index] = behind;
                self.there[from] = 0;
                self.there[behind] = number;
                self.pulled[index] = before;
            }
            self.player = from;
        }
    }

    fn score(&mut self, swaps: usize) {
        let free = self.targets.iter().all(|&target| self.there[target] == 0 && self.player != target);
        let displacement: usize = if free {
            let columns = self.columns;
            let distance = |a: usize, b: usize| {
                (a / columns).abs_diff(b / columns) + (a % columns).abs_diff(b % columns)
            };
            self.targets.iter().zip(&self.boxes).map(|(&target, &cell)| distance(target, cell)).sum()
        } else {
            0
        };
        let score = (swaps * displacement) as i64;
        if score > self.best_score {
            self.best_score = score;
            if score > 0 {
                self.best = Found { player: self.player, boxes: self.boxes.clone(), displacement };
            }
        }
    }

    /// The grid as a number: the player's cell and the sorted boxes, nine bits each.
    fn key(&self) -> u128 {
        let mut sorted = [u16::MAX; MAX_BOXES];
        for (slot, (&cell, &pulled)) in sorted.iter_mut().zip(self.boxes.iter().zip(&self.pulled)) {
            *slot = (cell as u16) << 1 | u16::from(pulled);
        }
        let sorted = &mut sorted[..self.boxes.len()];
        sorted.sort_unstable();
        sorted.iter().fold(self.player as u128, |key, &slot| key << 9 | u128::from(slot))
    }
}

/// Multiplies and folds: keys are dense, and nobody chooses them to collide.
#[derive(Default, Clone, Copy)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u128(u128::from(byte));
        }
    }

    fn write_u128(&mut self, key: u128) {
        let mixed = (key as u64 ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let product = u128::from(mixed ^ (key >> 64) as u64) * 0xd1b5_4a32_d192_ed03_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
