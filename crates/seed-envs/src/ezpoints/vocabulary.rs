//! The tokenizer of the visual example's tiny policy: that of the quick start, with the words of the card game and the
//! marks of pictures behind.
//!
//! A checkpoint belongs to one vocabulary: after any change here it must be made anew.

use crate::household::vocabulary::{
    added_tokens, config_of, pieces as text_pieces, tokenizer_of, with_pieces,
};
use serde_json::Value;

/// The marks of pictures, in the order in which configurations of Qwen2.5-VL count them: start, end, an unused one, place
/// holder of a picture, of a video.
pub const PICTURE_MARKS: [&str; 5] =
    ["<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"];

/// What answers and prompts of the game hold that the quick start's texts do not.
const PIECES: [&str; 22] = [
    "action", " \"+\"}", " \"*\"}", " \"=\"}", " +", " *", " =", " =.", " =.\"}", "+", "*", "Formula",
    " formula", "Cards", " Cards", " card", " cards", " No", " One", " Write", " or", "?",
];

/// As the quick start's; a picture is its marks and one place holder.
const CHAT_TEMPLATE: &str = "{%- for message in messages -%}\
{{- '<|im_start|>' + message['role'] + '\\n' -}}\
{%- if message['content'] is string -%}{{- message['content'] -}}\
{%- else -%}{%- for part in message['content'] -%}\
{%- if part['type'] == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}\
{%- else -%}{{- part['text'] -}}{%- endif -%}\
{%- endfor -%}{%- endif -%}\
{{- '<|im_end|>' -}}\
{%- endfor -%}\
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

/// The entries of the vocabulary in the order of their ids, all in the byte alphabet; added tokens follow.
pub fn pieces() -> Vec<String> {
    with_pieces(text_pieces(), PIECES)
}

/// The id of the first of [`PICTURE_MARKS`].
pub fn first_picture_mark() -> usize {
    pieces().len() + added_tokens().count()
}

fn added() -> impl Iterator<Item = (&'static str, bool)> {
    added_tokens().chain(PICTURE_MARKS.into_iter().map(|mark| (mark, true)))
}

/// The contents of `tokenizer.json`.
pub fn tokenizer_json() -> Value {
    tokenizer_of(pieces(), added())
}

/// The contents of `tokenizer_config.json`, chat template included.
pub fn tokenizer_config_json() -> Value {
    config_of(pieces().len(), added(), CHAT_TEMPLATE)
}
