//! Formulas: the recorded ones, and any others.
//!
//! The evaluator has a `cargo fuzz` target in `fuzz/`; here a bounded number of cases runs.

use crate::shared::{lines, same};
use proptest::prelude::*;
use seed_envs::ezpoints::formula::{MAX_LENGTH, Value, evaluate};
use seed_envs::ezpoints::{Card, Points, PointsRules, Suit};
use seed_envs::projection::CardGame;
use serde_json::json;

#[test]
fn recorded_values_and_rewards() {
    let records = lines("formula_values.jsonl");
    for record in &records {
        let tokens: Vec<&str> = record["tokens"]
            .as_array()
            .expect("tokens")
            .iter()
            .map(|token| token.as_str().expect("a text"))
            .collect();
        let value = match evaluate(&tokens.concat()) {
            Some(Value::Int(value)) => json!(i64::try_from(value).expect("a small number")),
            Some(Value::Float(value)) => json!(value),
            None => json!(null),
        };
        assert_eq!(value, record["value"], "{tokens:?}");
        // What `=` would give, with the tokens typed into a game with these cards.
        let rank = |number: &serde_json::Value| number.as_u64().expect("a number") as u8;
        let cards = record["cards"].as_array().expect("cards");
        let cards = cards.iter().map(|number| Card { suit: Suit::Hearts, rank: rank(number) }).collect();
        let mut game = Points::new(PointsRules::EZPOINTS, cards);
        let index = |token: &str| CardGame::EzPoints.actions().iter().position(|known| *known == token);
        for token in &tokens {
            game.step(index(token));
        }
        assert_eq!(game.formula(), &tokens[..]);
        assert!(same(game.step(index("=")).reward, &record["reward"]), "{tokens:?}");
    }
    assert!(records.len() > 100, "{} formulas", records.len());
}

/// A formula with brackets around everything, and its value by plain recursion.
#[derive(Debug, Clone)]
enum Tree {
    Number(u8),
    Pair(Box<Tree>, char, Box<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Tree::Number(number) => number.to_string(),
            Tree::Pair(left, sign, right) => format!("({}{sign}{})", left.text(), right.text()),
        }
    }

    fn value(&self) -> i128 {
        match self {
            Tree::Number(number) => i128::from(*number),
            Tree::Pair(left, sign, right) => match sign {
                '+' => left.value() + right.value(),
                '-' => left.value() - right.value(),
                _ => left.value() * right.value(),
            },
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    (1..14u8).prop_map(Tree::Number).prop_recursive(4, 16, 2, |inner| {
        (inner.clone(), prop::sample::select(vec!['+', '-', '*']), inner)
            .prop_map(|(left, sign, right)| Tree::Pair(Box::new(left), sign, Box::new(right)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_has_a_value_or_none(text in "[0-9+*/()-]{0,40}|.{0,20}|[*+-]{0,30}[0-9]{0,45}") {
        if let Some(value) = evaluate(&text) {
            // Brackets and a sign change nothing.
            prop_assert_eq!(evaluate(&format!("({text})")).map(|value| value.is(12)), Some(value.is(12)));
            let signed = format!("+({text})");
            prop_assert!(evaluate(&signed).is_some());
            prop_assert!(text.bytes().any(|byte| byte.is_ascii_digit()));
        }
    }

    #[test]
    fn brackets_say_the_order(tree in tree()) {
        prop_assert_eq!(evaluate(&tree.text()), Some(Value::Int(tree.value())));
    }

    #[test]
    fn long_chains_are_read_up_to_the_limit(count in 0..3000usize, sign in "[+-]") {
        let text = format!("{}1", sign.repeat(count));
        prop_assert_eq!(evaluate(&text).is_some(), text.len() <= MAX_LENGTH);
    }

    #[test]
    fn any_actions_keep_the_game_whole(
        seed: u32, four: bool, actions in prop::collection::vec(prop::option::of(0..20usize), 0..40)
    ) {
        let mut game = if four { Points::points24(seed) } else { Points::ezpoints(seed) };
        let limit = game.rules().max_tokens;
        for action in actions {
            let before = game.clone();
            let turn = game.step(action);
            prop_assert!(game.formula().len() <= limit + 1);
            prop_assert!(turn.reward == 0.0 || turn.reward == 10.0 && turn.terminated);
            prop_assert_eq!(!turn.accepted || turn.terminated, before == game);
            for number in game.used() {
                let count = |numbers: Vec<u8>| numbers.iter().filter(|&n| n == number).count();
                let held = game.cards().iter().map(|card| card.number()).collect();
                prop_assert!(count(game.used().to_vec()) <= count(held));
            }
            if turn.won() {
                prop_assert_eq!(game.used().len(), game.cards().len());
            }
        }
    }

    #[test]
    fn the_expert_wins_every_deal(seed: u32) {
        let mut game = Points::ezpoints(seed);
        let mut steps = 0;
        while let Some(action) = game.expert() {
            steps += 1;
            let turn = game.step(Some(action));
            if turn.terminated {
                prop_assert!(turn.won());
                break;
            }
        }
        prop_assert_eq!(steps, 4);
    }
}
