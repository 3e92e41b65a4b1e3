//! Games from seeds: solvable, disjoint, the same every time.

use seed_envs::Suite;
use seed_envs::alfworld::Game as Compiled;
use seed_envs::household::file::GameFile;
use seed_envs::household::knowledge::{OBJECTS, RECEPTACLES, receptacle};
use seed_envs::household::plan::{Command, Position};
use seed_envs::household::{Difficulty, Game, Household, Split, TaskKind};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

fn dial(value: f64) -> Difficulty {
    Difficulty::new(value).expect("a number in 0..=1")
}

/// Games that a default test run looks at, and all that the issue asks for.
const FEW: u64 = 1_200;
const ALL: u64 = 10_000;

/// Makes `count` games twice, plays each one's plan on the engine, and compares the splits.
fn check_games(count: u64) {
    let mut contents: HashMap<Split, HashSet<String>> = HashMap::new();
    let mut layouts: HashMap<Split, HashSet<String>> = HashMap::new();
    let mut pairs: HashMap<Split, HashSet<String>> = HashMap::new();
    let worlds = [0.0, 0.15, 0.5, 1.0].map(|value| {
        let options =
            seed_envs::household::HouseholdOptions { difficulty: dial(value), ..Default::default() };
        Household::new(options)
    });
    for number in 0..count {
        let split = Split::ALL[(number % 3) as usize];
        // Most games at the difficulty of the quick start, the others spread over the dial.
        let world = &worlds[[1, 1, 0, 1, 2, 1, 1, 3][(number / 3 % 8) as usize]];
        let seed = number / 3;
        let game = Game::generate(split, world.options().difficulty, seed);
        let again = Game::generate(split, world.options().difficulty, seed);
        assert_eq!(
            GameFile::new(&game).json(),
            GameFile::new(&again).json(),
            "{} differs on a second run",
            game.id()
        );

        let mut environment = world.environment();
        let task = world.task(split, seed);
        environment.reset(&task, 0).unwrap_or_else(|error| panic!("{}: {error}", game.id()));
        let plan = game.walkthrough();
        assert!(
            !plan.is_empty() && plan.len() <= world.step_limit(),
            "{}: a plan of {} steps",
            game.id(),
            plan.len()
        );
        for (index, command) in plan.iter().enumerate() {
            let step = environment.step(command).expect("a running episode");
            assert_eq!(step.info.action_valid, Some(true), "{}: `{command}` is refused", game.id());
            assert_eq!(step.done, index + 1 == plan.len(), "{}: after `{command}`", game.id());
        }
        contents.entry(split).or_default().insert(game.content());
        layouts.entry(split).or_default().insert(game.layout.name());
        pairs.entry(split).or_default().insert(game.goal.pair());
    }
    let [train, seen, unseen] = Split::ALL;
    for (one, other) in [(train, seen), (train, unseen), (seen, unseen)] {
        assert!(
            contents[&one].is_disjoint(&contents[&other]),
            "{} and {} share games",
            one.name(),
            other.name()
        );
    }
    assert!(layouts[&train].is_disjoint(&layouts[&unseen]), "an unseen layout is in train");
    assert!(pairs[&train].is_disjoint(&pairs[&unseen]), "an unseen pair of object and target is in train");
}

#[test]
fn games_are_solvable_and_disjoint_and_the_same_on_a_second_run() {
    check_games(FEW);
}

/// `cargo test --release -p seed-envs --test household -- --ignored ten_thousand`
#[test]
#[ignore = "the same check on ten thousand games; a few seconds in release"]
fn ten_thousand_games_are_solvable_and_disjoint_and_the_same_on_a_second_run() {
    check_games(ALL);
}

#[test]
fn seen_layouts_are_those_of_training() {
    let layouts = |split, count: u64| -> HashSet<String> {
        (0..count).map(|seed| Game::generate(split, dial(0.15), seed).layout.name()).collect()
    };
    let train = layouts(Split::Train, 3000);
    let seen = layouts(Split::ValidSeen, 120);
    let strangers: Vec<_> = seen.difference(&train).collect();
    assert!(strangers.is_empty(), "layouts of valid_seen that training never shows: {strangers:?}");
}

#[test]
fn six_consecutive_seeds_hold_one_of_each_family() {
    for split in Split::ALL {
        let kinds: BTreeSet<_> =
            (12..18).map(|seed| Game::generate(split, dial(0.3), seed).goal.kind).collect();
        assert_eq!(kinds.len(), TaskKind::ALL.len());
    }
}

#[test]
fn the_dial_makes_houses_larger_and_plans_no_shorter_than_needed() {
    let size = |value| {
        let games = (0..60).map(|seed| Game::generate(Split::Train, dial(value), seed));
        games.map(|game| game.layout.receptacles.len() + game.objects.len()).sum::<usize>()
    };
    let sizes = [0.0, 0.15, 0.3, 0.6, 1.0].map(size);
    assert!(sizes.is_sorted_by(|small, large| small < large), "{sizes:?}");
    assert_eq!(Difficulty::new(1.5), None);
    assert_eq!(Difficulty::new(f64::NAN), None);
}

/// Breadth-first search over the model: slow, and right by construction.
fn shortest_by_search(game: &Game) -> usize {
    let start = Position::start(game);
    let mut known = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((position, depth)) = queue.pop_front() {
        if position.won(game) {
            return depth;
        }
        for command in position.commands(game) {
            // Closing and touching other objects never helps; leaving them out keeps the search small.
            let useless = match command {
                Command::Close(_) => true,
                Command::Take(object, _) => game.objects[object].kind.name != game.goal.object.name,
                _ => false,
            };
            let mut next = position.clone();
            next.apply(command);
            if !useless && known.insert(next.clone()) {
                queue.push_back((next, depth + 1));
            }
        }
    }
    panic!("{} cannot be won", game.id())
}

#[test]
fn plans_are_as_short_as_an_exhaustive_search_finds() {
    for seed in 0..36 {
        // Two objects in a house of five receptacles are about as much as an exhaustive search can take.
        let game = Game::generate(Split::Train, dial(0.0), seed);
        assert_eq!(game.plan.len(), shortest_by_search(&game), "{}: {:?}", game.id(), game.walkthrough());
    }
}

/// The engine's own search knows nothing of this world; it reads the game file alone.
#[test]
fn plans_are_as_short_as_the_engine_proves() {
    let mut proven = 0;
    for (value, seeds) in [(0.0, 0..24), (0.15, 0..24), (0.5, 0..12), (1.0, 0..6)] {
        for seed in seeds {
            let game = Game::generate(Split::ValidUnseen, dial(value), seed);
            let file = GameFile::new(&game);
            let compiled = Compiled::from_texts(&file.pddl_domain, &file.grammar, &file.pddl_problem);
            let state = compiled.unwrap_or_else(|error| panic!("{}: {error}", game.id())).start();
            let plan = state.plan().unwrap_or_else(|error| panic!("{}: {error}", game.id()));
            if plan.shortest {
                assert_eq!(game.plan.len(), plan.commands.len(), "{}: {:?}", game.id(), game.walkthrough());
                proven += 1;
            } else {
                assert!(game.plan.len() <= plan.commands.len(), "{}: {:?}", game.id(), plan.commands);
            }
        }
    }
    assert!(proven >= 48, "the engine proved only {proven} plans");
}

#[test]
fn objects_are_at_home_where_they_may_be() {
    for object in OBJECTS {
        assert!(!object.homes.is_empty(), "{} has no home", object.name);
        for home in object.homes {
            let kind = receptacle(home).unwrap_or_else(|| panic!("{}: no receptacle `{home}`", object.name));
            assert!(kind.accepts.contains(&object.group), "a {home} does not accept a {}", object.name);
            // A lamp must be usable where it stands, and visible.
            assert!(object.portable() || !kind.openable);
        }
    }
    assert!(OBJECTS.is_sorted_by_key(|kind| kind.name) && RECEPTACLES.is_sorted_by_key(|kind| kind.name));
}

#[test]
fn tasks_read_well() {
    let text = |seed| Game::generate(Split::Train, dial(0.15), seed).goal.text();
    let texts: Vec<String> = (0..6).map(text).collect();
    expect_test::expect![[r#"
        [
            "find a cup and put it on a shelf",
            "find a sponge and look at it under a lantern",
            "put a clean cup on a shelf",
            "heat a pan and put it on a rack",
            "put a cold mug on a counter",
            "put a letter and another letter in a bin",
        ]
    "#]]
    .assert_debug_eq(&texts);
}
