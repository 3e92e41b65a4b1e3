//! `seed play`: an environment in the terminal, played by hand or by its expert.

use crate::failure::Failure;
use clap::Args;
use seed_envs::ezpoints::CardView;
use seed_envs::picture::Filmstrip;
use seed_envs::picture::file::write_png;
use seed_envs::sokoban::View;
use seed_envs::{EnvError, Environment, Observation, Suite, Task};
use seed_rollout::suites::{
    AlfWorldConfig, CardConfig, HouseholdConfig, SearchQaConfig, SokobanConfig, SuiteConfig, SuiteError,
    WebShopConfig,
};
use std::fmt;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The environment: household, alfworld, webshop, search_qa, sokoban, ezpoints, number_line, blackjack or points24
    environment: String,
    /// The split to play from; the first one if left out
    #[arg(long)]
    split: Option<String>,
    /// A task: its number in the split (from 0) or a part of its id
    #[arg(long, default_value = "0")]
    task: String,
    /// The seed of the episode
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Watch the built-in expert
    #[arg(long)]
    expert: bool,
    /// Where the environment's data lies (for sokoban: a level file); its own variable (e.g. ALFWORLD_DATA) or usual
    /// place if left out
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Writes the episode as one picture, where the environment shows pictures
    #[arg(long, value_name = "FILE.png")]
    filmstrip: Option<PathBuf>,
    /// The public pictures to show: Sokoban's tiles (strip or folder), EZPoints' cards and letters (folder)
    #[arg(long, value_name = "PATH")]
    assets: Option<PathBuf>,
}

/// Why nothing can be played.
#[derive(Debug)]
pub(crate) enum PlayError {
    UnknownEnvironment(String),
    UnknownTask { wanted: String, split: String, tasks: usize },
    Environment(EnvError),
    Suite(SuiteError),
    Terminal(std::io::Error),
    NoPictures(String),
    NoAssets(String),
    Filmstrip(PathBuf, std::io::Error),
}

impl fmt::Display for PlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownEnvironment(name) => {
                write!(f, "no environment `{name}` to play; there are: {PLAYABLE}")
            }
            Self::UnknownTask { wanted, split, tasks } => {
                write!(f, "no task `{wanted}` in `{split}`: give a number below {tasks} or a part of an id")
            }
            Self::Environment(error) => error.fmt(f),
            Self::Suite(error) => error.fmt(f),
            Self::Terminal(error) => error.fmt(f),
            Self::NoPictures(name) => {
                write!(
                    f,
                    "`{name}` shows no pictures: leave out `--filmstrip`, or play sokoban or a card game"
                )
            }
            Self::NoAssets(name) => {
                write!(f, "`{name}` takes no `--assets`; sokoban and ezpoints do")
            }
            Self::Filmstrip(path, error) => write!(f, "{}: cannot write: {error}", path.display()),
        }
    }
}

impl std::error::Error for PlayError {}

impl From<EnvError> for PlayError {
    fn from(error: EnvError) -> Self {
        Self::Environment(error)
    }
}

impl From<SuiteError> for PlayError {
    fn from(error: SuiteError) -> Self {
        Self::Suite(error)
    }
}

impl From<std::io::Error> for PlayError {
    fn from(error: std::io::Error) -> Self {
        Self::Terminal(error)
    }
}

/// The environments that [`open`] knows.
const PLAYABLE: &str =
    "household, alfworld, webshop, search_qa, sokoban, ezpoints, number_line, blackjack, points24";

/// Opens a suite by name; those that can show pictures show text and pictures.
fn open(name: &str, data: Option<&PathBuf>, assets: Option<&PathBuf>) -> Result<Box<dyn Suite>, PlayError> {
    if assets.is_some() && !matches!(name, "sokoban" | "ezpoints") {
        return Err(PlayError::NoAssets(name.into()));
    }
    let cards = CardConfig { view: CardView::Both, assets: assets.cloned(), ..CardConfig::default() };
    let config = match name {
        "household" => SuiteConfig::Household(HouseholdConfig::default()),
        "alfworld" => {
            SuiteConfig::AlfWorld(AlfWorldConfig { data: data.cloned(), ..AlfWorldConfig::default() })
        }
        "sokoban" => SuiteConfig::Sokoban(SokobanConfig {
            view: View::Both,
            levels: data.cloned(),
            tiles: assets.cloned(),
            ..SokobanConfig::default()
        }),
        "webshop" => SuiteConfig::WebShop(WebShopConfig {
            data: data.cloned(),
            rich_text: true,
            ..WebShopConfig::default()
        }),
        "ezpoints" => SuiteConfig::EzPoints(cards),
        "number_line" => SuiteConfig::NumberLine(cards),
        "blackjack" => SuiteConfig::Blackjack(cards),
        "points24" => SuiteConfig::Points24(cards),
        "search_qa" => {
            SuiteConfig::SearchQa(SearchQaConfig { data: data.cloned(), ..SearchQaConfig::default() })
        }
        _ => return Err(PlayError::UnknownEnvironment(name.into())),
    };
    Ok(config.open()?)
}

/// Plays one episode on the terminal.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let suite = open(&arguments.environment, arguments.data.as_ref(), arguments.assets.as_ref())?;
    let task = choose(suite.as_ref(), arguments.split.as_deref(), &arguments.task)?;
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let strip = play(suite.environment().as_mut(), &task, arguments.seed, arguments.expert, input, output)?;
    if let Some(path) = &arguments.filmstrip {
        write_strip(&strip, path, &arguments.environment)?;
    }
    Ok(())
}

fn write_strip(strip: &Filmstrip, path: &Path, name: &str) -> Result<(), PlayError> {
    if strip.panels.is_empty() {
        return Err(PlayError::NoPictures(name.into()));
    }
    write_png(path, &strip.draw()).map_err(|error| PlayError::Filmstrip(path.to_owned(), error))
}

fn choose(suite: &dyn Suite, split: Option<&str>, wanted: &str) -> Result<Task, PlayError> {
    let split = split.map_or_else(|| suite.splits().into_iter().next().unwrap_or_default(), str::to_owned);
    let tasks = suite.tasks(&split)?;
    let found = match wanted.parse::<usize>() {
        Ok(number) => tasks.get(number),
        Err(_) => tasks.iter().find(|task| task.id.contains(wanted)),
    };
    found.cloned().ok_or_else(|| PlayError::UnknownTask { wanted: wanted.into(), split, tasks: tasks.len() })
}

/// The loop: shows an observation, takes an action from the expert or a line of input, until the episode ends.
///
/// A line `?` lists the admissible actions, `!` asks the expert for one step, a number picks from the last list, and
/// the end of the input stops the game. The pictures of the episode come back.
fn play(
    environment: &mut dyn Environment,
    task: &Task,
    seed: u64,
    expert: bool,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<Filmstrip, PlayError> {
    let first = environment.reset(task, seed)?;
    let mut strip = Filmstrip::new(task.id.as_str(), &first);
    writeln!(output, "{}\n\n{}", task.id, on_terminal(&first.text))?;
    if !expert {
        writeln!(output, "\n(? lists actions, a number picks one, ! asks the expert, end of input stops)")?;
    }
    let mut admissible = first;
    for number in 1.. {
        let Some(action) = next_action(environment, expert, &admissible, &mut input, &mut output)? else {
            return Ok(strip);
        };
        let step = environment.step(&action)?;
        strip.push(&action, &step);
        if expert {
            writeln!(output, "\n> {action}")?;
        }
        writeln!(output, "{}", on_terminal(&step.observation.text))?;
        if step.is_last() {
            let verdict = match (step.info.won, step.truncated) {
                (true, _) => "won",
                (false, true) => "out of steps",
                (false, false) => "over",
            };
            writeln!(output, "\n{verdict} after {number} steps, score {}", step.info.score)?;
            return Ok(strip);
        }
        admissible = step.observation;
    }
    Ok(strip)
}

/// Sokoban puts a tab behind each cell, which a terminal would stretch.
fn on_terminal(text: &str) -> String {
    text.replace('\t', "")
}

fn next_action(
    environment: &mut dyn Environment,
    expert: bool,
    seen: &Observation,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<Option<String>, PlayError> {
    let list = seen.admissible.as_deref().unwrap_or_default();
    loop {
        if expert {
            let action = environment.expert_action();
            if action.is_none() {
                writeln!(output, "\nthe expert has nothing to say here")?;
            }
            return Ok(action);
        }
        write!(output, "\n> ")?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            writeln!(output)?;
            return Ok(None);
        }
        match line.trim_end_matches(['\n', '\r']) {
            "?" if list.is_empty() => writeln!(output, "this environment lists no actions")?,
            "?" => {
                for (number, action) in list.iter().enumerate() {
                    writeln!(output, "{number:4}  {action}")?;
                }
            }
            "!" => match environment.expert_action() {
                Some(action) => {
                    writeln!(output, "{action}")?;
                    return Ok(Some(action));
                }
                None => writeln!(output, "the expert has nothing to say here")?,
            },
            line => {
                let picked = line.trim().parse::<usize>().ok().and_then(|number| list.get(number));
                return Ok(Some(picked.cloned().unwrap_or_else(|| line.to_owned())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PlayError, choose, open, play, write_strip};
    use std::path::{Path, PathBuf};

    fn data() -> PathBuf {
        let shared = std::env::var_os("SEED_SHARED")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
        shared.join("data/alfworld/games/2.1.2")
    }

    fn transcript(input: &str, expert: bool) -> String {
        let suite = open("alfworld", Some(&data()), None).expect("games");
        let task = choose(suite.as_ref(), Some("valid_seen"), "pick_and_place_simple-Book").expect("a task");
        let mut output = Vec::new();
        play(suite.environment().as_mut(), &task, 0, expert, input.as_bytes(), &mut output).expect("a game");
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn the_expert_wins() {
        let shown = transcript("", true);
        assert!(shown.contains("Your task is to: ") && shown.contains("\n> go to "), "{shown}");
        assert!(shown.ends_with("won after 4 steps, score 1\n"), "{shown}");
    }

    #[test]
    fn the_household_expert_wins_too() {
        let suite = open("household", None, None).expect("a world");
        let task = choose(suite.as_ref(), Some("valid_unseen"), "3").expect("a task");
        let mut output = Vec::new();
        play(suite.environment().as_mut(), &task, 0, true, &b""[..], &mut output).expect("a game");
        let shown = String::from_utf8(output).expect("text");
        assert!(shown.contains("won after ") && shown.ends_with("score 1\n"), "{shown}");
    }

    #[test]
    fn grid_and_card_games_are_played_and_drawn() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["sokoban", "ezpoints", "number_line", "blackjack", "points24"] {
            let suite = open(name, None, None).expect("a game");
            let task = choose(suite.as_ref(), Some("valid"), "0").expect("a task");
            let mut output = Vec::new();
            let strip =
                play(suite.environment().as_mut(), &task, 0, true, &b""[..], &mut output).expect("a game");
            let shown = String::from_utf8(output).expect("text");
            if matches!(name, "sokoban" | "ezpoints" | "number_line") {
                assert!(shown.contains("won after ") && strip.won, "{shown}");
            }
            let file = folder.path().join(name).with_extension("png");
            write_strip(&strip, &file, name).expect("a picture");
            assert!(std::fs::read(&file).expect("a file").starts_with(b"\x89PNG"));
        }
        // By hand, with words and tokens.
        let suite = open("ezpoints", None, None).expect("a game");
        let task = choose(suite.as_ref(), Some("train"), "0").expect("a task");
        let mut output = Vec::new();
        play(suite.environment().as_mut(), &task, 0, false, &b"4\n+\n8\n=\n"[..], &mut output)
            .expect("a game");
        let shown = String::from_utf8(output).expect("text");
        assert!(shown.ends_with("won after 4 steps, score 1\n"), "{shown}");
        let suite = open("household", None, None).expect("a world");
        let task = choose(suite.as_ref(), None, "0").expect("a task");
        let strip = play(suite.environment().as_mut(), &task, 0, true, &b""[..], Vec::new()).expect("a game");
        let error =
            write_strip(&strip, &folder.path().join("none.png"), "household").expect_err("no pictures");
        assert!(error.to_string().contains("no pictures"), "{error}");
        assert!(open("household", None, Some(&folder.path().into())).is_err());
    }

    #[test]
    fn a_person_shops_and_the_expert_buys() {
        let suite = open("webshop", None, None).expect("a shop");
        let task = choose(suite.as_ref(), Some("test"), "5").expect("a task");
        let shown = |input: &str, expert: bool| {
            let mut output = Vec::new();
            play(suite.environment().as_mut(), &task, 0, expert, input.as_bytes(), &mut output)
                .expect("a visit");
            String::from_utf8(output).expect("text")
        };
        let expert = shown("", true);
        assert!(expert.contains("> search[") && expert.contains("> click[buy now]"), "{expert}");
        assert!(expert.ends_with("score 1\n") && expert.contains("won after "), "{expert}");
        let person = shown("search[wool socks]\n?\n1\nclick[nothing]\nclick[back to search]\n", false);
        assert!(person.contains("Page 1 (Total results: ") && person.contains("   1  click["), "{person}");
    }

    #[test]
    fn lines_are_actions_numbers_pick_and_the_expert_helps() {
        let shown = transcript("?\n0\nfly\n!\n", false);
        assert!(shown.contains("   0  go to armchair 1"), "{shown}");
        assert!(shown.contains("You arrive at armchair 1."), "{shown}");
        assert!(shown.contains("Nothing happens."), "{shown}");
        assert!(shown.ends_with("\n> \n"), "{shown}");
    }

    #[test]
    fn wrong_names_say_what_there_is() {
        let Err(error) = open("doom", None, None) else { panic!("no such environment") };
        assert!(matches!(&error, PlayError::UnknownEnvironment(_)));
        assert!(error.to_string().contains("alfworld"));
        let suite = open("alfworld", Some(&data()), None).expect("games");
        let error = choose(suite.as_ref(), None, "99999").expect_err("no such task");
        assert!(error.to_string().contains("below 12"), "{error}");
    }
}
