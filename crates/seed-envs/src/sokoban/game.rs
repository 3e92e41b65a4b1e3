//! An episode by the reference's rules.

use super::room::{Move, Room};

/// What a step gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// −0.1 for the step, +1 or −1 when boxes came onto targets or left them, +10 when no target is free; summed in
    /// that order.
    pub reward: f64,
    /// The room is solved, or the counted steps are exactly the limit.
    pub done: bool,
    /// The player moved.
    pub effective: bool,
    /// All boxes are on targets. Standing still never says so.
    pub won: bool,
}

/// A room in play. It goes on after the end, as the reference does; [`super::suite`] stops it there.
#[derive(Debug, Clone, PartialEq)]
pub struct Game {
    room: Room,
    limit: usize,
    steps: usize,
    on_target: usize,
}

impl Game {
    /// An episode that starts with this room and is over after `limit` counted steps.
    pub fn new(room: Room, limit: usize) -> Self {
        let on_target = room.on_target();
        Self { room, limit, steps: 0, on_target }
    }

    /// The room as it is now.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Steps that count: all but standing still.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// A move, or standing still (`None`), which costs the step's reward and changes nothing.
    pub fn step(&mut self, action: Option<Move>) -> Turn {
        let Some(direction) = action else {
            return Turn { reward: -0.1, done: false, effective: false, won: false };
        };
        self.steps += 1;
        let effective = self.room.go(direction);
        let mut reward = -0.1;
        let on_target = self.room.on_target();
        if on_target > self.on_target {
            reward += 1.0;
        } else if on_target < self.on_target {
            reward -= 1.0;
        }
        self.on_target = on_target;
        let won = self.room.solved();
        if won {
            reward += 10.0;
        }
        Turn { reward, done: won || self.steps == self.limit, effective, won }
    }
}
