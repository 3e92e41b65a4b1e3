//! Many unrelated prompts at once: what an analyzer pass or an annotation run needs.

use crate::sampler::{Sampling, StreamKey};
use crate::source::{Completion, Context, Request, SessionId, SourceError, TokenSource};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How a batch is generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchOptions {
    /// How tokens are picked; analyzers decode greedily.
    pub sampling: Sampling,
    /// Limit of each response; lower where the context holds less.
    pub max_new_tokens: usize,
    /// Random stream of the first prompt; prompt `i` uses `episode + i`.
    pub stream: StreamKey,
}

/// Generates one response for every prompt, spread over `sources`; results are in the order of the prompts and do not
/// depend on the number of sources.
///
/// `progress` is called with the number of finished responses after each, from any thread.
///
/// # Errors
/// The first [`SourceError`]. A prompt that leaves no room for a response is one: compare lengths with
/// [`TokenSource::max_context`] before, where prompts may be long.
pub fn generate_batch<S: TokenSource>(
    sources: &mut [S],
    prompts: &[Context],
    options: &BatchOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Completion>, SourceError> {
    if sources.is_empty() && !prompts.is_empty() {
        return Err(SourceError::NoSource);
    }
    let fair_share = prompts.len().div_ceil(sources.len().max(1));
    let next = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Completion>>> = Mutex::new(vec![None; prompts.len()]);

    let serve = |source: &mut S| -> Result<(), SourceError> {
        let seats = source.capacity().min(fair_share).max(1);
        loop {
            while source.pending() < seats {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(prompt) = prompts.get(index) else { break };
                let room = source.max_context().saturating_sub(prompt.len());
                let stream = StreamKey { episode: options.stream.episode + index as u64, ..options.stream };
                let request = Request {
                    session: SessionId(index as u64),
                    context: prompt.clone(),
                    sampling: options.sampling,
                    max_new_tokens: options.max_new_tokens.min(room),
                    stream,
                    shared_by: 1,
                };
                // on an error the others find no further prompt
                source.submit(request).inspect_err(|_| next.store(prompts.len(), Ordering::Relaxed))?;
            }
            if source.pending() == 0 {
                return Ok(());
            }
            let completions =
                source.advance().inspect_err(|_| next.store(prompts.len(), Ordering::Relaxed))?;
            for completion in completions {
                source.close(completion.session);
                let index = completion.session.0 as usize;
                results.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index] = Some(completion);
                progress(finished.fetch_add(1, Ordering::Relaxed) + 1);
            }
        }
    };
    thread::scope(|scope| {
        let serve = &serve;
        let workers: Vec<_> = sources.iter_mut().map(|source| scope.spawn(move || serve(source))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, _>>()
    })?;
    let results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(results.into_iter().map(|result| result.expect("every prompt was answered")).collect())
}
