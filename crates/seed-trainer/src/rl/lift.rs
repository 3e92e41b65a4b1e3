//! What a skill is worth: the shift of log-probability with the real, a shuffled and an empty skill.
//!
//! A skill that helps shifts the tokens of its own episode more than the skill of another task does. Where it does not,
//! the distillation signal is noise, whatever the other numbers say.

use super::sample::Sample;
use super::scoring::{SampledRow, score_rows};
use super::skills::Analysis;
use super::step::{StepContext, StepError};
use crate::metrics::Record;
use seed_model::CausalLm;
use seed_rollout::collect::Episode;

/// Episodes that are measured at most.
const EPISODES: usize = 16;

/// Mean ℓT − ℓS in nats over sampled tokens of up to 16 episodes that have a skill; nothing where fewer than two have.
///
/// # Errors
/// [`StepError`] when a prompt cannot be written or a row cannot be scored.
pub fn lift(
    context: &StepContext<'_>,
    snapshot: &CausalLm,
    episodes: &[Episode],
    analyses: &[Analysis],
    samples: &[Sample],
) -> Result<Record, StepError> {
    let mut record = Record::new();
    let with_skill: Vec<usize> = (0..analyses.len()).filter(|at| analyses[*at].block.is_some()).collect();
    let count = with_skill.len().min(EPISODES);
    let chosen: Vec<usize> = (0..count).map(|i| with_skill[i * with_skill.len() / count]).collect();
    if count < 2 {
        return Ok(record);
    }
    let empty = context.world.skill_block("");
    let own = |place: usize| analyses[chosen[place]].block.as_deref().unwrap_or_default();
    let blocks = |block: &dyn Fn(usize) -> String| (0..count).map(block).collect::<Vec<_>>();
    let kinds = [
        ("skill/lift_real", blocks(&|place| own(place).to_string())),
        // The skill of an episode half the list away: another task wherever there are several.
        ("skill/lift_shuffled", blocks(&|place| own((place + count / 2) % count).to_string())),
        ("skill/lift_empty", blocks(&|_| empty.clone())),
    ];
    for (name, blocks) in kinds {
        let (mut prompts, mut rows) = (vec![], vec![]);
        for (place, at) in chosen.iter().enumerate() {
            let episode = &episodes[*at];
            let number = episode.rows.first().map(|row| row.trajectory);
            for sample in samples.iter().filter(|sample| Some(sample.row.trajectory) == number) {
                let (world, config) = (context.world, context.config);
                let prompt = world.teacher_prompt(config, episode, sample.row.step, &blocks[place])?;
                prompts.extend(prompt.map(|prompt| {
                    let pictures = sample.behind(&prompt);
                    (prompt, pictures, sample)
                }));
            }
        }
        rows.extend(prompts.iter().map(|(prompt, pictures, sample)| SampledRow {
            prompt: &prompt.ids,
            pictures,
            ..sample.student()
        }));
        let (tokens, temperature) = (context.config.batch.micro_tokens, context.config.rollout.temperature);
        let scores = score_rows(context.mesh, snapshot, &rows, tokens, temperature, false)?;
        let pairs = prompts
            .iter()
            .zip(&scores)
            .flat_map(|((_, _, sample), score)| score.logp.iter().zip(&sample.old_logp));
        let (mut sum, mut all) = (0.0, 0usize);
        for (teacher, student) in pairs {
            sum += f64::from(teacher - student);
            all += 1;
        }
        record.set(name, sum / all.max(1) as f64);
    }
    Ok(record)
}
