//! Conversations to text, by the Jinja template that comes with a model.

mod python_json;

use crate::tokenizer::{TokenizerError, read_json, token_text};
use minijinja::value::{Kwargs, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind, syntax::SyntaxConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Why a conversation cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A file of the folder cannot be read.
    #[error(transparent)]
    File(#[from] TokenizerError),
    /// The folder has no template.
    #[error(
        "{folder}: no chat template; needed: `chat_template.jinja`, or `chat_template` in `tokenizer_config.json`"
    )]
    None {
        /// The folder.
        folder: PathBuf,
    },
    /// The template is not valid, refuses the conversation, or uses what is not there.
    #[error("chat template, line {line}: {reason}")]
    Render {
        /// Line in the template, from 1; 0 where unknown.
        line: usize,
        /// What the template engine, or the template itself, says.
        reason: String,
    },
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text; not read where there are [`parts`](Self::parts).
    #[serde(default)]
    pub content: String,
    /// Text and pictures in their order; empty for text alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// What some templates read besides: `tool_calls`, `reasoning_content`, `name`. Absent keys are undefined in the template.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture; which one is told by its place among the pictures of the conversation.
    Image,
}

impl Part {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl Message {
    /// A message with role and text alone.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), parts: Vec::new(), other: Map::new() }
    }

    /// A message of text and pictures.
    pub fn with_parts(role: impl Into<String>, parts: Vec<Part>) -> Self {
        Self { role: role.into(), content: String::new(), parts, other: Map::new() }
    }

    /// Number of its pictures.
    pub fn images(&self) -> usize {
        self.parts.iter().filter(|part| **part == Part::Image).count()
    }

    /// A message of the system.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// A message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }
}

/// What to render besides the messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RenderOptions {
    /// End with the opening of a response.
    pub add_generation_prompt: bool,
    /// Qwen3: false closes the thinking block at once. `None` leaves the variable undefined.
    pub enable_thinking: Option<bool>,
    /// Schemas of tools; `None` leaves the variable undefined.
    pub tools: Option<Vec<Value>>,
    /// Further variables of the template.
    pub other: Map<String, Value>,
}

impl RenderOptions {
    /// Options for a prompt: [`add_generation_prompt`](Self::add_generation_prompt) and nothing else.
    pub fn prompt() -> Self {
        Self { add_generation_prompt: true, ..Self::default() }
    }
}

/// A compiled chat template.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    /// `bos_token` and the like, as variables.
    tokens: Map<String, Value>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Loads the template of a folder: `chat_template.jinja`, else `chat_template` in `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`TemplateError`] when there is none, or it cannot be compiled.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, TemplateError> {
        let folder = folder.as_ref();
        let config = read_json(&folder.join("tokenizer_config.json"))?;
        let path = folder.join("chat_template.jinja");
        let source = match std::fs::read_to_string(&path) {
            Ok(source) => Some(source),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                default_template(&config["chat_template"])
            }
            Err(source) => return Err(TokenizerError::File { path, source }.into()),
        };
        let source = source.ok_or_else(|| TemplateError::None { folder: folder.to_path_buf() })?;
        Self::compile(source, &config)
    }

    /// A template from its source; `tokenizer_config` (or null) supplies `bos_token`, `eos_token` and the like.
    ///
    /// # Errors
    /// [`TemplateError::Render`] when it is not valid.
    pub fn compile(source: impl Into<String>, tokenizer_config: &Value) -> Result<Self, TemplateError> {
        let source = source.into();
        let mut environment = Environment::new();
        let syntax =
            SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(render_error)?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |message: String| -> Result<Jinja, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, source.clone()).map_err(render_error)?;
        let names = ["bos_token", "eos_token", "pad_token", "unk_token"];
        let tokens = names.iter().filter_map(|name| {
            token_text(&tokenizer_config[*name]).map(|text| ((*name).to_owned(), Value::String(text)))
        });
        let tokens = tokens.collect();
        Ok(Self { environment, source, tokens })
    }

    /// The template as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of a conversation.
    ///
    /// Each picture gives one place holder ([`IMAGE`]); [`expand_place_holders`](crate::vision::expand_place_holders) makes it as many as
    /// the picture takes. Place holders that somebody wrote into the text of such a conversation are made harmless, so that the number
    /// of place holders is that of the pictures.
    ///
    /// A longer conversation need not start with the text of a shorter one (Qwen3 drops old thinking): keep sampled ids, never
    /// derive them again from here.
    ///
    /// # Errors
    /// [`TemplateError::Render`] when the template refuses the conversation.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, TemplateError> {
        let mut context = self.tokens.clone();
        context.extend(options.other.clone());
        let mut messages = serde_json::to_value(messages)
            .map_err(|error| TemplateError::Render { line: 0, reason: error.to_string() })?;
        self.place_images(&mut messages);
        context.insert("messages".to_owned(), messages);
        context.insert("add_generation_prompt".to_owned(), Value::Bool(options.add_generation_prompt));
        if let Some(thinking) = options.enable_thinking {
            context.insert("enable_thinking".to_owned(), Value::Bool(thinking));
        }
        if let Some(tools) = &options.tools {
            context.insert("tools".to_owned(), Value::Array(tools.clone()));
        }
        let template = self.environment.get_template(NAME).map_err(render_error)?;
        template.render(Jinja::from(minijinja::value::Serde(&context))).map_err(render_error)
    }
}

impl ChatTemplate {
    /// Gives messages with pictures the content that the template reads: a list of parts, or the same as text where it knows texts
    /// only.
    fn place_images(&self, messages: &mut Value) {
        let with_parts = |message: &Value| message.get("parts").is_some();
        let Some(messages) = messages.as_array_mut().filter(|all| all.iter().any(with_parts)) else { return };
        let reads_lists = self.source.contains("'image'") || self.source.contains("\"image\"");
        for message in messages.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::String(text)) = message.get_mut("content") {
                *text = without_place_holders(text);
            }
            let Some(Value::Array(mut parts)) = message.shift_remove("parts") else { continue };
            for part in &mut parts {
                if let Some(Value::String(text)) = part.get_mut("text") {
                    *text = without_place_holders(text);
                }
            }
            let text = || parts.iter().map(|part| part["text"].as_str().unwrap_or(IMAGE)).collect();
            let content = if reads_lists { Value::Array(parts) } else { Value::String(text()) };
            message.insert("content".to_owned(), content);
        }
    }
}

/// The text of a picture in a rendered conversation: its place holder between the marks of its start and end.
pub const IMAGE: &str = "<|vision_start|><|image_pad|><|vision_end|>";

/// Texts that a tokenizer of a model that sees would take for a picture.
const PLACE_HOLDERS: [&str; 4] = ["<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>"];

/// `text` with a space inside every place holder of a picture: a reader sees the same, a tokenizer no special token.
pub fn without_place_holders(text: &str) -> String {
    PLACE_HOLDERS.iter().fold(text.to_owned(), |text, mark| match text.contains(mark) {
        true => text.replace(mark, &mark.replace("|>", " |>")),
        false => text,
    })
}

/// One template, or the one named `default` of a list.
fn default_template(value: &Value) -> Option<String> {
    let named = |items: &Vec<Value>| items.iter().find(|item| item["name"] == "default").cloned();
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => named(items)?["template"].as_str().map(str::to_owned),
        _ => None,
    }
}

fn render_error(error: Error) -> TemplateError {
    let reason = error.detail().map_or_else(|| error.to_string(), str::to_owned);
    TemplateError::Render { line: error.line().unwrap_or(0), reason }
}

/// `tojson` as Python's `json.dumps(value, ensure_ascii=False, indent=…)` prints.
fn to_json(value: &Jinja, options: Kwargs) -> Result<Jinja, Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    if options.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson(ensure_ascii=true) is not supported"));
    }
    options.assert_all_used()?;
    let text = python_json::to_string(value, indent)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Jinja::from(text))
}
