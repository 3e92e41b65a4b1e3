//! Where the reference data lies and how its records are read.

use seed_envs::sokoban::{Ground, Room, RoomConfig};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder `data/sokoban` of the reference data.
pub(crate) fn data() -> PathBuf {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data/sokoban");
    assert!(data.is_dir(), "no folder {}: set SEED_SHARED to the folder `shared`", data.display());
    data
}

fn read(name: &str) -> String {
    let path = data().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn lines(name: &str) -> Vec<Value> {
    read(name).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_str(&read(name)).expect("JSON")
}

/// The named setting and its step limit.
pub(crate) fn setting(name: &str) -> (RoomConfig, usize) {
    let base = RoomConfig::default();
    match name {
        "b1" => (base, 15),
        "b2" => (RoomConfig { boxes: 2, ..base }, 15),
        "b1deep" => (RoomConfig { search_depth: 300, ..base }, 15),
        "r8b2" => (RoomConfig { rows: 8, columns: 8, boxes: 2, search_depth: 100, ..base }, 40),
        "r7x6b1" => (RoomConfig { rows: 7, ..base }, 15),
        other => panic!("unknown setting {other}"),
    }
}

pub(crate) fn number(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number")) as usize
}

/// The digits of a grid.
pub(crate) fn digits(grid: &Value) -> Vec<u8> {
    let rows = grid.as_array().expect("rows");
    rows.iter().flat_map(|row| row.as_str().expect("a row").bytes().map(|digit| digit - b'0')).collect()
}

/// The reference's codes of a room.
pub(crate) fn codes(room: &Room) -> Vec<u8> {
    (0..room.ground().len()).map(|cell| room.tile(cell).code()).collect()
}

pub(crate) fn fixed(room: &Room) -> Vec<u8> {
    room.ground()
        .iter()
        .map(|ground| match ground {
            Ground::Wall => 0,
            Ground::Floor => 1,
            Ground::Target => 2,
        })
        .collect()
}

pub(crate) fn cell(place: &Value, columns: usize) -> usize {
    number(&place[0]) * columns + number(&place[1])
}

/// The room that a record starts with, built from its grids and not from its seed.
pub(crate) fn room(record: &Value) -> Room {
    let ground: Vec<Ground> = digits(&record["fixed"])
        .iter()
        .map(|code| match code {
            0 => Ground::Wall,
            1 => Ground::Floor,
            _ => Ground::Target,
        })
        .collect();
    let boxes = digits(&record["state"]).iter().map(|code| matches!(code, 3 | 4)).collect();
    let rows = record["fixed"].as_array().expect("rows").len();
    let columns = ground.len() / rows;
    Room::new(rows, columns, ground, boxes, cell(&record["player"], columns)).expect("a room")
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
