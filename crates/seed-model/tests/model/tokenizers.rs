//! Encodings, decodings and rendered conversations of three tokenizers.

use crate::reference::*;
use seed_model::{ChatTemplate, Message, RenderOptions, Tokenizer};
use serde_json::Value;
use std::path::Path;

fn check(vectors: &Value, folder: &Path) {
    let tokenizer = Tokenizer::load(folder).unwrap();
    assert_eq!(tokenizer.vocab_size() as u64, vectors["vocab_size_with_added"], "vocab_size_with_added");
    assert_eq!(tokenizer.base_vocab_size() as u64, vectors["vocab_size_base"], "vocab_size_base");
    for (token, id) in vectors["special_ids"].as_object().unwrap() {
        assert_eq!(tokenizer.id(token).map(u64::from), id.as_u64(), "{token}");
    }
    for case in vectors["encodings"].as_array().unwrap() {
        let (label, text) = (&case["label"], case["text"].as_str().unwrap());
        let expected = ids(&case["ids"]);
        assert_eq!(tokenizer.encode(text).unwrap(), expected, "{label}");
        assert_eq!(tokenizer.decode(&expected).unwrap(), case["decoded"], "{label}");
        assert_eq!(
            tokenizer.decode_skipping_special(&expected).unwrap(),
            case["decoded_skipping_special"],
            "{label}"
        );
    }
    for case in vectors["prefix_decodes"].as_array().unwrap() {
        let all = ids(&case["ids"]);
        for (i, expected) in case["prefixes"].as_array().unwrap().iter().enumerate() {
            assert_eq!(tokenizer.decode(&all[..=i]).unwrap(), *expected, "{} prefix {i}", case["label"]);
        }
    }
    let chats = vectors["chats"].as_array().unwrap();
    let template = ChatTemplate::load(folder).unwrap();
    for case in chats {
        let messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
        let mut options =
            RenderOptions { tools: case["tools"].as_array().cloned(), ..RenderOptions::default() };
        for (key, value) in case["options"].as_object().unwrap() {
            match key.as_str() {
                "add_generation_prompt" => options.add_generation_prompt = value.as_bool().unwrap(),
                "enable_thinking" => options.enable_thinking = value.as_bool(),
                _ => drop(options.other.insert(key.clone(), value.clone())),
            }
        }
        let rendered = template.render(&messages, &options).unwrap();
        assert_eq!(rendered, case["rendered"], "{}", case["label"]);
        assert_eq!(tokenizer.encode(&rendered).unwrap(), ids(&case["ids"]), "{}", case["label"]);
    }
    assert!(!chats.is_empty());
}

#[test]
fn the_tiny_tokenizer() {
    check(&json(&vectors("tokenizers/tiny.json")), &vectors("qwen2_tiny/float32"));
}

#[test]
fn the_qwen2_5_tokenizer() {
    check(&json(&vectors("tokenizers/qwen2_5.json")), &artefact("tokenizers/qwen2_5", "tokenizers"));
}

#[test]
fn the_qwen3_tokenizer() {
    check(&json(&vectors("tokenizers/qwen3.json")), &artefact("tokenizers/qwen3", "tokenizers"));
}

#[test]
fn end_ids_come_from_the_folder() {
    let tokenizer = Tokenizer::load(vectors("qwen2_tiny/float32")).unwrap();
    assert_eq!(tokenizer.end_ids(), [482, 480]);
    assert_eq!(tokenizer.start_id(), None);
    let stories = Tokenizer::load(vectors("stories260k/llama")).unwrap();
    assert_eq!((stories.end_ids(), stories.start_id()), (&[2u32][..], Some(1)));
}

#[test]
fn a_template_file_comes_before_the_one_in_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let messages = [Message::user("hi")];
    let render =
        || ChatTemplate::load(folder.path()).map(|t| t.render(&messages, &RenderOptions::prompt()).unwrap());
    let message = render().unwrap_err().to_string();
    assert!(message.contains("no chat template; needed: `chat_template.jinja`"), "{message}");
    write(
        "tokenizer_config.json",
        r#"{"eos_token": {"content": "</s>"}, "chat_template": [{"name": "tool_use", "template": "no"},
            {"name": "default", "template": "config {{ messages[0].content }}{{ eos_token }}"}]}"#,
    );
    assert_eq!(render().unwrap(), "config hi</s>");
    write("chat_template.jinja", "file {{ messages[0].content.upper() }}");
    assert_eq!(render().unwrap(), "file HI");
}

#[test]
fn a_template_may_refuse_a_conversation() {
    let template =
        ChatTemplate::compile("{% if true %}\n{{ raise_exception('only users') }}{% endif %}", &Value::Null)
            .unwrap();
    let message = template.render(&[], &RenderOptions::default()).unwrap_err().to_string();
    assert_eq!(message, "chat template, line 2: only users");
}
