//! What a finished episode of this world teaches, read from its text alone.
//!
//! Nothing here looks at the generator: an observation names what lies where, a refused command shows a mistake, and
//! [`super::knowledge`] says which furniture heats, cools, cleans or has to be opened.

use super::knowledge::{self, Treatment};
use crate::trajectory::Trajectory;
use std::collections::{BTreeMap, BTreeSet};

/// A task's words, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskWords {
    /// The kind of object that is wanted.
    pub object: &'static str,
    /// The kind of receptacle, or of lamp, where it goes.
    pub target: &'static str,
    /// What has to be done to it first.
    pub treatment: Option<Treatment>,
    /// Two objects of the kind are wanted.
    pub two: bool,
}

impl TaskWords {
    /// Reads a task in either wording; `None` if it names no object and target of this world.
    pub fn parse(task: &str) -> Option<Self> {
        let words: Vec<&str> =
            task.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty()).collect();
        let object =
            words.iter().find_map(|word| knowledge::object(word).filter(|kind| kind.portable()))?.name;
        let target = words.iter().rev().find_map(|word| {
            let lamp = knowledge::object(word).filter(|kind| !kind.portable()).map(|kind| kind.name);
            knowledge::receptacle(word).map(|kind| kind.name).or(lamp)
        })?;
        let treatment =
            Treatment::ALL.into_iter().find(|it| words.contains(&it.verb()) || words.contains(&it.state()));
        Some(Self { object, target, treatment, two: words.contains(&"another") })
    }

    /// It asks to look at the object under a lamp.
    pub fn under_lamp(&self) -> bool {
        knowledge::object(self.target).is_some()
    }
}

/// Where something was seen first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find {
    /// The thing, e.g. `mug 1`.
    pub object: String,
    /// Where it was, e.g. `cabinet 2`.
    pub receptacle: String,
}

/// What an episode showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// What was to be done.
    pub task: TaskWords,
    /// It was done.
    pub won: bool,
    /// The wanted objects that were seen: first those that were taken, then in the order in which they were found.
    pub found: Vec<Find>,
    /// The lamp, for tasks that need one and episodes that saw it.
    pub lamp: Option<Find>,
    /// Receptacles whose content was seen and holds nothing that is wanted.
    pub searched: Vec<String>,
    /// Receptacles of the house whose content was never seen.
    pub unsearched: Vec<String>,
    /// An appliance of the house that does the treatment.
    pub appliance: Option<String>,
    /// The receptacle where the object went, or else one where it may go.
    pub target: Option<String>,
    /// The treatment was done before the object was moved to the target.
    pub treated: bool,
    /// Commands that the world refused.
    pub refused: usize,
    /// Commands that only look (`look`, `inventory`).
    pub idle: usize,
    /// Walks back to receptacles that were known to hold nothing wanted and were not needed.
    pub repeated: usize,
}

impl Lesson {
    /// Reads an episode; `None` where its task is none of this world's.
    pub fn from_trajectory(trajectory: &Trajectory) -> Option<Self> {
        let task = TaskWords::parse(&trajectory.task_description)?;
        let mut reader = Reader::new(&task, trajectory.steps.first().map_or("", |step| &step.observation));
        for (index, step) in trajectory.steps.iter().enumerate() {
            let answer = trajectory
                .steps
                .get(index + 1)
                .map_or(&trajectory.final_observation, |next| &next.observation);
            reader.read(&step.action, answer);
        }
        Some(reader.conclude(trajectory.outcome.won))
    }

    /// The lesson as a short text addressed to the player: a workflow after a success, what to avoid after a failure.
    pub fn text(&self) -> String {
        let mut sentences = Vec::new();
        if !self.won {
            sentences.extend(self.warnings());
        }
        sentences.extend(self.workflow());
        if self.won {
            sentences.extend(self.thrift());
        }
        sentences.join(" ")
    }

    /// What the player must not do again, most costly first.
    pub fn warnings(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let (Some(treatment), false, false) = (self.task.treatment, self.treated, self.found.is_empty()) {
            sentences.push(format!(
                "Never move the {} before you {} it.",
                self.task.object,
                treatment.verb()
            ));
        }
        if self.found.is_empty() && !self.searched.is_empty() {
            let searched: Vec<_> = self.searched.iter().take(4).cloned().collect();
            sentences.push(format!("There is no {} at {}.", self.task.object, listed(&searched)));
        }
        sentences.extend(self.thrift());
        sentences
    }

    /// Which habits cost steps.
    fn thrift(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.refused > 0 {
            sentences.push("Open what is closed before you take or move things.".to_owned());
        }
        if self.repeated > 1 {
            sentences.push("Do not go back to places that you have searched.".to_owned());
        }
        if self.idle > 0 {
            sentences.push("Do not use look or inventory.".to_owned());
        }
        sentences
    }

    /// The order of actions that leads to the goal, as far as the episode shows it.
    pub fn workflow(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let needed = if self.task.two { 2 } else { 1 };
        for (index, Find { object, receptacle }) in self.found.iter().take(needed).enumerate() {
            let open = opened(receptacle);
            sentences.push(match index {
                0 => format!("Go to {receptacle}{open} and take {object}."),
                _ => format!("Then go to {receptacle}{open} and take the other one, {object}."),
            });
            if let (Some(treatment), Some(appliance)) = (self.task.treatment, &self.appliance) {
                sentences.push(format!("Go to {appliance} and {} it.", treatment.verb()));
            }
            if let (true, Some(lamp)) = (self.task.under_lamp(), &self.lamp) {
                sentences.push(format!("Go to {} and use {}.", lamp.receptacle, lamp.object));
            }
            if let (false, Some(target)) = (self.task.under_lamp(), &self.target) {
                // It is still open when the second object comes.
                let open = if index == 0 { opened(target) } else { "" };
                sentences.push(format!("Go to {target}{open} and move it there."));
            }
        }
        if self.found.len() < needed || (self.task.under_lamp() && self.lamp.is_none()) {
            let unsearched: Vec<_> = self.unsearched.iter().take(4).cloned().collect();
            if !unsearched.is_empty() {
                sentences.push(format!("Search {}.", listed(&unsearched)));
            }
            if unsearched.iter().any(|name| is_openable(name)) {
                sentences.push("Open what is closed.".to_owned());
            }
            sentences.push(self.open_end());
        }
        sentences
    }
}

impl Lesson {
    /// What remains to be done once the search succeeds.
    fn open_end(&self) -> String {
        let TaskWords { object, target, treatment, two } = self.task;
        let goal = self.target.as_deref().unwrap_or(target);
        let with = self.appliance.as_deref();
        match (treatment, with) {
            _ if self.task.under_lamp() => format!("Hold the {object} and use the {target}."),
            (Some(treatment), Some(with)) => {
                format!(
                    "When you hold the {object}, {} it with {with} and move it to {goal}.",
                    treatment.verb()
                )
            }
            _ if two && self.found.len() == 1 => format!("Then move another {object} to {goal}."),
            _ if two => format!("Move both to {goal}, one after the other."),
            _ => format!("When you hold the {object}, move it to {goal}."),
        }
    }
}

/// `, open it` for what starts closed.
fn opened(receptacle: &str) -> &'static str {
    if is_openable(receptacle) { ", open it" } else { "" }
}

fn is_openable(receptacle: &str) -> bool {
    knowledge::receptacle(kind(receptacle)).is_some_and(|kind| kind.openable)
}

/// The kind of a display name: `mug 1` is a `mug`.
fn kind(name: &str) -> &str {
    name.rsplit_once(' ').map_or(name, |(kind, _)| kind)
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The names after `you see`, up to the full stop; `None` where the text shows no content.
fn content(text: &str) -> Option<Vec<&str>> {
    let (_, names) = text.split_once("you see ").or_else(|| text.split_once("You see "))?;
    let names = names.split('.').next().unwrap_or_default();
    Some(names.split(", ").filter(|&name| name != "nothing").collect())
}

struct Reader<'a> {
    task: &'a TaskWords,
    house: Vec<String>,
    here: Option<String>,
    /// What each receptacle held when its content was seen last.
    seen: BTreeMap<String, BTreeSet<String>>,
    found: Vec<Find>,
    lamp: Option<Find>,
    taken: BTreeSet<String>,
    moved_to: Option<String>,
    treated_with: Option<String>,
    treated_objects: BTreeSet<String>,
    untreated_move: bool,
    refused: usize,
    idle: usize,
    repeated: usize,
}

impl<'a> Reader<'a> {
    fn new(task: &'a TaskWords, introduction: &str) -> Self {
        let house = content(introduction).unwrap_or_default().into_iter().map(str::to_owned).collect();
        Self {
            task,
            house,
            here: None,
            seen: BTreeMap::new(),
            found: Vec::new(),
            lamp: None,
            taken: BTreeSet::new(),
            moved_to: None,
            treated_with: None,
            treated_objects: BTreeSet::new(),
            untreated_move: false,
            refused: 0,
            idle: 0,
            repeated: 0,
        }
    }

    fn read(&mut self, command: &str, answer: &str) {
        if answer == "Nothing happens." {
            self.refused += 1;
            return;
        }
        let treatment = Treatment::ALL.into_iter().find(|it| command.starts_with(&format!("{} ", it.verb())));
        if let Some(to) = command.strip_prefix("go to ") {
            let barren = self.seen.get(to).is_some_and(|names| !names.iter().any(|name| self.matters(name)));
            if barren && !self.needed(to) {
                self.repeated += 1;
            }
            self.here = Some(to.to_owned());
        } else if command == "look" || command == "inventory" {
            self.idle += 1;
        } else if let Some((object, _)) =
            command.strip_prefix("take ").and_then(|rest| rest.split_once(" from "))
        {
            self.taken.insert(object.to_owned());
        } else if let Some((object, to)) =
            command.strip_prefix("move ").and_then(|rest| rest.split_once(" to "))
        {
            if kind(object) == self.task.object && kind(to) == self.task.target {
                self.moved_to = Some(to.to_owned());
                self.untreated_move |=
                    self.task.treatment.is_some() && !self.treated_objects.contains(object);
            }
        } else if let (Some((what, with)), Some(treatment)) = (command.split_once(" with "), treatment)
            && self.task.treatment == Some(treatment)
        {
            let object = what.split_once(' ').map_or(what, |(_, object)| object);
            self.treated_objects.insert(object.to_owned());
            self.treated_with = Some(with.to_owned());
        }
        let shows = command.starts_with("go to ") || command.starts_with("open ");
        if let (true, Some(names), Some(here)) = (shows, content(answer), self.here.clone()) {
            self.note(&here, &names);
        }
    }

    fn note(&mut self, here: &str, names: &[&str]) {
        for &name in names {
            let find = || Find { object: name.to_owned(), receptacle: here.to_owned() };
            let new = !self.found.iter().any(|find| find.object == name);
            // What the player brought to the target was not found there.
            if kind(name) == self.task.object && new && kind(here) != self.task.target {
                self.found.push(find());
            }
            if kind(name) == self.task.target && self.lamp.is_none() {
                self.lamp = Some(find());
            }
        }
        self.seen.insert(here.to_owned(), names.iter().map(|&name| name.to_owned()).collect());
    }

    fn matters(&self, name: &str) -> bool {
        kind(name) == self.task.object || kind(name) == self.task.target
    }

    fn needed(&self, receptacle: &str) -> bool {
        let treats = knowledge::receptacle(kind(receptacle)).and_then(|kind| kind.treats);
        kind(receptacle) == self.task.target || (treats.is_some() && treats == self.task.treatment)
    }

    fn conclude(mut self, won: bool) -> Lesson {
        self.found.sort_by_key(|find| !self.taken.contains(&find.object));
        let does = |name: &&String| {
            let treats = knowledge::receptacle(kind(name)).and_then(|kind| kind.treats);
            treats.is_some() && treats == self.task.treatment
        };
        let appliance = self.treated_with.clone().or_else(|| self.house.iter().find(does).cloned());
        let goes = |name: &&String| kind(name) == self.task.target;
        let target = self.moved_to.clone().or_else(|| self.house.iter().find(goes).cloned());
        let holds_found = |name: &String| self.found.iter().any(|find| find.receptacle == *name);
        let searched = self.seen.keys().filter(|name| !holds_found(name)).cloned().collect();
        let unsearched = self.house.iter().filter(|&name| !self.seen.contains_key(name)).cloned().collect();
        Lesson {
            task: self.task.clone(),
            won,
            treated: self.task.treatment.is_some()
                && !self.treated_objects.is_empty()
                && !self.untreated_move,
            found: self.found,
            lamp: self.lamp.filter(|_| self.task.under_lamp()),
            searched,
            unsearched,
            appliance,
            target,
            refused: self.refused,
            idle: self.idle,
            repeated: self.repeated,
        }
    }
}
