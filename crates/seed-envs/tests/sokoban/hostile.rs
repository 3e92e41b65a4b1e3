//! Level files and settings that nobody should write: errors or rooms, never a panic.

use proptest::prelude::*;
use seed_envs::sokoban::level::parse;
use seed_envs::sokoban::solve::solve_within;
use seed_envs::sokoban::{Ground, Move, Room, RoomConfig, Solution, solvable};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_levels_or_an_error(text in "([#@$.*+ _;x-]{0,9}\n){0,12}|.{0,60}") {
        let Ok(levels) = parse(&text) else { return Ok(()) };
        for level in levels {
            let mut room = level.room;
            for direction in Move::ALL {
                room.go(direction);
            }
            let _ = room.text();
            let expected = match solve_within(&room, 500) {
                Solution::Plan(_) => true,
                Solution::Dead => false,
                _ => continue,
            };
            prop_assert_eq!(solvable(&room, 10_000), Some(expected));
        }
    }

    #[test]
    fn any_cells_are_a_room_or_an_error(
        rows in 0..7usize, columns in 0..7usize, player in 0..60usize,
        cells in prop::collection::vec((0..3u8, prop::bool::weighted(0.1)), 0..50)
    ) {
        let ground = cells.iter().map(|(code, _)| [Ground::Wall, Ground::Floor, Ground::Target][usize::from(*code)]);
        let boxes = cells.iter().map(|(_, there)| *there).collect();
        if let Ok(room) = Room::new(rows, columns, ground.collect(), boxes, player) {
            prop_assert_eq!(room.boxes().iter().filter(|&&there| there).count(), room.targets());
        }
    }

    #[test]
    fn any_setting_gives_a_room_or_says_why(
        rows in 0..18usize, columns in 0..18usize, boxes in 0..15usize, search_depth in 0..8usize, seed: u32
    ) {
        let config = RoomConfig { rows, columns, boxes, search_depth, hash_seed: seed };
        if let Err(error) = config.generate(seed) {
            prop_assert!(error.to_string().contains("expected") || error.to_string().contains("fewer boxes"));
        }
    }
}
