//! One episode with its tokens, for the report: what the skill pushed up or down.

use crate::config::Config;
use crate::rl::sample::Sample;
use crate::rl::skills::Analysis;
use crate::world::World;
use seed_rollout::collect::Episode;
use serde_json::{Value, json};

/// Tokens of context shown before the first response; prompts can be thousands of tokens long.
const CONTEXT: usize = 200;

/// The view of the first episode that has a skill, else of the first; `None` without episodes.
///
/// The format is described in docs/run-folder.md.
pub fn token_view(
    world: &World,
    config: &Config,
    episodes: &[Episode],
    analyses: &[Analysis],
    samples: &[Sample],
) -> Option<Value> {
    let with_skill = analyses.iter().position(|analysis| analysis.skill.is_some());
    let index = with_skill.unwrap_or(0);
    let episode = episodes.get(index)?;
    let number = episode.rows.first()?.trajectory;
    let text = |id: u32| world.dialogue.text(&[id]).unwrap_or_default();
    let mut tokens = vec![];
    for sample in samples.iter().filter(|sample| sample.row.trajectory == number) {
        let prompt = &sample.row.prompt_ids;
        let shown = &prompt[prompt.len().saturating_sub(CONTEXT)..];
        tokens.extend(shown.iter().map(|id| json!({ "text": text(*id), "sampled": false })));
        let mut place = 0;
        for (id, sampled) in sample.row.response_ids.iter().zip(&sample.row.response_mask) {
            let mut token = json!({ "text": text(*id), "sampled": *sampled });
            if *sampled {
                let student = sample.old_logp[place];
                token["logp"] = student.into();
                token["advantage"] = sample.advantage[place].into();
                if let Some(teacher) = sample.teacher_logp.get(place) {
                    let gap = f64::from(teacher - student);
                    token["gap"] = gap.into();
                    token["gate"] = (1.0 / (1.0 + (-config.opd.beta * gap).exp())).into();
                }
                place += 1;
            }
            tokens.push(token);
        }
    }
    Some(json!({
        "task": episode.trajectory.task_description,
        "won": episode.trajectory.outcome.won,
        "skill": analyses.get(index).and_then(|analysis| analysis.skill.clone()),
        "tokens": tokens,
    }))
}
