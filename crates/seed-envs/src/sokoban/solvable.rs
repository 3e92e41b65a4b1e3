//! Whether a room can still be solved, without a plan.
//!
//! The search goes from push to push: a state is the boxes and the part of the floor that the player reaches, both sets
//! of bits, so that a whole room is looked at in a few machine words. Left out are boxes on ground from which no target
//! is reached, and boxes that freeze: that hold each other, or that walls hold, for good.

use super::reverse::KeyHasher;
use super::room::{Ground, Move, Room};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::{BitAnd, BitOr, Not};

/// Cells that a search covers at most.
const MAX_CELLS: usize = 512;

/// Whether some sequence of moves solves the room; `None` when more than `max_states` states would have to be looked at, or
/// a room of more than 512 cells holds no box that is lost for certain.
///
/// Says the same as [`super::solve()`], sooner, and for any number of boxes.
pub fn solvable(room: &Room, max_states: usize) -> Option<bool> {
    match room.ground().len() {
        0..=64 => Search::<1>::new(room).run(max_states),
        65..=MAX_CELLS => Search::<{ MAX_CELLS / 64 }>::new(room).run(max_states),
        _ => super::solve::has_lost_box(room).then_some(false),
    }
}

/// A set of cells. Rooms are closed by walls, so that no neighbour of a cell that counts lies outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cells<const W: usize>([u64; W]);

impl<const W: usize> Cells<W> {
    const NONE: Self = Self([0; W]);

    fn set(&mut self, cell: usize) {
        self.0[cell / 64] |= 1 << (cell % 64);
    }

    fn clear(&mut self, cell: usize) {
        self.0[cell / 64] &= !(1 << (cell % 64));
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    fn first(&self) -> Option<usize> {
        (0..W).find(|&word| self.0[word] != 0).map(|word| word * 64 + self.0[word].trailing_zeros() as usize)
    }

    /// The cells one by one, lowest first.
    fn each(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let cell = self.first()?;
            self.clear(cell);
            Some(cell)
        })
    }

    /// Every cell moved by so many places towards higher numbers.
    fn up(self, by: usize) -> Self {
        let (words, bits) = (by / 64, by % 64);
        let word = |at: Option<usize>| at.map_or(0, |at| self.0[at]);
        Self(std::array::from_fn(|at| {
            let from = at.checked_sub(words);
            let carried =
                if bits > 0 { word(from.and_then(|at| at.checked_sub(1))) >> (64 - bits) } else { 0 };
            word(from) << bits | carried
        }))
    }

    /// Every cell moved by so many places towards lower numbers.
    fn down(self, by: usize) -> Self {
        let (words, bits) = (by / 64, by % 64);
        let word = |at: usize| self.0.get(at).copied().unwrap_or(0);
        Self(std::array::from_fn(|at| {
            let carried = if bits > 0 { word(at + words + 1) << (64 - bits) } else { 0 };
            word(at + words) >> bits | carried
        }))
    }

    /// Every cell moved one step.
    fn go(self, direction: Move, columns: usize) -> Self {
        match direction {
            Move::Up => self.down(columns),
            Move::Down => self.up(columns),
            Move::Left => self.down(1),
            Move::Right => self.up(1),
        }
    }
}

impl<const W: usize> BitAnd for Cells<W> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }
}

impl<const W: usize> BitOr for Cells<W> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

impl<const W: usize> Not for Cells<W> {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0.map(|word| !word))
    }
}

/// The boxes and the first cell that the player reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State<const W: usize> {
    boxes: Cells<W>,
    reach: u16,
}

impl<const W: usize> Hash for State<W> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut key = u128::from(self.reach) << 64;
        for word in self.boxes.0 {
            hasher.write_u128(key | u128::from(word));
            key = 0;
        }
    }
}

struct Search<const W: usize> {
    columns: usize,
    floor: Cells<W>,
    targets: Cells<W>,
    /// Floor from which a box, alone in the room, is pushed to some target.
    alive: Cells<W>,
    /// Pushes from each cell to its nearest target, alone in the room; meaningless where a box is lost.
    distances: [u16; MAX_CELLS],
    start: Cells<W>,
    player: usize,
}

impl<const W: usize> Search<W> {
    fn new(room: &Room) -> Self {
        let (mut floor, mut targets, mut start) = (Cells::NONE, Cells::NONE, Cells::NONE);
        for (cell, (&ground, &there)) in room.ground().iter().zip(room.boxes()).enumerate() {
            if ground != Ground::Wall {
                floor.set(cell);
            }
            if ground == Ground::Target {
                targets.set(cell);
            }
            if there {
                start.set(cell);
            }
        }
        let columns = room.columns();
        let mut search = Self {
            columns,
            floor,
            targets,
            alive: targets,
            distances: [0; MAX_CELLS],
            start,
            player: room.player(),
        };
        search.measure();
        search
    }

    /// Pulls boxes away from the targets, one cell a round.
    fn measure(&mut self) {
        let mut fresh = self.targets;
        let mut pushes = 0;
        while !fresh.is_empty() {
            pushes += 1;
            let mut next = Cells::NONE;
            for direction in Move::ALL {
                // The player pulls from a cell of floor and steps back onto another.
                let steps = self.floor.go(direction.back(), self.columns);
                next = next | fresh.go(direction, self.columns) & self.floor & steps;
            }
            fresh = next & !self.alive;
            self.alive = self.alive | fresh;
            fresh.each().for_each(|cell| self.distances[cell] = pushes);
        }
    }

    /// The floor that the player reaches from a cell of it.
    fn reach(&self, from: usize, boxes: Cells<W>) -> Cells<W> {
        let free = self.floor & !boxes;
        let mut reached = Cells::NONE;
        reached.set(from);
        loop {
            let mut wider = reached;
            for direction in Move::ALL {
                wider = wider | reached.go(direction, self.columns);
            }
            wider = wider & free;
            if wider == reached {
                return reached;
            }
            reached = wider;
        }
    }

    /// Some box can never move again without being lost, and stands on no target.
    ///
    /// The largest set of boxes such that, as long as all the others of the set stand still, each is held both across and
    /// up and down: by a wall or a box of the set beside it, or since either way it would be lost. None of them is ever
    /// the first to move.
    fn frozen(&self, boxes: Cells<W>) -> bool {
        let lost = !self.alive;
        let beside =
            |cells: Cells<W>, one: Move| (cells.go(one, self.columns), cells.go(one.back(), self.columns));
        let ((left, right), (above, below)) = (beside(lost, Move::Left), beside(lost, Move::Up));
        let (across, upright) = (left & right, above & below);
        let mut held = boxes;
        loop {
            let solid = !self.floor | held;
            let ((left, right), (above, below)) = (beside(solid, Move::Left), beside(solid, Move::Up));
            let still = held & (left | right | across) & (above | below | upright);
            if still == held {
                return !(held & !self.targets).is_empty();
            }
            held = still;
        }
    }

    /// Best first, by the pushes that are still needed at least.
    fn run(&self, max_states: usize) -> Option<bool> {
        if !(self.start & !self.alive).is_empty() || self.frozen(self.start) {
            return Some(false);
        }
        let needed =
            |boxes: Cells<W>| -> usize { boxes.each().map(|cell| usize::from(self.distances[cell])).sum() };
        let mut seen: HashSet<State<W>, BuildHasherDefault<KeyHasher>> = HashSet::default();
        // States to look at, by the pushes that are needed: the boxes and a cell that the player reaches.
        let mut open: Vec<Vec<(Cells<W>, u16)>> = Vec::new();
        let mut best = needed(self.start);
        open.resize_with(best + 1, Vec::new);
        open[best].push((self.start, self.player as u16));
        while best < open.len() {
            let Some((boxes, player)) = open[best].pop() else {
                best += 1;
                continue;
            };
            if (boxes & !self.targets).is_empty() {
                return Some(true);
            }
            let reach = self.reach(usize::from(player), boxes);
            let first = reach.first().unwrap_or_default() as u16;
            if !seen.insert(State { boxes, reach: first }) {
                continue;
            }
            if seen.len() >= max_states {
                return None;
            }
            let free = self.alive & !boxes;
            for direction in Move::ALL {
                let room_ahead = free.go(direction.back(), self.columns);
                for cell in (boxes & reach.go(direction, self.columns) & room_ahead).each() {
                    let mut after = boxes;
                    after.clear(cell);
                    after.set(direction.from(cell, self.columns));
                    if self.frozen(after) {
                        continue;
                    }
                    let pushes = needed(after);
                    if open.len() <= pushes {
                        open.resize_with(pushes + 1, Vec::new);
                    }
                    open[pushes].push((after, cell as u16));
                    best = best.min(pushes);
                }
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cells, Search};
    use crate::sokoban::level::parse;

    #[test]
    fn words_carry_over() {
        let mut cells = Cells::<8>::NONE;
        cells.set(63);
        cells.set(500);
        assert_eq!(cells.up(1).each().collect::<Vec<_>>(), [64, 501]);
        assert_eq!(cells.up(11).each().collect::<Vec<_>>(), [74, 511]);
        assert_eq!(cells.up(12).each().collect::<Vec<_>>(), [75]);
        assert_eq!(cells.down(64).each().collect::<Vec<_>>(), [436]);
        assert_eq!(cells.down(63).each().collect::<Vec<_>>(), [0, 437]);
    }

    #[test]
    fn boxes_freeze_in_a_square_and_at_a_wall_but_not_on_targets() {
        let frozen = |rows: &str| {
            let level = &parse(rows).expect("a level")[0];
            let search = Search::<1>::new(&level.room);
            search.frozen(search.start)
        };
        assert!(frozen("########\n#@     #\n#  $$  #\n#  $$  #\n#.    .#\n#.    .#\n########"));
        assert!(frozen("########\n#@     #\n#      #\n#.$$.  #\n########"));
        assert!(!frozen("########\n#@     #\n#      #\n#.$ $. #\n########"));
        assert!(!frozen("########\n#@     #\n#  **  #\n#  **  #\n#      #\n########"));
    }
}
