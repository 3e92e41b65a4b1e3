//! Rooms from seeds: the reference's topology walk, placement, reverse search and wander, draw for draw.
//!
//! Two generators are seeded with the same number: CPython's for the walk and the wander, NumPy's legacy one for the
//! placement. When a seed gives no room, the next one is the hash of its decimal text under `PYTHONHASHSEED`.

use super::reverse;
use super::room::{Ground, Move, Room};
use crate::pyrandom::{NumpyRandomState, PythonRandom, string_hash};

/// What rooms are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoomConfig {
    /// Rows, walls included.
    pub rows: usize,
    /// Columns, walls included.
    pub columns: usize,
    /// Boxes, and as many targets.
    pub boxes: usize,
    /// Depth of the reverse search; it shapes the room.
    pub search_depth: usize,
    /// `PYTHONHASHSEED` of the process that is repeated; it matters for seeds that need a retry.
    pub hash_seed: u32,
}

impl Default for RoomConfig {
    /// The published training setting: 6 × 6 cells, one box, search depth 30.
    fn default() -> Self {
        Self { rows: 6, columns: 6, boxes: 1, search_depth: 30, hash_seed: 0 }
    }
}

/// A room and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The room at the start of an episode.
    pub room: Room,
    /// The seeds that were tried; the last one gave the room.
    pub seeds: Vec<u32>,
    /// For each target, row by row: its cell, and the cell that its box was pulled to.
    pub pulled: Vec<(usize, usize)>,
}

/// Why there is no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A setting is out of range.
    #[error("`{name}` is {found}, expected {low} to {high}")]
    Range {
        /// Which setting.
        name: &'static str,
        /// What it is.
        found: usize,
        /// The least that it may be.
        low: usize,
        /// The most that it may be.
        high: usize,
    },
    /// The setting gives no room: too little space, or boxes that cannot be pulled away.
    #[error(
        "no room from seed {seed} in {tries} tries: take fewer boxes ({boxes}) or more space ({rows} x {columns})"
    )]
    NoRoom {
        /// The first seed.
        seed: u32,
        /// How many seeds were tried.
        tries: usize,
        /// Boxes that were asked for.
        boxes: usize,
        /// Rows that were asked for.
        rows: usize,
        /// Columns that were asked for.
        columns: usize,
    },
}

/// Seeds that are tried before a setting counts as impossible. The reference goes on for ever.
const MAX_SEEDS: usize = 1000;
/// Layouts that one seed may try.
const LAYOUTS: usize = 4;

impl RoomConfig {
    /// Whether the settings are within what the generator does.
    ///
    /// # Errors
    /// [`GenerateError::Range`] names the setting.
    pub fn check(&self) -> Result<(), GenerateError> {
        let Self { rows, columns, boxes, search_depth, .. } = *self;
        for (name, found, low, high) in [
            ("rows", rows, 3, 16),
            ("columns", columns, 3, 16),
            ("boxes", boxes, 1, reverse::MAX_BOXES),
            ("search_depth", search_depth, 1, 1000),
        ] {
            if !(low..=high).contains(&found) {
                return Err(GenerateError::Range { name, found, low, high });
            }
        }
        Ok(())
    }

    /// The room of a seed.
    ///
    /// # Errors
    /// [`GenerateError`] when a setting is out of range or a thousand seeds in a row gave nothing.
    pub fn generate(&self, seed: u32) -> Result<Generated, GenerateError> {
        self.check()?;
        let mut seeds = vec![seed];
        for _ in 0..MAX_SEEDS {
            let current = *seeds.last().unwrap_or(&seed);
            if let Some((room, pulled)) = self.attempt(current) {
                return Ok(Generated { room, seeds, pulled });
            }
            seeds.push(retry_seed(current, self.hash_seed));
        }
        let Self { rows, columns, boxes, .. } = *self;
        Err(GenerateError::NoRoom { seed, tries: MAX_SEEDS, boxes, rows, columns })
    }

    /// One seed: up to four layouts, the first that the reverse search can spread, then the wander.
    fn attempt(&self, seed: u32) -> Option<(Room, Vec<(usize, usize)>)> {
        let mut python = PythonRandom::from_int(i128::from(seed));
        let mut numpy = NumpyRandomState::new(seed);
        for _ in 0..LAYOUTS {
            let mut ground = self.topology(&mut python);
            let (player, targets) = self.place(&mut numpy, &ground)?;
            for &target in &targets {
                ground[target] = Ground::Target;
            }
            let found = reverse::search(&ground, self.columns, player, &targets, self.search_depth);
            if found.displacement == 0 {
                continue;
            }
            let mut boxes = vec![false; ground.len()];
            found.boxes.iter().for_each(|&cell| boxes[cell] = true);
            let player = self.wander(&mut python, &ground, &boxes, found.player, found.displacement);
            let pulled = targets.into_iter().zip(found.boxes).collect();
            let room = Room::assemble(self.rows, self.columns, ground.into(), boxes.into(), player);
            return Some((room, pulled));
        }
        None
    }

    /// A random walk that stamps shapes of three by three cells into the rock.
    fn topology(&self, python: &mut PythonRandom) -> Vec<Ground> {
        // Cells of a stamp around the walker: (row, column) offsets.
        const STAMPS: [&[(isize, isize)]; 5] = [
            &[(0, -1), (0, 0), (0, 1)],
            &[(-1, 0), (0, 0), (1, 0)],
            &[(0, -1), (0, 0), (1, 0)],
            &[(0, -1), (0, 0), (1, -1), (1, 0)],
            &[(0, 0), (0, 1), (1, 0)],
        ];
        const DIRECTIONS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];
        let (rows, columns) = (self.rows as isize, self.columns as isize);
        let mut direction = DIRECTIONS[python.below(4) as usize];
        let mut row = 1 + python.below(self.rows as u64 - 1) as isize;
        let mut column = 1 + python.below(self.columns as u64 - 1) as isize;
        let mut ground = vec![Ground::Wall; self.rows * self.columns];
        let steps = (1.7 * (self.rows + self.columns) as f64) as usize;
        for _ in 0..steps {
            if python.random() < 0.35 {
                direction = DIRECTIONS[python.below(4) as usize];
            }
            row = (row + direction.0).clamp(1, rows - 2);
            column = (column + direction.1).clamp(1, columns - 2);
            for &(down, right) in STAMPS[python.below(5) as usize] {
                let (row, column) = (row + down, column + right);
                if (1..rows - 1).contains(&row) && (1..columns - 1).contains(&column) {
                    ground[(row * columns + column) as usize] = Ground::Floor;
                }
            }
        }
        ground
    }

    /// Cells for the player and the targets (in row-major order); `None` when there is too little floor.
    fn place(&self, numpy: &mut NumpyRandomState, ground: &[Ground]) -> Option<(usize, Vec<usize>)> {
        let mut free: Vec<usize> = (0..ground.len()).filter(|&cell| ground[cell] == Ground::Floor).collect();
        if free.len() <= self.boxes + 1 {
            return None;
        }
        let mut draw = || free.remove(numpy.choice(free.len()));
        let player = draw();
        let mut targets: Vec<usize> = (0..self.boxes).map(|_| draw()).collect();
        targets.sort_unstable();
        Some((player, targets))
    }

    /// Up to three steps of the player over free cells, none twice.
    fn wander(
        &self,
        python: &mut PythonRandom,
        ground: &[Ground],
        boxes: &[bool],
        player: usize,
        displacement: usize,
    ) -> usize {
        const STEPS: usize = 3;
        if python.random() > if displacement == 1 { 0.8 } else { 0.5 } {
            return player;
        }
        let mut visited = vec![player];
        let mut player = player;
        for step in 1..=STEPS {
            let free = |cell: usize| ground[cell] != Ground::Wall && !boxes[cell] && !visited.contains(&cell);
            let options: Vec<usize> = Move::ALL
                .iter()
                .map(|direction| direction.from(player, self.columns))
                .filter(|&cell| free(cell))
                .collect();
            let Some(&next) = python.choice(&options) else { break };
            player = next;
            visited.push(next);
            if step < STEPS && python.random() > 0.5 {
                break;
            }
        }
        player
    }
}

/// The seed after one that gave no room: the hash of its decimal text, as a 32-bit number.
pub fn retry_seed(seed: u32, hash_seed: u32) -> u32 {
    string_hash(&seed.to_string(), hash_seed).unsigned_abs() as u32
}
