//! What is true in every house of this world: rooms, furniture, objects, where things usually are, what treats what.
//!
//! The generator, the demonstrations and whoever writes lessons about this world read the same tables.

use serde::{Deserialize, Serialize};

/// A room of a house. Furniture belongs to rooms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Room {
    /// Has whatever heats and cools.
    Kitchen,
    /// Has a bed, and often a lamp.
    Bedroom,
    /// Has a sofa, and often a lamp.
    Lounge,
    /// Has a sink.
    Bathroom,
}

impl Room {
    /// All rooms.
    pub const ALL: [Self; 4] = [Self::Kitchen, Self::Bedroom, Self::Lounge, Self::Bathroom];

    /// The word used in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kitchen => "kitchen",
            Self::Bedroom => "bedroom",
            Self::Lounge => "lounge",
            Self::Bathroom => "bathroom",
        }
    }
}

/// Something done to a held object at the right receptacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Treatment {
    /// Done with a sink; makes the object clean.
    Clean,
    /// Done with an oven or a stove; makes the object hot.
    Heat,
    /// Done with a fridge; makes the object cold.
    Cool,
}

impl Treatment {
    /// All treatments.
    pub const ALL: [Self; 3] = [Self::Clean, Self::Heat, Self::Cool];

    /// The verb of the command, e.g. `heat`.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Heat => "heat",
            Self::Cool => "cool",
        }
    }

    /// What the object is afterwards, e.g. `hot`.
    pub fn state(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Heat => "hot",
            Self::Cool => "cold",
        }
    }

    /// The kinds of receptacle that do it.
    pub fn receptacles(self) -> impl Iterator<Item = &'static ReceptacleKind> {
        RECEPTACLES.iter().filter(move |kind| kind.treats == Some(self))
    }
}

/// What objects have in common when it comes to where they may be put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Eaten or drunk from, cooked in.
    Dish,
    /// Eaten.
    Food,
    /// Eaten with.
    Cutlery,
    /// Read.
    Paper,
    /// Small things that people carry.
    Trinket,
    /// Made of cloth.
    Cloth,
    /// Belongs to washing.
    Toiletry,
    /// Gives light; stands where it stands.
    Lamp,
}

/// A kind of furniture that holds objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceptacleKind {
    /// The word used in texts, e.g. `cabinet`.
    pub name: &'static str,
    /// It starts closed and hides what it holds until it is opened.
    pub openable: bool,
    /// What it does to a held object, if anything. It works open or closed.
    pub treats: Option<Treatment>,
    /// Where it may stand.
    pub rooms: &'static [Room],
    /// How many a room has at most.
    pub most: usize,
    /// What may be put there.
    pub accepts: &'static [Group],
}

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectKind {
    /// The word used in texts, e.g. `mug`.
    pub name: &'static str,
    /// Decides where it may be put.
    pub group: Group,
    /// The kinds of receptacle where it usually starts, the most usual first.
    pub homes: &'static [&'static str],
    /// What can be done to it.
    pub treatments: &'static [Treatment],
}

impl ObjectKind {
    /// It can be taken. Lamps cannot.
    pub fn portable(&self) -> bool {
        self.group != Group::Lamp
    }
}

/// Looks a kind of receptacle up by its word.
pub fn receptacle(name: &str) -> Option<&'static ReceptacleKind> {
    RECEPTACLES.iter().find(|kind| kind.name == name)
}

/// Looks a kind of object up by its word.
pub fn object(name: &str) -> Option<&'static ObjectKind> {
    OBJECTS.iter().find(|kind| kind.name == name)
}

use Group::{Cloth, Cutlery, Dish, Food, Lamp, Paper, Toiletry, Trinket};
use Room::{Bathroom, Bedroom, Kitchen, Lounge};
use Treatment::{Clean, Cool, Heat};

const fn furniture(
    name: &'static str,
    openable: bool,
    treats: Option<Treatment>,
    rooms: &'static [Room],
    most: usize,
    accepts: &'static [Group],
) -> ReceptacleKind {
    ReceptacleKind { name, openable, treats, rooms, most, accepts }
}

const fn thing(
    name: &'static str,
    group: Group,
    homes: &'static [&'static str],
    treatments: &'static [Treatment],
) -> ObjectKind {
    ObjectKind { name, group, homes, treatments }
}

/// Every kind of receptacle, in alphabetical order.
pub const RECEPTACLES: &[ReceptacleKind] = &[
    furniture("basket", false, None, &[Bathroom, Bedroom], 1, &[Cloth, Toiletry]),
    furniture("bed", false, None, &[Bedroom], 1, &[Paper, Trinket, Cloth]),
    furniture("bin", false, None, &[Kitchen, Bathroom], 1, &[Food, Paper, Toiletry]),
    furniture("cabinet", true, None, &[Kitchen, Bathroom], 4, &[Dish, Cutlery, Cloth, Toiletry]),
    furniture("chair", false, None, &[Bedroom, Lounge], 2, &[Paper, Trinket, Cloth]),
    furniture("chest", true, None, &[Bedroom, Lounge], 1, &[Paper, Trinket, Cloth]),
    furniture("counter", false, None, &[Kitchen], 2, &[Dish, Food, Cutlery, Lamp]),
    furniture("cupboard", true, None, &[Lounge, Kitchen], 2, &[Dish, Paper, Trinket]),
    furniture("desk", false, None, &[Bedroom], 1, &[Dish, Paper, Trinket, Lamp]),
    furniture("drawer", true, None, &[Kitchen, Bedroom, Lounge], 4, &[Cutlery, Paper, Trinket, Cloth]),
    furniture("fridge", true, Some(Cool), &[Kitchen], 1, &[Dish, Food]),
    furniture("nightstand", false, None, &[Bedroom], 2, &[Dish, Paper, Trinket, Lamp]),
    furniture("oven", true, Some(Heat), &[Kitchen], 1, &[Dish, Food]),
    furniture("rack", false, None, &[Bathroom, Kitchen], 1, &[Dish, Cloth, Toiletry]),
    furniture("safe", true, None, &[Bedroom, Lounge], 1, &[Paper, Trinket]),
    furniture(
        "shelf",
        false,
        None,
        &[Kitchen, Bedroom, Lounge, Bathroom],
        2,
        &[Dish, Paper, Trinket, Toiletry, Lamp],
    ),
    furniture("sink", false, Some(Clean), &[Kitchen, Bathroom], 1, &[Dish, Cutlery, Cloth, Toiletry]),
    furniture("sofa", false, None, &[Lounge], 1, &[Paper, Trinket, Cloth]),
    furniture("stove", false, Some(Heat), &[Kitchen], 1, &[Dish]),
    furniture("table", false, None, &[Kitchen, Lounge], 2, &[Dish, Food, Cutlery, Paper, Trinket, Lamp]),
    furniture("tub", false, None, &[Bathroom], 1, &[Cloth, Toiletry]),
    furniture("wardrobe", true, None, &[Bedroom], 1, &[Trinket, Cloth]),
];

/// Every kind of object, in alphabetical order.
pub const OBJECTS: &[ObjectKind] = &[
    thing("apple", Food, &["fridge", "table", "counter"], &[Clean, Heat, Cool]),
    thing("blanket", Cloth, &["bed", "chest", "sofa"], &[]),
    thing("book", Paper, &["shelf", "desk", "nightstand", "table"], &[]),
    thing("bottle", Toiletry, &["cabinet", "shelf"], &[Clean]),
    thing("bowl", Dish, &["cupboard", "cabinet", "counter"], &[Clean, Heat, Cool]),
    thing("bread", Food, &["counter", "table"], &[Heat, Cool]),
    thing("brush", Toiletry, &["cabinet", "shelf"], &[Clean]),
    thing("card", Paper, &["drawer", "desk", "cupboard"], &[]),
    thing("cloth", Cloth, &["rack", "cabinet", "basket"], &[Clean]),
    thing("coin", Trinket, &["safe", "drawer", "chest"], &[]),
    thing("comb", Toiletry, &["shelf", "cabinet"], &[Clean]),
    thing("cup", Dish, &["cabinet", "rack", "cupboard"], &[Clean, Heat, Cool]),
    thing("egg", Food, &["fridge", "counter"], &[Clean, Heat, Cool]),
    thing("fork", Cutlery, &["drawer", "cabinet"], &[Clean]),
    thing("glass", Dish, &["cabinet", "rack", "cupboard"], &[Clean, Cool]),
    thing("key", Trinket, &["drawer", "table", "nightstand"], &[]),
    thing("knife", Cutlery, &["drawer", "counter"], &[Clean]),
    thing("lamp", Lamp, &["desk", "nightstand", "table"], &[]),
    thing("lantern", Lamp, &["table", "shelf", "nightstand"], &[]),
    thing("lemon", Food, &["fridge", "counter"], &[Clean, Cool]),
    thing("letter", Paper, &["desk", "drawer", "cupboard"], &[]),
    thing("magazine", Paper, &["sofa", "table", "bed"], &[]),
    thing("mug", Dish, &["cabinet", "counter", "desk"], &[Clean, Heat, Cool]),
    thing("pan", Dish, &["stove", "oven", "cabinet"], &[Clean, Heat, Cool]),
    thing("pen", Trinket, &["desk", "drawer", "table"], &[]),
    thing("phone", Trinket, &["nightstand", "bed", "sofa"], &[]),
    thing("photo", Paper, &["shelf", "chest", "desk"], &[]),
    thing("pillow", Cloth, &["sofa", "bed", "chair"], &[]),
    thing("plate", Dish, &["cabinet", "rack", "table"], &[Clean, Heat, Cool]),
    thing("pot", Dish, &["stove", "cabinet"], &[Clean, Heat, Cool]),
    thing("potato", Food, &["fridge", "counter"], &[Clean, Heat, Cool]),
    thing("remote", Trinket, &["sofa", "table", "chair"], &[]),
    thing("ring", Trinket, &["safe", "nightstand", "wardrobe"], &[]),
    thing("shirt", Cloth, &["wardrobe", "chair", "basket"], &[Clean]),
    thing("soap", Toiletry, &["tub", "sink", "cabinet"], &[Clean]),
    thing("sock", Cloth, &["drawer", "basket", "wardrobe"], &[Clean]),
    thing("sponge", Toiletry, &["sink", "tub", "bin"], &[Clean]),
    thing("spoon", Cutlery, &["drawer", "table"], &[Clean]),
    thing("tomato", Food, &["fridge", "counter"], &[Clean, Heat, Cool]),
    thing("towel", Cloth, &["rack", "tub", "basket"], &[Clean]),
    thing("vase", Dish, &["shelf", "table", "cupboard"], &[Clean]),
    thing("wallet", Trinket, &["safe", "drawer", "chair"], &[]),
    thing("watch", Trinket, &["nightstand", "safe", "drawer"], &[]),
];
