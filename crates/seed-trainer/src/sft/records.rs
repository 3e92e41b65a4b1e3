//! Annotation of episodes: who writes the skills of stage 1, and the records that come of it.

use crate::config::{AnnotatorConfig, AnnotatorKind};
use crate::observer::{Event, Observer};
use crate::rl::skills::Analyst;
use seed_analyzer::annotator::openai::{OpenaiAnnotator, OpenaiError, OpenaiOptions};
use seed_analyzer::annotator::run::{RunError, annotate_all};
use seed_analyzer::annotator::scripted::ScriptedAnnotator;
use seed_analyzer::records::{RecordFilter, SkillRecord, skill_id};
use seed_analyzer::{AnnotateError, Annotation, Annotator};
use seed_envs::Trajectory;
use std::path::Path;

/// The configured annotator.
pub enum AnyAnnotator {
    /// Our own rules.
    Scripted(Box<ScriptedAnnotator>),
    /// A server.
    Openai(Box<OpenaiAnnotator>),
}

impl AnyAnnotator {
    /// Makes the annotator of a configuration; its records carry the analyst's prompts.
    ///
    /// # Errors
    /// [`OpenaiError`] when the key's variable is not set or the address cannot be used.
    pub fn new(config: &AnnotatorConfig, analyst: &Analyst) -> Result<Self, OpenaiError> {
        let (prompt, options) = (analyst.prompt().clone(), analyst.options().clone());
        Ok(match config.kind {
            AnnotatorKind::Scripted => Self::Scripted(Box::new(ScriptedAnnotator::new(prompt, options))),
            AnnotatorKind::Openai => {
                let server = OpenaiOptions {
                    base_url: config.url.clone(),
                    model: config.model.clone(),
                    key_variable: config.api_key_env.clone(),
                    timeout_secs: config.timeout_secs as f64,
                    transport_tries: config.retries.max(1) as u32,
                    temperature: Some(config.temperature),
                    max_tokens: Some(config.max_tokens as u32),
                    seed: Some(config.seed),
                    ..OpenaiOptions::default()
                };
                Self::Openai(Box::new(OpenaiAnnotator::new(server, prompt, options)?))
            }
        })
    }
}

impl Annotator for AnyAnnotator {
    fn annotate(&self, trajectory: &Trajectory) -> Result<Annotation, AnnotateError> {
        match self {
            Self::Scripted(annotator) => annotator.annotate(trajectory),
            Self::Openai(annotator) => annotator.annotate(trajectory),
        }
    }
}

/// Annotates episodes; `path` grows line by line and is taken up again by the next attempt.
///
/// Returns the usable records and how many episodes have none.
///
/// # Errors
/// [`RunError`] when the file cannot be written or every request would be refused.
pub fn annotate(
    annotator: &dyn Annotator,
    trajectories: &[&Trajectory],
    rollouts: usize,
    threads: usize,
    path: &Path,
    observer: &dyn Observer,
) -> Result<(Vec<SkillRecord>, usize), RunError> {
    let named: Vec<(String, &Trajectory)> = trajectories
        .iter()
        .enumerate()
        .map(|(place, trajectory)| (skill_id(trajectory, place % rollouts), *trajectory))
        .collect();
    observer.event(Event::Started { what: "annotation", total: Some(named.len() as u64) });
    let lines = annotate_all(annotator, &named, threads, path, |_| observer.event(Event::Advanced(1)));
    observer.event(Event::Finished);
    let records = lines?
        .into_iter()
        .zip(trajectories)
        .enumerate()
        .map(|(place, (line, trajectory))| {
            SkillRecord::new(trajectory, place % rollouts, line.prompt, line.skill.as_ref())
        })
        .collect();
    let (kept, dropped) = RecordFilter::default().apply(records);
    Ok((kept, dropped.unparsed + dropped.repeated))
}
