//! The official package's rule-based expert, decision for decision.
//!
//! It explores: it knows only what the observations said (and, for a few tests, the facts). It is neither optimal
//! nor sure to win, and it draws from Python's global generator; with the same seed it repeats recorded runs. For
//! plans that win, use [`GameState::plan`].

mod priors;

use super::load::TaskParameters;
use super::state::GameState;
use crate::pyrandom::PythonRandom;
use std::collections::HashMap;

/// Decisions after which the official expert gives up.
const MAX_DECISIONS: usize = 200;

/// Why the expert has no next command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpertError {
    /// The official expert gives up after 200 decisions.
    #[error("the expert gave up after {decisions} decisions")]
    Timeout {
        /// How many decisions it made.
        decisions: usize,
    },
    /// The official expert stops with an exception here.
    #[error("the expert does not know what to do: {reason}")]
    Lost {
        /// What it looked for in vain.
        reason: &'static str,
    },
    /// The task type is none of the six.
    #[error("no expert for the task type `{found}`; there is one for {known}")]
    UnknownType {
        /// The type that was asked for.
        found: String,
        /// The types that there are.
        known: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pick,
    PickTwo,
    Look,
    /// A treatment: its verb, its place and the fact that it makes.
    Treat(&'static str, &'static str, &'static str),
}

const KINDS: [(&str, Kind); 6] = [
    ("pick_and_place_simple", Kind::Pick),
    ("pick_two_obj_and_place", Kind::PickTwo),
    ("look_at_obj_in_light", Kind::Look),
    ("pick_heat_then_place_in_recep", Kind::Treat("heat", "microwave", "ishot")),
    ("pick_cool_then_place_in_recep", Kind::Treat("cool", "fridge", "iscool")),
    ("pick_clean_then_place_in_recep", Kind::Treat("clean", "sinkbasin", "isclean")),
];

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubGoal {
    Find,
    Take,
    FindTarget,
    Put,
    GoToPlace,
    Treat,
    Use,
}

/// Name → class, in the order in which names first appeared.
type Things = Vec<(String, String)>;

/// The expert of one episode.
#[derive(Debug, Clone)]
pub struct HandcodedExpert {
    kind: Kind,
    object: String,
    target: String,
    random: PythonRandom,
    decisions: usize,
    receptacles: Things,
    visible: Things,
    last_place_of: HashMap<String, String>,
    place: String,
    looked_inside: bool,
    to_check: Vec<String>,
    inventory: Vec<String>,
    seen_at: HashMap<String, String>,
    taken_from: String,
    to_close: Vec<String>,
    ignored: Vec<String>,
    holds_object: bool,
}

/// What the expert tests in a state.
struct Tests {
    at_target: bool,
    can_put: bool,
    can_take: bool,
    in_sight: bool,
    can_treat: bool,
    treated: bool,
    can_use: bool,
    one_is_there: bool,
    takes_the_same: bool,
}

fn without_digits(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_numeric()).collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn class_of(name: &str) -> &str {
    name.split(' ').next().unwrap_or_default()
}

/// The two words after `mark`, without commas and full stops at their ends.
fn two_words_after(text: &str, mark: &str) -> String {
    let rest = text.split_once(mark).map_or(text, |(_, rest)| rest);
    let words: Vec<&str> = rest.split_whitespace().take(2).collect();
    words.join(" ").trim_matches([',', '.']).to_owned()
}

/// The things that an observation lists behind its last "you see".
fn listed(observation: &str) -> Things {
    const MARK: &str = "you see";
    // Only ASCII letters change case here, so that positions stay.
    let start = observation.to_ascii_lowercase().rfind(MARK).map_or(0, |at| at + MARK.len());
    let text = observation[start..].replace(" and a ", "").replace(" a ", "");
    let text = text.split("Your task is to").next().unwrap_or_default();
    let mut things = Things::new();
    for name in text.trim_matches(['.', ',', '\n', '\r']).split(',') {
        if !things.iter().any(|(known, _)| known == name) {
            things.push((name.to_owned(), class_of(name).to_owned()));
        }
    }
    things
}

impl HandcodedExpert {
    /// An expert for a game of type `task_type`. `random` is Python's global generator, as it was when the recorded
    /// run was reset.
    ///
    /// # Errors
    /// [`ExpertError::UnknownType`].
    pub fn new(
        task_type: &str,
        parameters: &TaskParameters,
        random: PythonRandom,
        introduction: &str,
    ) -> Result<Self, ExpertError> {
        let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == task_type) else {
            let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            return Err(ExpertError::UnknownType { found: task_type.into(), known: known.join(", ") });
        };
        let target = if *kind == Kind::Look { &parameters.toggle_target } else { &parameters.parent_target };
        let mut expert = Self {
            kind: *kind,
            object: priors::lower_class(&parameters.object_target),
            target: priors::lower_class(target),
            random,
            decisions: 0,
            receptacles: Things::new(),
            visible: Things::new(),
            last_place_of: HashMap::new(),
            place: String::new(),
            looked_inside: false,
            to_check: Vec::new(),
            inventory: Vec::new(),
            seen_at: HashMap::new(),
            taken_from: String::new(),
            to_close: Vec::new(),
            ignored: Vec::new(),
            holds_object: false,
        };
        expert.observe(introduction);
        Ok(expert)
    }

    /// The command it would give first.
    pub fn first_command(&self) -> &'static str {
        "look"
    }

    /// The next command, after `command` led to `state` with the answer `observation`.
    ///
    /// # Errors
    /// When the official expert would stop with an exception.
    pub fn next_command(
        &mut self,
        state: &GameState,
        command: &str,
        observation: &str,
    ) -> Result<String, ExpertError> {
        const FALLBACK: &str = "look";
        if command.is_empty() {
            self.observe(observation);
            return Ok(FALLBACK.into());
        }
        let admissible = state.admissible();
        let is_admissible = |chosen: &String| admissible.contains(chosen);
        let mut chosen = self.decide(state, command, observation)?;
        if chosen == command || (command == FALLBACK && !is_admissible(&chosen)) {
            let drawn = self.random.choice(admissible);
            chosen = drawn.cloned().ok_or(ExpertError::Lost { reason: "no command is admissible" })?;
        }
        Ok(if is_admissible(&chosen) { chosen } else { FALLBACK.into() })
    }

    fn observe(&mut self, text: &str) {
        if text.contains("Welcome") {
            self.receptacles = listed(text);
        } else if text.contains("you see nothing") {
            self.visible.clear();
        } else if text.contains("you see") {
            let place = if text.contains("You open the") {
                two_words_after(text, "You open the")
            } else if let Some((before, _)) = text.split_once("is open.") {
                let words: Vec<&str> = before.split_whitespace().collect();
                words[words.len().saturating_sub(2)..].join(" ").trim_matches([',', '.']).to_owned()
            } else {
                two_words_after(text, "On the")
            };
            self.visible = listed(text);
            self.seen_at.insert(place.clone(), text.to_owned());
            self.visible.retain(|(name, _)| !self.ignored.contains(name));
            for (_, class) in &self.visible {
                self.last_place_of.insert(class.clone(), place.clone());
            }
        }
    }

    fn is_openable(&self, place: &str) -> bool {
        let class = self.receptacles.iter().find(|(name, _)| name == place).map(|(_, class)| class);
        !place.is_empty() && class.is_some_and(|class| priors::is_openable(class))
    }

    /// Forgets where a thing was, since it is in the hand now (or was put away).
    fn forget(&mut self, thing: &str) {
        self.last_place_of.remove(class_of(thing));
        self.visible.retain(|(name, _)| name != thing);
        if let Some(seen) = self.seen_at.get_mut(&self.place) {
            *seen = seen.replace(thing, "");
        }
    }

    fn track(&mut self, command: &str, observation: &str) -> Result<(), ExpertError> {
        if command.contains("go to") {
            self.place = command.replace("go to", "").trim().to_owned();
            if let Some(index) = self.to_check.iter().position(|place| *place == self.place) {
                self.to_check.remove(index);
            }
            self.looked_inside = !self.is_openable(&self.place) || observation.contains("open");
        }
        if observation.contains("Nothing happens") {
            return Ok(());
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        if command.contains("open") {
            if command == format!("open {}", self.place) {
                self.looked_inside = true;
                self.to_close.push(format!("close {}", self.place));
            }
        } else if command.contains("close") {
            if command == format!("close {}", self.place)
                && let Some(index) = self.to_close.iter().position(|close| close == command)
            {
                self.to_close.remove(index);
            }
        } else if command.contains("take") {
            let thing = words[1.min(words.len())..3.min(words.len())].join(" ");
            self.taken_from = words[words.len().saturating_sub(2)..].join(" ");
            self.inventory.push(thing.clone());
            self.forget(&thing);
        } else if command.contains("put") {
            // Games of the later forms say `move`, so that this never runs and the inventory grows stale there.
            let reason = "something was put down that was never taken";
            let thing = self.inventory.pop().ok_or(ExpertError::Lost { reason })?;
            self.taken_from.clear();
            self.forget(&thing);
            if command.contains(&self.object) {
                self.ignored.push(thing);
            }
        }
        Ok(())
    }

    fn tests(&mut self, state: &GameState) -> Tests {
        let facts: Vec<String> = state
            .facts_by_display_name()
            .into_iter()
            .map(|(predicate, names)| {
                let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
                format!("{predicate} {}", names.join(" "))
            })
            .collect();
        let plain_facts: Vec<String> = facts.iter().map(|fact| without_digits(fact)).collect();
        let commands: Vec<String> =
            state.admissible().iter().map(|command| without_digits(command)).collect();
        let (object, target) = (&self.object, &self.target);
        self.holds_object = plain_facts.contains(&format!("holds agent {object}"));
        let remembered = self.seen_at.get(&self.place).map_or("", String::as_str);
        let there = format!("inreceptacle {object} {target}");
        let first_there = facts.iter().zip(&plain_facts).find(|(_, plain)| plain.contains(&there));
        let first_there = first_there.map_or(String::new(), |(fact, _)| {
            fact.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ")
        });
        let (can_treat, treated) = match self.kind {
            Kind::Treat(verb, place, fact) => (
                commands.contains(&format!("{verb} {object} with {place}")),
                self.inventory.first().is_some_and(|thing| facts.contains(&format!("{fact} {thing}"))),
            ),
            _ => (false, false),
        };
        Tests {
            at_target: self.place.contains(target.as_str()),
            can_put: commands.contains(&format!("move {object} to {target}")),
            can_take: commands.iter().any(|command| command.contains(&format!("take {object}"))),
            in_sight: remembered.contains("you see") && remembered.contains(&format!(" {object} ")),
            can_treat,
            treated,
            can_use: commands.contains(&format!("use {target}")),
            one_is_there: plain_facts.contains(&there),
            takes_the_same: state.admissible().iter().any(|c| c.contains(&format!("take {first_there}"))),
        }
    }

    fn sub_goal(&mut self, state: &GameState) -> SubGoal {
        let tests = self.tests(state);
        let holds = self.holds_object;
        let can_put = holds && tests.can_put && tests.at_target;
        let can_take = !holds && tests.can_take && tests.in_sight;
        match self.kind {
            Kind::Pick if can_put => SubGoal::Put,
            Kind::PickTwo if can_put => SubGoal::Put,
            Kind::Look if holds && tests.can_use => SubGoal::Use,
            Kind::Treat(..) if tests.treated && can_put => SubGoal::Put,
            Kind::Treat(..) if tests.treated && holds => SubGoal::FindTarget,
            Kind::Treat(..) if holds && tests.can_treat => SubGoal::Treat,
            Kind::Treat(..) if holds => SubGoal::GoToPlace,
            _ if holds => SubGoal::FindTarget,
            Kind::PickTwo if tests.one_is_there && tests.takes_the_same => SubGoal::Find,
            _ if can_take => SubGoal::Take,
            _ => SubGoal::Find,
        }
    }

    /// The class that a sub-goal is about.
    fn subject(&self, goal: SubGoal) -> String {
        let class = match (goal, self.kind) {
            (SubGoal::GoToPlace, Kind::Treat(_, place, _)) => place,
            (SubGoal::FindTarget | SubGoal::Put | SubGoal::Use, _) => &self.target,
            _ => &self.object,
        };
        if class == "sinkbasin" && !self.receptacles.iter().any(|(_, class)| class.contains("sinkbasin")) {
            return "bathtubbasin".into();
        }
        class.to_owned()
    }

    fn decide(&mut self, state: &GameState, command: &str, observation: &str) -> Result<String, ExpertError> {
        self.decisions += 1;
        if self.decisions > MAX_DECISIONS {
            return Err(ExpertError::Timeout { decisions: self.decisions - 1 });
        }
        self.track(command, observation)?;
        self.observe(observation);
        let goal = self.sub_goal(state);
        // Things are looked for under the sub-goal's own class, places under the one that replaces it.
        let own_class = match goal {
            SubGoal::FindTarget | SubGoal::Put | SubGoal::Use => self.target.clone(),
            SubGoal::GoToPlace => self.subject(goal),
            _ => self.object.clone(),
        };
        let subject = self.subject(goal);
        let of_interest: Vec<String> = self
            .visible
            .iter()
            .filter(|(_, class)| *class == own_class)
            .map(|(name, _)| name.clone())
            .collect();
        if matches!(goal, SubGoal::Find | SubGoal::FindTarget)
            && let Some(search) = self.find(&subject, &of_interest, command, observation)?
        {
            return Ok(search);
        }
        self.to_check.clear();
        let closed = observation.contains("closed");
        let place = self.place.clone();
        let lost = |reason| ExpertError::Lost { reason };
        let held = || self.inventory.first().ok_or(lost("it holds nothing"));
        match goal {
            SubGoal::GoToPlace => {
                let first = self.receptacles.iter().find(|(_, class)| *class == subject);
                let (name, _) = first.ok_or(lost("the house has no place for the treatment"))?;
                Ok(format!("go to {name}"))
            }
            SubGoal::Take if closed && !self.looked_inside && self.visible.is_empty() => {
                Ok(format!("open {place}"))
            }
            SubGoal::Take if !self.visible.iter().any(|(name, _)| name.contains(&subject)) => {
                Ok(format!("examine {place}"))
            }
            SubGoal::Take => {
                let thing =
                    self.random.choice(&of_interest).ok_or(lost("nothing of the class is in sight"))?;
                Ok(format!("take {thing} from {place}"))
            }
            SubGoal::Put if closed && !self.looked_inside => Ok(format!("open {place}")),
            SubGoal::Put => Ok(format!("move {} to {place}", held()?)),
            SubGoal::Treat => {
                let Kind::Treat(verb, ..) = self.kind else { return Err(lost("there is no treatment")) };
                Ok(format!("{verb} {} with {place}", held()?))
            }
            SubGoal::Use if self.visible.is_empty() => Ok(format!("examine {place}")),
            SubGoal::Use => {
                let thing = self.random.choice(&of_interest).ok_or(lost("no lamp is in sight"))?;
                Ok(format!("use {thing}"))
            }
            SubGoal::Find | SubGoal::FindTarget => Ok(self.put_back().unwrap_or_else(|| {
                if closed { format!("open {place}") } else { format!("examine {place}") }
            })),
        }
    }

    /// Brings back what it holds without need.
    fn put_back(&self) -> Option<String> {
        let thing = self.inventory.first().filter(|_| !self.holds_object)?;
        Some(if self.place == self.taken_from {
            format!("move {thing} to {}", self.taken_from)
        } else {
            format!("go to {}", self.taken_from)
        })
    }

    /// The next command of a search, or nothing when the search is over.
    fn find(
        &mut self,
        subject: &str,
        of_interest: &[String],
        command: &str,
        observation: &str,
    ) -> Result<Option<String>, ExpertError> {
        let last_place = self.last_place_of.get(subject).cloned();
        let here_by_memory = last_place.as_ref() == Some(&self.place);
        let here_by_class =
            self.receptacles.iter().any(|(name, class)| *name == self.place && class == subject);
        let free = self.inventory.is_empty() || self.holds_object;
        if !of_interest.is_empty() || ((here_by_memory || here_by_class) && self.looked_inside && free) {
            self.to_check.clear();
            self.to_close.clear();
            return Ok(None);
        }
        let names = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let wanted = self.receptacles.iter().filter(|(_, class)| wanted(class));
            wanted.map(|(name, _)| name.clone()).collect()
        };
        let known = last_place.is_some();
        if let Some(place) = last_place {
            self.to_check = vec![place];
        } else if self.to_check.is_empty() {
            let mut places = if priors::is_receptacle(subject) {
                names(&|class| class == subject)
            } else if !priors::is_known(subject) {
                return Err(ExpertError::Lost { reason: "its table has no entry for the class" });
            } else {
                let likely = names(&|class| priors::is_likely(subject, class));
                let mut places = names(&|_| true);
                places.retain(|place| !likely.contains(place));
                places.extend(likely);
                places
            };
            if places.is_empty() {
                places = names(&|_| true);
            }
            self.to_check = places;
        }
        if self.looked_inside
            && let Some(index) = self.to_check.iter().position(|place| *place == self.place)
        {
            self.to_check.remove(index);
        }
        if let Some(back) = self.put_back() {
            return Ok(Some(back));
        }
        let treats = ["heat", "cool", "clean", "slice"];
        let treated = command.split_whitespace().next().is_none_or(|verb| treats.contains(&verb));
        if !known && observation.contains("closed") && !self.looked_inside && !treated {
            return Ok(Some(format!("open {}", self.place)));
        }
        if let Some(close) = self.to_close.pop() {
            return Ok(Some(close));
        }
        let reason = "every place was searched";
        let next = self.to_check.last().ok_or(ExpertError::Lost { reason })?;
        Ok(Some(format!("go to {next}")))
    }
}
