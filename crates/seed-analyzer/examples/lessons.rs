//! Lessons from your own agent logs, without a model and without a network.
//!
//! Reads episodes as JSON lines ([`seed_envs::Trajectory`]), writes one JSON line with a skill for each:
//!
//! ```text
//! cargo run -p seed-analyzer --example lessons -- crates/seed-analyzer/examples/agent_log.jsonl
//! ```
//!
//! Without a file it reads standard input. Broken lines are reported on standard error with their number and skipped.

use seed_analyzer::annotator::scripted::ScriptedAnnotator;
use seed_analyzer::quality::{Lexicon, SkillQuality};
use seed_analyzer::{Annotator, OutcomeLabel, Skill};
use seed_envs::Trajectory;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let input: Box<dyn Read> = match std::env::args().nth(1) {
        Some(path) => {
            let file = std::fs::File::open(&path).map_err(|error| format!("{path}: {error}"))?;
            Box::new(file)
        }
        None => Box::new(std::io::stdin()),
    };
    let mut episodes: Vec<Trajectory> = Vec::new();
    for (at, line) in BufReader::new(input).lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(episode) => episodes.push(episode),
            Err(error) => writeln!(std::io::stderr(), "line {}: {error}", at + 1)?,
        }
    }

    let mut out = std::io::stdout().lock();
    let mut skills: Vec<Option<Skill>> = Vec::new();
    for episode in &episodes {
        match ScriptedAnnotator::for_environment(&episode.environment).annotate(episode) {
            Ok(annotation) => {
                let line = serde_json::json!({
                    "task": episode.task.id,
                    "outcome": OutcomeLabel::of(episode).name(),
                    "skill": annotation.skill.episode_skill,
                    "summary": annotation.skill.episode_summary,
                });
                writeln!(out, "{line}")?;
                skills.push(Some(annotation.skill));
            }
            Err(error) => {
                writeln!(std::io::stderr(), "{}: {error}", episode.task.id)?;
                skills.push(None);
            }
        }
    }

    let batch: Vec<_> =
        episodes.iter().zip(&skills).map(|(episode, skill)| (episode, skill.as_ref())).collect();
    let quality = SkillQuality::measure(&batch, &Lexicon::of(&episodes));
    writeln!(
        std::io::stderr(),
        "{} episodes, {:.0} % with a skill, {:.1} words each, {:.0} % of the names occur in the episode",
        quality.episodes,
        100.0 * quality.parse_rate,
        quality.words_mean,
        100.0 * quality.grounding,
    )?;
    Ok(())
}
