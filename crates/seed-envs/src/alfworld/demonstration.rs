//! Episodes of a player with bad habits in ALFWorld's games: what the base checkpoint of `configs/alfworld-tiny.toml` is
//! taught from.
//!
//! The player asks the planner what to do, but may go by a plan only as far as it has seen the things that the plan
//! speaks of; before that it searches, or at times goes straight to where they are. Its bad habits make it play badly. A lesson from an earlier episode of the same
//! task eases the habits that it speaks about and tells where to search. So a policy that imitates these episodes plays
//! badly on its own, and better with a true lesson in its prompt.

use super::state::GameState;
use super::suite::AlfWorld;
use crate::environment::{EnvError, Suite, Task};
use crate::household::stream::Stream;
use crate::trajectory::{Outcome, Trajectory, TrajectoryStep};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// How often a player does what it should not. Every field is a probability in `0..=1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habits {
    /// At each decision: only looks, or checks its hands.
    pub idle: f64,
    /// At each decision: something that does not help, possible or not.
    pub drift: f64,
    /// When searching: walks anywhere, as likely to where it has been.
    pub roam: f64,
    /// When searching: has no idea where the thing is. Otherwise it goes straight there, which is how a policy that
    /// imitates many such episodes learns where things usually are. With a lesson that names places, four times of five it
    /// looks there.
    pub naive: f64,
    /// Before something closed: reaches in without opening it.
    pub reach: f64,
    /// In an episode: believes that the work is done once one object is in place, treated or not.
    pub forget: f64,
}

impl Habits {
    /// A player without bad habits: it goes straight to where things are, and takes them once it sees them.
    pub const GOOD: Self = Self { idle: 0.0, drift: 0.0, roam: 0.0, naive: 0.0, reach: 0.0, forget: 0.0 };

    /// The player that the base checkpoint imitates.
    pub const BASE: Self = Self { idle: 0.12, drift: 0.08, roam: 0.25, naive: 0.75, reach: 0.4, forget: 0.6 };

    /// The same player with a lesson in its prompt.
    fn after(self, advice: &Advice) -> Self {
        let eased = |habit: f64, spoken_of: bool| habit * if spoken_of { 0.1 } else { 0.7 };
        Self {
            idle: self.idle * 0.4,
            drift: self.drift * 0.4,
            roam: eased(self.roam, !advice.places.is_empty()),
            naive: self.naive,
            reach: eased(self.reach, advice.opens),
            forget: eased(self.forget, advice.completes),
        }
    }
}

/// Plays the training games of an [`AlfWorld`]. Equal games, habits, seeds and indices give equal episodes.
#[derive(Debug, Clone)]
pub struct Demonstrator {
    world: AlfWorld,
    tasks: Arc<[Task]>,
    habits: Habits,
    seed: u64,
}

impl Demonstrator {
    /// A source of episodes over the split `train`.
    ///
    /// # Errors
    /// When the split cannot be read or has no game.
    pub fn new(world: AlfWorld, habits: Habits, seed: u64) -> Result<Self, EnvError> {
        let tasks = world.tasks("train")?;
        if tasks.is_empty() {
            return Err(EnvError::Data {
                path: world.root().into(),
                place: " split `train`".into(),
                found: "no game that can be played".into(),
                expected: "the official data; point ALFWORLD_DATA to it".into(),
            });
        }
        Ok(Self { world, tasks, habits, seed })
    }

    /// Episode number `index`: passes over all games, each in an order of its own. `annotate` writes a lesson from an
    /// earlier episode of the same game; where it has none (`None`), the episode is played without.
    ///
    /// # Errors
    /// When the engine refuses the game.
    pub fn demonstrate(
        &self,
        index: u64,
        annotate: impl FnOnce(&Trajectory) -> Option<String>,
    ) -> Result<(Trajectory, Option<String>), EnvError> {
        let count = self.tasks.len() as u64;
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        self.stream("order", index / count).shuffle(&mut order);
        let task = &self.tasks[order[(index % count) as usize]];
        let mut stream = self.stream("play", index);
        let first = self.play(task, index, None, &mut stream)?;
        match annotate(&first) {
            Some(lesson) => Ok((self.play(task, index, Some(&lesson), &mut stream)?, Some(lesson))),
            None => Ok((first, None)),
        }
    }

    fn stream(&self, purpose: &str, index: u64) -> Stream {
        Stream::new(&format!("alfworld/demonstration/{purpose}"), &[self.seed, index])
    }

    /// One episode, with or without a lesson; `stream` decides about every habit.
    ///
    /// # Errors
    /// When the engine refuses the game.
    pub fn play(
        &self,
        task: &Task,
        seed: u64,
        lesson: Option<&str>,
        stream: &mut Stream,
    ) -> Result<Trajectory, EnvError> {
        let mut environment = self.world.environment();
        let mut observation = environment.reset(task, seed)?;
        let target = self.world.parameters(task)?.parent_target.to_lowercase();
        let mut player = Player::new(self.world.game(task)?.start(), self.habits, &target, lesson, stream);
        player.see(&observation.text);
        let mut steps = Vec::new();
        loop {
            let action = player.decide();
            let step = environment.step(&action)?;
            player.learn(&action, &step.observation.text);
            steps.push(TrajectoryStep {
                observation: observation.text,
                admissible: observation.admissible.map(|list| list.to_vec()).unwrap_or_default(),
                response: format!("<action>{action}</action>"),
                action,
                action_valid: step.info.action_valid,
                reward: step.reward,
                image: None,
            });
            let (over, outcome) = (step.is_last(), Outcome::of(&step));
            observation = step.observation;
            if over {
                return Ok(Trajectory {
                    environment: self.world.name().to_owned(),
                    task: task.clone(),
                    task_description: self.world.task_description(task).unwrap_or_default(),
                    seed,
                    steps,
                    final_observation: observation.text,
                    outcome,
                });
            }
        }
    }
}

/// What a lesson tells this player, whoever wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Advice {
    /// Kinds of places to search, apart from where the object is to go.
    places: Vec<String>,
    /// It speaks of opening things, in whatever words.
    opens: bool,
    /// It speaks of the treatment, the second object or the lamp, in whatever words.
    completes: bool,
}

impl Advice {
    fn read(lesson: &str, places: &[String], target: &str) -> Self {
        const FORBIDDING: [&str; 4] = ["not", "never", "no", "avoid"];
        const COMPLETING: [&str; 7] = ["heat", "cool", "clean", "use", "other", "another", "both"];
        let mut advice = Self::default();
        for sentence in lesson.to_lowercase().split(['.', ';', '\n']) {
            let words: Vec<&str> =
                sentence.split(|letter: char| !letter.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
            let says = |options: &[&str]| words.iter().any(|word| options.contains(word));
            advice.opens |= says(&["open"]);
            advice.completes |= says(&COMPLETING);
            if says(&FORBIDDING) {
                continue;
            }
            let is_place = |word: &&str| *word != target && places.iter().any(|place| kind(place) == *word);
            for place in words.iter().filter(|word| is_place(word)) {
                if !advice.places.iter().any(|known| known == place) {
                    advice.places.push((*place).to_owned());
                }
            }
        }
        advice
    }
}

/// `mug` of `mug 2`.
fn kind(name: &str) -> &str {
    name.rsplit_once(' ').map_or(name, |(kind, _)| kind)
}

fn number(name: &str) -> Option<u32> {
    name.rsplit_once(' ')?.1.parse().ok()
}

/// Whether a text speaks of `mug 1`, and not only of `mug 12`.
fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let after = text[at + name.len()..].chars().next().is_none_or(|c| !c.is_alphanumeric());
        before && after
    })
}

/// The player: what it knows of the game, and the next command.
struct Player<'s> {
    state: GameState,
    habits: Habits,
    advice: Advice,
    /// It thinks of one object and of no treatment.
    forgets: bool,
    /// What it believes is left to do.
    plan: VecDeque<String>,
    places: Vec<String>,
    here: Option<String>,
    /// Places whose content it has seen.
    searched: HashSet<String>,
    /// Things that it has not seen yet.
    unseen: Vec<String>,
    stream: &'s mut Stream,
}

impl<'s> Player<'s> {
    fn new(
        state: GameState,
        habits: Habits,
        target: &str,
        lesson: Option<&str>,
        stream: &'s mut Stream,
    ) -> Self {
        let places: Vec<String> = state
            .admissible()
            .iter()
            .filter_map(|command| command.strip_prefix("go to "))
            .map(str::to_owned)
            .collect();
        let names = state.game().entities().into_iter().map(|(_, name, _)| name.to_owned());
        let unseen = names.filter(|name| !places.contains(name) && number(name).is_some()).collect();
        let advice = lesson.map(|lesson| Advice::read(lesson, &places, target)).unwrap_or_default();
        let habits = if lesson.is_some() { habits.after(&advice) } else { habits };
        let forgets = stream.chance(habits.forget);
        let mut player = Self {
            state,
            habits,
            advice,
            forgets,
            plan: VecDeque::new(),
            places,
            here: None,
            searched: HashSet::new(),
            unseen,
            stream,
        };
        player.think();
        player
    }

    /// Plans from where it is. A player that forgets leaves out treatments, and thinks of one object alone.
    fn think(&mut self) {
        let commands = self.state.plan().map(|plan| plan.commands).unwrap_or_default();
        self.plan.clear();
        for command in commands {
            let treats = ["heat ", "cool ", "clean "].iter().any(|verb| command.starts_with(verb));
            if self.forgets && treats {
                // It does not go where the treatment would be.
                self.plan.pop_back_if(|last| last.starts_with("go to "));
                continue;
            }
            let places = command.starts_with("move ") || command.starts_with("put ");
            self.plan.push_back(command);
            if self.forgets && places {
                break;
            }
        }
        // Without the way to the treatment it may stand where it wants to go.
        let stands = |planned: &mut String| planned.starts_with("go to ");
        if self.plan.front().is_some_and(|planned| !self.can(planned)) {
            self.plan.pop_front_if(stands);
        }
    }

    fn decide(&mut self) -> String {
        if self.stream.chance(self.habits.idle) {
            return self.idle();
        }
        if self.stream.chance(self.habits.drift) {
            return self.stumble();
        }
        if self.plan.is_empty() {
            // The work seems done but the game goes on: at some point it notices what was forgotten.
            if self.stream.chance(0.7) {
                return self.idle();
            }
            self.forgets = false;
            self.think();
        }
        if self.wanted().is_some() { self.search() } else { self.follow() }
    }

    /// The thing that the plan speaks of next, while it has not been seen.
    fn wanted(&self) -> Option<&str> {
        let command = self.plan.iter().find(|command| !moves(command))?;
        self.unseen.iter().find(|name| mentions(command, name)).map(String::as_str)
    }

    fn follow(&mut self) -> String {
        // It may have come here, or opened this, for another reason.
        if self.plan.front().is_some_and(|planned| !self.can(planned)) {
            self.think();
        }
        match self.plan.front() {
            Some(command) => match command.strip_prefix("open ").map(str::to_owned) {
                Some(place) => self.open(&place),
                None => command.clone(),
            },
            None => self.idle(),
        }
    }

    /// Opens what is closed here, or reaches for something in it.
    fn open(&mut self, place: &str) -> String {
        let wanted = self.wanted().map(|name| kind(name).to_owned());
        match wanted.filter(|_| self.stream.chance(self.habits.reach)) {
            Some(wanted) => format!("take {wanted} 1 from {place}"),
            None => format!("open {place}"),
        }
    }

    fn search(&mut self) -> String {
        if let Some(here) = self.here.clone()
            && !self.searched.contains(&here)
            && self.can(&format!("open {here}"))
        {
            return self.open(&here);
        }
        let fresh: Vec<&String> =
            self.places.iter().filter(|place| !self.searched.contains(*place)).collect();
        if fresh.is_empty() || self.stream.chance(self.habits.roam) {
            let place = self.stream.choose(&self.places).cloned().unwrap_or_default();
            return format!("go to {place}");
        }
        let advised: Vec<&String> = fresh
            .iter()
            .copied()
            .filter(|place| self.advice.places.iter().any(|advised| advised == kind(place)))
            .collect();
        if self.stream.chance(if advised.is_empty() { 1.0 - self.habits.naive } else { 0.2 }) {
            match self.plan.front() {
                Some(planned) if moves(planned) => return self.follow(),
                // It stands there already, but has not been told what is there.
                Some(planned) => {
                    if let Some((_, place)) = planned.split_once(" from ") {
                        return format!("examine {place}");
                    }
                }
                None => {}
            }
        }
        // The one after this, else any.
        let next = |place: &&&String| {
            self.here.as_deref().is_some_and(|here| kind(here) == kind(place) && number(here) < number(place))
        };
        let from = if advised.is_empty() { &fresh } else { &advised };
        let neighbour = from.iter().filter(next).min_by_key(|place| number(place));
        let place = match neighbour {
            Some(place) if self.stream.chance(0.8) => place,
            _ => self.stream.choose(from).unwrap_or(&fresh[0]),
        };
        format!("go to {place}")
    }

    fn idle(&mut self) -> String {
        if self.stream.chance(0.6) { "look".to_owned() } else { "inventory".to_owned() }
    }

    /// Going where it stands, opening what is open, taking what need not be there, examining.
    fn stumble(&mut self) -> String {
        let somewhere = self.stream.choose(&self.places).cloned().unwrap_or_default();
        let here = self.here.clone().unwrap_or_else(|| somewhere.clone());
        let wanted = self.wanted().map(|name| kind(name).to_owned());
        match (self.stream.below(4), wanted) {
            (0, _) => format!("go to {}", if self.stream.chance(0.3) { here } else { somewhere }),
            (1, _) => format!("open {here}"),
            (2, Some(wanted)) => format!("take {wanted} 1 from {here}"),
            _ => format!("examine {here}"),
        }
    }

    fn can(&self, action: &str) -> bool {
        self.state.admissible().binary_search_by(|command| command.as_str().cmp(action)).is_ok()
    }

    /// Follows the game along after a command.
    fn learn(&mut self, action: &str, observation: &str) {
        let accepted = self.state.step(action).accepted;
        let wanted = self.wanted().map(|name| kind(name).to_owned());
        let found = self.see(observation);
        // A place that one cannot go to shares the spot where one stands. Nothing is told about it, but this player goes on.
        if let Some(place) = action.strip_prefix("go to ") {
            self.here = Some(place.to_owned());
        }
        if let Some(here) = &self.here
            && !self.can(&format!("open {here}"))
        {
            self.searched.insert(here.clone());
        }
        if !accepted {
            return;
        }
        // Another one of its kind may be nearer now than the one that was planned for.
        let another =
            self.wanted().is_some() && found.iter().any(|name| Some(kind(name)) == wanted.as_deref());
        if self.plan.front().is_some_and(|planned| planned == action) {
            self.plan.pop_front();
            if another {
                self.think();
            }
        } else if another || self.strays(action) {
            self.think();
        }
    }

    /// Whether the plan no longer begins where the game stands.
    fn strays(&self, action: &str) -> bool {
        let Some(planned) = self.plan.front() else { return false };
        let idle = ["look", "inventory", "examine "].iter().any(|verb| action.starts_with(verb));
        let on_the_way = planned.starts_with("go to ") && moves(action);
        !(idle || on_the_way)
    }

    /// Takes in what a text speaks of; returns what is new.
    fn see(&mut self, text: &str) -> Vec<String> {
        self.unseen.extract_if(.., |name| mentions(text, name)).collect()
    }
}

/// A command after which nothing lies elsewhere than before.
fn moves(command: &str) -> bool {
    ["go to ", "open ", "close "].iter().any(|verb| command.starts_with(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_found_inside_a_longer_one() {
        assert!(mentions("you see a mug 1, and a mug 12.", "mug 1"));
        assert!(!mentions("you see a mug 12.", "mug 1"));
        assert!(!mentions("you see a handmug 1.", "mug 1"));
    }

    #[test]
    fn advised_places_leave_out_what_a_lesson_forbids_and_where_the_object_goes() {
        let places = ["cabinet 1", "cabinet 2", "fridge 1", "shelf 1"].map(str::to_owned);
        let lesson = "To put a clean mug in the cabinet: look in the shelf. Do not go back to the same fridge. Open the cabinet.";
        let advice = Advice::read(lesson, &places, "cabinet");
        assert_eq!(advice.places, ["shelf"]);
        assert!(advice.opens && advice.completes);
    }
}
