//! Looking at a recorded episode: its tokens one by one, and whether the environment still answers as it did.

use crate::collect::Episode;
use crate::dialogue::{Dialogue, DialogueError};
use crate::row::Row;
use seed_envs::{EnvError, Suite};
use std::fmt::Write;

/// What [`token_table`] shows beside the sampled tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Print the tokens that were not sampled one by one too, not only their number.
    pub context_tokens: bool,
    /// Print the prompt of each row as text.
    pub prompts: bool,
}

/// An episode, token by token: position, id, log-probability, probability, mask, and gate and gap where a teacher
/// was asked, then the token's text. One token a line, tab-separated.
///
/// # Errors
/// [`DialogueError`] when ids are not of the dialogue's tokenizer.
pub fn token_table(
    episode: &Episode,
    dialogue: &Dialogue,
    options: ReplayOptions,
) -> Result<String, DialogueError> {
    let mut out = String::new();
    let trajectory = &episode.trajectory;
    let outcome = &trajectory.outcome;
    line(
        &mut out,
        format_args!("episode {}.{} of {}", episode.group, episode.episode, trajectory.environment),
    );
    line(&mut out, format_args!("task    {} ({})", trajectory.task.id, trajectory.task.kind));
    if !trajectory.task_description.is_empty() {
        line(&mut out, format_args!("goal    {}", trajectory.task_description));
    }
    let (steps, total) = (trajectory.steps.len(), trajectory.episode_return());
    let won = if outcome.won { "won" } else { "not won" };
    let ending = episode.ending;
    line(&mut out, format_args!("outcome {won} after {steps} steps, return {total}, ended by {ending}"));
    for row in &episode.rows {
        row_table(&mut out, episode, row, dialogue, options)?;
    }
    line(&mut out, format_args!("\nat the end: {}", trajectory.final_observation));
    Ok(out)
}

fn row_table(
    out: &mut String,
    episode: &Episode,
    row: &Row,
    dialogue: &Dialogue,
    options: ReplayOptions,
) -> Result<(), DialogueError> {
    if options.prompts {
        line(
            out,
            format_args!("\nprompt of {} tokens:\n{}", row.prompt_ids.len(), dialogue.text(&row.prompt_ids)?),
        );
    }
    let mut position = 0;
    for turn in &row.turns {
        context_tokens(out, row, position..turn.start, dialogue, options)?;
        position = turn.end;
        let valid = if turn.valid { "" } else { ", invalid form" };
        line(
            out,
            format_args!(
                "\nstep {}: {} tokens, ended by {:?}, reward {}{valid}",
                turn.step,
                turn.end - turn.start,
                turn.finish,
                turn.reward
            ),
        );
        if let Some(step) = episode.trajectory.steps.get(turn.step) {
            line(out, format_args!("saw: {}", step.observation));
            line(out, format_args!("did: {}", step.action));
        }
        let header = if row.signals.is_some() { "\tgate\tgap" } else { "" };
        line(out, format_args!("token\tid\tlogp\tprob\tmask{header}\ttext"));
        for token in turn.tokens() {
            token_line(out, row, token, dialogue)?;
        }
    }
    context_tokens(out, row, position..row.response_ids.len(), dialogue, options)
}

fn context_tokens(
    out: &mut String,
    row: &Row,
    tokens: std::ops::Range<usize>,
    dialogue: &Dialogue,
    options: ReplayOptions,
) -> Result<(), DialogueError> {
    if options.context_tokens {
        tokens.into_iter().try_for_each(|token| token_line(out, row, token, dialogue))
    } else {
        if !tokens.is_empty() {
            line(out, format_args!("\n({} tokens of the environment, masked)", tokens.len()));
        }
        Ok(())
    }
}

fn token_line(out: &mut String, row: &Row, token: usize, dialogue: &Dialogue) -> Result<(), DialogueError> {
    let (id, logp) = (row.response_ids[token], row.logp[token]);
    let mask = u8::from(row.response_mask[token]);
    let text = dialogue.text(&[id])?;
    let signals = row
        .signals
        .as_ref()
        .map_or(String::new(), |signals| format!("\t{:.3}\t{:+.4}", signals.gate[token], signals.gap[token]));
    line(out, format_args!("{token}\t{id}\t{logp:.4}\t{:.4}\t{mask}{signals}\t{text:?}", logp.exp()));
    Ok(())
}

fn line(out: &mut String, text: std::fmt::Arguments) {
    // writing to a string cannot fail
    let _ = writeln!(out, "{text}");
}

/// Plays the recorded actions again and compares every answer of the environment. Returns the number of steps.
///
/// # Errors
/// [`ReplayError::Differs`] at the first difference; [`ReplayError::Environment`] when the environment fails.
pub fn verify(episode: &Episode, suite: &dyn Suite) -> Result<usize, ReplayError> {
    let trajectory = &episode.trajectory;
    let task = &trajectory.task;
    let failed = |step| {
        move |source| ReplayError::Environment { task: task.id.clone(), step, source: Box::new(source) }
    };
    let differs = |step: usize, what: &'static str, recorded: String, found: String| {
        if recorded == found {
            return Ok(());
        }
        Err(ReplayError::Differs { task: task.id.clone(), step, what, recorded, found })
    };
    if suite.name() != trajectory.environment {
        return Err(ReplayError::Suite {
            recorded: trajectory.environment.clone(),
            found: suite.name().to_string(),
        });
    }
    let mut environment = suite.environment();
    let mut observation = environment.reset(task, trajectory.seed).map_err(failed(0))?;
    let mut info = seed_envs::StepInfo::default();
    for (index, step) in trajectory.steps.iter().enumerate() {
        differs(index, "observation", step.observation.clone(), observation.text)?;
        let admissible = observation.admissible.map(|list| list.to_vec()).unwrap_or_default();
        differs(index, "admissible actions", step.admissible.join("\n"), admissible.join("\n"))?;
        let answer = environment.step(&step.action).map_err(failed(index))?;
        differs(index, "reward", step.reward.to_string(), answer.reward.to_string())?;
        observation = answer.observation;
        info = answer.info;
    }
    let steps = trajectory.steps.len();
    differs(steps, "final observation", trajectory.final_observation.clone(), observation.text)?;
    differs(steps, "goal reached", trajectory.outcome.won.to_string(), info.won.to_string())?;
    differs(steps, "score", trajectory.outcome.score.to_string(), info.score.to_string())?;
    Ok(steps)
}

/// Why a recorded episode could not be played again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The environment answers otherwise than it did.
    #[error(
        "task `{task}`, step {step}: {what} differs\nrecorded: {recorded}\nnow:      {found}\nis this the same data and version of the environment?"
    )]
    Differs {
        /// The task.
        task: String,
        /// The step, from 0.
        step: usize,
        /// What differs.
        what: &'static str,
        /// What the file says.
        recorded: String,
        /// What the environment says now.
        found: String,
    },
    /// The environment failed.
    #[error("task `{task}`, step {step}")]
    Environment {
        /// The task.
        task: String,
        /// The step, from 0.
        step: usize,
        /// What the environment said.
        source: Box<EnvError>,
    },
    /// The recording is of another environment.
    #[error("the episode was recorded in `{recorded}`, not in `{found}`")]
    Suite {
        /// The environment of the recording.
        recorded: String,
        /// The environment that was given.
        found: String,
    },
}
