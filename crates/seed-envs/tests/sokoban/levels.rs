//! Level files.

use seed_envs::Suite;
use seed_envs::sokoban::level::{parse, read};
use seed_envs::sokoban::solve::{has_lost_box, solve_within};
use seed_envs::sokoban::{Move, Room, Sokoban, SokobanOptions, Solution, solvable, solve};

const LEVELS: &str = "\
; Two steps
#####
#@$.#
#####

; In a frame
  #####
  #   #
###$  #
#  .$ #
#  @. #
#######

Some words about the author.
; 7
##########
#--------#
#-+*--$--#
##########
";

fn one(text: &str) -> Room {
    parse(text).expect("a level").remove(0).room
}

#[test]
fn forms_titles_and_lines() {
    let levels = parse(LEVELS).expect("levels");
    let shown: Vec<_> = levels.iter().map(|level| (level.title.as_str(), level.line)).collect();
    assert_eq!(shown, [("Two steps", 2), ("In a frame", 7), ("7", 16)]);
    assert_eq!(levels[0].room.lines()[1], "# P X O #");
    assert_eq!(levels[2].room.lines()[2], "# _ S √ _ _ X _ _ #");
    assert_eq!(levels[2].room.on_target(), 1);
    // Blanks outside the frame are walls.
    assert_eq!(levels[1].room.lines()[0], "# # # # # # #");
}

#[test]
fn what_is_wrong_says_where() {
    for (text, line, words) in [
        ("\n####\n#@.#\n####", 2, "0 boxes and 1 targets"),
        ("#####\n#@$.#\n###", 1, "the wall is open"),
        ("#####\n#@$.#\n#.@ #\n#####", 3, "a second player"),
        ("#####\n# $.#\n#####", 1, "without a player"),
        ("######\n#@ $.#\n###### \n\n####\n#$@#\n####", 5, "1 boxes and 0 targets"),
    ] {
        let error = parse(text).expect_err("no room");
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("empty.txt");
    std::fs::write(&path, "nothing here\n").expect("written");
    assert!(read(&path).expect_err("no level").to_string().contains("no level"));
    assert!(read(&folder.path().join("none.txt")).is_err());
}

#[test]
fn shortest_plans_and_dead_ends() {
    assert_eq!(solve(&one("#####\n#@$.#\n#####")), Solution::Plan(vec![Move::Right]));
    // In a corner that is no target.
    let corner = one("#####\n#$  #\n# @.#\n#   #\n#####");
    assert!(has_lost_box(&corner));
    assert_eq!(solve(&corner), Solution::Dead);
    // Two boxes side by side at a wall: neither alone is lost, both together are.
    let pair = one("######\n#.$$.#\n# @  #\n#    #\n######");
    assert!(!has_lost_box(&pair));
    assert_eq!(solve(&pair), Solution::Dead);
    assert_eq!(solvable(&pair, 1), Some(false));
    let mut framed = parse(LEVELS).expect("levels").remove(1).room;
    assert_eq!(solve_within(&framed, 3), Solution::Unknown);
    assert_eq!(solvable(&framed, 1), None);
    let Solution::Plan(plan) = solve(&framed) else { panic!("no plan") };
    assert_eq!(plan.len(), 10);
    assert!(plan.iter().all(|&direction| framed.go(direction)) && framed.solved());
    assert_eq!(solve(&framed), Solution::Plan(Vec::new()));
}

#[test]
fn a_level_file_is_a_split() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("levels.txt");
    std::fs::write(&path, LEVELS).expect("written");
    let suite =
        Sokoban::open(SokobanOptions { levels: Some(path), ..SokobanOptions::default() }).expect("a suite");
    assert_eq!(suite.splits(), ["levels"]);
    let tasks = suite.tasks("levels").expect("tasks");
    assert_eq!(tasks.len(), 3);
    let mut environment = suite.environment();
    let first = environment.reset(&tasks[0], 0).expect("an episode");
    assert!(first.text.contains(" P \t X \t O \t"));
    let step = environment.step("right").expect("a step");
    assert!(step.info.won && step.done);
    assert!(suite.tasks("train").is_err());
}
