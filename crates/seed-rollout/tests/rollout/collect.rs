//! The collector over real environments, with a scripted player in place of a model.

use crate::scripted::Scripted;
use crate::worlds::{self, World};
use seed_envs::{EnvError, Environment, Suite, Task};
use seed_model::Message;
use seed_rollout::collect::{CollectError, CollectOptions, Collection, Collector, Ending};
use seed_rollout::dialogue::PromptOverflow;
use seed_rollout::record::{Header, Reader, Writer};
use seed_rollout::replay::{self, ReplayError, ReplayOptions};
use seed_rollout::row::{Finish, Layout};
use seed_rollout::sampler::{Purpose, Sampling};
use std::sync::{Arc, Mutex};

fn options(layout: Layout) -> CollectOptions {
    CollectOptions {
        layout,
        group_size: 3,
        max_steps: 6,
        max_prompt_tokens: 20_000,
        max_response_tokens: 200,
        max_row_tokens: 60_000,
        environment_threads: 2,
        run_seed: 11,
        update: 4,
        ..CollectOptions::default()
    }
}

/// A player that takes one of the listed commands at random, and sometimes forgets what is asked for.
fn wanderer(world: &World) -> impl Fn(&str, u64) -> String + Send + Sync + use<> {
    let guesses = world.guesses;
    move |context: &str, random: u64| {
        let now = context.rsplit("<|im_start|>user\n").next().unwrap();
        // prose may hold an apostrophe; a command is short and stands on one line
        let is_command = |text: &&str| !text.is_empty() && text.len() < 60 && !text.contains('\n');
        let listed: Vec<&str> = now.split('\'').filter(is_command).collect();
        let commands = if listed.is_empty() { guesses } else { &listed };
        let action = commands[random as usize % commands.len()];
        let thought = "hm ".repeat(random as usize % 5);
        match random % 7 {
            0 => format!("{thought} {action}"),
            _ => format!("<think>{thought}</think><action>{action}</action>"),
        }
    }
}

fn play(world: &World, options: &CollectOptions, seats: usize, sources: usize) -> Collection {
    let script = wanderer(world);
    let mut sources: Vec<_> =
        (0..sources).map(|_| Scripted::new(&world.dialogue.tokenizer, seats, &script)).collect();
    let progress = Mutex::new(0);
    let collection = world
        .collector(options)
        .collect(&mut sources, &world.plan, &|now| {
            let mut last = progress.lock().unwrap();
            assert_eq!((now.episodes, now.total), (*last + 1, world.plan.len() * options.group_size));
            *last += 1;
        })
        .unwrap();
    for source in sources {
        assert!(source.most_open <= seats, "{} sessions on {seats} seats", source.most_open);
        assert!(source.open.is_empty(), "every session is closed");
    }
    collection
}

#[test]
fn rows_hold_exactly_what_was_said() {
    for world in worlds::all() {
        for layout in [Layout::Step, Layout::Transcript] {
            let options = options(layout);
            let collection = play(&world, &options, 4, 1);
            assert_eq!(collection.episodes.len(), world.plan.len() * 3);
            let mut invalid = 0;
            for (index, episode) in collection.episodes.iter().enumerate() {
                assert_eq!((episode.group, episode.episode), (index / 3, index % 3));
                let trajectory = &episode.trajectory;
                assert_eq!(trajectory.task, world.plan[episode.group].task);
                let turns: Vec<_> = episode
                    .rows
                    .iter()
                    .flat_map(|row| row.turns.iter().map(move |turn| (row, turn)))
                    .collect();
                assert_eq!(turns.len(), trajectory.steps.len());
                for (number, ((row, turn), step)) in turns.into_iter().zip(&trajectory.steps).enumerate() {
                    assert_eq!(turn.step, number);
                    assert_eq!(turn.finish, Finish::End);
                    let said = world.dialogue.text(&row.response_ids[turn.tokens()]).unwrap();
                    assert_eq!(said, format!("{}<|im_end|>", step.response));
                    assert_eq!((turn.reward, Some(turn.valid)), (step.reward, step.action_valid));
                    // the ids are those of the source, not of another round through the tokenizer
                    for token in turn.tokens() {
                        assert_eq!(row.logp[token], -0.001 * (row.response_ids[token] + 1) as f32);
                    }
                    invalid += usize::from(!turn.valid);
                }
                for row in &episode.rows {
                    row.check(Some(world.dialogue.tokenizer.vocab_size())).unwrap();
                    assert_eq!(row.trajectory, index);
                    assert_eq!(row.episode_return, trajectory.episode_return());
                    assert_eq!(
                        (row.episode_steps, row.won),
                        (trajectory.steps.len(), trajectory.outcome.won)
                    );
                    if layout == Layout::Step {
                        assert!(row.response_mask.iter().all(|&on| on));
                        assert_eq!(row.reward, trajectory.steps[row.step].reward);
                    }
                }
                let expected = if layout == Layout::Step { trajectory.steps.len() } else { 1 };
                assert_eq!(episode.rows.len(), expected);
            }
            assert!(invalid > 0, "the script makes mistakes, and they must be seen");
            assert_eq!(collection.stats.invalid_responses, invalid);
            assert_eq!(collection.stats.rows, collection.rows().count());
        }
    }
}

/// Rule 10: what stands between the turns is what the chat template says, token by token.
#[test]
fn a_transcript_is_the_full_rendering_of_its_conversation() {
    for world in worlds::all() {
        let collection = play(&world, &options(Layout::Transcript), 4, 1);
        for episode in &collection.episodes {
            let trajectory = &episode.trajectory;
            let mut messages = Vec::new();
            for (number, step) in trajectory.steps.iter().enumerate() {
                messages.push(Message::user(world.user_turn(trajectory, number)));
                messages.push(Message::assistant(step.response.clone()));
            }
            let rendered = world.dialogue.chat.render(&messages, &Default::default()).unwrap();
            let row = &episode.rows[0];
            let ids = [row.prompt_ids.as_slice(), &row.response_ids].concat();
            let rendered = rendered.strip_suffix('\n').unwrap();
            assert_eq!(world.dialogue.text(&ids).unwrap(), rendered);
            assert_eq!(ids, world.dialogue.tokenizer.encode(rendered).unwrap());
        }
    }
}

/// Student prompts can be made again from the trajectory, and teacher prompts differ in the skill alone.
#[test]
fn prompts_come_from_one_place() {
    for world in worlds::all() {
        for layout in [Layout::Step, Layout::Transcript] {
            let collection = play(&world, &options(layout), 4, 1);
            for episode in &collection.episodes {
                for row in &episode.rows {
                    let prompt = |skill| {
                        let overflow = PromptOverflow::DropHistory;
                        let dialogue = &world.dialogue;
                        dialogue
                            .prompt_of(episode.played(), row.step, skill, layout, 20_000, overflow)
                            .unwrap()
                    };
                    assert_eq!(prompt(None).context.ids, row.prompt_ids);
                    let taught = world.dialogue.text(&prompt(Some("look twice")).context.ids).unwrap();
                    let (before, after) = taught.split_once("look twice").unwrap();
                    // the skill stands on a line of its own
                    let plain = match after.strip_prefix('\n') {
                        Some(after) => format!("{before}{after}"),
                        None => format!("{}{after}", before.strip_suffix('\n').unwrap()),
                    };
                    assert_eq!(plain, world.dialogue.text(&row.prompt_ids).unwrap());
                }
            }
        }
    }
}

#[test]
fn episodes_do_not_depend_on_seats_threads_or_sources() {
    for world in worlds::all() {
        for layout in [Layout::Step, Layout::Transcript] {
            let base = options(layout);
            let expected = play(&world, &CollectOptions { environment_threads: 1, ..base.clone() }, 1, 1);
            for (seats, threads, sources) in [(2, 3, 1), (64, 1, 1), (3, 2, 3)] {
                let options = CollectOptions { environment_threads: threads, ..base.clone() };
                let found = play(&world, &options, seats, sources);
                assert_eq!(found.episodes, expected.episodes);
                let counts = |collection: &Collection| {
                    let mut stats = collection.stats.clone();
                    (stats.elapsed, stats.generating) = Default::default();
                    stats
                };
                assert_eq!(counts(&found), counts(&expected));
            }
            let other = play(&world, &CollectOptions { run_seed: 12, ..base.clone() }, 64, 1);
            assert_ne!(other.episodes, expected.episodes);
            let other = play(&world, &CollectOptions { purpose: Purpose::Evaluation, ..base }, 64, 1);
            assert_ne!(other.episodes, expected.episodes);
        }
    }
}

#[test]
fn budgets_end_episodes_and_are_counted() {
    let world = worlds::household();
    let base = options(Layout::Transcript);
    let free = play(&world, &base, 4, 1);
    let longest = free.episodes.iter().map(|episode| episode.rows[0].len()).max().unwrap();
    let prompt = free.rows().map(|row| row.prompt_ids.len()).max().unwrap();

    let tight =
        CollectOptions { max_prompt_tokens: prompt, max_row_tokens: (longest + prompt) / 2, ..base.clone() };
    let cut = play(&world, &tight, 4, 1);
    let ended = cut.episodes.iter().filter(|episode| episode.ending == Ending::TokenBudget).count();
    assert!(ended > 0 && cut.stats.ended_by_tokens == ended);
    for episode in &cut.episodes {
        assert!(episode.rows[0].len() <= tight.max_row_tokens);
        assert_eq!(episode.rows[0].response_mask.last(), Some(&true), "no observation without a response");
        assert_eq!(episode.trajectory.outcome.truncated, episode.ending != Ending::Done);
    }

    let short = CollectOptions { max_response_tokens: 3, ..base.clone() };
    let cut = play(&world, &short, 4, 1);
    let end = world.dialogue.tokenizer.encode("<|im_end|>").unwrap()[0];
    let mut too_long = 0;
    for row in cut.rows() {
        for (index, turn) in row.turns.iter().enumerate() {
            let ended = row.response_ids[turn.end - 1] == end;
            assert_eq!(turn.finish, if ended { Finish::End } else { Finish::Length });
            assert!(turn.tokens().len() == 3 || ended);
            too_long += usize::from(!ended);
            if index + 1 < row.turns.len() {
                // the template's end of turn stands there once, sampled or masked
                assert_eq!(row.response_ids[turn.end] == end, !ended);
            }
        }
    }
    assert!(too_long > 20 && cut.stats.cut_by_length == too_long, "{too_long}");

    let none = CollectOptions { max_prompt_tokens: 5, ..base.clone() };
    let script = wanderer(&world);
    let mut sources = [Scripted::new(&world.dialogue.tokenizer, 2, &script)];
    let error = world.collector(&none).collect(&mut sources, &world.plan, &|_| ()).unwrap_err();
    assert!(matches!(error, CollectError::PromptTooLong { limit: 5, .. }), "{error}");
}

#[test]
fn history_is_dropped_before_a_step_prompt_is_given_up() {
    let world = worlds::household();
    let base = options(Layout::Step);
    let free = play(&world, &base, 4, 1);
    let longest = free.rows().map(|row| row.prompt_ids.len()).max().unwrap();
    let tight = CollectOptions { max_prompt_tokens: longest - 1, ..base.clone() };
    let dropped = play(&world, &tight, 4, 1);
    assert!(dropped.stats.history_dropped > 0);
    assert!(dropped.rows().all(|row| row.prompt_ids.len() < longest && row.prompt_cut == 0));

    let left = CollectOptions { prompt_overflow: PromptOverflow::Left, ..tight };
    let cut = play(&world, &left, 4, 1);
    assert!(cut.stats.prompts_cut > 0 && cut.stats.history_dropped == 0);
    assert!(cut.rows().filter(|row| row.prompt_cut > 0).all(|row| row.prompt_ids.len() == longest - 1));
}

#[test]
fn recorded_episodes_can_be_played_again() {
    let folder = tempfile::tempdir().unwrap();
    for world in worlds::all() {
        let options = options(Layout::Transcript);
        let collection = play(&world, &options, 4, 1);
        let path = folder.path().join(format!("{}.jsonl.zst", world.suite.name()));
        let vocabulary = world.dialogue.tokenizer.vocab_size();
        let header = Header::new(world.suite.name(), options.layout, options.sampling, vocabulary, 11, 4);
        let mut writer = Writer::create(&path, &header).unwrap();
        collection.episodes.iter().for_each(|episode| writer.write(episode).unwrap());
        writer.finish().unwrap();
        let episodes: Vec<_> = Reader::open(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(episodes, collection.episodes);
        for episode in &episodes {
            assert_eq!(replay::verify(episode, &*world.suite).unwrap(), episode.trajectory.steps.len());
        }

        let mut changed = episodes[0].clone();
        changed.trajectory.steps[1].observation.push('!');
        let error = replay::verify(&changed, &*world.suite).unwrap_err();
        assert!(matches!(error, ReplayError::Differs { step: 1, what: "observation", .. }), "{error}");

        let table = replay::token_table(&episodes[0], &world.dialogue, ReplayOptions::default()).unwrap();
        let tokens = table.lines().filter(|line| line.split('\t').nth(4) == Some("1")).count();
        assert_eq!(tokens, episodes[0].rows[0].sampled(), "{table}");
        assert!(table.contains(&format!("did: {}", episodes[0].trajectory.steps[0].action)));
    }
}

#[test]
fn wrong_options_and_failing_environments_are_told() {
    let world = worlds::household();
    let script = wanderer(&world);
    let collect = |options: &CollectOptions, plan: &[_]| {
        let mut sources: Vec<_> =
            (0..2).map(|_| Scripted::new(&world.dialogue.tokenizer, 2, &script)).collect();
        world.collector(options).collect(&mut sources, plan, &|_| ()).unwrap_err()
    };
    let base = options(Layout::Step);
    let filtered = Sampling { top_p: 0.9, ..Sampling::default() };
    let refused = collect(&CollectOptions { sampling: filtered, ..base.clone() }, &world.plan);
    assert!(matches!(refused, CollectError::Sampling(_)), "{refused}");
    let refused = collect(&CollectOptions { group_size: 0, ..base.clone() }, &world.plan);
    assert!(matches!(refused, CollectError::Zero { key: "group_size" }), "{refused}");
    let refused = collect(&CollectOptions { max_prompt_tokens: 1 << 20, ..base.clone() }, &world.plan);
    assert!(matches!(refused, CollectError::Budget { .. }), "{refused}");

    let mut plan = world.plan.clone();
    plan[1].task.id = "no/such/game".into();
    let error = collect(&base, &plan);
    assert!(matches!(&error, CollectError::Environment { task, .. } if task == "no/such/game"), "{error}");

    let evaluation = CollectOptions { training: false, sampling: filtered, ..base };
    let mut sources = [Scripted::new(&world.dialogue.tokenizer, 2, &script)];
    assert!(
        Collector { options: &evaluation, ..world.collector(&evaluation) }
            .collect(&mut sources, &world.plan[..1], &|_| ())
            .is_ok()
    );
}

/// A fault in an environment must surface, not leave the others waiting for it.
#[test]
fn a_panic_in_an_environment_ends_the_collection() {
    struct Faulty(Box<dyn Suite>);
    impl Suite for Faulty {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn splits(&self) -> Vec<String> {
            self.0.splits()
        }
        fn tasks(&self, split: &str) -> Result<Arc<[Task]>, EnvError> {
            self.0.tasks(split)
        }
        fn environment(&self) -> Box<dyn Environment> {
            panic!("a fault in an environment")
        }
        fn task_description(&self, task: &Task) -> Option<String> {
            self.0.task_description(task)
        }
    }
    let world = worlds::household();
    let suite = Faulty(worlds::household().suite);
    let script = wanderer(&world);
    let options = options(Layout::Step);
    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut sources: Vec<_> =
            (0..2).map(|_| Scripted::new(&world.dialogue.tokenizer, 2, &script)).collect();
        let collector = Collector { suite: &suite, ..world.collector(&options) };
        collector.collect(&mut sources, &world.plan, &|_| ()).map(|_| ())
    }));
    assert!(played.is_err(), "{played:?}");
}
