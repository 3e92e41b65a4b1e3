//! The rules of the world as a small model: where everything is, what a command changes, the shortest way to the goal.
//!
//! The generator needs plans before a game file exists, and a demonstrator needs them after any detour. What the
//! player reads always comes from the game's own grammar; tests hold the two against each other.

use super::generate::{Game, Goal, TaskKind};
use super::knowledge::{self, ReceptacleKind, Treatment};

/// A command with objects and receptacles as indices into [`Game::objects`] and `Layout::receptacles`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Walk to a receptacle.
    Go(usize),
    /// Open the receptacle here.
    Open(usize),
    /// Close the receptacle here.
    Close(usize),
    /// Take an object from the receptacle here.
    Take(usize, usize),
    /// Move the held object to the receptacle here.
    Move(usize, usize),
    /// Treat the held object with the receptacle here.
    Treat(Treatment, usize, usize),
    /// Turn on a lamp here.
    Use(usize),
}

impl Command {
    /// The command in the game's words, given the display names.
    pub fn text(self, objects: &[String], receptacles: &[String]) -> String {
        match self {
            Self::Go(to) => format!("go to {}", receptacles[to]),
            Self::Open(at) => format!("open {}", receptacles[at]),
            Self::Close(at) => format!("close {}", receptacles[at]),
            Self::Take(object, from) => format!("take {} from {}", objects[object], receptacles[from]),
            Self::Move(object, to) => format!("move {} to {}", objects[object], receptacles[to]),
            Self::Treat(treatment, object, with) => {
                format!("{} {} with {}", treatment.verb(), objects[object], receptacles[with])
            }
            Self::Use(lamp) => format!("use {}", objects[lamp]),
        }
    }
}

/// Where everything is at one moment of a game.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The receptacle where the agent stands; `None` in the middle of the room.
    pub here: Option<usize>,
    /// The object in the agent's hand.
    pub held: Option<usize>,
    /// Where each object is; `None` for the held one.
    pub at: Vec<Option<usize>>,
    /// Which receptacles are open.
    pub opened: Vec<bool>,
    /// What has been done to each object, in the order of [`Treatment::ALL`].
    pub treated: Vec<[bool; 3]>,
    /// Which objects are lamps that shine.
    pub shining: Vec<bool>,
}

impl Position {
    /// The start of a game.
    pub fn start(game: &Game) -> Self {
        Self {
            here: None,
            held: None,
            at: game.objects.iter().map(|placed| Some(placed.at)).collect(),
            opened: vec![false; game.layout.receptacles.len()],
            treated: vec![[false; 3]; game.objects.len()],
            shining: vec![false; game.objects.len()],
        }
    }

    /// Every command that does something now.
    pub fn commands(&self, game: &Game) -> Vec<Command> {
        let receptacles = 0..game.layout.receptacles.len();
        let mut commands: Vec<Command> =
            receptacles.filter(|&to| self.here != Some(to)).map(Command::Go).collect();
        let Some(here) = self.here else { return commands };
        let kind = kind_of(game, here);
        if kind.openable {
            commands.push(if self.opened[here] { Command::Close(here) } else { Command::Open(here) });
        }
        for (object, placed) in game.objects.iter().enumerate() {
            if self.at[object] == Some(here) {
                if !placed.kind.portable() {
                    commands.push(Command::Use(object));
                } else if self.held.is_none() && self.reachable(game, here) {
                    commands.push(Command::Take(object, here));
                }
            }
        }
        if let Some(object) = self.held {
            let held = game.objects[object].kind;
            if self.reachable(game, here) && kind.accepts.contains(&held.group) {
                commands.push(Command::Move(object, here));
            }
            if let Some(treatment) = kind.treats.filter(|treatment| held.treatments.contains(treatment)) {
                commands.push(Command::Treat(treatment, object, here));
            }
        }
        commands
    }

    /// Carries out a command out of [`Position::commands`]; other commands must not be given.
    pub fn apply(&mut self, command: Command) {
        match command {
            Command::Go(to) => self.here = Some(to),
            Command::Open(at) => self.opened[at] = true,
            Command::Close(at) => self.opened[at] = false,
            Command::Take(object, _) => {
                self.at[object] = None;
                self.held = Some(object);
            }
            Command::Move(object, to) => {
                self.at[object] = Some(to);
                self.held = None;
            }
            Command::Treat(treatment, object, _) => {
                let undone = match treatment {
                    Treatment::Clean => None,
                    Treatment::Heat => Some(Treatment::Cool),
                    Treatment::Cool => Some(Treatment::Heat),
                };
                self.treated[object][treatment as usize] = true;
                if let Some(undone) = undone {
                    self.treated[object][undone as usize] = false;
                }
            }
            Command::Use(lamp) => self.shining[lamp] = true,
        }
    }

    /// The goal holds.
    pub fn won(&self, game: &Game) -> bool {
        let goal = &game.goal;
        match goal.kind {
            TaskKind::Look => {
                let lit = |lamp: usize| {
                    game.objects[lamp].kind.name == goal.target
                        && self.shining[lamp]
                        && self.at[lamp] == self.here
                };
                self.here.is_some()
                    && self.held.is_some_and(|object| is_goal_object(game, object))
                    && (0..game.objects.len()).any(lit)
            }
            TaskKind::PickTwo => targets(game).any(|target| self.settled(game, target).nth(1).is_some()),
            TaskKind::Pick | TaskKind::Treat(_) => {
                targets(game).any(|target| self.settled(game, target).next().is_some())
            }
        }
    }

    /// A shortest list of commands from here to the goal, empty if it holds; `None` if there is none.
    ///
    /// Agents carry one object at a time and furniture never moves, so a shortest plan brings one object after the
    /// other: the search tries every choice of objects, appliance and target, and counts each one's fixed errands.
    /// From the start of a game the plan is a shortest one; after detours (an unneeded object in the hand) it may be a
    /// step longer than necessary.
    pub fn shortest_plan(&self, game: &Game) -> Option<Vec<Command>> {
        self.plan_with(game, &|_| true)
    }

    /// What to do when only some objects have been found: a shortest plan that uses those alone, else the part of the
    /// work that can be done with them; `None` where the next thing to do is to search.
    pub fn plan_with(&self, game: &Game, known: &dyn Fn(usize) -> bool) -> Option<Vec<Command>> {
        if self.won(game) {
            return Some(Vec::new());
        }
        let goal = &game.goal;
        let known = |object: usize| known(object) || self.held == Some(object);
        let objects: Vec<usize> =
            (0..game.objects.len()).filter(|&object| is_goal_object(game, object) && known(object)).collect();
        let mut best: Option<Vec<Command>> = None;
        let mut offer = |route: Option<Route>| {
            let Some(route) = route else { return };
            if best.as_ref().is_none_or(|best| route.commands.len() < best.len()) {
                best = Some(route.commands);
            }
        };
        match goal.kind {
            TaskKind::Look => {
                let lamps =
                    (0..game.objects.len()).filter(|&lamp| game.objects[lamp].kind.name == goal.target);
                let lamps: Vec<usize> = lamps.filter(|&lamp| known(lamp)).collect();
                let holding = self.held.is_some_and(|held| is_goal_object(game, held));
                for &object in &objects {
                    if lamps.is_empty() && !holding {
                        offer(Route::new(self, game).fetch(object));
                    }
                    for &lamp in &lamps {
                        offer(Route::new(self, game).fetch(object).and_then(|route| route.shine(lamp)));
                        offer(
                            Route::new(self, game)
                                .shine(lamp)
                                .and_then(|route| route.fetch(object)?.visit(lamp)),
                        );
                    }
                }
            }
            TaskKind::Pick | TaskKind::Treat(_) => {
                for &object in &objects {
                    for target in targets(game) {
                        for appliance in appliances(game) {
                            offer(Route::new(self, game).bring(object, appliance, target));
                        }
                    }
                }
            }
            TaskKind::PickTwo => {
                for target in targets(game) {
                    let there: Vec<usize> = self.settled(game, target).collect();
                    let missing = objects.iter().copied().filter(|object| !there.contains(object));
                    for first in missing.clone() {
                        let one = Route::new(self, game).bring(first, None, target);
                        if !there.is_empty() || objects.len() == 1 {
                            offer(one);
                            continue;
                        }
                        for second in missing.clone().filter(|&second| second != first) {
                            offer(one.clone().and_then(|route| route.bring(second, None, target)));
                        }
                    }
                }
            }
        }
        best
    }

    /// Objects that count for the goal, in this receptacle.
    fn settled<'a>(&'a self, game: &'a Game, target: usize) -> impl Iterator<Item = usize> + 'a {
        let ready = move |object: usize| match game.goal.kind {
            TaskKind::Treat(treatment) => self.treated[object][treatment as usize],
            _ => true,
        };
        (0..game.objects.len()).filter(move |&object| {
            self.at[object] == Some(target) && is_goal_object(game, object) && ready(object)
        })
    }

    fn reachable(&self, game: &Game, receptacle: usize) -> bool {
        !kind_of(game, receptacle).openable || self.opened[receptacle]
    }
}

fn kind_of(game: &Game, receptacle: usize) -> &'static ReceptacleKind {
    let name = game.layout.receptacles[receptacle];
    knowledge::receptacle(name).expect("layouts are made of known kinds")
}

fn is_goal_object(game: &Game, object: usize) -> bool {
    game.objects[object].kind.name == game.goal.object.name
}

fn targets(game: &Game) -> impl Iterator<Item = usize> {
    let Goal { target, .. } = game.goal;
    game.layout
        .receptacles
        .iter()
        .enumerate()
        .filter(move |&(_, &name)| name == target)
        .map(|(index, _)| index)
}

/// The appliances that the goal may use: `[None]` if it needs none.
fn appliances(game: &Game) -> Vec<Option<usize>> {
    match game.goal.kind {
        TaskKind::Treat(treatment) => (0..game.layout.receptacles.len())
            .filter(|&receptacle| kind_of(game, receptacle).treats == Some(treatment))
            .map(Some)
            .collect(),
        _ => vec![None],
    }
}

/// Commands under way, with the position that they lead to. `None` from a method: this way is closed.
#[derive(Clone)]
struct Route<'a> {
    game: &'a Game,
    position: Position,
    commands: Vec<Command>,
}

impl<'a> Route<'a> {
    fn new(position: &Position, game: &'a Game) -> Self {
        Self { game, position: position.clone(), commands: Vec::new() }
    }

    fn then(mut self, command: Command) -> Self {
        self.position.apply(command);
        self.commands.push(command);
        self
    }

    fn go(self, to: usize) -> Self {
        if self.position.here == Some(to) { self } else { self.then(Command::Go(to)) }
    }

    fn reach(self, receptacle: usize) -> Self {
        let route = self.go(receptacle);
        if route.position.reachable(route.game, receptacle) {
            route
        } else {
            route.then(Command::Open(receptacle))
        }
    }

    /// Holds `object`. Whatever else is held goes down first, where that costs least.
    fn fetch(self, object: usize) -> Option<Self> {
        if self.position.held == Some(object) {
            return Some(self);
        }
        let from = self.position.at[object]?;
        let route = match self.position.held {
            Some(other) => self.lay_down(other, from)?,
            None => self,
        };
        Some(route.reach(from).then(Command::Take(object, from)))
    }

    /// Lays the held object down here, on the way to `next`, or at any other receptacle, whichever is shortest.
    fn lay_down(self, held: usize, next: usize) -> Option<Self> {
        let group = self.game.objects[held].kind.group;
        let cost = |&receptacle: &usize| {
            let detour = self.position.here != Some(receptacle) && receptacle != next;
            let closed = !self.position.reachable(self.game, receptacle);
            // The next receptacle has to be opened anyway.
            usize::from(detour) + usize::from(closed && receptacle != next)
        };
        let place = self.game.layout.accepting(group).min_by_key(cost)?;
        Some(self.reach(place).then(Command::Move(held, place)))
    }

    fn shine(self, lamp: usize) -> Option<Self> {
        let route = self.visit(lamp)?;
        Some(if route.position.shining[lamp] { route } else { route.then(Command::Use(lamp)) })
    }

    fn visit(self, lamp: usize) -> Option<Self> {
        let at = self.position.at[lamp]?;
        Some(self.go(at))
    }

    fn bring(self, object: usize, appliance: Option<usize>, target: usize) -> Option<Self> {
        let mut route = self.fetch(object)?;
        if let (Some(appliance), TaskKind::Treat(treatment)) = (appliance, route.game.goal.kind)
            && !route.position.treated[object][treatment as usize]
        {
            route = route.go(appliance).then(Command::Treat(treatment, object, appliance));
        }
        Some(route.reach(target).then(Command::Move(object, target)))
    }
}
