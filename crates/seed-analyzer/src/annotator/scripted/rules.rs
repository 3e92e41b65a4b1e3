//! What is always true in ALFWorld: which receptacle treats an object. Its domain binds each treatment to one kind.

/// Something done to a held object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Treatment {
    /// Makes it clean.
    Clean,
    /// Makes it hot.
    Heat,
    /// Makes it cold.
    Cool,
}

impl Treatment {
    /// All treatments.
    pub(super) const ALL: [Treatment; 3] = [Treatment::Clean, Treatment::Heat, Treatment::Cool];

    /// The command's verb.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Treatment::Clean => "clean",
            Treatment::Heat => "heat",
            Treatment::Cool => "cool",
        }
    }

    /// The kind of receptacle that does it.
    pub(super) fn place(self) -> &'static str {
        match self {
            Treatment::Clean => "sinkbasin",
            Treatment::Heat => "microwave",
            Treatment::Cool => "fridge",
        }
    }

    /// It takes away what another treatment did: heat and cold do.
    pub(super) fn undoes(self, other: Treatment) -> bool {
        matches!((self, other), (Treatment::Heat, Treatment::Cool) | (Treatment::Cool, Treatment::Heat))
    }

    /// The treatment that a word of a task asks for.
    pub(super) fn by_word(word: &str) -> Option<Self> {
        match word {
            "clean" => Some(Treatment::Clean),
            "heat" | "hot" => Some(Treatment::Heat),
            "cool" | "cold" => Some(Treatment::Cool),
            _ => None,
        }
    }
}
