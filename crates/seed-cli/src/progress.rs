//! What a person sees while a run goes on: a bar on a terminal, one line per update anywhere.

use indicatif::{ProgressBar, ProgressStyle};
use seed_trainer::metrics::Record;
use seed_trainer::observer::{Event, Observer};
use std::io::IsTerminal;
use std::sync::Mutex;

/// Shows events on stderr.
pub(crate) struct Terminal {
    bar: Mutex<Option<ProgressBar>>,
    interactive: bool,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let interactive = std::io::stderr().is_terminal() && std::env::var_os("SEED_NO_PROGRESS").is_none();
        Self { bar: Mutex::new(None), interactive }
    }

    fn line(&self, text: &str) {
        match &*self.bar.lock().expect("no panic while it is held") {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    fn start(&self, what: &str, total: Option<u64>) {
        if !self.interactive {
            return;
        }
        let template = match total {
            Some(_) => "{msg:18} {bar:30} {pos}/{len} {per_sec} {eta} left",
            None => "{msg:18} {spinner} {pos} {per_sec}",
        };
        let style = ProgressStyle::with_template(template).expect("a fixed template");
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style);
        *self.bar.lock().expect("no panic while it is held") = Some(bar.with_message(what.to_string()));
    }
}

impl Observer for Terminal {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Started { what, total } => self.start(what, total),
            Event::Advanced(count) => {
                if let Some(bar) = &*self.bar.lock().expect("no panic while it is held") {
                    bar.inc(count);
                }
            }
            Event::Finished => {
                if let Some(bar) = self.bar.lock().expect("no panic while it is held").take() {
                    bar.finish_and_clear();
                }
            }
            Event::Step { stage, step, total, record } => self.line(&update_line(stage, step, total, record)),
            Event::Note(text) => self.line(text),
            _ => {}
        }
    }
}

/// A metric, its label in the line, and how its value is shown.
type Part = (&'static str, &'static str, fn(f64) -> String);

/// One update in one line: what was reached, how the policy acts, how it learns, how long it took.
fn update_line(stage: &str, step: u64, total: u64, record: &Record) -> String {
    let width = total.to_string().len();
    // The base and stage 1 are one step each: nothing to count.
    let mut line = if total == 0 { stage.to_owned() } else { format!("{stage} {step:width$}/{total}") };
    let parts: &[Part] = &[
        ("episode/success", "success", percent),
        ("episode/length", "length", |x| format!("{x:.1}")),
        ("episode/valid_action_ratio", "valid", percent),
        ("skill/parse_rate", "parsed", percent),
        ("sft/loss", "loss", |x| format!("{x:.3}")),
        ("sft/validation_loss", "validation", |x| format!("{x:.3}")),
        ("group/tied_ratio", "tied", percent),
        ("actor/entropy", "entropy", |x| format!("{x:.2}")),
        ("actor/kl_loss", "kl", |x| format!("{x:.4}")),
        ("opd/gate_mean", "gate", |x| format!("{x:.3}")),
        ("opd/teacher_gap_mean", "gap", |x| format!("{x:+.3}")),
        ("actor/grad_norm", "grad", |x| format!("{x:.2}")),
        ("time/step", "", |x| format!("{x:.1} s")),
    ];
    for (name, label, show) in parts {
        if let Some(value) = record.get(name) {
            let space = if label.is_empty() { "" } else { " " };
            line.push_str(&format!("  {label}{space}{}", show(value)));
        }
    }
    for (name, value) in record.iter() {
        if let Some(split) = name.strip_prefix("eval/").and_then(|rest| rest.strip_suffix("/success")) {
            line.push_str(&format!("  [{split} {}]", percent(value)));
        }
    }
    line
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_one_readable_line() {
        let mut record = Record::new();
        for (name, value) in [
            ("episode/success", 0.25),
            ("opd/teacher_gap_mean", 0.1234),
            ("time/step", 9.87),
            ("eval/valid_unseen/success", 0.5),
            ("eval/valid_unseen/success/look_at", 0.5),
        ] {
            record.set(name, value);
        }
        assert_eq!(
            update_line("rl", 7, 60, &record),
            "rl  7/60  success 25 %  gap +0.123  9.9 s  [valid_unseen 50 %]"
        );
        assert!(update_line("base", 0, 0, &record).starts_with("base  success 25 %"));
    }
}
