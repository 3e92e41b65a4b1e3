//! An episode replayed as a walk through a world: what was seen where, what was carried, what had no effect.

use super::rules::Treatment;
use regex::Regex;
use seed_envs::Trajectory;
use std::sync::LazyLock;

/// A numbered thing, e.g. `mug 2`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Thing {
    /// What it is, e.g. `mug`.
    pub(super) kind: String,
    /// Its full name, e.g. `mug 2`.
    pub(super) name: String,
}

impl Thing {
    fn parse(name: &str) -> Option<Self> {
        let name = name.trim();
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
        (!kind.is_empty()).then(|| Self { kind: kind.to_owned(), name: name.to_owned() })
    }
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Walk to a receptacle.
    Go(Thing),
    /// Open it.
    Open(Thing),
    /// Take an object from a receptacle.
    Take(Thing, Thing),
    /// Put the held object into or onto a receptacle.
    Put(Thing, Thing),
    /// Treat the held object with a receptacle.
    Treat(Treatment, Thing, Thing),
    /// Turn on a lamp.
    Use(Thing),
    /// Look closely at a receptacle or an object.
    Examine(Thing),
    /// Anything else, senseless commands included.
    Other,
}

impl Deed {
    fn parse(command: &str) -> Self {
        let command = command.trim().to_lowercase();
        let pair = |rest: &str, between: &str| {
            let (object, place) = rest.split_once(between)?;
            Some((Thing::parse(object)?, Thing::parse(place)?))
        };
        let parsed = if let Some(rest) = command.strip_prefix("go to ") {
            Thing::parse(rest).map(Deed::Go)
        } else if let Some(rest) = command.strip_prefix("open ") {
            Thing::parse(rest).map(Deed::Open)
        } else if let Some(rest) = command.strip_prefix("take ") {
            pair(rest, " from ").map(|(object, place)| Deed::Take(object, place))
        } else if let Some(rest) = command.strip_prefix("move ") {
            pair(rest, " to ").map(|(object, place)| Deed::Put(object, place))
        } else if let Some(rest) = command.strip_prefix("put ") {
            pair(rest, " in/on ").map(|(object, place)| Deed::Put(object, place))
        } else if let Some(rest) = command.strip_prefix("use ") {
            Thing::parse(rest).map(Deed::Use)
        } else if let Some(rest) = command.strip_prefix("examine ") {
            Thing::parse(rest).map(Deed::Examine)
        } else {
            let (verb, rest) = command.split_once(' ').unwrap_or_default();
            Treatment::ALL.into_iter().find(|treatment| treatment.verb() == verb).and_then(|treatment| {
                pair(rest, " with ").map(|(object, place)| Deed::Treat(treatment, object, place))
            })
        };
        parsed.unwrap_or(Deed::Other)
    }
}

/// A step that had an effect.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// What was done.
    pub(super) deed: Deed,
    /// The content of the deed's receptacle was shown.
    pub(super) shown: bool,
    /// The receptacle that was gone to is closed.
    pub(super) closed: bool,
    /// What was in the hand before.
    pub(super) held: Option<Thing>,
}

/// The whole walk.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    /// The steps that had an effect, in order.
    pub(super) events: Vec<Event>,
    /// Objects with the receptacles where they were in reach or in sight, in order.
    pub(super) sightings: Vec<(Thing, Thing)>,
    /// The receptacles that the first observation names.
    pub(super) places: Vec<Thing>,
    /// How many steps changed nothing.
    pub(super) fruitless: usize,
    /// How the world writes "put": `move … to` or `put … in/on`.
    pub(super) put_words: (&'static str, &'static str),
    /// What is in the hand at the end.
    pub(super) held: Option<Thing>,
}

static THING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b([a-z]+) (\d+)\b").expect("the pattern is a literal of this file"));

/// The numbered things behind the words "you see".
fn seen(observation: &str) -> Vec<Thing> {
    let lower = observation.to_lowercase();
    let Some(at) = lower.find("you see") else { return Vec::new() };
    // Behind the list may stand the task, on a line of its own.
    let listed = lower[at..].split('\n').next().unwrap_or_default();
    let things = THING
        .captures_iter(listed)
        .map(|found| Thing { kind: found[1].to_owned(), name: format!("{} {}", &found[1], &found[2]) });
    things.collect()
}

impl Walk {
    /// Replays an episode. Steps without effect are only counted.
    pub(super) fn of(trajectory: &Trajectory) -> Self {
        let mut walk = Self {
            events: Vec::new(),
            sightings: Vec::new(),
            places: trajectory.steps.first().map(|step| seen(&step.observation)).unwrap_or_default(),
            fruitless: 0,
            put_words: ("move", "to"),
            held: None,
        };
        for (at, step) in trajectory.steps.iter().enumerate() {
            let after = match trajectory.steps.get(at + 1) {
                Some(next) => next.observation.as_str(),
                None => trajectory.final_observation.as_str(),
            };
            let all_commands = step.admissible.iter().chain([&step.action]);
            if all_commands.clone().any(|command| command.starts_with("put ") && command.contains(" in/on "))
            {
                walk.put_words = ("put", "in/on");
            }
            // Where two receptacles share a spot, only the commands tell what the other one holds.
            for command in &step.admissible {
                if let Deed::Take(object, place) = Deed::parse(command) {
                    walk.see(object, place);
                }
            }
            if after.trim().to_lowercase().starts_with("nothing happens") {
                walk.fruitless += 1;
                continue;
            }
            let deed = Deed::parse(&step.action);
            let mut shown = false;
            if let Deed::Go(place) | Deed::Open(place) | Deed::Examine(place) = &deed {
                shown = after.to_lowercase().contains("you see");
                for object in seen(after).into_iter().filter(|thing| thing != place) {
                    walk.see(object, place.clone());
                }
            }
            let held = walk.held.clone();
            match &deed {
                Deed::Take(object, _) => walk.held = Some(object.clone()),
                Deed::Put(..) => walk.held = None,
                _ => {}
            }
            let closed = matches!(deed, Deed::Go(_)) && after.to_lowercase().contains("is closed");
            walk.events.push(Event { deed, shown, closed, held });
        }
        walk
    }

    fn see(&mut self, object: Thing, place: Thing) {
        if !self.sightings.iter().any(|(known, at)| *known == object && *at == place) {
            self.sightings.push((object, place));
        }
    }

    /// The objects of a kind with the receptacles where they were seen, first sight first.
    pub(super) fn seen_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a (Thing, Thing)> {
        self.sightings.iter().filter(move |(object, _)| object.kind == kind)
    }

    /// The places whose inside was seen.
    pub(super) fn searched(&self) -> impl Iterator<Item = &Thing> {
        self.events.iter().filter(|event| event.shown).filter_map(|event| match &event.deed {
            Deed::Go(place) | Deed::Open(place) | Deed::Examine(place) => Some(place),
            _ => None,
        })
    }

    /// The places that were gone to, found closed, and never opened.
    pub(super) fn left_closed(&self) -> impl Iterator<Item = &Thing> {
        self.events.iter().filter_map(|event| match &event.deed {
            Deed::Go(place) if event.closed && !self.opened(place) => Some(place),
            _ => None,
        })
    }

    /// A place was opened in this episode.
    pub(super) fn opened(&self, place: &Thing) -> bool {
        self.events.iter().any(|event| matches!(&event.deed, Deed::Open(opened) if opened == place))
    }

    /// A place that was gone to most often, with the number of visits.
    pub(super) fn most_visited(&self) -> Option<(&Thing, usize)> {
        let visits = |place: &Thing| {
            self.events.iter().filter(|event| matches!(&event.deed, Deed::Go(to) if to == place)).count()
        };
        let places = self.events.iter().filter_map(|event| match &event.deed {
            Deed::Go(place) => Some((place, visits(place))),
            _ => None,
        });
        // The first of the most visited ones, so that the choice does not depend on the order of equals.
        places.fold(None, |best: Option<(&Thing, usize)>, (place, count)| match best {
            Some((_, most)) if most >= count => best,
            _ => Some((place, count)),
        })
    }
}
