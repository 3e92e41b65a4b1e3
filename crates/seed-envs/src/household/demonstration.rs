//! Episodes of a player with habits, good and bad: what the quick start's base checkpoint is taught from.
//!
//! The player knows the rules and the shortest plans but sees only what an agent sees. Its bad habits make it play as
//! badly as asked for; a skill from an earlier episode of the same task takes away the habits that it speaks about and
//! tells where things are. So a policy that imitates these episodes plays badly on its own, and better with a true
//! skill in its prompt. The player reads the skill's words ([`Advice`]), so any annotator may write them.

use super::advice::Advice;
use super::generate::{Game, Split, TaskKind};
use super::knowledge;
use super::lesson::{Lesson, TaskWords};
use super::plan::{Command, Position};
use super::stream::Stream;
use super::suite::Household;
use crate::environment::{EnvError, Suite};
use crate::trajectory::{Outcome, Trajectory, TrajectoryStep};

/// How often a player does what it should not. Every field is a probability in `0..=1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habits {
    /// At each decision: does something random instead, possible or not. What follows shows the way back.
    pub drift: f64,
    /// At each decision: only looks, or checks its hands.
    pub idle: f64,
    /// When searching: walks anywhere, as likely to where it has been.
    pub roam: f64,
    /// When searching: does not ask where such things usually are.
    pub naive: f64,
    /// Before something closed: reaches in without opening it.
    pub reach: f64,
    /// In an episode: believes that the work is done once an object is moved, untreated, alone or in the dark.
    pub forget: f64,
    /// In an episode: pays attention, which leaves half of the drift and a fifth of every other habit.
    pub attentive: f64,
}

impl Habits {
    /// A player that makes no mistakes.
    pub const GOOD: Self =
        Self { drift: 0.0, idle: 0.0, roam: 0.0, naive: 0.0, reach: 0.0, forget: 0.0, attentive: 0.0 };

    /// The player that the base checkpoint imitates.
    pub const BASE: Self =
        Self { drift: 0.12, idle: 0.25, roam: 0.6, naive: 0.5, reach: 0.55, forget: 0.8, attentive: 0.1 };

    /// The same player with a skill in its prompt: what the skill speaks about is almost always done right.
    pub fn after(self, advice: &Advice) -> Self {
        let eased = |habit: f64, spoken_of: bool| habit * if spoken_of { 0.1 } else { 0.7 };
        let guided = !(advice.places.is_empty() && advice.avoid.is_empty());
        Self {
            drift: self.drift * 0.5,
            idle: eased(self.idle, advice.hurries),
            roam: eased(self.roam, guided || advice.advances),
            naive: self.naive,
            reach: eased(self.reach, advice.opens),
            forget: eased(self.forget, advice.completes),
            attentive: self.attentive,
        }
    }

    /// The habits of one episode, which is attentive or not.
    fn of_episode(self, stream: &mut Stream) -> Self {
        let left: f64 = if stream.chance(self.attentive) { 0.2 } else { 1.0 };
        Self {
            drift: self.drift * left.max(0.5),
            idle: self.idle * left,
            roam: self.roam * left,
            naive: self.naive * left,
            reach: self.reach * left,
            forget: self.forget * left,
            attentive: 0.0,
        }
    }
}

/// An episode to imitate.
#[derive(Debug, Clone, PartialEq)]
pub struct Demonstration {
    /// The episode.
    pub trajectory: Trajectory,
    /// What stood in the player's prompt.
    pub guidance: Option<Guidance>,
}

/// A skill and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Guidance {
    /// The earlier episode of the same task, played without a skill.
    pub source: Trajectory,
    /// What there is to learn from it: the skill text of the prompt.
    pub skill: String,
}

/// Makes demonstrations. Equal worlds, seeds and indices give equal episodes.
#[derive(Debug, Clone)]
pub struct Demonstrator {
    world: Household,
    habits: Habits,
    seed: u64,
}

impl Demonstrator {
    /// A source of demonstrations over the training games of a world.
    pub fn new(world: Household, habits: Habits, seed: u64) -> Self {
        Self { world, habits, seed }
    }

    /// An episode played without a skill.
    ///
    /// # Errors
    /// When the engine refuses the game.
    pub fn plain(&self, index: u64) -> Result<Demonstration, EnvError> {
        let trajectory =
            self.play(Split::Train, self.task_seed(index), None, &mut self.stream("plain", index))?;
        Ok(Demonstration { trajectory, guidance: None })
    }

    /// An episode played with a skill from an earlier one of the same task, in the words of [`Lesson::text`].
    ///
    /// # Errors
    /// When the engine refuses the game.
    pub fn guided(&self, index: u64) -> Result<Demonstration, EnvError> {
        self.guided_by(index, |source| Lesson::from_trajectory(source).map(|lesson| lesson.text()))
    }

    /// As [`Demonstrator::guided`], with an annotator of the caller's. Where it has nothing to say (`None`), the
    /// episode is played without.
    ///
    /// # Errors
    /// When the engine refuses the game.
    pub fn guided_by(
        &self,
        index: u64,
        annotate: impl FnOnce(&Trajectory) -> Option<String>,
    ) -> Result<Demonstration, EnvError> {
        let seed = self.task_seed(index);
        let mut stream = self.stream("guided", index);
        let source = self.play(Split::Train, seed, None, &mut stream)?;
        let guidance = annotate(&source).map(|skill| Guidance { source, skill });
        let skill = guidance.as_ref().map(|guidance| guidance.skill.as_str());
        let trajectory = self.play(Split::Train, seed, skill, &mut stream)?;
        Ok(Demonstration { trajectory, guidance })
    }

    /// One episode of any game, with or without a skill; `stream` decides about every habit.
    ///
    /// # Errors
    /// When the engine refuses the game.
    pub fn play(
        &self,
        split: Split,
        seed: u64,
        skill: Option<&str>,
        stream: &mut Stream,
    ) -> Result<Trajectory, EnvError> {
        let game = Game::generate(split, self.world.options().difficulty, seed);
        let task = self.world.task(split, seed);
        let task_description = game.goal.text();
        let advice = skill
            .zip(TaskWords::parse(&task_description))
            .map(|(skill, words)| Advice::read(skill, &words))
            .unwrap_or_default();
        let habits = if skill.is_some() { self.habits.after(&advice) } else { self.habits };
        let habits = habits.of_episode(stream);
        let mut environment = self.world.environment();
        let mut observation = environment.reset(&task, seed)?;
        let mut player = Player::new(game, habits, advice, stream);
        let mut steps = Vec::new();
        loop {
            let action = player.decide();
            let step = environment.step(&action)?;
            player.learn(&action);
            steps.push(TrajectoryStep {
                observation: observation.text,
                admissible: observation.admissible.map(|list| list.to_vec()).unwrap_or_default(),
                response: format!("<action>{action}</action>"),
                action,
                action_valid: Some(true),
                reward: step.reward,
                image: None,
            });
            let (over, outcome) = (step.is_last(), Outcome::of(&step));
            observation = step.observation;
            if over {
                return Ok(Trajectory {
                    environment: Household::NAME.to_owned(),
                    task,
                    task_description,
                    seed,
                    steps,
                    final_observation: observation.text,
                    outcome,
                });
            }
        }
    }

    /// Demonstrations draw from the whole split, not only from the games that the suite lists.
    fn task_seed(&self, index: u64) -> u64 {
        let pass = self.stream("task", index).next_u64() >> 24;
        pass * TaskKind::ALL.len() as u64 + index % TaskKind::ALL.len() as u64
    }

    fn stream(&self, purpose: &str, index: u64) -> Stream {
        Stream::new(&format!("household/demonstration/{purpose}"), &[self.seed, index])
    }
}

/// The player: what it knows of the game, and the next command.
struct Player<'s> {
    game: Game,
    /// The game with the goal that the player believes in.
    believed: Game,
    position: Position,
    habits: Habits,
    advice: Advice,
    /// Receptacles whose content it has seen, or has been told to keep away from.
    seen: Vec<bool>,
    objects: Vec<String>,
    receptacles: Vec<String>,
    stream: &'s mut Stream,
}

impl<'s> Player<'s> {
    fn new(game: Game, habits: Habits, advice: Advice, stream: &'s mut Stream) -> Self {
        let (objects, receptacles) = (game.object_names(), game.layout.names());
        let mut believed = game.clone();
        if stream.chance(habits.forget) {
            believed.goal.kind = match game.goal.kind {
                TaskKind::PickTwo | TaskKind::Treat(_) => TaskKind::Pick,
                kind => kind,
            };
        }
        let seen = receptacles.iter().map(|name| advice.avoid.contains(name)).collect();
        let position = Position::start(&game);
        Self { game, believed, position, habits, advice, seen, objects, receptacles, stream }
    }

    fn decide(&mut self) -> String {
        if self.stream.chance(self.habits.idle) {
            return self.idle();
        }
        if self.stream.chance(self.habits.drift) {
            return self.stumble();
        }
        let known = |object: usize| self.position.at[object].is_some_and(|receptacle| self.seen[receptacle]);
        let plan = self.position.plan_with(&self.believed, &known);
        match plan.as_deref() {
            // The work seems done but the game goes on: at some point it notices what was forgotten.
            Some([]) => {
                if self.stream.chance(0.15) {
                    self.believed.goal.kind = self.game.goal.kind;
                }
                self.idle()
            }
            Some(&[command, ..]) => self.follow(command),
            None => self.search(),
        }
    }

    /// Does the next thing of a plan, unless a habit comes between.
    fn follow(&mut self, command: Command) -> String {
        match command {
            Command::Open(receptacle) => self.open(receptacle),
            command => self.say(command),
        }
    }

    /// Opens what is closed here, or reaches for something in it.
    fn open(&mut self, receptacle: usize) -> String {
        if !self.stream.chance(self.habits.reach) {
            return self.say(Command::Open(receptacle));
        }
        let receptacle = &self.receptacles[receptacle];
        match self.position.held {
            Some(object) => format!("move {} to {receptacle}", self.objects[object]),
            None => format!("take {} 1 from {receptacle}", self.wanted()),
        }
    }

    fn search(&mut self) -> String {
        let here = self.position.here;
        if let Some(here) = here
            && !self.seen[here]
        {
            return self.open(here);
        }
        let everywhere: Vec<usize> =
            (0..self.receptacles.len()).filter(|&place| here != Some(place)).collect();
        let fresh: Vec<usize> = everywhere.iter().copied().filter(|&place| !self.seen[place]).collect();
        if fresh.is_empty() || self.stream.chance(self.habits.roam) {
            let place = self.stream.choose(&everywhere).copied().unwrap_or_default();
            return self.say(Command::Go(place));
        }
        let usual = self.first_of(&fresh, &self.usual_places());
        let advised = self.first_of(&fresh, self.advised_places());
        let choice = match (advised, usual) {
            (Some(advised), _) => advised,
            (None, Some(usual)) if !self.stream.chance(self.habits.naive) => usual,
            _ => fresh,
        };
        let place = self.stream.choose(&choice).copied().unwrap_or_default();
        self.say(Command::Go(place))
    }

    /// Those of the places that the first matching entry of a list of names or kinds means.
    fn first_of(&self, places: &[usize], list: &[String]) -> Option<Vec<usize>> {
        let meant = |entry: &String| -> Vec<usize> {
            let matches = |&place: &usize| {
                self.receptacles[place] == *entry || self.game.layout.receptacles[place] == entry.as_str()
            };
            places.iter().copied().filter(matches).collect()
        };
        list.iter().map(meant).find(|places| !places.is_empty())
    }

    fn usual_places(&self) -> Vec<String> {
        let homes = knowledge::object(self.wanted()).map_or(&[][..], |kind| kind.homes);
        homes.iter().map(|&home| home.to_owned()).collect()
    }

    fn advised_places(&self) -> &[String] {
        if self.wanted() == self.game.goal.object.name {
            &self.advice.places
        } else {
            &self.advice.lamp_places
        }
    }

    /// The kind of object that it looks for: the goal's, or the lamp once it holds that.
    fn wanted(&self) -> &'static str {
        let goal = &self.game.goal;
        let holds =
            self.position.held.is_some_and(|held| self.game.objects[held].kind.name == goal.object.name);
        if goal.kind == TaskKind::Look && holds { goal.target } else { goal.object.name }
    }

    /// Something random: going where it stands, opening what is open, taking what is not there, or what can be done.
    fn stumble(&mut self) -> String {
        let somewhere = self.stream.choose(&self.receptacles).cloned().unwrap_or_default();
        let here =
            self.position.here.map_or_else(|| somewhere.clone(), |here| self.receptacles[here].clone());
        let possible = self.position.commands(&self.game);
        match self.stream.choose(&["go", "open", "take", "possible"]) {
            Some(&"go") => format!("go to {}", if self.stream.chance(0.3) { here } else { somewhere }),
            Some(&"open") => format!("open {here}"),
            Some(&"take") => format!("take {} 1 from {here}", self.wanted()),
            _ => {
                self.stream.choose(&possible).map_or_else(|| "look".to_owned(), |&command| self.say(command))
            }
        }
    }

    fn idle(&mut self) -> String {
        if self.stream.chance(0.6) { "look".to_owned() } else { "inventory".to_owned() }
    }

    fn say(&self, command: Command) -> String {
        command.text(&self.objects, &self.receptacles)
    }

    /// Follows the game along after a command.
    fn learn(&mut self, action: &str) {
        let done =
            self.position.commands(&self.game).into_iter().find(|&command| self.say(command) == action);
        if let Some(command) = done {
            self.position.apply(command);
        }
        if let Some(here) = self.position.here {
            let kind = knowledge::receptacle(self.game.layout.receptacles[here]);
            if self.position.opened[here] || kind.is_some_and(|kind| !kind.openable) {
                self.seen[here] = true;
            }
        }
    }
}
