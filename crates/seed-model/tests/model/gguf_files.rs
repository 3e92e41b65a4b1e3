//! GGUF files written here, read back, and damaged.

use crate::reference::*;
use burn::tensor::FloatDType;
use proptest::prelude::*;
use seed_model::checkpoint::{self, SaveOptions, WeightFiles};
use seed_model::gguf::{self, GgufError, GgufFile};
use seed_model::{CausalLm, Family, ModelConfig, PackedBatch};

/// A GGUF file in the making.
#[derive(Default, Clone)]
struct Writer {
    keys: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<usize>, u32, Vec<u8>)>,
}

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes()[..], value.as_bytes()].concat()
}

impl Writer {
    fn put(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.keys.retain(|(known, _)| known != key);
        self.keys.push((key.into(), [&kind.to_le_bytes()[..], value].concat()));
    }

    fn size(&mut self, key: &str, value: usize) {
        self.put(key, 4, &(value as u32).to_le_bytes());
    }

    fn text(&mut self, key: &str, value: &str) {
        self.put(key, 8, &text(value));
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        let items: Vec<u8> = values.iter().flat_map(|value| text(value)).collect();
        self.put(key, 9, &[&8u32.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &items].concat());
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            out.extend(text(key));
            out.extend(value);
        }
        let mut data: Vec<u8> = Vec::new();
        for (name, shape, kind, bytes) in &self.tensors {
            out.extend(text(name));
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|n| out.extend((*n as u64).to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        out
    }
}

/// A fresh llama-shaped model, and the same as a GGUF file.
fn model_and_file(tied: bool) -> (CausalLm, Writer) {
    let (heads, kv_heads, dim) = (4, 2, 8);
    let mut config = ModelConfig::new(Family::Llama, 260, 32, 64, 2, (heads, kv_heads, dim));
    config.tie_word_embeddings = tied;
    config.rms_norm_eps = f64::from(1e-5f32);
    let model = CausalLm::init(&config, 9, &cpu());
    let folder = tempfile::tempdir().unwrap();
    checkpoint::save(&model, folder.path(), &SaveOptions::default()).unwrap();
    let weights = WeightFiles::open(folder.path()).unwrap();

    let mut file = Writer::default();
    file.text("general.architecture", "llama");
    for (key, value) in [
        ("embedding_length", 32),
        ("feed_forward_length", 64),
        ("block_count", 2),
        ("context_length", 128),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("rope.dimension_count", dim),
    ] {
        file.size(&format!("llama.{key}"), value);
    }
    file.put("llama.attention.layer_norm_rms_epsilon", 6, &1e-5f32.to_le_bytes());
    file.put("llama.rope.freq_base", 6, &10000f32.to_le_bytes());
    file.text("tokenizer.ggml.model", "gpt2");
    file.text("tokenizer.ggml.pre", "smollm");
    // The printable stand-ins of single bytes, and a few more.
    let mut tokens: Vec<String> = (0u32..256)
        .map(|byte| {
            let plain =
                (33..=126).contains(&byte) || (161..=172).contains(&byte) || (174..=255).contains(&byte);
            let others = (0..byte)
                .filter(|b| !((33..=126).contains(b) || (161..=172).contains(b) || (174..=255).contains(b)))
                .count();
            char::from_u32(if plain { byte } else { 256 + others as u32 }).unwrap().to_string()
        })
        .collect();
    tokens.extend(["<|end|>", "ab", "abc", "Ġa"].map(String::from));
    file.texts("tokenizer.ggml.tokens", &tokens);
    file.texts("tokenizer.ggml.merges", &["a b", "ab c", "Ġ a"].map(String::from));
    let kinds: Vec<u8> = (0..260).flat_map(|id| (if id == 256 { 3i32 } else { 1 }).to_le_bytes()).collect();
    file.put(
        "tokenizer.ggml.token_type",
        9,
        &[&5u32.to_le_bytes()[..], &260u64.to_le_bytes(), &kinds].concat(),
    );
    file.size("tokenizer.ggml.eos_token_id", 256);
    file.text("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}");

    for name in weights.names() {
        let shape = weights.shape(name).unwrap().to_vec();
        let mut values = stored(&weights, name);
        if name.contains("q_proj") || name.contains("k_proj") {
            let width = shape[1];
            // Row 2i + p of a head in the file is row p * D/2 + i here.
            values = values
                .chunks(dim * width)
                .flat_map(|head| {
                    (0..dim)
                        .flat_map(move |row| head[(row % 2 * dim / 2 + row / 2) * width..][..width].to_vec())
                })
                .collect();
        }
        let mut stored_name = name.replace("model.layers.", "blk.");
        for (from, to) in [
            ("model.embed_tokens", "token_embd"),
            ("model.norm", "output_norm"),
            ("lm_head", "output"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("post_attention_layernorm", "ffn_norm"),
            ("input_layernorm", "attn_norm"),
        ] {
            stored_name = stored_name.replace(from, to);
        }
        file.tensors.push((stored_name, shape, 0, values.iter().flat_map(|v| v.to_le_bytes()).collect()));
    }
    (model, file)
}

fn load(bytes: &[u8]) -> Result<gguf::LoadedGguf, GgufError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    gguf::load(&path, &cpu(), FloatDType::F32)
}

#[test]
fn a_written_file_gives_the_model_and_the_tokenizer_back() {
    for tied in [true, false] {
        let (model, file) = model_and_file(tied);
        let loaded = load(&file.bytes()).unwrap();
        let batch = PackedBatch::new(&[[5u32, 90, 256, 17, 3], [1, 2, 3, 4, 259]]);
        assert_eq!(to_vec(loaded.model.logits(&batch)), to_vec(model.logits(&batch)));
        assert_eq!(loaded.tokenizer.encode("abc a<|end|>12é").unwrap(), [258, 259, 256, 49, 50, 195, 169]);
        assert_eq!(loaded.tokenizer.end_ids(), [256]);
        let rendered = loaded.chat_template.unwrap();
        let rendered = rendered.render(&[seed_model::Message::user("hi")], &Default::default()).unwrap();
        assert_eq!(rendered, "hi<|end|>");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let (_, file) = model_and_file(true);
    let check = |edit: &dyn Fn(&mut Writer), part: &str| {
        let mut file = file.clone();
        edit(&mut file);
        let message = load(&file.bytes()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    check(&|f| f.text("general.architecture", "mamba"), "is mamba, which is not supported; supported: llama");
    check(&|f| f.text("tokenizer.ggml.model", "llama"), "supported: gpt2");
    check(&|f| f.text("llama.rope.scaling.type", "yarn"), "`llama.rope.scaling.type` is yarn");
    check(
        &|f| f.size("llama.feed_forward_length", 65),
        "tensor `blk.0.ffn_gate.weight` has shape [64, 32], needed: [65, 32]",
    );
    check(
        &|f| f.text("llama.block_count", "two"),
        "metadata key `llama.block_count`: found \"two\", needed: a positive",
    );
    check(&|f| f.tensors.retain(|t| t.0 != "blk.1.attn_k.weight"), "tensor `blk.1.attn_k.weight` is missing");
    check(
        &|f| f.tensors.push(("rope_freqs.weight".into(), vec![1], 0, vec![0; 4])),
        "`rope_freqs.weight` belongs to nothing",
    );
    check(&|f| f.tensors[0].2 = 12, "is number 12, which is not supported; supported: F32");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_is_an_error_never_a_panic(at in 0usize..6000, byte in any::<u8>(), cut in 0usize..20000) {
        let (_, file) = model_and_file(true);
        let mut bytes = file.bytes();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.gguf");
        let cut = cut.min(bytes.len() - 1);
        std::fs::write(&path, &bytes[..cut]).unwrap();
        drop(gguf::load(&path, &cpu(), FloatDType::F32).unwrap_err());
        bytes[at] = byte;
        std::fs::write(&path, &bytes).unwrap();
        drop(GgufFile::open(&path));
        drop(gguf::load(&path, &cpu(), FloatDType::F32));
    }
}
