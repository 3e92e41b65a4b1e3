//! Houses before anything lies about in them: which rooms, which furniture.
//!
//! Layouts fall into two families that never meet. Training and seen games use one, unseen games the other.

use super::generate::Difficulty;
use super::knowledge::{self, Group, RECEPTACLES, ReceptacleKind, Room};
use super::stream::{Stream, hash};

/// Which of the two disjoint families of layouts (and of goals) a game draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Met in training.
    Known,
    /// Held out for `valid_unseen`.
    HeldOut,
}

impl Family {
    /// The family that a name falls into: a fixed quarter of all names is held out.
    pub fn of(name: &str) -> Self {
        if hash(name.as_bytes()).is_multiple_of(4) { Self::HeldOut } else { Self::Known }
    }

    /// How many layouts each set of rooms has at one difficulty.
    fn layouts(self) -> u64 {
        match self {
            Self::Known => 48,
            Self::HeldOut => 24,
        }
    }
}

/// The rooms and furniture of a house.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Its rooms, in the fixed order of [`Room::ALL`].
    pub rooms: Vec<Room>,
    /// The kinds of its receptacles in alphabetical order, one entry a receptacle.
    pub receptacles: Vec<&'static str>,
}

impl Layout {
    /// One of the family's layouts for these rooms; the same arguments give the same layout.
    ///
    /// `rooms` must not be empty. Furniture that a room cannot do without is always there, whatever `difficulty` says.
    pub fn draw(family: Family, difficulty: Difficulty, rooms: &[Room], index: u64) -> Self {
        let mut rooms = rooms.to_vec();
        rooms.sort_unstable();
        rooms.dedup();
        let rooms_key: u64 = rooms.iter().map(|&room| 1 << room as u64).sum();
        let index = index % family.layouts();
        // A quarter of all layouts is held out, so either family turns up after a few attempts.
        (0..)
            .map(|attempt| {
                let numbers = [family as u64, u64::from(difficulty.percent()), rooms_key, index, attempt];
                Self::furnish(
                    &rooms,
                    difficulty.receptacles(),
                    &mut Stream::new("household/layout", &numbers),
                )
            })
            .find(|layout| Family::of(&layout.name()) == family)
            .expect("the range of attempts has no end")
    }

    /// What tells layouts apart: rooms and furniture, counted.
    pub fn name(&self) -> String {
        let rooms: Vec<_> = self.rooms.iter().map(|room| room.name()).collect();
        format!("{}: {}", rooms.join(" "), self.receptacles.join(" "))
    }

    /// The rooms in a sentence, e.g. `a kitchen and a bedroom`.
    pub fn rooms_text(&self) -> String {
        let rooms: Vec<_> = self.rooms.iter().map(|room| format!("a {}", room.name())).collect();
        match rooms.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// The kinds of its receptacles, each once, in alphabetical order.
    pub fn kinds(&self) -> Vec<&'static ReceptacleKind> {
        let mut names = self.receptacles.clone();
        names.dedup();
        names.into_iter().filter_map(knowledge::receptacle).collect()
    }

    /// The display name of each receptacle, e.g. `drawer 2`: numbered inside its kind, from 1.
    pub fn names(&self) -> Vec<String> {
        numbered(&self.receptacles)
    }

    fn furnish(rooms: &[Room], count: usize, stream: &mut Stream) -> Self {
        let mut furniture: Vec<(Room, &'static str)> = Vec::new();
        for &room in rooms {
            let fixed: &[&[&'static str]] = match room {
                Room::Kitchen => &[&["sink"], &["fridge"], &["oven", "stove"]],
                Room::Bedroom => &[&["bed"], &["desk", "nightstand"]],
                Room::Lounge => &[&["sofa"], &["table"]],
                Room::Bathroom => &[&["sink"]],
            };
            furniture
                .extend(fixed.iter().filter_map(|choice| stream.choose(choice)).map(|&name| (room, name)));
        }
        while furniture.len() < count {
            let room = rooms[stream.below(rooms.len())];
            let free = |&(room, kind): &(Room, &ReceptacleKind)| {
                let there = furniture.iter().filter(|&&piece| piece == (room, kind.name)).count();
                kind.rooms.contains(&room) && there < kind.most
            };
            let candidates: Vec<_> = RECEPTACLES.iter().map(|kind| (room, kind)).filter(free).collect();
            match stream.choose(&candidates) {
                Some(&(room, kind)) => furniture.push((room, kind.name)),
                // A full room: only a house whose every room is full ends up smaller than asked for.
                None if rooms.iter().all(|&room| RECEPTACLES.iter().all(|kind| !free(&(room, kind)))) => {
                    break;
                }
                None => {}
            }
        }
        let mut receptacles: Vec<_> = furniture.into_iter().map(|(_, name)| name).collect();
        receptacles.sort_unstable();
        Self { rooms: rooms.to_vec(), receptacles }
    }

    /// The receptacles that accept a group, as indices into [`Layout::receptacles`].
    pub(crate) fn accepting(&self, group: Group) -> impl Iterator<Item = usize> {
        self.receptacles
            .iter()
            .enumerate()
            .filter(move |(_, name)| {
                knowledge::receptacle(name).is_some_and(|kind| kind.accepts.contains(&group))
            })
            .map(|(index, _)| index)
    }
}

/// Numbers equal neighbours from 1: `[desk, drawer, drawer]` gives `desk 1, drawer 1, drawer 2`.
pub(crate) fn numbered(kinds: &[&'static str]) -> Vec<String> {
    let mut number = 0;
    kinds
        .iter()
        .enumerate()
        .map(|(index, &kind)| {
            number = if index > 0 && kinds[index - 1] == kind { number + 1 } else { 1 };
            format!("{kind} {number}")
        })
        .collect()
}
