//! The world as an environment: what is said, what is refused, how episodes end.

use seed_envs::conformance::{Conformance, check};
use seed_envs::household::plan::Position;
use seed_envs::household::stream::Stream;
use seed_envs::household::{Game, Household, HouseholdOptions, Split};
use seed_envs::{EnvError, Suite, Task};

#[test]
fn an_episode_reads_like_this() {
    let world = Household::default();
    let task = world.task(Split::Train, 4);
    let mut environment = world.environment();
    let mut text = environment.reset(&task, 0).expect("a task of this world").text;
    let mut commands = vec!["look".to_owned(), "take the moon".to_owned(), "inventory".to_owned()];
    commands.extend(world.game(&task).expect("a task of this world").walkthrough());
    for command in commands {
        let step = environment.step(&command).expect("a running episode");
        text += &format!("\n> {command}\n{}", step.observation.text);
    }
    expect_test::expect![[r#"
        You are in a kitchen. You see cabinet 1, counter 1, cupboard 1, fridge 1, shelf 1, sink 1, stove 1, table 1.
        Your task is to: put a cold mug on a counter.
        > look
        You are in a kitchen. You see cabinet 1, counter 1, cupboard 1, fridge 1, shelf 1, sink 1, stove 1, table 1.
        > take the moon
        Nothing happens.
        > inventory
        You hold nothing.
        > go to cabinet 1
        The cabinet 1 is closed.
        > open cabinet 1
        You open the cabinet 1. In it you see comb 2, comb 1, mug 1.
        > take mug 1 from cabinet 1
        You take the mug 1 from the cabinet 1.
        > go to fridge 1
        The fridge 1 is closed.
        > cool mug 1 with fridge 1
        You cool the mug 1 with the fridge 1.
        > go to counter 1
        On the counter 1 you see apple 1, egg 1, lemon 1.
        > move mug 1 to counter 1
        You move the mug 1 to the counter 1."#]].assert_eq(&text);
}

/// The generator's model and the game file are two writings of the same rules: they must agree on what can be done and
/// on whether the goal holds, along random walks.
#[test]
fn model_and_engine_agree_on_random_walks() {
    for value in [0.0, 0.15, 0.6] {
        let difficulty = seed_envs::household::Difficulty::new(value).expect("a number in 0..=1");
        let world =
            Household::new(HouseholdOptions { difficulty, step_limit: Some(60), ..Default::default() });
        for seed in 0..18 {
            let game = Game::generate(Split::ValidUnseen, difficulty, seed);
            let (objects, receptacles) = (game.object_names(), game.layout.names());
            let mut environment = world.environment();
            let mut observation =
                environment.reset(&world.task(Split::ValidUnseen, seed), 0).expect("a task");
            let mut position = Position::start(&game);
            let mut stream = Stream::new("test/walk", &[seed]);
            for _ in 0..60 {
                let possible = position.commands(&game);
                let mut expected: Vec<String> =
                    possible.iter().map(|command| command.text(&objects, &receptacles)).collect();
                expected.extend(["inventory".to_owned(), "look".to_owned()]);
                expected.sort();
                let admissible = observation.admissible.expect("this world lists its commands");
                assert_eq!(*admissible, *expected, "{}", game.id());
                let command = *stream.choose(&possible).expect("there is always somewhere to go");
                let step =
                    environment.step(&command.text(&objects, &receptacles)).expect("a running episode");
                position.apply(command);
                assert_eq!(step.info.won, position.won(&game), "{}", game.id());
                let over = step.is_last();
                observation = step.observation;
                if over {
                    break;
                }
                // From wherever the walk has led, the plan wins.
                let plan = position.shortest_plan(&game).expect("nothing here is ever lost for good");
                let mut there = position.clone();
                for command in plan {
                    assert!(there.commands(&game).contains(&command), "{}: {command:?}", game.id());
                    there.apply(command);
                }
                assert!(there.won(&game), "{}", game.id());
            }
        }
    }
}

#[test]
fn episodes_end_at_the_limit_and_stay_frozen() {
    let world = Household::default();
    let task = world.task(Split::ValidSeen, 0);
    let mut environment = world.environment();
    assert!(matches!(environment.step("look"), Err(EnvError::NotReset)));
    environment.reset(&task, 0).expect("a task of this world");
    for number in 1..=world.step_limit() {
        let step = environment.step("nonsense\u{0}<action>").expect("a running episode");
        assert_eq!(step.truncated, number == world.step_limit());
        assert_eq!((step.done, step.reward, step.info.action_valid), (false, 0.0, Some(false)));
    }
    let plan = world.game(&task).expect("a task of this world").walkthrough();
    let frozen = environment.step(&plan[0]).expect("a frozen episode");
    assert_eq!(frozen.observation.text, "Nothing happens.");
    assert!(frozen.truncated);
}

#[test]
fn the_suite_conforms() {
    for value in [0.0, 0.15, 0.5] {
        let difficulty = seed_envs::household::Difficulty::new(value).expect("a number in 0..=1");
        let world = Household::new(HouseholdOptions { difficulty, train: 240, ..Default::default() });
        let options =
            Conformance { tasks_per_split: 6, max_steps: world.step_limit(), ..Conformance::default() };
        let report = check(&world, &options).unwrap_or_else(|violation| panic!("{value}: {violation}"));
        assert_eq!(report.tasks, 480);
    }
}

#[test]
fn strange_tasks_and_splits_are_named() {
    let world = Household::default();
    let splits = world.splits();
    assert_eq!(splits, ["train", "valid_seen", "valid_unseen"]);
    assert!(
        world
            .tasks("test")
            .expect_err("no such split")
            .to_string()
            .contains("train, valid_seen, valid_unseen")
    );
    let real = world.task(Split::Train, 7);
    for id in
        ["", "train", "train/x/seed_x", "train/heat-mug-table-d15/seed_1", &real.id.replace("d15", "d16")]
    {
        let task = Task { id: id.to_owned(), ..real.clone() };
        assert!(matches!(world.environment().reset(&task, 0), Err(EnvError::UnknownTask { .. })), "{id}");
    }
    assert_eq!(world.tasks("train").expect("a split").len(), world.options().train);
}
