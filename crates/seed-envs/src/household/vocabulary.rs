//! The tokenizer of the quick start's tiny policy: whole words of this world, bytes for everything else.
//!
//! The files are in the Hugging Face layout. The model part is a byte-level BPE without merges that takes a piece of
//! text as one token when the piece is in the vocabulary, and byte by byte otherwise; so any text survives encoding and
//! decoding. Pieces are words (with the blank before them), single digits, runs of punctuation and white space.
//!
//! The recipe is this module and the tables of [`super::knowledge`]; `cargo run -p seed-envs --example tiny_tokenizer`
//! writes `data/tiny`, and a test compares the committed files with it. A checkpoint belongs to one vocabulary: after
//! any change here it must be made anew.

use super::knowledge::{OBJECTS, RECEPTACLES, Room};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Marks the end of a text; also used for padding.
pub const END_OF_TEXT: &str = "<|endoftext|>";
/// Opens a message.
pub const MESSAGE_START: &str = "<|im_start|>";
/// Closes a message, and with it the policy's turn.
pub const MESSAGE_END: &str = "<|im_end|>";
/// Tags that are one token each but ordinary text: decoding keeps them.
pub const TAGS: [&str; 4] = ["<action>", "</action>", "<think>", "</think>"];

/// How text is cut into pieces before the vocabulary is asked.
const PIECES: &str = r" ?[\p{L}_]+| ?\p{N}| ?[^\s\p{L}\p{N}_]+|\s+(?!\S)|\s+";

/// Messages one after the other; the role stands on the line of its mark. An assistant's turn ends with its mark alone,
/// so that a turn costs few tokens.
const CHAT_TEMPLATE: &str = "{%- for message in messages -%}\
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' -}}\
{%- endfor -%}\
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

/// Words that stand at the start of a turn, a line or a quoted value, so without a blank before them.
const BARE: &str = "\
go open close take move clean heat cool use look inventory put find to the do when one then if never search skill a \
both step before you it system user assistant episode_summary episode_skill step_skills success failure unknown true false";

/// Words that open sentences; each is there with and without a blank before it.
const OPENERS: &str = "\
A After All Always And At Avoid Be Before Both But Check Close Do Each End Episode Every Find First Follow For \
From Go Goal Hold How I If In It JSON Keep Lesson Let Look Make Most Move Never Next No Not Nothing Now Observation On Once One \
Only Open Or Otherwise Outcome Put Remember Return Search Skill So Start Step Steps Stop Summary Take Task That The Then There This \
To Try Turn Use Usually Welcome When Where Which With Write You Your";

/// Words inside sentences, with the blank before them. Names of rooms, furniture and objects come from the tables.
const PROSE: &str = "\
a about above accepts act action actions after again agent all almost alone already also always an and another answer any \
anything applies are around as ask at available avoid away back be because been before begin behind being best better between \
both bring but by called can cannot carry cause check checked choose chosen clean cleaned clear close closed cold come comes \
command commands content context cool cooled correct costs could count decide decided decision different direct did do does \
doing done down each early either else empty end ended ends enough episode even every everything example exactly fact fail \
failed false far few field fields find finding first follow follows for found four from full furniture further gave get given \
go goal goes going gone good had half hand hands happen happened happens has have heat heated held help here hidden hold \
holding hot house how if important in index information inside instead into inventory is it item its itself job just keep kept \
kind kinds know known last later lead leads learn learned least leave leaving left less lesson let lie lies light like limit \
line list lit little long look looked looking lost made make many may mean means might missing mistake more most mostly move \
moved moves moving much must name named names near need needed needs never new next no none nor not nothing now number object \
objects observation of off often old on once one ones only onto open opened opening or order other others otherwise out \
outcome over own part passed path pick place places plan played point policy possible put puts reach reached read ready \
reason receptacle receptacles remember repeat repeated reply response rest result return right room rooms rule rules said same \
saw say says search searched searching second see seen sentence sequence shine short should show shown shows sign signs simple \
since skill skip so some something sometimes soon spend spent stand stands start started state still stop straight stuck \
success such sure take taken taking target task tasks tell text than that their them then there these they thing things think \
third this those three through time times to together too took toward treat treated tried true try trying turn turned two \
type under unknown until unopened up used useful useless using usual usually very visit visited wait walk want wanted warning \
was wasted way we well went were what when where which while who whole why will with within without won word words work \
worked would write wrong wrote yet you your json \
advice below candidates counted decisions episodes fill form forms game give guide keys lamps looks missed mattered occur piece \
play player plays sentences stay steps tells things times whether wherever win wins working world written writes";

/// Runs of punctuation and white space that are one token.
const PUNCTUATION: &[&str] = &[
    "\n\n", " \"", "{\"", "\":", "\",", "\"}", ".\"", ".\",", ".\"}", "...", " (", ").", " [", "].", " {",
    " -", "**", ":**", "\":\"", "\",\"", ".\",\"",
];

/// The entries of the vocabulary in the order of their ids: 256 bytes, then pieces, each once, all in the byte alphabet.
///
/// Special tokens and tags follow after the last of them.
pub fn pieces() -> Vec<String> {
    let blank = |word: &str| format!(" {word}");
    let names = OBJECTS.iter().map(|kind| kind.name);
    let names =
        names.chain(RECEPTACLES.iter().map(|kind| kind.name)).chain(Room::ALL.iter().map(|room| room.name()));
    let mut texts: Vec<String> = (0..10).map(|digit| format!(" {digit}")).collect();
    texts.extend(PUNCTUATION.iter().map(|&run| run.to_owned()));
    texts.extend(names.map(blank));
    texts.extend(BARE.split_whitespace().map(str::to_owned));
    texts.extend(BARE.split_whitespace().map(blank));
    texts.extend(OPENERS.split_whitespace().map(str::to_owned));
    texts.extend(OPENERS.split_whitespace().map(blank));
    texts.extend(PROSE.split_whitespace().map(blank));

    let bytes = (0..=255).map(|byte| byte_symbol(byte).to_string()).collect();
    with_pieces(bytes, texts)
}

/// The pieces with those of further texts behind them, each once.
pub(crate) fn with_pieces(
    mut pieces: Vec<String>,
    texts: impl IntoIterator<Item = impl AsRef<str>>,
) -> Vec<String> {
    let mut known: HashSet<String> = pieces.iter().cloned().collect();
    for text in texts {
        let piece: String = text.as_ref().bytes().map(byte_symbol).collect();
        if known.insert(piece.clone()) {
            pieces.push(piece);
        }
    }
    pieces
}

/// The contents of `tokenizer.json`.
pub fn tokenizer_json() -> Value {
    tokenizer_of(pieces(), added_tokens())
}

/// The pieces of a text as the pre-tokenizer cuts it, words alone, with the blank before them where there is one.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_word = |c: char| c.is_alphabetic() || c == '_';
        let start = rest.find(is_word)?;
        let end = start + rest[start..].find(|c| !is_word(c)).unwrap_or(rest.len() - start);
        let start = start - usize::from(rest[..start].ends_with(' '));
        let word = &rest[start..end];
        rest = &rest[end..];
        Some(word)
    })
}

/// The contents of `tokenizer.json` and `tokenizer_config.json` of this vocabulary with further words behind its own.
pub fn tokenizer_with(words: impl IntoIterator<Item = impl AsRef<str>>) -> (Value, Value) {
    let pieces = with_pieces(pieces(), words);
    let config = config_of(pieces.len(), added_tokens(), CHAT_TEMPLATE);
    (tokenizer_of(pieces, added_tokens()), config)
}

/// The contents of a `tokenizer.json` with these pieces and, behind them, added tokens (special or not).
pub(crate) fn tokenizer_of(pieces: Vec<String>, added: impl Iterator<Item = (&'static str, bool)>) -> Value {
    let added: Vec<Value> = added
        .enumerate()
        .map(|(offset, (content, special))| {
            let mut token = added_token(content, special);
            token.insert("id".to_owned(), json!(pieces.len() + offset));
            Value::Object(token)
        })
        .collect();
    let vocab: Map<String, Value> =
        pieces.into_iter().enumerate().map(|(id, piece)| (piece, json!(id))).collect();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false
    });
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": PIECES }, "behavior": "Isolated", "invert": false },
                byte_level.clone()
            ]
        },
        "post_processor": null,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": true,
            "vocab": vocab,
            "merges": []
        }
    })
}

/// The contents of `tokenizer_config.json`, chat template included.
pub fn tokenizer_config_json() -> Value {
    config_of(pieces().len(), added_tokens(), CHAT_TEMPLATE)
}

/// The contents of a `tokenizer_config.json` whose added tokens start at `first`.
pub(crate) fn config_of(
    first: usize,
    added: impl Iterator<Item = (&'static str, bool)>,
    chat_template: &str,
) -> Value {
    let decoder: Map<String, Value> = added
        .enumerate()
        .map(|(offset, (content, special))| {
            ((first + offset).to_string(), Value::Object(added_token(content, special)))
        })
        .collect();
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": false,
        "add_prefix_space": false,
        "added_tokens_decoder": decoder,
        "bos_token": null,
        "chat_template": chat_template,
        "clean_up_tokenization_spaces": false,
        "eos_token": MESSAGE_END,
        "errors": "replace",
        "model_max_length": 4096,
        "pad_token": END_OF_TEXT,
        "unk_token": null
    })
}

/// Special tokens, then tags; with whether decoding may leave them out.
pub(crate) fn added_tokens() -> impl Iterator<Item = (&'static str, bool)> {
    let special = [END_OF_TEXT, MESSAGE_START, MESSAGE_END].into_iter().map(|content| (content, true));
    special.chain(TAGS.into_iter().map(|content| (content, false)))
}

fn added_token(content: &str, special: bool) -> Map<String, Value> {
    let token = json!({
        "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": special
    });
    token.as_object().cloned().unwrap_or_default()
}

/// The visible character that stands for a byte in byte-level vocabularies: itself where it prints, else the next free
/// character from U+0100 on (the table of GPT-2).
fn byte_symbol(byte: u8) -> char {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if prints(byte) {
        return char::from(byte);
    }
    let hidden_before = (0..byte).filter(|&other| !prints(other)).count() as u32;
    char::from_u32(0x100 + hidden_before).expect("U+0100 to U+0143 are characters")
}
