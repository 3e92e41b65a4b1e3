//! What holds for any room and any moves.

use proptest::prelude::*;
use seed_envs::sokoban::solve::has_lost_box;
use seed_envs::sokoban::{Game, Ground, Move, Room, RoomConfig, Solution, solvable, solve};
use std::collections::{HashMap, VecDeque};

fn moves() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(prop::option::weighted(0.95, 0..4usize), 0..60)
}

/// The fewest moves by plain breadth-first search over rooms, and nothing else.
fn fewest(room: &Room) -> Option<usize> {
    let mut seen = HashMap::from([(room.clone(), 0)]);
    let mut open = VecDeque::from([room.clone()]);
    while let Some(room) = open.pop_front() {
        let moves = seen[&room];
        if room.solved() {
            return Some(moves);
        }
        for direction in Move::ALL {
            let mut next = room.clone();
            if next.go(direction) && !seen.contains_key(&next) {
                seen.insert(next.clone(), moves + 1);
                open.push_back(next);
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rooms_are_closed_solvable_and_the_same_again(
        seed: u32, rows in 5..9usize, columns in 5..9usize, boxes in 1..3usize, search_depth in 5..60usize
    ) {
        let config = RoomConfig { rows, columns, boxes, search_depth, hash_seed: 0 };
        let made = config.generate(seed);
        prop_assert_eq!(&made, &config.generate(seed));
        if let Ok(made) = made {
            let room = made.room;
            prop_assert_eq!(room.targets(), boxes);
            prop_assert_eq!(room.on_target(), 0);
            let again = Room::new(rows, columns, room.ground().to_vec(), room.boxes().to_vec(), room.player());
            prop_assert!(again.is_ok());
            prop_assert!(matches!(solve(&room), Solution::Plan(_)));
        }
    }

    #[test]
    fn the_solver_finds_what_breadth_first_search_finds(seed: u32, actions in moves()) {
        let config = RoomConfig { boxes: 2, ..RoomConfig::default() };
        let Ok(made) = config.generate(seed) else { return Ok(()) };
        let mut game = Game::new(made.room, 100);
        // Somewhere in the middle of play, dead ends included.
        for action in actions.iter().take(25) {
            game.step(action.map(|index| Move::ALL[index]));
        }
        match (solve(game.room()), fewest(game.room())) {
            (Solution::Plan(plan), Some(moves)) => {
                prop_assert_eq!(plan.len(), moves);
                prop_assert_eq!(solvable(game.room(), 100_000), Some(true));
                let mut room = game.room().clone();
                for direction in plan {
                    prop_assert!(room.go(direction));
                }
                prop_assert!(room.solved());
            }
            (Solution::Dead, None) => prop_assert_eq!(solvable(game.room(), 100_000), Some(false)),
            (solution, moves) => prop_assert!(false, "{solution:?} against {moves:?}"),
        }
        if has_lost_box(game.room()) {
            prop_assert_eq!(solve(game.room()), Solution::Dead);
        }
    }

    #[test]
    fn play_keeps_the_room_whole(seed: u32, actions in moves()) {
        let room = RoomConfig { boxes: 2, ..RoomConfig::default() }.generate(seed).expect("a room").room;
        let ground = room.ground().to_vec();
        let mut game = Game::new(room, 15);
        for action in actions {
            let before = game.clone();
            let turn = game.step(action.map(|index| Move::ALL[index]));
            let room = game.room();
            prop_assert_eq!(room.ground(), &ground[..]);
            prop_assert_eq!(room.boxes().iter().filter(|&&there| there).count(), 2);
            let stands = |cell: usize| ground[cell] != Ground::Wall;
            prop_assert!(stands(room.player()) && !room.boxes()[room.player()]);
            prop_assert!((0..ground.len()).all(|cell| !room.boxes()[cell] || stands(cell)));
            let on_target = (0..ground.len())
                .filter(|&cell| room.boxes()[cell] && ground[cell] == Ground::Target)
                .count();
            prop_assert_eq!(room.on_target(), on_target);
            prop_assert_eq!(turn.effective, before.room() != room);
            if action.is_none() {
                prop_assert_eq!(before.steps(), game.steps());
                prop_assert!(!turn.won && !turn.done);
            }
            let rounded = (turn.reward * 10.0).round();
            prop_assert!([-11.0, -1.0, 9.0, 99.0, 109.0].contains(&rounded), "{}", turn.reward);
            prop_assert_eq!(room.text().matches('\t').count(), ground.len());
        }
    }
}

/// The quick answer and the exact one over thousands of rooms in the middle of play.
#[test]
fn dead_ends_are_those_that_the_solver_proves() {
    let mut dead = 0;
    let mut compared = 0;
    for (rows, columns, boxes, rooms) in
        [(6, 6, 1, 2000), (6, 6, 2, 1500), (7, 7, 3, 300), (8, 8, 2, 400), (9, 9, 2, 150), (5, 16, 2, 150)]
    {
        let config = RoomConfig { rows, columns, boxes, ..RoomConfig::default() };
        for seed in 0..rooms {
            let Ok(made) = config.generate(seed) else { continue };
            let mut room = made.room;
            // Every room walks its own way.
            let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
            for _ in 0..seed % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                room.go(Move::ALL[(state >> 33) as usize % 4]);
            }
            let expected = match solve(&room) {
                Solution::Plan(_) => true,
                Solution::Dead => false,
                _ => continue,
            };
            assert_eq!(solvable(&room, 1_000_000), Some(expected), "{}", room.lines().join("\n"));
            compared += 1;
            dead += u32::from(!expected);
        }
    }
    assert!(compared > 4000, "{compared}");
    assert!(dead > 500 && dead < compared - 500, "{dead} of {compared}");
}
