use crate::episode;
use proptest::prelude::*;
use seed_analyzer::Skill;
use seed_analyzer::quality::{self, Lexicon, Lift, LiftRow, SkillQuality};
use seed_envs::Trajectory;

fn skill(text: &str) -> Skill {
    Skill { episode_skill: text.into(), ..Skill::default() }
}

fn kitchen() -> Trajectory {
    episode(
        "household",
        "put a mug on a table",
        &[("You see fridge 1, table 2.", "", "go to fridge 1")],
        "It is closed.",
        false,
    )
}

fn bedroom() -> Trajectory {
    episode(
        "household",
        "put a book on a bed",
        &[("You see bed 1, desk 1.", "", "take book 1 from desk 1")],
        "Done.",
        true,
    )
}

#[test]
fn figures_of_a_small_batch() {
    let (kitchen, bedroom) = (kitchen(), bedroom());
    let lexicon = Lexicon::of([&kitchen, &bedroom]);
    let names: Vec<String> = lexicon
        .names_in("Take the mugs? No: take books from the desks, go to the fridge")
        .into_iter()
        .collect();
    // "mug" is in no command and in no numbered list of these episodes.
    assert_eq!(names, ["book", "desk", "fridge", "go", "take"]);

    let grounded = skill("go to the fridge");
    let half = skill("take it from the bed, go to the fridge");
    let batch =
        [(&kitchen, Some(&grounded)), (&kitchen, Some(&half)), (&kitchen, Some(&half)), (&bedroom, None)];
    let quality = SkillQuality::measure(&batch, &lexicon);
    assert_eq!(quality.episodes, 4);
    assert_eq!(quality.parse_rate, 0.75);
    assert_eq!(quality.words_max, 9);
    assert!((quality.words_mean - (4.0 + 9.0 + 9.0) / 3.0).abs() < 1e-12);
    assert!((quality.distinct_share - 2.0 / 3.0).abs() < 1e-12);
    // {go, fridge} are both there; of {take, bed, go, fridge} two are.
    assert!((quality.grounding - (1.0 + 0.5 + 0.5) / 3.0).abs() < 1e-12);
    assert_eq!((quality.nameless_share, quality.repetition), (0.0, 0.0));

    let nothing = SkillQuality::measure(&[(&kitchen, Some(&skill("be careful")))], &lexicon);
    assert_eq!((nothing.nameless_share, nothing.grounding), (1.0, 0.0));
    assert_eq!(SkillQuality::measure(&[], &lexicon), SkillQuality::default());
    let none = SkillQuality::measure(&[(&kitchen, None)], &lexicon);
    assert_eq!((none.episodes, none.parse_rate), (1, 0.0));
}

#[test]
fn repetition_is_seen() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(quality::repetition(&words("go to the fridge and open it")), 0.0);
    assert_eq!(quality::repetition(&words("a b c a b c a b c")), 1.0 - 3.0 / 7.0);
    assert_eq!(quality::repetition(&words("go go go go")), 0.5);
    assert_eq!(quality::repetition(&[]), 0.0);
}

#[test]
fn lift_of_three_rows() {
    let row = |tokens, plain, real, shuffled, empty| LiftRow { tokens, plain, real, shuffled, empty };
    let lift = Lift::of(&[
        row(10, -20.0, -10.0, -18.0, -20.0),
        row(30, -30.0, -24.0, -27.0, -31.0),
        row(0, 0.0, 0.0, 0.0, 0.0),
        row(5, -1.0, f64::NEG_INFINITY, -1.0, -1.0),
    ]);
    assert_eq!((lift.rows, lift.skipped), (2, 2));
    assert!((lift.real - 16.0 / 40.0).abs() < 1e-12);
    assert!((lift.shuffled - 5.0 / 40.0).abs() < 1e-12);
    assert!((lift.empty + 1.0 / 40.0).abs() < 1e-12);
    assert!((lift.advantage - (0.8 + 0.1) / 2.0).abs() < 1e-12);
    // Sample deviation of {0.8, 0.1} over the root of two.
    assert!((lift.advantage_error - 0.35).abs() < 1e-12);
    assert_eq!(lift.wins, 1.0);
    assert_eq!(Lift::of(&[]), Lift::default());
}

proptest! {
    #[test]
    fn partners_are_others(tasks in proptest::collection::vec("[a-c]", 0..20), seed: u64) {
        let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
        let partners = quality::shuffled_partners(&tasks, seed);
        prop_assert_eq!(&partners, &quality::shuffled_partners(&tasks, seed));
        for (own, partner) in partners.iter().enumerate() {
            match partner {
                None => prop_assert_eq!(tasks.len(), 1),
                Some(partner) => {
                    prop_assert_ne!(*partner, own);
                    let stranger = tasks.iter().any(|task| *task != tasks[own]);
                    prop_assert_eq!(tasks[*partner] != tasks[own], stranger);
                }
            }
        }
    }

    #[test]
    fn shares_are_shares(texts in proptest::collection::vec("[a-z ]{0,40}", 1..6)) {
        let kitchen = kitchen();
        let lexicon = Lexicon::of([&kitchen]);
        let skills: Vec<Skill> = texts.iter().map(|text| skill(text)).collect();
        let batch: Vec<_> = skills.iter().map(|skill| (&kitchen, Some(skill))).collect();
        let quality = SkillQuality::measure(&batch, &lexicon);
        for share in [quality.parse_rate, quality.repetition, quality.distinct_share, quality.grounding, quality.nameless_share] {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&share), "{:?}", quality);
        }
    }
}
