//! From a replayed walk and a goal to a lesson in words.
//!
//! Short sentences, few different words. Places are named by kind, since their numbers differ from house to house.

use super::goal::Goal;
use super::rules::Treatment;
use super::walk::{Deed, Thing, Walk};
use super::{list, within_limit};
use crate::serialize::OutcomeLabel;

/// Summary and skill of an episode; `None` when the walk says nothing about the goal.
pub(super) fn write(goal: &Goal, walk: &Walk, outcome: OutcomeLabel) -> Option<(String, String)> {
    if walk.places.is_empty() && walk.events.iter().all(|event| event.deed == Deed::Other) {
        return None;
    }
    let facts = Facts { goal, walk };
    match outcome {
        OutcomeLabel::Success => facts.success(),
        OutcomeLabel::Failure => facts.failure(),
        // Nobody says how it ended: the walk does.
        OutcomeLabel::Unknown => match facts.fault() {
            Some(_) => facts.failure(),
            None => facts.success(),
        },
    }
}

struct Facts<'a> {
    goal: &'a Goal,
    walk: &'a Walk,
}

/// The first thing that kept the goal from being reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// The object was never seen.
    NotFound,
    /// It was seen, in this kind of place, and not taken.
    NotTaken { place: String },
    /// It was taken and never treated.
    NotTreated(Treatment),
    /// It was put into place first and never treated afterwards.
    PutUntreated(Treatment),
    /// It was treated, and the treatment was undone by another one.
    Undone { treatment: Treatment, other: Treatment },
    /// The lamp was turned on with nothing, or something else, in the hand.
    LampWithoutObject,
    /// The object was held, but the lamp was never turned on.
    LampNotUsed,
    /// It was never brought to its place; here is where it was put instead, if anywhere.
    NotBrought { instead: Option<String> },
    /// One of two is in place, the other is not.
    OneOfTwo,
    /// Both were put down, but not in the same place.
    TwoPlaces,
}

impl Facts<'_> {
    fn takes(&self) -> impl Iterator<Item = (&Thing, &Thing)> {
        self.walk.events.iter().filter_map(|event| match &event.deed {
            Deed::Take(object, from) if object.kind == self.goal.object => Some((object, from)),
            _ => None,
        })
    }

    /// Puts of the object at its place, with the position of the event.
    fn deliveries(&self) -> impl Iterator<Item = (usize, &Thing, &Thing)> {
        self.walk.events.iter().enumerate().filter_map(|(at, event)| match &event.deed {
            Deed::Put(object, place) if object.kind == self.goal.object && place.kind == self.goal.target => {
                Some((at, object, place))
            }
            _ => None,
        })
    }

    /// What became of the wanted treatment: the event that gave it last, and a later one that undid it.
    fn treated(&self, wanted: Treatment) -> Option<(usize, Option<Treatment>)> {
        let given = |at: usize| match &self.walk.events[at].deed {
            Deed::Treat(given, object, _) if object.kind == self.goal.object => Some(*given),
            _ => None,
        };
        let when = (0..self.walk.events.len()).rev().find(|at| given(*at) == Some(wanted))?;
        let undone =
            (when + 1..self.walk.events.len()).find_map(|at| given(at).filter(|given| given.undoes(wanted)));
        Some((when, undone))
    }

    fn fault(&self) -> Option<Fault> {
        let goal = self.goal;
        if self.takes().next().is_none() {
            return Some(match self.walk.seen_of(&goal.object).next() {
                Some((_, place)) => Fault::NotTaken { place: place.kind.clone() },
                None => Fault::NotFound,
            });
        }
        if goal.look {
            let uses = || {
                self.walk
                    .events
                    .iter()
                    .filter(|e| matches!(&e.deed, Deed::Use(lamp) if lamp.kind == goal.target))
            };
            let holding =
                uses().any(|event| event.held.as_ref().is_some_and(|held| held.kind == goal.object));
            return match (holding, uses().next()) {
                (true, _) => None,
                (false, Some(_)) => Some(Fault::LampWithoutObject),
                (false, None) => Some(Fault::LampNotUsed),
            };
        }
        let delivered: Vec<_> = self.deliveries().collect();
        if let Some(treatment) = goal.treatment {
            match self.treated(treatment) {
                None if delivered.is_empty() => return Some(Fault::NotTreated(treatment)),
                None => return Some(Fault::PutUntreated(treatment)),
                Some((_, Some(other))) => return Some(Fault::Undone { treatment, other }),
                Some((when, None)) if delivered.iter().all(|(at, ..)| *at < when) => {
                    return Some(self.not_brought());
                }
                Some(_) => {}
            }
        }
        if delivered.is_empty() {
            return Some(self.not_brought());
        }
        if goal.count > 1 {
            let mut objects: Vec<&str> =
                delivered.iter().map(|(_, object, _)| object.name.as_str()).collect();
            objects.sort_unstable();
            objects.dedup();
            if objects.len() < goal.count {
                return Some(Fault::OneOfTwo);
            }
            let first = &delivered[0].2.name;
            if delivered.iter().any(|(.., place)| &place.name != first) {
                return Some(Fault::TwoPlaces);
            }
        }
        None
    }

    fn not_brought(&self) -> Fault {
        let instead = self.walk.events.iter().rev().find_map(|event| match &event.deed {
            Deed::Put(object, place) if object.kind == self.goal.object && place.kind != self.goal.target => {
                Some(place.kind.clone())
            }
            _ => None,
        });
        Fault::NotBrought { instead }
    }

    // Sentences.

    /// `move the mug to the table`, in the world's own words.
    fn put(&self, object: &str) -> String {
        let (verb, between) = self.walk.put_words;
        format!("{verb} {object} {between} the {}", self.goal.target)
    }

    /// `heat the mug with the microwave`.
    fn treat(&self, object: &str) -> Option<String> {
        let treatment = self.goal.treatment?;
        Some(format!("{} {object} with the {}", treatment.verb(), treatment.place()))
    }

    /// What is to be done once the object is in the hand.
    fn rest_of_the_way(&self) -> String {
        let object = format!("the {}", self.goal.object);
        if self.goal.look {
            let place = self.walk.seen_of(&self.goal.target).next().map(|(_, place)| place.kind.clone());
            return match place {
                Some(place) => format!(
                    "then go to the {place} and use the {} while you hold {object}.",
                    self.goal.target
                ),
                None => format!("then find the {} and use it while you hold {object}.", self.goal.target),
            };
        }
        match self.treat(&object) {
            Some(treat) => format!("then {treat} and {}.", self.put("it")),
            None => format!("then {}.", self.put(&object)),
        }
    }

    fn success(&self) -> Option<(String, String)> {
        let goal = self.goal;
        let object = format!("the {}", goal.object);
        let sources: Vec<(&Thing, &Thing)> = self.takes().collect();
        // The take that led to the goal is the last one of each object; earlier ones were detours.
        let (_, source) = *sources.last()?;
        let open = |place: &Thing| match self.walk.opened(place) {
            true => format!("open the {}", place.kind),
            false => format!("go to the {}", place.kind),
        };
        let mut sentences = Vec::new();
        if goal.count > 1 {
            let mut places: Vec<&Thing> = sources.iter().map(|(_, from)| *from).collect();
            places.dedup();
            places.retain(|place| place.kind != goal.target);
            let places = list(places.iter().map(|place| place.kind.clone()), 2);
            sentences.push(format!("to {}, take one {} at a time.", goal.text, goal.object));
            if !places.is_empty() {
                sentences.push(format!("look in the {places}."));
            }
            sentences.push(format!("{}, then go back for the other one.", self.put("the first one")));
        } else {
            sentences.push(format!("to {}, {} and take {object}.", goal.text, open(source)));
            let opened_target = self.deliveries().last().filter(|(.., place)| self.walk.opened(place));
            match (opened_target, self.treat(&object)) {
                (Some(_), treat) => {
                    let treat = treat.map(|treat| format!("{treat}, ")).unwrap_or_default();
                    sentences.push(format!("then {treat}open the {} and {}.", goal.target, self.put("it")));
                }
                (None, _) => sentences.push(self.rest_of_the_way()),
            }
        }
        sentences.extend(self.signs());
        let summary = format!("The task is done. The {} was in the {}.", goal.object, source.kind);
        Some((summary, within_limit(sentences)))
    }

    fn failure(&self) -> Option<(String, String)> {
        let goal = self.goal;
        let object = format!("the {}", goal.object);
        let rest = self.rest_of_the_way();
        let (cause, mut sentences) = match self.fault()? {
            Fault::NotFound => {
                let searched = list(self.walk.searched().map(|place| place.kind.clone()), 3);
                let mut sentences = Vec::new();
                let closed = list(self.walk.left_closed().map(|place| place.kind.clone()), 2);
                if !closed.is_empty() {
                    sentences.push(format!("open the {closed} before you go on."));
                }
                let next = list(self.unsearched(), 3);
                if !next.is_empty() {
                    sentences.push(format!("look in the {next} for {object}."));
                }
                if !searched.is_empty() {
                    sentences.push(format!("do not go back to the same {searched}."));
                }
                sentences.extend(self.wrong_object());
                if sentences.is_empty() {
                    sentences.push(format!("go to each place and look for {object}."));
                }
                (format!("{object} was not found."), sentences)
            }
            Fault::NotTaken { place } => (
                format!("{object} was in the {place} and you did not take it."),
                vec![format!("when you see {object} in the {place}, take it."), rest.clone()],
            ),
            Fault::NotTreated(treatment) => {
                let verb = treatment.verb();
                let mut sentences =
                    vec![format!("when you hold {object}, go to the {} and {verb} it.", treatment.place())];
                sentences.push(format!("then {}.", self.put("it")));
                sentences.extend(self.other_treatment());
                (format!("you did not {verb} {object}."), sentences)
            }
            Fault::PutUntreated(treatment) => {
                let verb = treatment.verb();
                let mut sentences =
                    vec![format!("do not {} before you {verb} it.", self.put(&object)), rest.clone()];
                sentences.extend(self.other_treatment());
                (format!("you did not {verb} {object}."), sentences)
            }
            Fault::Undone { treatment, other } => {
                let (verb, other) = (treatment.verb(), other.verb());
                (
                    format!("you did {verb} {object}, and then {other} it again."),
                    vec![format!("when you {verb} {object}, do not {other} it after that."), rest.clone()],
                )
            }
            Fault::LampWithoutObject => (
                format!("you did not hold {object}."),
                vec![
                    format!("do not use the {} before you hold {object}.", goal.target),
                    format!("take {object} first."),
                    rest.clone(),
                ],
            ),
            Fault::LampNotUsed => (
                format!("you did not use the {}.", goal.target),
                vec![format!("when you hold {object}, do not look for more."), rest.clone()],
            ),
            Fault::NotBrought { instead } => {
                let mut sentences = Vec::new();
                if let Some(instead) = instead {
                    sentences.push(format!("do not leave {object} at the {instead}."));
                }
                let closed = self.walk.left_closed().any(|place| place.kind == goal.target);
                sentences.push(match closed {
                    true => format!("open the {}, then {}.", goal.target, self.put(&object)),
                    false => {
                        format!("when you hold {object}, go to the {} and {}.", goal.target, self.put("it"))
                    }
                });
                (format!("{object} is not in the {}.", goal.target), sentences)
            }
            Fault::OneOfTwo => {
                let taken: Vec<&str> = self.takes().map(|(object, _)| object.name.as_str()).collect();
                let other = self
                    .walk
                    .seen_of(&goal.object)
                    .find(|(object, _)| !taken.contains(&object.name.as_str()));
                let mut sentences = vec![format!("one {} is not enough.", goal.object)];
                sentences.push(match other {
                    Some((_, place)) => format!("take another {} from the {}.", goal.object, place.kind),
                    None => match list(self.unsearched(), 3) {
                        next if next.is_empty() => format!("look for another {}.", goal.object),
                        next => format!("look in the {next} for another {}.", goal.object),
                    },
                });
                sentences.push(format!("then {}.", self.put("it")));
                (format!("only one {} is in the {}.", goal.object, goal.target), sentences)
            }
            Fault::TwoPlaces => (
                format!("the two are not in the same {}.", goal.target),
                vec![format!("{}, and go to the same {} for both.", self.put("the second one"), goal.target)],
            ),
        };
        sentences.extend(self.signs());
        let task = format!("to {}:", goal.text);
        Some((
            within_limit(["the task is not done.".to_owned(), cause]),
            within_limit(std::iter::once(task).chain(sentences)),
        ))
    }

    /// Kinds of places of this house that were not searched.
    fn unsearched(&self) -> Vec<String> {
        let left = self.walk.places.iter().filter(|place| !self.walk.searched().any(|seen| seen == *place));
        left.map(|place| place.kind.clone()).collect()
    }

    fn wrong_object(&self) -> Option<String> {
        self.walk.events.iter().find_map(|event| match &event.deed {
            Deed::Take(object, _) if object.kind != self.goal.object => {
                Some(format!("do not take the {}.", object.kind))
            }
            _ => None,
        })
    }

    /// Another treatment than the wanted one was given to the object.
    fn other_treatment(&self) -> Option<String> {
        let wanted = self.goal.treatment?;
        self.walk.events.iter().find_map(|event| match &event.deed {
            Deed::Treat(other, object, _) if *other != wanted && object.kind == self.goal.object => {
                Some(format!("do not {} it.", other.verb()))
            }
            _ => None,
        })
    }

    /// What could be seen to go wrong on the way.
    fn signs(&self) -> Vec<String> {
        let mut signs = Vec::new();
        if self.walk.fruitless >= 2 {
            signs.push("when nothing happens, do not do the same again.".to_owned());
        }
        if let Some((place, 3..)) = self.walk.most_visited() {
            signs.push(format!("do not go to the {} again and again.", place.kind));
        }
        signs
    }
}
