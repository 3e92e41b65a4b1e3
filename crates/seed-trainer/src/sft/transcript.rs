//! A text episode as a row to imitate: responses are learnt, what the environment says is context.

use super::fit::Lesson;
use seed_model::PlacedPicture;
use seed_rollout::dialogue::{Dialogue, DialogueError, Played, PromptOverflow, Scene};
use seed_rollout::history::History;
use seed_rollout::row::Layout;

/// The transcript row of an episode that was written, not sampled: each response ends with the chat format's end token.
///
/// `skill` is a worded skill block for the prompt.
///
/// # Errors
/// [`DialogueError`] when the chat template or the tokenizer refuses the text.
pub fn transcript(
    dialogue: &Dialogue,
    played: Played<'_>,
    skill: Option<&str>,
) -> Result<Lesson, DialogueError> {
    let Played { trajectory, frames } = played;
    let overflow = PromptOverflow::DropHistory;
    let prompt = dialogue.prompt_of(played, 0, skill, Layout::Transcript, usize::MAX, overflow)?;
    let mut lesson = Lesson::new(prompt.context, vec![]);
    let mut last = vec![];
    for (index, step) in trajectory.steps.iter().enumerate() {
        if index > 0 {
            let history = History::before_step(trajectory, index);
            let admissible = Some(step.admissible.as_slice());
            let image = step.image.and_then(|frame| frames.get(frame)).map(AsRef::as_ref);
            let task = &trajectory.task_description;
            let scene = Scene { task, history: &history, admissible, skill: None, image };
            let between = dialogue.between(&last, &scene)?;
            let start = lesson.prompt.len() + lesson.response.len();
            let moved = |placed: PlacedPicture| PlacedPicture { start: placed.start + start, ..placed };
            lesson.pictures.extend(between.pictures.into_iter().map(moved));
            lesson.mask.extend(between.ids.iter().map(|_| false));
            lesson.response.extend(between.ids);
        }
        last = response(dialogue, &step.response)?;
        lesson.mask.extend(last.iter().map(|_| true));
        lesson.response.extend(&last);
    }
    Ok(lesson)
}

/// The ids of a written response with the end token that the model would sample.
///
/// # Errors
/// [`DialogueError`] when the tokenizer refuses the text.
pub fn response(dialogue: &Dialogue, text: &str) -> Result<Vec<u32>, DialogueError> {
    let mut ids = dialogue.tokenizer.encode(text)?;
    ids.extend(dialogue.tokenizer.end_ids().first());
    Ok(ids)
}
