//! A room and what a move does in it.

use std::sync::Arc;

/// What a cell is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ground {
    /// Nothing passes.
    Wall,
    /// Free ground.
    Floor,
    /// Ground that a box belongs on.
    Target,
}

/// What a cell shows: ground and whoever stands on it. The order is that of the reference's tile codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tile {
    /// `#`, code 0.
    Wall,
    /// `_`, code 1.
    Floor,
    /// `O`, code 2.
    Target,
    /// `√`, code 3.
    BoxOnTarget,
    /// `X`, code 4.
    Box,
    /// `P`, code 5.
    Player,
    /// `S`, code 5 as well: the reference tells it from [`Tile::Player`] by the ground.
    PlayerOnTarget,
}

impl Tile {
    /// All tiles in the order of a strip of sprites.
    pub const ALL: [Tile; 7] = [
        Tile::Wall,
        Tile::Floor,
        Tile::Target,
        Tile::BoxOnTarget,
        Tile::Box,
        Tile::Player,
        Tile::PlayerOnTarget,
    ];

    /// What a cell of this ground shows, with a box on it, or the player.
    fn of(ground: Ground, there: bool, player: bool) -> Self {
        match (ground, there, player) {
            (Ground::Wall, ..) => Tile::Wall,
            (Ground::Floor, false, false) => Tile::Floor,
            (Ground::Target, false, false) => Tile::Target,
            (Ground::Target, true, _) => Tile::BoxOnTarget,
            (Ground::Floor, true, _) => Tile::Box,
            (Ground::Floor, false, true) => Tile::Player,
            (Ground::Target, false, true) => Tile::PlayerOnTarget,
        }
    }

    /// The reference's cell of the text mode: blank, symbol, blank, tab.
    fn cell(self) -> &'static str {
        match self {
            Tile::Wall => " # \t",
            Tile::Floor => " _ \t",
            Tile::Target => " O \t",
            Tile::BoxOnTarget => " √ \t",
            Tile::Box => " X \t",
            Tile::Player => " P \t",
            Tile::PlayerOnTarget => " S \t",
        }
    }

    /// The reference's number for it.
    pub fn code(self) -> u8 {
        (self as u8).min(5)
    }
}

/// A step in one of four directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One column to the left.
    Left,
    /// One column to the right.
    Right,
}

impl Move {
    /// The moves in the reference's order; action `k` of the environment is the move at place `k − 1`.
    pub const ALL: [Move; 4] = [Move::Up, Move::Down, Move::Left, Move::Right];

    /// The word for it, as the environment takes it.
    pub fn name(self) -> &'static str {
        match self {
            Move::Up => "up",
            Move::Down => "down",
            Move::Left => "left",
            Move::Right => "right",
        }
    }

    /// The cell next to `cell` in a room of so many columns. The caller stays inside the walls.
    pub(super) fn from(self, cell: usize, columns: usize) -> usize {
        match self {
            Move::Up => cell - columns,
            Move::Down => cell + columns,
            Move::Left => cell - 1,
            Move::Right => cell + 1,
        }
    }

    /// The move that takes this one back.
    pub(super) fn back(self) -> Move {
        match self {
            Move::Up => Move::Down,
            Move::Down => Move::Up,
            Move::Left => Move::Right,
            Move::Right => Move::Left,
        }
    }
}

/// Why something is no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoomError {
    /// The lists of ground and boxes do not fill the rectangle, or it is larger than [`Room::MAX_CELLS`].
    #[error("{rows} rows of {columns} cells with {cells} cells given; a room has 9 to {max} cells, all given", max = Room::MAX_CELLS)]
    Size {
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
        /// Cells that were given.
        cells: usize,
    },
    /// The player or a box stands in a wall, or the player on a box.
    #[error("row {row}, column {column} (from 1) holds {what}, which cannot stand there")]
    Occupied {
        /// Row, from 1.
        row: usize,
        /// Column, from 1.
        column: usize,
        /// What is there.
        what: &'static str,
    },
    /// The player could walk out of the room.
    #[error("the wall is open: row {row}, column {column} (from 1) can be reached and is at the edge")]
    Open {
        /// Row, from 1.
        row: usize,
        /// Column, from 1.
        column: usize,
    },
    /// As many boxes as targets are wanted, and at least one.
    #[error("{boxes} boxes and {targets} targets; as many boxes as targets are wanted, at least one")]
    Count {
        /// Boxes.
        boxes: usize,
        /// Targets.
        targets: usize,
    },
}

/// Ground, boxes and the player. Cells are numbered row by row from the top left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Room {
    rows: usize,
    columns: usize,
    ground: Arc<[Ground]>,
    boxes: Box<[bool]>,
    player: usize,
    targets: usize,
    on_target: usize,
}

impl Room {
    /// Cells that a room has at most.
    pub const MAX_CELLS: usize = 4096;

    /// A room; whatever the player cannot reach even with all boxes away counts as wall.
    ///
    /// # Errors
    /// [`RoomError`]: the lists must fill the rectangle, nothing may stand in a wall, walls must close the room around
    /// the player, and there are as many boxes as targets.
    pub fn new(
        rows: usize,
        columns: usize,
        mut ground: Vec<Ground>,
        boxes: Vec<bool>,
        player: usize,
    ) -> Result<Self, RoomError> {
        let cells = ground.len().min(boxes.len());
        let fits = rows >= 3 && columns >= 3 && rows.saturating_mul(columns) <= Self::MAX_CELLS;
        if !fits || ground.len() != rows * columns || boxes.len() != rows * columns || player >= cells {
            return Err(RoomError::Size { rows, columns, cells });
        }
        let place = |cell: usize| (cell / columns + 1, cell % columns + 1);
        for (cell, (&ground, &there)) in ground.iter().zip(&boxes).enumerate() {
            let what = match (ground, there, player == cell) {
                (Ground::Wall, true, _) => "a box in a wall",
                (Ground::Wall, _, true) => "the player in a wall",
                (_, true, true) => "the player on a box",
                _ => continue,
            };
            let (row, column) = place(cell);
            return Err(RoomError::Occupied { row, column, what });
        }
        let mut reached = vec![false; cells];
        let mut open = vec![player];
        reached[player] = true;
        while let Some(cell) = open.pop() {
            let (row, column) = place(cell);
            if row == 1 || column == 1 || row == rows || column == columns {
                return Err(RoomError::Open { row, column });
            }
            for direction in Move::ALL {
                let next = direction.from(cell, columns);
                if ground[next] != Ground::Wall && !reached[next] {
                    reached[next] = true;
                    open.push(next);
                }
            }
        }
        let mut boxes = boxes;
        for (cell, _) in reached.iter().enumerate().filter(|(_, reached)| !**reached) {
            // A finished pair outside, as some level files draw it for ornament, takes no part in the game.
            if boxes[cell] && ground[cell] != Ground::Target {
                let (row, column) = place(cell);
                return Err(RoomError::Occupied { row, column, what: "a box out of reach" });
            }
            boxes[cell] = false;
            ground[cell] = Ground::Wall;
        }
        let count = boxes.iter().filter(|&&there| there).count();
        let targets = ground.iter().filter(|&&ground| ground == Ground::Target).count();
        if count != targets || count == 0 {
            return Err(RoomError::Count { boxes: count, targets });
        }
        Ok(Self::assemble(rows, columns, ground.into(), boxes.into(), player))
    }

    /// A room that is known to be one.
    pub(super) fn assemble(
        rows: usize,
        columns: usize,
        ground: Arc<[Ground]>,
        boxes: Box<[bool]>,
        player: usize,
    ) -> Self {
        let targets = ground.iter().filter(|&&ground| ground == Ground::Target).count();
        let on_target =
            (0..boxes.len()).filter(|&cell| boxes[cell] && ground[cell] == Ground::Target).count();
        Self { rows, columns, ground, boxes, player, targets, on_target }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Cells in a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// What the cells are made of, row by row.
    pub fn ground(&self) -> &[Ground] {
        &self.ground
    }

    /// Whether a box stands on each cell.
    pub fn boxes(&self) -> &[bool] {
        &self.boxes
    }

    /// The player's cell.
    pub fn player(&self) -> usize {
        self.player
    }

    /// Targets, as many as there are boxes.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// Boxes that stand on targets.
    pub fn on_target(&self) -> usize {
        self.on_target
    }

    /// Every box stands on a target.
    pub fn solved(&self) -> bool {
        self.on_target == self.targets
    }

    /// What a cell shows; a wall beyond the last cell.
    pub fn tile(&self, cell: usize) -> Tile {
        let (Some(&ground), Some(&there)) = (self.ground.get(cell), self.boxes.get(cell)) else {
            return Tile::Wall;
        };
        Tile::of(ground, there, cell == self.player)
    }

    /// Moves the player: a box ahead is pushed when the cell behind it is free, otherwise the player walks when the
    /// cell ahead is free. Says whether anything moved.
    pub fn go(&mut self, direction: Move) -> bool {
        let ahead = direction.from(self.player, self.columns);
        if self.ground[ahead] == Ground::Wall {
            return false;
        }
        if self.boxes[ahead] {
            let behind = direction.from(ahead, self.columns);
            if self.ground[behind] == Ground::Wall || self.boxes[behind] {
                return false;
            }
            self.boxes[ahead] = false;
            self.boxes[behind] = true;
            self.on_target += usize::from(self.ground[behind] == Ground::Target);
            self.on_target -= usize::from(self.ground[ahead] == Ground::Target);
        }
        self.player = ahead;
        true
    }

    /// The text mode of the reference: each cell is blank, symbol, blank, tab; rows are joined by line breaks.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.boxes.len() * 4 + self.rows + 2 * self.targets);
        let rows = self.ground.chunks_exact(self.columns).zip(self.boxes.chunks_exact(self.columns));
        for (row, (ground, boxes)) in rows.enumerate() {
            if row > 0 {
                text.push('\n');
            }
            let first = row * self.columns;
            for (column, (&ground, &there)) in ground.iter().zip(boxes).enumerate() {
                text.push_str(Tile::of(ground, there, first + column == self.player).cell());
            }
        }
        text
    }

    /// The rows as lines of symbols with blanks between, for people.
    pub fn lines(&self) -> Vec<String> {
        let symbol = |cell: usize| self.tile(cell).cell().trim();
        (0..self.rows)
            .map(|row| {
                let cells = row * self.columns..(row + 1) * self.columns;
                cells.map(symbol).collect::<Vec<_>>().join(" ")
            })
            .collect()
    }
}
