//! The course of the learning rate.

use crate::config::ScheduleKind;

/// Warm-up, then constant, cosine or linear; asked by step, so that it never drifts from the step counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Course after warm-up.
    pub kind: ScheduleKind,
    /// Learning rate after warm-up.
    pub peak: f64,
    /// Steps of the straight rise from 0.
    pub warmup_steps: usize,
    /// Steps in all.
    pub total_steps: usize,
}

impl Schedule {
    /// A schedule over `total_steps`, of which a share warms up (rounded to the nearest whole step).
    pub fn new(kind: ScheduleKind, peak: f64, warmup_share: f64, total_steps: usize) -> Self {
        let warmup_steps = (warmup_share * total_steps as f64).round() as usize;
        Self { kind, peak, warmup_steps, total_steps }
    }

    /// The rate of step `step`, counted from 0.
    ///
    /// Warm-up step `s` of `w` gives `peak·(s+1)/w`, so that no step is wasted at 0. Cosine and linear reach 0 one
    /// step after the last; later steps stay at 0.
    pub fn at(&self, step: usize) -> f64 {
        if step < self.warmup_steps {
            return self.peak * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let rest = self.total_steps.saturating_sub(self.warmup_steps).max(1);
        let done = ((step - self.warmup_steps) as f64 / rest as f64).min(1.0);
        match self.kind {
            ScheduleKind::Constant => self.peak,
            ScheduleKind::Linear => self.peak * (1.0 - done),
            ScheduleKind::Cosine => self.peak * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warms_up_then_falls() {
        let schedule = Schedule::new(ScheduleKind::Cosine, 1.0, 0.2, 10);
        let rates: Vec<f64> = (0..11).map(|step| schedule.at(step)).collect();
        assert_eq!(&rates[..3], &[0.5, 1.0, 1.0]);
        assert!((rates[6] - 0.5).abs() < 1e-12);
        assert!(rates[2..].windows(2).all(|pair| pair[1] < pair[0]));
        assert!(rates[10].abs() < 1e-12);
    }

    #[test]
    fn constant_and_linear() {
        assert_eq!(Schedule::new(ScheduleKind::Constant, 3.0, 0.0, 4).at(99), 3.0);
        assert_eq!(Schedule::new(ScheduleKind::Linear, 1.0, 0.0, 4).at(1), 0.75);
        assert_eq!(Schedule::new(ScheduleKind::Linear, 1.0, 0.0, 4).at(400), 0.0);
    }
}
