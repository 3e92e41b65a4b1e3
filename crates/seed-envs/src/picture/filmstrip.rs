//! An episode as one picture: its frames side by side, each with a line that says what was done and what it gave.

use super::canvas::{Canvas, Colour};
use super::font;
use crate::environment::{Image, Observation, Step};
use std::sync::Arc;

/// One frame of a strip.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The frame.
    pub frame: Arc<Image>,
    /// What led to it, e.g. `3: left`; cut to the frame's width.
    pub caption: String,
    /// What it gave; its sign colours the number, and nothing stands for 0.
    pub reward: Option<f64>,
}

/// Frames, a headline and a closing line.
#[derive(Debug, Clone, Default)]
pub struct Filmstrip {
    /// What this is, e.g. the task.
    pub title: String,
    /// How it ended.
    pub closing: String,
    /// It ended well; colours the closing line.
    pub won: bool,
    /// The frames in time order.
    pub panels: Vec<Panel>,
    steps: usize,
    earned: f64,
}

const PAPER: Colour = [250, 248, 243];
const INK: Colour = [40, 40, 46];
const GOOD: Colour = [22, 124, 60];
const BAD: Colour = [178, 40, 40];
/// Pixels between things.
const GAP: usize = 12;
/// The side of a square of the letters.
const SCALE: usize = 2;
/// Frames are magnified to about this width.
const FRAME: usize = 200;
/// Panels of a row.
const PER_ROW: usize = 5;
/// Panels that are drawn; of a longer episode the middle is left out.
const MAX_PANELS: usize = 60;

impl Filmstrip {
    /// A strip that starts with the first frame of an episode.
    pub fn new(title: impl Into<String>, first: &Observation) -> Self {
        let mut strip = Self { title: title.into(), ..Self::default() };
        strip.add(first, "start".into(), None);
        strip
    }

    /// Adds a step, and with the last one the closing line. A step whose observation has no frame adds none.
    pub fn push(&mut self, action: &str, step: &Step) {
        self.steps += 1;
        self.earned += step.reward;
        self.add(&step.observation, format!("{}: {action}", self.steps), Some(step.reward));
        if step.is_last() {
            let verdict = match (step.info.won, step.truncated) {
                (true, _) => "won",
                (false, true) => "out of steps",
                (false, false) => "over",
            };
            self.won = step.info.won;
            let steps = if self.steps == 1 { "1 step".to_owned() } else { format!("{} steps", self.steps) };
            self.closing = format!("{verdict} after {steps}, return {:+.1}", self.earned);
        }
    }

    fn add(&mut self, seen: &Observation, caption: String, reward: Option<f64>) {
        let panel = |frame: &Arc<Image>| Panel { frame: Arc::clone(frame), caption, reward };
        self.panels.extend(seen.image.as_ref().map(panel));
    }

    /// Draws the strip.
    pub fn draw(&self) -> Image {
        let shown = self.shown();
        let widest = shown.iter().map(|panel| panel.frame.width).max().unwrap_or(1).max(1);
        let factor = (FRAME / widest).max(1);
        let cell = widest * factor;
        let tallest = shown.iter().map(|panel| panel.frame.height).max().unwrap_or(0) * factor;
        let line = font::HEIGHT * SCALE;
        let per_row = PER_ROW.min(shown.len().max(1));
        let rows = shown.len().div_ceil(per_row);
        let pitch = tallest + line + 2 * GAP;
        let width = GAP + per_row * (cell + GAP);
        let text = [&self.title, &self.closing].map(|text| font::width(text, SCALE) + 2 * GAP);
        let width = width.max(text[0]).max(text[1]).min(4096);
        let height = GAP + line + GAP + rows * pitch + line + GAP;
        let mut canvas = Canvas::new(width, height, PAPER);
        font::write(&mut canvas, (GAP as i64, GAP as i64), SCALE, INK, &self.title);
        for (number, panel) in shown.iter().enumerate() {
            let x = (GAP + number % per_row * (cell + GAP)) as i64;
            let y = (2 * GAP + line + number / per_row * pitch) as i64;
            canvas.paste(&panel.frame.magnified(factor), x, y);
            Self::caption(&mut canvas, panel, (x, y + (tallest + GAP / 2) as i64), cell);
        }
        let colour = if self.won { GOOD } else { BAD };
        let y = (2 * GAP + line + rows * pitch) as i64;
        font::write(&mut canvas, (GAP as i64, y), SCALE, colour, &self.closing);
        canvas.into_image()
    }

    /// All panels, or the first and last ones of a long episode.
    fn shown(&self) -> Vec<&Panel> {
        let count = self.panels.len();
        let left_out = MAX_PANELS / 2..count.saturating_sub(MAX_PANELS / 2);
        let kept = |number: &usize| count <= MAX_PANELS || !left_out.contains(number);
        (0..count).filter(kept).map(|number| &self.panels[number]).collect()
    }

    fn caption(canvas: &mut Canvas, panel: &Panel, (x, y): (i64, i64), cell: usize) {
        // Where most steps give nothing, the one that gives something is to be seen.
        let reward = panel.reward.filter(|&reward| reward != 0.0);
        let reward = reward.map(|reward| format!("{reward:+.1}")).unwrap_or_default();
        let room = cell.saturating_sub(font::width(&reward, SCALE)) / font::width(" ", SCALE);
        let caption: String = panel.caption.chars().take(room.saturating_sub(1)).collect();
        font::write(canvas, (x, y), SCALE, INK, &caption);
        let colour = if panel.reward.is_some_and(|reward| reward > 0.0) { GOOD } else { INK };
        let right = x + cell.saturating_sub(font::width(&reward, SCALE)) as i64;
        font::write(canvas, (right, y), SCALE, colour, &reward);
    }
}
