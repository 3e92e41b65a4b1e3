//! Hindsight skills: an episode in, a short reusable lesson out; prompts, parsing, insertion, quality metrics, annotators.
