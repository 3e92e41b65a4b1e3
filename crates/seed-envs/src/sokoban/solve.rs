//! Shortest plans, and the proof that a state is lost.
//!
//! A* over single moves. The bound on what is left adds up, for each box, the pushes to its nearest target with nothing
//! else in the way; a box that reaches none makes the state dead at once. The bound falls by at most one a move, so a
//! state's first way is its shortest.

use super::reverse::KeyHasher;
use super::room::{Ground, Move, Room};
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

/// What is known about a room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Solution {
    /// A plan with the fewest moves; empty when the room is solved.
    Plan(Vec<Move>),
    /// No sequence of moves solves the room.
    Dead,
    /// The search was cut short, or the room has more than 13 boxes or 512 cells.
    Unknown,
}

/// States that [`solve`] looks at before it gives up: at most some 200 MB, a few seconds.
pub const MAX_STATES: usize = 2_000_000;
const MAX_BOXES: usize = super::reverse::MAX_BOXES;
const CELL_BITS: usize = 9;

/// A plan with the fewest moves, or the proof that there is none.
pub fn solve(room: &Room) -> Solution {
    solve_within(room, MAX_STATES)
}

/// [`solve`] with a bound on the states that are looked at.
pub fn solve_within(room: &Room, max_states: usize) -> Solution {
    let cells = room.ground().len();
    if room.targets() > MAX_BOXES || cells > 1 << CELL_BITS {
        return if has_lost_box(room) { Solution::Dead } else { Solution::Unknown };
    }
    Search::new(room).run(max_states)
}

/// A box stands where no sequence of pushes takes it to any target, whatever else is in the room. A quick sufficient
/// sign that a room is lost; [`solve`] decides exactly.
pub fn has_lost_box(room: &Room) -> bool {
    let distances = push_distances(room.ground(), room.columns());
    room.boxes().iter().zip(&distances).any(|(&there, &pushes)| there && pushes == FAR)
}

/// No way.
const FAR: u16 = u16::MAX;

/// For each cell the pushes that bring a box from there to its nearest target, alone in the room; [`FAR`] for none.
fn push_distances(ground: &[Ground], columns: usize) -> Vec<u16> {
    let mut distances = vec![FAR; ground.len()];
    let mut queue: Vec<usize> = (0..ground.len()).filter(|&cell| ground[cell] == Ground::Target).collect();
    queue.iter().for_each(|&cell| distances[cell] = 0);
    let mut next = 0;
    while let Some(&cell) = queue.get(next) {
        next += 1;
        for direction in Move::ALL {
            // Pulled backwards: the box comes from the next cell, and the player stood one further. Both are inside,
            // since the outermost cells are walls.
            let from = direction.from(cell, columns);
            if ground[from] == Ground::Wall || distances[from] != FAR {
                continue;
            }
            if ground[direction.from(from, columns)] != Ground::Wall {
                distances[from] = distances[cell] + 1;
                queue.push(from);
            }
        }
    }
    distances
}

/// The player and the sorted boxes, nine bits each.
type Key = u128;

/// A state, how it was reached, and what it costs.
struct Node {
    key: Key,
    parent: u32,
    moves: u32,
    by: Move,
}

struct Search<'a> {
    ground: &'a [Ground],
    columns: usize,
    boxes: usize,
    distances: Vec<u16>,
    nodes: Vec<Node>,
    /// Nodes by moves so far plus bound.
    buckets: Vec<Vec<u32>>,
    closed: HashSet<Key, BuildHasherDefault<KeyHasher>>,
    start: Key,
}

impl<'a> Search<'a> {
    fn new(room: &'a Room) -> Self {
        let boxes: Vec<usize> = (0..room.boxes().len()).filter(|&cell| room.boxes()[cell]).collect();
        Self {
            ground: room.ground(),
            columns: room.columns(),
            boxes: boxes.len(),
            distances: push_distances(room.ground(), room.columns()),
            nodes: Vec::new(),
            buckets: Vec::new(),
            closed: HashSet::default(),
            start: pack(room.player(), &boxes),
        }
    }

    /// Pushes that the boxes still need; `None` when one is lost.
    fn bound(&self, boxes: &[usize]) -> Option<usize> {
        boxes.iter().try_fold(0, |sum, &cell| {
            let pushes = self.distances[cell];
            (pushes != FAR).then(|| sum + usize::from(pushes))
        })
    }

    fn add(&mut self, node: Node, total: usize) {
        if self.buckets.len() <= total {
            self.buckets.resize_with(total + 1, Vec::new);
        }
        self.buckets[total].push(self.nodes.len() as u32);
        self.nodes.push(node);
    }

    fn run(mut self, max_states: usize) -> Solution {
        let (mut boxes, mut after) = ([0; MAX_BOXES], [0; MAX_BOXES]);
        let count = self.boxes;
        unpack(self.start, &mut boxes[..count]);
        let Some(bound) = self.bound(&boxes[..count]) else { return Solution::Dead };
        self.add(Node { key: self.start, parent: 0, moves: 0, by: Move::Up }, bound);
        let mut total = bound;
        while total < self.buckets.len() {
            let Some(index) = self.buckets[total].pop() else {
                total += 1;
                continue;
            };
            let Node { key, moves, .. } = self.nodes[index as usize];
            if !self.closed.insert(key) {
                continue;
            }
            let player = unpack(key, &mut boxes[..count]);
            let boxes = &boxes[..count];
            if boxes.iter().all(|&cell| self.ground[cell] == Ground::Target) {
                return Solution::Plan(self.way_to(index));
            }
            if self.closed.len() >= max_states || self.nodes.len() >= max_states.saturating_mul(4) {
                return Solution::Unknown;
            }
            for direction in Move::ALL {
                let ahead = direction.from(player, self.columns);
                if self.ground[ahead] == Ground::Wall {
                    continue;
                }
                let after = &mut after[..count];
                after.copy_from_slice(boxes);
                if let Some(pushed) = boxes.iter().position(|&cell| cell == ahead) {
                    let behind = direction.from(ahead, self.columns);
                    let blocked = self.ground[behind] == Ground::Wall || boxes.contains(&behind);
                    if blocked || self.distances[behind] == FAR {
                        continue;
                    }
                    after[pushed] = behind;
                    after.sort_unstable();
                }
                let key = pack(ahead, after);
                if self.closed.contains(&key) {
                    continue;
                }
                let Some(bound) = self.bound(after) else { continue };
                let moves = moves + 1;
                self.add(Node { key, parent: index, moves, by: direction }, moves as usize + bound);
            }
        }
        Solution::Dead
    }

    fn way_to(&self, index: u32) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut node = &self.nodes[index as usize];
        while node.moves > 0 {
            moves.push(node.by);
            node = &self.nodes[node.parent as usize];
        }
        moves.reverse();
        moves
    }
}

fn pack(player: usize, sorted: &[usize]) -> Key {
    sorted.iter().fold(player as Key, |key, &cell| key << CELL_BITS | cell as Key)
}

/// Writes the boxes and returns the player's cell.
fn unpack(mut key: Key, boxes: &mut [usize]) -> usize {
    let mask = (1 << CELL_BITS) - 1;
    for cell in boxes.iter_mut().rev() {
        *cell = (key & mask) as usize;
        key >>= CELL_BITS;
    }
    key as usize
}
