//! The order in which the official package plays its games.

use crate::pyrandom::NumpyRandomState;

/// Indices of games in the order of play, without end.
///
/// The list is shuffled with NumPy's legacy generator and played through; each further pass shuffles the list of
/// the pass before. The official default seed is 1234.
#[derive(Debug, Clone)]
pub struct GameOrder {
    random: NumpyRandomState,
    order: Vec<usize>,
    next: usize,
}

impl GameOrder {
    /// The order over `games` games; it is empty when there are none.
    pub fn new(games: usize, seed: u32) -> Self {
        let (mut random, mut order) = (NumpyRandomState::new(seed), (0..games).collect::<Vec<_>>());
        random.shuffle(&mut order);
        Self { random, order, next: 0 }
    }
}

impl Iterator for GameOrder {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.next == self.order.len() {
            self.random.shuffle(&mut self.order);
            self.next = 0;
        }
        self.next += 1;
        self.order.get(self.next - 1).copied()
    }
}
