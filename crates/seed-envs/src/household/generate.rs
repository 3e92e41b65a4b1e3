//! The seeded generator of games: a house, things in it, a goal that can be reached, and the shortest way there.

use super::knowledge::{self, Group, OBJECTS, ObjectKind, Room, Treatment};
use super::layout::{Family, Layout, numbered};
use super::plan::{Command, Position};
use super::stream::{Stream, hash};

/// The one dial of the world, from 0 (a corner of a room) to 1 (a house of four rooms), in steps of 0.01.
///
/// | | 0.0 | 0.15 (default) | 0.5 | 1.0 |
/// |---|---|---|---|---|
/// | rooms | 1 | 1 | 3 | 4 |
/// | receptacles | 5 | 8 | 15 | 25 |
/// | objects | 6 | 11 | 23 | 40 |
/// | objects away from where they usually are | 10 % | 16 % | 30 % | 50 % |
/// | step limit | 10 | 14 | 28 | 48 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Difficulty(u8);

impl Difficulty {
    /// The dial at a number in `0..=1`, rounded to hundredths; `None` outside or for NaN.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then(|| Self((value * 100.0).round() as u8))
    }

    /// The dial in hundredths, `0..=100`.
    pub fn percent(self) -> u8 {
        self.0
    }

    /// Rooms of a house.
    pub fn rooms(self) -> usize {
        1 + self.scaled(3)
    }

    /// Receptacles of a house. Rooms that are full, or that need more, may change it a little.
    pub fn receptacles(self) -> usize {
        5 + self.scaled(20)
    }

    /// Objects in a house, the ones that the goal needs included.
    pub fn objects(self) -> usize {
        6 + self.scaled(34)
    }

    /// Steps after which an episode is cut.
    pub fn step_limit(self) -> usize {
        (8 + self.scaled(40)).max(10)
    }

    /// How often an object lies elsewhere than usual.
    fn astray(self) -> f64 {
        0.1 + 0.4 * f64::from(self.0) / 100.0
    }

    /// `dial * most`, rounded half up, in whole numbers.
    fn scaled(self, most: usize) -> usize {
        (usize::from(self.0) * most + 50) / 100
    }
}

impl Default for Difficulty {
    fn default() -> Self {
        Self(15)
    }
}

/// Where the games of a split come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// `train`.
    Train,
    /// `valid_seen`: the layouts and goals of training, in games that training does not have.
    ValidSeen,
    /// `valid_unseen`: layouts, and pairs of object and target, that training never shows.
    ValidUnseen,
}

impl Split {
    /// All splits in their usual order.
    pub const ALL: [Self; 3] = [Self::Train, Self::ValidSeen, Self::ValidUnseen];

    /// The name, e.g. `valid_seen`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::ValidSeen => "valid_seen",
            Self::ValidUnseen => "valid_unseen",
        }
    }

    /// The split of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|split| split.name() == name)
    }

    /// The family of layouts and goals that it draws from.
    pub fn family(self) -> Family {
        match self {
            Self::Train | Self::ValidSeen => Family::Known,
            Self::ValidUnseen => Family::HeldOut,
        }
    }

    /// Whether a finished game belongs here: a fixed eighth of the games over known layouts is kept from training.
    fn takes(self, content: &str) -> bool {
        match self {
            Self::Train => !hash(content.as_bytes()).is_multiple_of(8),
            Self::ValidSeen => hash(content.as_bytes()).is_multiple_of(8),
            Self::ValidUnseen => true,
        }
    }
}

/// The six families of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// Put an object somewhere.
    Pick,
    /// Put two objects of one kind into one receptacle.
    PickTwo,
    /// Hold an object where a lamp shines.
    Look,
    /// Treat an object (clean, heat or cool it), then put it somewhere.
    Treat(Treatment),
}

impl TaskKind {
    /// All families; a game's seed picks one by its remainder.
    pub const ALL: [Self; 6] = [
        Self::Pick,
        Self::Look,
        Self::Treat(Treatment::Clean),
        Self::Treat(Treatment::Heat),
        Self::Treat(Treatment::Cool),
        Self::PickTwo,
    ];

    /// The name in tables and task ids, e.g. `pick_two`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pick => "pick",
            Self::PickTwo => "pick_two",
            Self::Look => "look",
            Self::Treat(treatment) => treatment.verb(),
        }
    }

    /// The rooms where it can be done.
    fn rooms(self) -> &'static [Room] {
        match self {
            Self::Pick | Self::PickTwo => &Room::ALL,
            Self::Look => &[Room::Bedroom, Room::Lounge],
            Self::Treat(Treatment::Clean) => &[Room::Kitchen, Room::Bathroom],
            Self::Treat(Treatment::Heat | Treatment::Cool) => &[Room::Kitchen],
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// The family.
    pub kind: TaskKind,
    /// The kind of object.
    pub object: &'static ObjectKind,
    /// The kind of receptacle where it goes; the kind of lamp for [`TaskKind::Look`].
    pub target: &'static str,
    /// Which of the two wordings is used.
    pub wording: usize,
}

impl Goal {
    /// The pair that decides whether training may have this goal.
    pub fn pair(&self) -> String {
        format!("{} {}", self.object.name, self.target)
    }

    /// The task in words, e.g. `put a hot mug on a table`.
    pub fn text(&self) -> String {
        let object = with_article(self.object.name);
        let target = with_article(self.target);
        let preposition = preposition(self.target);
        let name = self.object.name;
        let first = self.wording == 0;
        match self.kind {
            TaskKind::Pick if first => format!("put {object} {preposition} {target}"),
            TaskKind::Pick => format!("find {object} and put it {preposition} {target}"),
            TaskKind::PickTwo if first => format!("put {object} and another {name} {preposition} {target}"),
            TaskKind::PickTwo => {
                format!("find {object} and another {name} and put both {preposition} {target}")
            }
            TaskKind::Look if first => format!("look at {object} under {target}"),
            TaskKind::Look => format!("find {object} and look at it under {target}"),
            TaskKind::Treat(treatment) if first => {
                format!("put a {} {name} {preposition} {target}", treatment.state())
            }
            TaskKind::Treat(treatment) => {
                format!("{} {object} and put it {preposition} {target}", treatment.verb())
            }
        }
    }
}

/// `a mug`, `an apple`.
fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// `in` for what has walls, `on` for what has a top.
fn preposition(receptacle: &str) -> &'static str {
    let walls = ["basket", "bin", "sink", "tub"];
    match knowledge::receptacle(receptacle) {
        Some(kind) if kind.openable || walls.contains(&kind.name) => "in",
        _ => "on",
    }
}

/// An object of a game.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// What it is.
    pub kind: &'static ObjectKind,
    /// Where it starts, as an index into [`Layout::receptacles`].
    pub at: usize,
}

/// One game, complete. Equal arguments of [`Game::generate`] give equal games on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Game {
    /// The split it was made for.
    pub split: Split,
    /// The dial it was made with.
    pub difficulty: Difficulty,
    /// Its number inside the split.
    pub seed: u64,
    /// The house.
    pub layout: Layout,
    /// What lies about, sorted by kind.
    pub objects: Vec<Placed>,
    /// What is to be done.
    pub goal: Goal,
    /// A shortest plan from the start.
    pub plan: Vec<Command>,
}

impl Game {
    /// The game of a seed.
    ///
    /// The family of the task follows from the seed, so any six consecutive seeds hold one of each. Every game can be
    /// solved; its plan fits into the step limit.
    pub fn generate(split: Split, difficulty: Difficulty, seed: u64) -> Self {
        let kind = TaskKind::ALL[(seed % TaskKind::ALL.len() as u64) as usize];
        // An attempt fails when a house has no room for its goal; every family has many houses that do.
        (0..)
            .find_map(|attempt| {
                let numbers = [split as u64, u64::from(difficulty.percent()), seed, attempt];
                let mut stream = Stream::new("household/game", &numbers);
                Self::attempt(split, difficulty, seed, kind, &mut stream)
            })
            .expect("the range of attempts has no end")
    }

    fn attempt(
        split: Split,
        difficulty: Difficulty,
        seed: u64,
        kind: TaskKind,
        stream: &mut Stream,
    ) -> Option<Self> {
        let layout = draw_layout(split.family(), difficulty, kind, stream);
        let goal = draw_goal(split.family(), kind, &layout, stream)?;
        let mut objects = place_goal(&goal, difficulty, &layout, stream)?;
        scatter(&goal, difficulty, &layout, stream, &mut objects);
        objects.sort_by_key(|placed| placed.kind.name);
        let mut game = Self { split, difficulty, seed, layout, objects, goal, plan: Vec::new() };
        if !split.takes(&game.content()) {
            return None;
        }
        game.plan = Position::start(&game).shortest_plan(&game)?;
        (!game.plan.is_empty() && game.plan.len() <= difficulty.step_limit()).then_some(game)
    }

    /// The id of its task, e.g. `train/heat-mug-table-d15/seed_42`.
    pub fn id(&self) -> String {
        let Goal { kind, object, target, .. } = &self.goal;
        format!(
            "{}/{}-{}-{target}-d{}/seed_{}",
            self.split.name(),
            kind.name(),
            object.name,
            self.difficulty.percent(),
            self.seed
        )
    }

    /// The display name of each object, e.g. `mug 1`: numbered inside its kind, from 1.
    pub fn object_names(&self) -> Vec<String> {
        let kinds: Vec<_> = self.objects.iter().map(|placed| placed.kind.name).collect();
        numbered(&kinds)
    }

    /// The shortest plan as commands of the game.
    pub fn walkthrough(&self) -> Vec<String> {
        let (objects, receptacles) = (self.object_names(), self.layout.names());
        self.plan.iter().map(|command| command.text(&objects, &receptacles)).collect()
    }

    /// House, things and goal in one line: what makes two games the same game.
    pub fn content(&self) -> String {
        let objects: Vec<_> =
            self.objects.iter().map(|placed| format!("{}@{}", placed.kind.name, placed.at)).collect();
        let Goal { kind, object, target, .. } = &self.goal;
        format!("{}; {}; {} {} {target}", self.layout.name(), objects.join(" "), kind.name(), object.name)
    }
}

fn draw_layout(family: Family, difficulty: Difficulty, kind: TaskKind, stream: &mut Stream) -> Layout {
    let mut rooms: Vec<Room> = stream.choose(kind.rooms()).copied().into_iter().collect();
    let mut others: Vec<Room> = Room::ALL.into_iter().filter(|room| !rooms.contains(room)).collect();
    stream.shuffle(&mut others);
    rooms.extend(others.into_iter().take(difficulty.rooms() - 1));
    Layout::draw(family, difficulty, &rooms, stream.next_u64())
}

fn draw_goal(family: Family, kind: TaskKind, layout: &Layout, stream: &mut Stream) -> Option<Goal> {
    let fits = |object: &ObjectKind| layout.accepting(object.group).next().is_some();
    let usable = |object: &&ObjectKind| match kind {
        TaskKind::Treat(treatment) => object.treatments.contains(&treatment) && fits(object),
        _ => object.portable() && fits(object),
    };
    let targets: Vec<(&'static str, Option<Group>)> = match kind {
        TaskKind::Look => OBJECTS
            .iter()
            .filter(|object| !object.portable() && fits(object))
            .map(|lamp| (lamp.name, None))
            .collect(),
        _ => {
            let kinds = layout.kinds().into_iter().filter(|kind| kind.treats.is_none());
            kinds.flat_map(|kind| kind.accepts.iter().map(|&group| (kind.name, Some(group)))).collect()
        }
    };
    let mut goals: Vec<Goal> = Vec::new();
    for &(target, group) in &targets {
        let objects =
            OBJECTS.iter().filter(usable).filter(|object| group.is_none_or(|group| object.group == group));
        goals.extend(objects.map(|object| Goal { kind, object, target, wording: 0 }));
    }
    goals.retain(|goal| Family::of(&goal.pair()) == family);
    let wording = stream.below(2);
    stream.choose(&goals).map(|goal| Goal { wording, ..*goal })
}

/// Lays out what the goal needs, away from where it is to go.
fn place_goal(
    goal: &Goal,
    difficulty: Difficulty,
    layout: &Layout,
    stream: &mut Stream,
) -> Option<Vec<Placed>> {
    let needed = if goal.kind == TaskKind::PickTwo { 2 } else { 1 };
    let spare = usize::from(stream.chance(f64::from(difficulty.percent()) / 100.0));
    let mut avoid = goal.target;
    let mut objects = Vec::new();
    if goal.kind == TaskKind::Look {
        let lamp = knowledge::object(goal.target)?;
        let at = place(lamp, difficulty, layout, "", stream)?;
        avoid = layout.receptacles[at];
        objects.push(Placed { kind: lamp, at });
    }
    for _ in 0..needed + spare {
        objects
            .push(Placed { kind: goal.object, at: place(goal.object, difficulty, layout, avoid, stream)? });
    }
    Some(objects)
}

/// Fills the house with objects that the goal does not need.
fn scatter(
    goal: &Goal,
    difficulty: Difficulty,
    layout: &Layout,
    stream: &mut Stream,
    objects: &mut Vec<Placed>,
) {
    let mut kinds: Vec<&'static ObjectKind> = OBJECTS
        .iter()
        .filter(|kind| kind.name != goal.object.name && kind.name != goal.target)
        .filter(|kind| layout.accepting(kind.group).next().is_some())
        .collect();
    // What is at home here comes first, so that a kitchen looks like a kitchen.
    stream.shuffle(&mut kinds);
    kinds.sort_by_key(|kind| !kind.homes.iter().any(|home| layout.receptacles.contains(home)));
    for kind in kinds {
        let copies = 1 + usize::from(kind.portable() && stream.chance(0.2));
        for _ in 0..copies {
            if objects.len() >= difficulty.objects() {
                return;
            }
            objects.extend(place(kind, difficulty, layout, "", stream).map(|at| Placed { kind, at }));
        }
    }
}

/// Chooses a receptacle for an object: mostly one of its homes, the first homes more often. Never one of the kind
/// `avoid`; `None` if nothing else accepts it.
fn place(
    kind: &ObjectKind,
    difficulty: Difficulty,
    layout: &Layout,
    avoid: &str,
    stream: &mut Stream,
) -> Option<usize> {
    let accepting: Vec<usize> =
        layout.accepting(kind.group).filter(|&index| layout.receptacles[index] != avoid).collect();
    let at_home = |home: &str| -> Vec<usize> {
        accepting.iter().copied().filter(|&index| layout.receptacles[index] == home).collect()
    };
    let homes: Vec<Vec<usize>> =
        kind.homes.iter().map(|home| at_home(home)).filter(|at| !at.is_empty()).collect();
    let astray = stream.chance(difficulty.astray());
    // Of the homes in this house the first gets half, the next half of the rest, and so on.
    let skipped = (1..homes.len()).take_while(|_| stream.chance(0.5)).count();
    match homes.get(skipped) {
        Some(home) if !astray => stream.choose(home).copied(),
        _ => stream.choose(&accepting).copied(),
    }
}
