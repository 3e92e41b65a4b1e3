//! What can be said about an episode of any environment from its steps alone.

use super::{list, within_limit};
use crate::serialize::OutcomeLabel;
use regex::Regex;
use seed_envs::Trajectory;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static CALL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s*([A-Za-z_]+)\[(.*)\]").expect("the pattern is a literal of this file"));
static BLOCK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?s)^<(search|answer)>(.*)</").expect("the pattern is a literal of this file")
});

/// How long a quoted action may be.
const QUOTE_CHARS: usize = 60;

/// Summary and skill. The task is only named where it is short enough to be worth it.
pub(super) fn write(trajectory: &Trajectory, task: Option<&str>, outcome: OutcomeLabel) -> (String, String) {
    let facts = Facts::of(trajectory);
    let steps = match trajectory.steps.len() {
        1 => "1 step".to_owned(),
        count => format!("{count} steps"),
    };
    let summary = match outcome {
        OutcomeLabel::Success => format!("The goal was reached after {steps}."),
        OutcomeLabel::Failure => format!("The goal was not reached in {steps}."),
        OutcomeLabel::Unknown => format!("After {steps} it is not known how it ended."),
    };
    let mut sentences = Vec::new();
    if let Some(task) = task.filter(|task| task.split_whitespace().count() <= 12) {
        sentences.push(format!("For a task like \"{}\":", task.trim_end_matches('.')));
    }
    match outcome {
        OutcomeLabel::Failure => sentences.extend(facts.faults(trajectory)),
        OutcomeLabel::Success | OutcomeLabel::Unknown => {
            sentences.push(facts.way());
            sentences.extend(facts.detours());
        }
    }
    (summary, within_limit(sentences))
}

/// One action in a form that can be counted and quoted.
struct Act<'a> {
    verb: &'a str,
    argument: &'a str,
    whole: &'a str,
    valid: bool,
    /// What came back differs from what was there.
    effect: bool,
}

struct Facts<'a> {
    acts: Vec<Act<'a>>,
}

impl<'a> Facts<'a> {
    fn of(trajectory: &'a Trajectory) -> Self {
        let acts = trajectory.steps.iter().enumerate().map(|(at, step)| {
            let after =
                trajectory.steps.get(at + 1).map_or(&trajectory.final_observation, |next| &next.observation);
            let whole = step.action.trim();
            let cut = CALL.captures(whole).or_else(|| BLOCK.captures(whole));
            let part = |at| cut.as_ref().and_then(|cut| cut.get(at)).map(|part| part.as_str().trim());
            Act {
                verb: part(1).unwrap_or_else(|| whole.split_whitespace().next().unwrap_or_default()),
                argument: part(2).unwrap_or_default(),
                whole,
                valid: step.action_valid != Some(false),
                // An episode that ends without a last observation has answered the last action by its end.
                effect: (after.trim() != step.observation.trim()
                    || (after.is_empty() && at + 1 == trajectory.steps.len()))
                    && !after.trim().to_lowercase().starts_with("nothing happens"),
            }
        });
        Self { acts: acts.collect() }
    }

    /// The actions that worked, in order, the same one after another only once.
    fn way(&self) -> String {
        let mut way: Vec<&str> = Vec::new();
        for act in self.acts.iter().filter(|act| act.valid && act.effect && !act.whole.is_empty()) {
            if way.last() != Some(&act.whole) {
                way.push(act.whole);
            }
        }
        // The end of an episode is what reached the goal; the beginning is how it got going.
        let shown: Vec<String> = match way.len() {
            0 => return "Choose actions that change what you see.".to_owned(),
            1..=4 => way.iter().map(|act| quote(act)).collect(),
            n => [way[0], way[1], way[n - 2], way[n - 1]].iter().map(|act| quote(act)).collect(),
        };
        match way.len() {
            1..=4 => format!("do {} in this order.", shown.join(", then ")),
            _ => format!(
                "begin with {} and {}; finish with {} and {}.",
                shown[0], shown[1], shown[2], shown[3]
            ),
        }
    }

    /// Actions without effect; a reply without an action has nothing to name.
    fn idle(&self) -> impl Iterator<Item = &Act<'_>> {
        self.acts.iter().filter(|act| !act.effect && !act.whole.is_empty())
    }

    /// What cost steps without helping.
    fn detours(&self) -> Vec<String> {
        let mut detours = Vec::new();
        if let Some((act, count)) = self.repeated() {
            detours.push(format!("Once is enough for {}; it was done {count} times.", quote(act)));
        }
        let idle = list(self.idle().map(|act| quote(act.whole)), 2);
        if !idle.is_empty() {
            detours.push(format!("Leave out {idle}: nothing changed after it."));
        }
        detours
    }

    fn faults(&self, trajectory: &Trajectory) -> Vec<String> {
        let mut faults = Vec::new();
        let invalid = self.acts.iter().filter(|act| !act.valid).count();
        if invalid > 0 {
            faults.push(format!("Keep to the required form of a reply; {invalid} replies broke it."));
        }
        let of = |verb: &str| self.acts.iter().filter(|act| act.verb.eq_ignore_ascii_case(verb)).count();
        match trajectory.environment.as_str() {
            "webshop" if of("click") > 0 || of("search") > 0 => {
                let bought = self.acts.iter().any(|act| act.argument.eq_ignore_ascii_case("buy now"));
                faults.push(match (bought, of("search")) {
                    (false, 0) => "Search first: without a query no product comes up.".to_owned(),
                    (false, _) => {
                        "Buy before the steps run out: open a fitting product and click[buy now].".to_owned()
                    }
                    (true, _) => {
                        "Before click[buy now], compare price, kind and every wanted option with the product."
                            .to_owned()
                    }
                });
            }
            "search_qa" => faults.push(match (of("search"), of("answer")) {
                (0, _) => "Search before you answer; the answer without a search was wrong.".to_owned(),
                (_, 0) => "Answer before the turns run out.".to_owned(),
                _ => "Check the answer against what was found; look for the fact that is still missing."
                    .to_owned(),
            }),
            _ => {}
        }
        if let Some((act, count)) = self.repeated() {
            faults.push(format!("Do not repeat {}: it was done {count} times and did not help.", quote(act)));
        }
        let idle = list(self.idle().map(|act| quote(act.whole)), 2);
        if !idle.is_empty() {
            faults.push(format!("Stay away from {idle}: nothing changed after it."));
        }
        if trajectory.outcome.truncated {
            faults.push("Plan for the limit of steps.".to_owned());
        }
        if faults.is_empty() {
            let last = self.acts.last().map(|act| quote(act.whole)).unwrap_or_default();
            faults.push(format!("Do not end with {last}; look for another way before that."));
        }
        faults
    }

    /// The action that was done most often, from three times on; the first of equals.
    fn repeated(&self) -> Option<(&'a str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for act in self.acts.iter().filter(|act| !act.whole.is_empty()) {
            *counts.entry(act.whole).or_default() += 1;
        }
        let most = *counts.values().max().filter(|most| **most >= 3)?;
        let act = self.acts.iter().find(|act| counts.get(act.whole) == Some(&most))?;
        Some((act.whole, most))
    }
}

/// An action in quotation marks, on one line and not too long.
fn quote(action: &str) -> String {
    let line = action.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(QUOTE_CHARS) {
        None => format!("`{line}`"),
        Some((cut, _)) => format!("`{}…`", &line[..cut]),
    }
}
