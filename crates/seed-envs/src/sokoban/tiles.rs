//! The pictures of cells.

use super::room::{Room, Tile};
use crate::environment::{EnvError, Image};
use crate::picture::canvas::{Canvas, Colour};
use crate::picture::file::read_png;
use std::path::Path;

/// Pixels of a cell's side.
pub const SIDE: usize = 16;

/// One picture of 16 × 16 pixels for each [`Tile`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiles {
    /// In the order of [`Tile::ALL`].
    pictures: [Image; 7],
}

impl Default for Tiles {
    fn default() -> Self {
        Self::own()
    }
}

const MORTAR: Colour = [74, 62, 58];
const BRICK: Colour = [158, 84, 62];
const FLOOR: Colour = [44, 48, 58];
const SPECK: Colour = [54, 59, 70];
const MARK: Colour = [222, 62, 62];
const PLANK: Colour = [206, 152, 84];
const EDGE: Colour = [122, 80, 36];
const DONE: Colour = [128, 176, 92];
const DONE_EDGE: Colour = [62, 104, 44];
const SHIRT: Colour = [84, 156, 226];
const SKIN: Colour = [240, 206, 164];
const DARK: Colour = [22, 24, 30];

impl Tiles {
    /// The project's own drawings: brick walls, dark floor, red marks, crates (green on a target), a small figure.
    pub fn own() -> Self {
        Self { pictures: Tile::ALL.map(draw) }
    }

    /// Tiles of a package: a strip of seven tiles side by side (wall, floor, target, box on target, box, player, player
    /// on target), or the folder `gym_sokoban/envs/surface` of the package `gym-sokoban`.
    ///
    /// # Errors
    /// [`EnvError::Read`] and [`EnvError::Data`] name the file that is not there or has another size.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let wrong = |path: &Path, image: &Image, expected: &str| EnvError::Data {
            path: path.to_owned(),
            place: String::new(),
            found: format!("{} x {} pixels", image.width, image.height),
            expected: expected.to_owned(),
        };
        let mut pictures = Vec::with_capacity(Tile::ALL.len());
        if path.is_dir() {
            for tile in Tile::ALL {
                let file = path.join(file_name(tile));
                let image = read_png(&file)?;
                if (image.width, image.height) != (SIDE, SIDE) {
                    return Err(wrong(&file, &image, "16 x 16 pixels"));
                }
                pictures.push(image);
            }
        } else {
            let strip = read_png(path)?;
            for number in 0..Tile::ALL.len() {
                let whole = strip.width == SIDE * Tile::ALL.len() && strip.height == SIDE;
                let picture = strip.part(number * SIDE, 0, SIDE, SIDE).filter(|_| whole);
                pictures.push(picture.ok_or_else(|| wrong(path, &strip, "a strip of 112 x 16 pixels"))?);
            }
        }
        let pictures: [Image; 7] =
            pictures.try_into().unwrap_or_else(|_| unreachable!("one picture was pushed for each tile"));
        Ok(Self { pictures })
    }

    /// The frame of a room: 16 pixels a cell.
    pub fn frame(&self, room: &Room) -> Image {
        let (rows, columns) = (room.rows(), room.columns());
        let mut rgb = Vec::with_capacity(rows * columns * SIDE * SIDE * 3);
        for row in 0..rows {
            let tiles: Vec<&Image> = (row * columns..(row + 1) * columns)
                .map(|cell| &self.pictures[room.tile(cell) as usize])
                .collect();
            for line in 0..SIDE {
                let bytes = line * SIDE * 3..(line + 1) * SIDE * 3;
                tiles.iter().for_each(|tile| rgb.extend_from_slice(&tile.rgb[bytes.clone()]));
            }
        }
        Image { width: columns * SIDE, height: rows * SIDE, rgb }
    }

    /// The picture of a tile.
    pub fn picture(&self, tile: Tile) -> &Image {
        &self.pictures[tile as usize]
    }
}

/// The package's name for a tile's file.
fn file_name(tile: Tile) -> &'static str {
    match tile {
        Tile::Wall => "wall.png",
        Tile::Floor => "floor.png",
        Tile::Target => "box_target.png",
        Tile::BoxOnTarget => "box_on_target.png",
        Tile::Box => "box.png",
        Tile::Player => "player.png",
        Tile::PlayerOnTarget => "player_on_target.png",
    }
}

fn draw(tile: Tile) -> Image {
    let mut canvas = Canvas::new(SIDE, SIDE, FLOOR);
    match tile {
        Tile::Wall => bricks(&mut canvas),
        Tile::Floor => specks(&mut canvas),
        Tile::Target => {
            specks(&mut canvas);
            mark(&mut canvas);
        }
        Tile::Box => crate_of(&mut canvas, PLANK, EDGE),
        Tile::BoxOnTarget => crate_of(&mut canvas, DONE, DONE_EDGE),
        Tile::Player => {
            specks(&mut canvas);
            figure(&mut canvas);
        }
        Tile::PlayerOnTarget => {
            canvas.fill(0, 0, SIDE, SIDE, MARK);
            canvas.fill(2, 2, SIDE - 4, SIDE - 4, FLOOR);
            figure(&mut canvas);
        }
    }
    canvas.into_image()
}

/// Four courses of bricks, every other one shifted by half.
fn bricks(canvas: &mut Canvas) {
    canvas.fill(0, 0, SIDE, SIDE, MORTAR);
    for course in 0..4 {
        let shift = if course % 2 == 0 { 0 } else { -4 };
        for brick in 0..3 {
            canvas.fill(shift + brick * 8, course * 4, 7, 3, BRICK);
        }
    }
}

fn specks(canvas: &mut Canvas) {
    for (x, y) in [(3, 4), (11, 2), (7, 10), (13, 12), (2, 13)] {
        canvas.set(x, y, SPECK);
    }
}

/// A ring with a dot.
fn mark(canvas: &mut Canvas) {
    canvas.shape((0, 0), (SIDE, SIDE), MARK, |x, y| {
        let radius = (x - 8.0).hypot(y - 8.0);
        radius < 2.2 || (4.4..6.2).contains(&radius)
    });
}

/// A crate with a frame and a cross.
fn crate_of(canvas: &mut Canvas, plank: Colour, edge: Colour) {
    canvas.fill(1, 1, SIDE - 2, SIDE - 2, edge);
    canvas.fill(3, 3, SIDE - 6, SIDE - 6, plank);
    canvas
        .shape((3, 3), (SIDE - 6, SIDE - 6), edge, |x, y| (x - y).abs() < 1.1 || (x + y - 10.0).abs() < 1.1);
}

/// Head, body, arms, legs.
fn figure(canvas: &mut Canvas) {
    canvas.fill(5, 7, 6, 5, SHIRT);
    canvas.fill(3, 7, 2, 3, SHIRT);
    canvas.fill(11, 7, 2, 3, SHIRT);
    canvas.fill(5, 12, 2, 3, DARK);
    canvas.fill(9, 12, 2, 3, DARK);
    canvas.shape((4, 1), (8, 7), SKIN, |x, y| (x - 4.0).hypot(y - 3.2) < 3.0);
    canvas.set(7, 4, DARK);
    canvas.set(9, 4, DARK);
}
