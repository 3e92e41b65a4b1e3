//! Frames, with the package's tiles and with our own.

use crate::shared::{data, json, lines, number, room, sha256};
use seed_envs::picture::file::{read_png, write_png};
use seed_envs::sokoban::{Game, Move, Tile, Tiles};
use serde_json::Value;

fn after(record: &Value, steps: usize) -> Game {
    let mut game = Game::new(room(record), usize::MAX);
    for step in record["steps"].as_array().expect("steps").iter().take(steps) {
        game.step(number(&step["a"]).checked_sub(1).map(|index| Move::ALL[index]));
    }
    game
}

#[test]
fn recorded_pictures_are_equal_pixel_for_pixel() {
    let tiles = Tiles::read(&data().join("tiles.png")).expect("tiles");
    let episodes = lines("episodes.jsonl");
    let index = json("png/index.json");
    let pictures = index.as_array().expect("a list");
    assert!(!pictures.is_empty());
    for picture in pictures {
        let name = picture["file"].as_str().expect("a file");
        let recorded = read_png(&data().join(name)).expect("a picture");
        let record = episodes.iter().find(|record| record["id"] == picture["episode"]).expect("an episode");
        let game = after(record, number(&picture["after_steps"]));
        let ours = tiles.frame(game.room());
        assert!(ours == recorded, "{name} differs");
        assert_eq!(sha256(&ours.rgb), picture["sha256"].as_str().expect("a hash"), "{name}");
    }
}

#[test]
fn own_tiles_have_the_same_layout_and_differ_from_each_other() {
    let own = Tiles::own();
    for (number, tile) in Tile::ALL.into_iter().enumerate() {
        assert_eq!((own.picture(tile).width, own.picture(tile).height), (16, 16));
        for other in &Tile::ALL[..number] {
            assert_ne!(own.picture(tile), own.picture(*other), "{tile:?} looks like {other:?}");
        }
    }
    let record = &lines("episodes.jsonl")[0];
    let frame = own.frame(&room(record));
    assert_eq!((frame.width, frame.height), (96, 96));
    // The frame is its tiles, cell by cell.
    let room = room(record);
    for cell in 0..room.ground().len() {
        let part = frame.part(cell % 6 * 16, cell / 6 * 16, 16, 16).expect("inside");
        assert_eq!(part, *own.picture(room.tile(cell)), "cell {cell}");
    }
}

#[test]
fn the_public_tiles_are_not_ours() {
    let recorded = Tiles::read(&data().join("tiles.png")).expect("tiles");
    for tile in Tile::ALL {
        assert_ne!(recorded.picture(tile), Tiles::own().picture(tile), "{tile:?}");
    }
}

#[test]
fn png_files_come_back_and_wrong_ones_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("frame.png");
    let frame = Tiles::own().frame(&room(&lines("episodes.jsonl")[0]));
    write_png(&path, &frame).expect("written");
    assert_eq!(read_png(&path).expect("read"), frame);
    let error = Tiles::read(&path).expect_err("no strip").to_string();
    assert!(error.contains("96 x 96") && error.contains("112 x 16"), "{error}");
    std::fs::write(&path, b"no picture").expect("written");
    let error = Tiles::read(&path).expect_err("no picture").to_string();
    assert!(error.contains("frame.png"), "{error}");
    let error = Tiles::read(folder.path()).expect_err("no tiles").to_string();
    assert!(error.contains("wall.png"), "{error}");
}
