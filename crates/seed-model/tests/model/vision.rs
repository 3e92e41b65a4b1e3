//! Qwen2.5-VL: every reference checkpoint in the folder, picture preparation, folders of both generations, and what must not matter.

use crate::reference::*;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{FloatDType, Tensor, TensorData};
use seed_model::checkpoint::{self, SaveOptions, WeightFiles};
use seed_model::generate::{Decoder, Decoding};
use seed_model::lora::has_adapter;
use seed_model::optim::named_gradients;
use seed_model::vision::{Grid, environment_size, expand_place_holders, place_pictures};
use seed_model::{
    Activations, CacheLayout, CausalLm, ChatTemplate, Family, GenerateOptions, ImageProcessor, Lora, Message,
    ModelConfig, PackedBatch, Part, Picture, PlacedPicture, Prompt, RenderOptions, RgbImage, ScoreBatch,
    ScoreError, ScoreRow, Tokenizer, VisionConfig, generate_from, loss_and_gradients, score,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn png(path: &Path) -> RgbImage {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(
        (info.color_type, info.bit_depth),
        (png::ColorType::Rgb, png::BitDepth::Eight),
        "{}",
        path.display()
    );
    RgbImage::new(info.width as usize, info.height as usize, bytes[..info.buffer_size()].to_vec()).unwrap()
}

/// One checkpoint with its expected values.
struct Case {
    dir: PathBuf,
    name: String,
    expected: Value,
    tensors: WeightFiles,
}

/// Every `reference_<name>.json` of every folder `qwen2_5_vl_*` that has checkpoints.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut dirs: Vec<PathBuf> =
        std::fs::read_dir(vectors("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.retain(|dir| dir.file_name().unwrap().to_string_lossy().starts_with("qwen2_5_vl_"));
    dirs.sort();
    for dir in dirs {
        let mut names: Vec<String> = std::fs::read_dir(&dir)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter_map(|file| Some(file.strip_prefix("reference_")?.strip_suffix(".json")?.to_owned()))
            .collect();
        names.sort();
        for name in names {
            let expected = json(&dir.join(format!("reference_{name}.json")));
            let tensors = WeightFiles::open_file(&dir.join(format!("reference_{name}.safetensors"))).unwrap();
            cases.push(Case { dir: dir.clone(), name, expected, tensors });
        }
    }
    assert!(!cases.is_empty(), "no reference_*.json in {}", vectors("qwen2_5_vl_tiny").display());
    cases
}

impl Case {
    fn folder(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    fn load(&self) -> CausalLm {
        checkpoint::load(self.folder(), &cpu(), FloatDType::F32).unwrap().model
    }

    fn processor(&self) -> ImageProcessor {
        ImageProcessor::load(self.folder()).unwrap()
    }

    fn picture(&self, image: &str) -> Arc<Picture> {
        let file = self.expected["images"][image]["file"].as_str().unwrap();
        Arc::new(self.processor().prepare(&png(&self.dir.join(file))).unwrap())
    }

    /// A picture whose pixels are those of the reference, where the reference resized it.
    fn reference_picture(&self, image: &str) -> Arc<Picture> {
        let resized = self.dir.join(format!("image_{image}_resized.png"));
        match resized.exists() {
            true => Arc::new(self.processor().prepare(&png(&resized)).unwrap()),
            false => self.picture(image),
        }
    }

    fn image_token(&self) -> u32 {
        self.expected["special"]["image_pad"].as_u64().unwrap() as u32
    }

    fn placed(&self, row: &[u32], images: &Value) -> Vec<PlacedPicture> {
        let names = images.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        let pictures: Vec<Arc<Picture>> = names.map(|name| self.reference_picture(name)).collect();
        place_pictures(row, &pictures, self.image_token()).unwrap()
    }

    /// Name, tokens and pictures of each case.
    fn rows(&self) -> Vec<(String, Vec<u32>, Vec<PlacedPicture>)> {
        let cases = self.expected["cases"].as_array().unwrap();
        cases
            .iter()
            .map(|case| {
                let row = ids(&case["input_ids"]);
                let placed = self.placed(&row, &case["images"]);
                (case["name"].as_str().unwrap().to_owned(), row, placed)
            })
            .collect()
    }

    /// The training row: prompt of one token, the rest scored, and which of them count.
    fn train_row(&self) -> (Vec<u32>, Vec<PlacedPicture>, Vec<f32>) {
        let train = &self.expected["train"];
        let row = ids(&train["input_ids"]);
        let placed = self.placed(&row, &train["images"]);
        let counted = train["labels"].as_array().unwrap()[1..].iter();
        let counted = counted.map(|label| if label.as_i64().unwrap() < 0 { 0.0 } else { 1.0 }).collect();
        (row, placed, counted)
    }

    fn loss(&self, model: &CausalLm) -> Tensor<1> {
        let (row, placed, counted) = self.train_row();
        let row = ScoreRow { prompt: &row[..1], response: &row[1..], pictures: &placed };
        let logp = score(model, &[row], 1.0, false).unwrap().logp;
        let count: f32 = counted.iter().sum();
        (logp * Tensor::<1>::from_floats(counted.as_slice(), &cpu())).sum().neg().div_scalar(count)
    }
}

fn one(ids: &[u32], pictures: &[PlacedPicture]) -> PackedBatch {
    let mut batch = PackedBatch::default();
    batch.push_prompt(Prompt { ids, pictures });
    batch
}

#[test]
fn sizes_of_both_published_rules() {
    for case in cases() {
        for row in case.expected["smart_resize"].as_array().unwrap() {
            let at = |i: usize| row[i].as_u64().unwrap() as usize;
            let processor = ImageProcessor { min_pixels: at(2), max_pixels: at(3), ..case.processor() };
            assert_eq!(processor.resized(at(0), at(1)).ok(), Some((at(4), at(5))), "{row}");
        }
    }
    let index = json(&vectors("qwen2_5_vl_image/index.json"));
    let processor = ImageProcessor { refuse_short_sides: true, ..ImageProcessor::default() };
    for row in index["smart_resize"].as_array().unwrap() {
        let size = |value: &Value| value.as_u64().unwrap() as usize;
        let found = processor.resized(size(&row["h"]), size(&row["w"])).ok();
        let expected = row["out"].as_array().map(|out| (size(&out[0]), size(&out[1])));
        assert_eq!(found, expected, "{row}");
    }
}

#[test]
fn pictures_of_environments_are_resized_and_cut_as_recorded() {
    let dir = vectors("qwen2_5_vl_image");
    let index = json(&dir.join("index.json"));
    let rows = WeightFiles::open_file(&dir.join("rows.safetensors")).unwrap();
    let constants = &index["processor"];
    let processor = ImageProcessor {
        min_pixels: constants["min_pixels"].as_u64().unwrap() as usize,
        max_pixels: constants["max_pixels"].as_u64().unwrap() as usize,
        ..ImageProcessor::default()
    };
    let bytes = safetensors_integers(&dir.join("rows.safetensors"));
    for image in index["images"].as_array().unwrap() {
        let name = image["name"].as_str().unwrap();
        let input = png(&dir.join(format!("{name}_in.png")));
        let picture = match image["env_side_resize"].as_array() {
            Some(size) => {
                let size = (size[0].as_u64().unwrap() as usize, size[1].as_u64().unwrap() as usize);
                assert_eq!(environment_size(input.width(), input.height()), size, "{name}");
                processor.prepare_frame(&input).unwrap()
            }
            None => processor.prepare(&input).unwrap(),
        };
        let resized = png(&dir.join(format!("{name}_resized.png")));
        assert_eq!(picture.pixels(), resized.pixels(), "{name}");
        let grid = picture.grid();
        assert_eq!(json!([1, grid.height, grid.width]), image["grid_thw"], "{name}");
        assert_eq!(json!(picture.tokens()), image["llm_tokens"], "{name}");
        let values = picture.values();
        let (wanted, which) = (stored(&rows, &format!("{name}.values")), &bytes[&format!("{name}.rows")]);
        for (wanted, row) in wanted.chunks(1176).zip(which) {
            assert_eq!(&values[row * 1176..(row + 1) * 1176], wanted, "{name} row {row}");
        }
        let sum: f64 = values.iter().map(|x| f64::from(*x)).sum();
        assert!((sum - image["sum"].as_f64().unwrap()).abs() < 1e-6 * sum.abs(), "{name}");
    }
    // The recorded table of normalised values, by a picture that has every byte.
    let (ramp, side) = ((0..=255u8).flat_map(|byte| [byte; 3]).collect::<Vec<u8>>(), 28);
    let mut pixels = ramp.clone();
    pixels.resize(side * side * 3, 0);
    let processor = ImageProcessor { min_pixels: 1, ..processor };
    let values = processor.prepare(&RgbImage::new(side, side, pixels).unwrap()).unwrap().values();
    for (byte, wanted) in index["lut_f32"].as_array().unwrap().iter().enumerate() {
        let (y, x) = (byte / side, byte % side);
        // Row of the patch in its block order, then channel, frame, row, column.
        let patch = y / 14 * 2 + x / 14;
        for (channel, wanted) in floats(wanted).into_iter().enumerate() {
            let at = patch * 1176 + channel * 392 + (y % 14) * 14 + x % 14;
            assert_eq!((values[at], values[at + 196]), (wanted, wanted), "byte {byte} channel {channel}");
        }
    }
}

/// The integer tensors of a file.
fn safetensors_integers(path: &Path) -> BTreeMap<String, Vec<usize>> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let integers = file.tensors().into_iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::I32);
    integers
        .map(|(name, view)| {
            let values = view.data().as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b) as usize);
            (name, values.collect())
        })
        .collect()
}

#[test]
fn pixel_values_of_the_reference() {
    for case in cases() {
        for (name, image) in case.expected["images"].as_object().unwrap() {
            let expected = stored(&case.tensors, &format!("pixel_values.{name}"));
            let (own, exact) = (case.picture(name), case.reference_picture(name));
            let grid = own.grid();
            assert_eq!(json!([1, grid.height, grid.width]), image["grid_thw"], "{} {name}", case.name);
            assert_eq!(json!(own.tokens()), image["placeholder_tokens"], "{} {name}", case.name);
            assert_close(&format!("{} pixels of {name}", case.name), &exact.values(), &expected, 1e-5);
            let differences: Vec<f32> =
                own.values().iter().zip(&expected).map(|(a, b)| (a - b).abs()).collect();
            let mean = differences.iter().sum::<f32>() / differences.len() as f32;
            let largest = differences.iter().fold(0.0, |a: f32, b| a.max(*b));
            assert!(
                mean < 0.02 && largest < 0.1,
                "{} own resize of {name}: mean {mean} largest {largest}",
                case.name
            );
        }
    }
}

#[test]
fn embeddings_of_pictures_alone_and_together() {
    for case in cases() {
        let model = case.load();
        let tower = model.visual.as_ref().unwrap();
        let names: Vec<String> = case.expected["images"].as_object().unwrap().keys().cloned().collect();
        let pictures: Vec<Arc<Picture>> = names.iter().map(|name| case.reference_picture(name)).collect();
        let mut all = Vec::new();
        for (name, picture) in names.iter().zip(&pictures) {
            let expected = stored(&case.tensors, &format!("image_embeds.{name}"));
            let found = to_vec(tower.embed(&[picture.as_ref()]));
            assert_close(&format!("{} {name}", case.name), &found, &expected, 1e-4);
            // From the reference's own patches, too.
            let patches = stored(&case.tensors, &format!("pixel_values.{name}"));
            let data = TensorData::new(patches, [picture.grid().patches(), picture.patch_len()]);
            let found = to_vec(tower.forward(Tensor::from_data(data, &cpu()), &[picture.grid()]));
            assert_close(&format!("{} patches of {name}", case.name), &found, &expected, 1e-4);
            all.extend(expected);
        }
        let together: Vec<&Picture> = pictures.iter().map(AsRef::as_ref).collect();
        assert_close("together", &to_vec(tower.embed(&together)), &all, 1e-4);
        assert_eq!(tower.embed(&[]).dims()[0], 0);
        let plan = seed_model::plan::plan(model.config(), &seed_model::plan::Workload::new(1, 2, 2));
        assert_eq!(plan.parameters as usize, model.num_params(), "{}", case.name);
    }
}

/// Positions as the reference lays them out: `[3][T]`.
fn axes(batch: &PackedBatch) -> Value {
    let axes = batch.axes();
    json!((0..3).map(|axis| axes.iter().map(|at| at[axis]).collect::<Vec<u32>>()).collect::<Vec<_>>())
}

#[test]
fn positions_on_three_axes() {
    for case in cases() {
        let mut packed = PackedBatch::default();
        let mut together = vec![json!([]), json!([]), json!([])];
        for ((name, row, pictures), expected) in
            case.rows().iter().zip(case.expected["cases"].as_array().unwrap())
        {
            let batch = one(row, pictures);
            assert_eq!(axes(&batch), expected["position_ids"], "{} {name}", case.name);
            packed.push_prompt(Prompt { ids: row, pictures });
            for (axis, all) in together.iter_mut().enumerate() {
                let row = expected["position_ids"][axis].as_array().unwrap().clone();
                all.as_array_mut().unwrap().extend(row);
            }
        }
        assert_eq!(axes(&packed), Value::Array(together), "{} packed", case.name);
        let processor = ImageProcessor { min_pixels: 1, ..case.processor() };
        for expected in case.expected["rope_index"].as_array().unwrap() {
            let grids = expected["grids"].as_array().unwrap().iter();
            let pictures: Vec<Arc<Picture>> = grids
                .map(|grid| {
                    let side = |i: usize| grid[i].as_u64().unwrap() as usize * processor.patch_size;
                    let image = RgbImage::new(side(2), side(1), vec![0; side(1) * side(2) * 3]).unwrap();
                    Arc::new(processor.prepare(&image).unwrap())
                })
                .collect();
            let row = ids(&expected["input_ids"]);
            let placed = place_pictures(&row, &pictures, case.image_token()).unwrap();
            assert_eq!(axes(&one(&row, &placed)), expected["position_ids"], "{}", case.name);
        }
        // A padded batch is its rows without padding.
        let padded = &case.expected["left_padded"];
        for (k, (_, row, pictures)) in case.rows().into_iter().enumerate() {
            let mask = floats(&padded["attention_mask"][k]);
            let real = |values: &Value| -> Vec<u32> {
                ids(values).into_iter().zip(&mask).filter(|(_, m)| **m == 1.0).map(|(id, _)| id).collect()
            };
            assert_eq!(real(&padded["input_ids"][k]), row);
            let found = one(&row, &pictures).axes();
            for axis in 0..3 {
                let found: Vec<u32> = found.iter().map(|at| at[axis]).collect();
                assert_eq!(real(&padded["position_ids"][axis][k]), found, "{} row {k}", case.name);
            }
        }
    }
}

#[test]
fn logits_alone_and_log_probabilities_in_company() {
    for case in cases() {
        let model = case.load();
        let rows = case.rows();
        for (name, row, pictures) in &rows {
            let expected = stored(&case.tensors, &format!("{name}.logits"));
            let found = to_vec(model.logits(&one(row, pictures)));
            assert_close(&format!("{} {name}", case.name), &found, &expected, 5e-4);
        }
        let score_rows: Vec<ScoreRow> = rows
            .iter()
            .map(|(_, row, pictures)| ScoreRow { prompt: &row[..1], response: &row[1..], pictures })
            .collect();
        let found = to_vec(score(&model, &score_rows, 1.0, false).unwrap().logp);
        let expected: Vec<f32> = case.expected["cases"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|case| floats(&case["logprobs"]))
            .collect();
        assert_close(&format!("{} log-probabilities", case.name), &found, &expected, 5e-4);
    }
}

#[test]
fn greedy_texts_go_on_behind_the_pictures() {
    for case in cases() {
        let model = case.load();
        for ((name, row, pictures), expected) in
            case.rows().iter().zip(case.expected["cases"].as_array().unwrap())
        {
            let story = ids(&expected["greedy"]["new_ids"]);
            let options =
                GenerateOptions { decoding: Decoding::Greedy, max_tokens: story.len(), ..Default::default() };
            let prompt = Prompt { ids: row, pictures };
            let found = generate_from(&model, &[prompt, prompt], &options).unwrap();
            assert_eq!(found[0].ids, story, "{} {name}", case.name);
            assert_eq!(found[0], found[1]);
            // What the sampler noted is what scoring says.
            let scored = ScoreRow { prompt: row, response: &story, pictures };
            let logp = to_vec(score(&model, &[scored], 1.0, false).unwrap().logp);
            assert_close(&format!("{} {name} log-probabilities", case.name), &found[0].logp, &logp, 1e-4);
        }
    }
}

#[test]
fn loss_and_gradients_of_text_and_vision() {
    for case in cases() {
        let model = case.load().train();
        let loss = case.loss(&model);
        let expected = case.expected["train"]["loss"].as_f64().unwrap() as f32;
        assert_close(&format!("{} loss", case.name), &to_vec(loss.clone()), &[expected], 5e-5);
        let found = named_gradients(&model, &GradientsParams::from_grads(loss.backward(), &model));
        let expected = case.expected["train"]["grads"].as_object().unwrap();
        assert_eq!(found.len(), expected.len(), "{}: number of gradients", case.name);
        for (name, expected) in expected {
            let gradient = found.get(name).unwrap_or_else(|| panic!("{}: no gradient of {name}", case.name));
            assert_eq!(json!(gradient.shape().to_vec()), expected["shape"], "{name}");
            let values = gradient.clone().try_into_vec::<f32>().unwrap();
            let norm = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let wanted = expected["l2"].as_f64().unwrap();
            assert!((norm - wanted).abs() <= 1e-4 * wanted + 1e-6, "{name}: norm {norm}, expected {wanted}");
            let first = floats(&expected["first8"]);
            assert_close(name, &values[..first.len()], &first, (1e-4 * wanted) as f32 + 1e-6);
            let sum: f64 = values.iter().map(|x| f64::from(*x)).sum();
            let wanted_sum = expected["sum"].as_f64().unwrap();
            let spread = (values.len() as f64).sqrt() * wanted;
            assert!(
                (sum - wanted_sum).abs() <= 1e-4 * spread + 1e-5,
                "{name}: sum {sum}, expected {wanted_sum}"
            );
        }
        for name in case.tensors.names().filter_map(|name| name.strip_prefix("grad.")) {
            let expected = stored(&case.tensors, &format!("grad.{name}"));
            let error = relative(&found[name].clone().try_into_vec::<f32>().unwrap(), &expected);
            assert!(error <= 1e-4, "{} gradient of {name}: relative error {error:e}", case.name);
        }
    }
}

#[test]
fn recomputed_activations_and_a_constant_tower() {
    let case = cases().remove(0);
    let (row, pictures, counted) = case.train_row();
    let gradients = |model: &CausalLm, activations| {
        let row = ScoreRow { prompt: &row[..1], response: &row[1..], pictures: &pictures };
        let batch = ScoreBatch::new(&[row], model.config().vocab_size).unwrap();
        let (loss, gradients) = loss_and_gradients(model, &batch.packed, activations, |hidden, head| {
            let logp = batch.scores(hidden, head, 1.0, false).logp;
            (logp * Tensor::<1>::from_floats(counted.as_slice(), &cpu())).sum().neg()
        });
        (to_vec(loss), named_gradients(model, &gradients))
    };
    let model = case.load().train();
    let (loss, kept) = gradients(&model, Activations::Keep);
    let (again, recomputed) = gradients(&model, Activations::Recompute);
    assert_eq!(loss, again);
    assert_eq!(kept.len(), recomputed.len());
    let numbers = |data: &TensorData| data.clone().try_into_vec::<f32>().unwrap();
    for (name, gradient) in &kept {
        let (a, b) = (numbers(&recomputed[name]), numbers(gradient));
        let size = b.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert_close(name, &a, &b, 1e-4 * size + 1e-6);
    }
    let constant = model.train_vision(false);
    for activations in [Activations::Keep, Activations::Recompute] {
        let (_, text) = gradients(&constant, activations);
        assert!(text.keys().all(|name| !name.starts_with("visual.")), "{:?}", text.keys());
        assert_eq!(text.len(), kept.keys().filter(|name| !name.starts_with("visual.")).count());
        for (name, gradient) in &text {
            let size = numbers(&kept[name]).iter().map(|x| x * x).sum::<f32>().sqrt();
            assert_close(name, &numbers(gradient), &numbers(&kept[name]), 1e-4 * size + 1e-6);
        }
    }
    let learning = constant.train_vision(true);
    assert_eq!(gradients(&learning, Activations::Keep).1.len(), kept.len());
}

#[test]
fn only_the_decoder_is_adapted() {
    let case = cases().remove(0);
    let model = case.load().train();
    let (row, pictures, _) = case.train_row();
    let adapted = Lora::new(2, 4.0).attach(&model, 3).unwrap();
    let batch = one(&row, &pictures);
    assert_eq!(to_vec(adapted.logits(&batch)), to_vec(model.logits(&batch)), "B starts at zero");
    let loss = case.loss(&adapted);
    let found = named_gradients(&adapted, &GradientsParams::from_grads(loss.backward(), &adapted));
    let layers = model.config().num_hidden_layers;
    assert_eq!(found.len(), layers * 7 * 2);
    assert!(found.keys().all(|name| name.starts_with("model.layers.") && name.contains("adapter")));
    let folder = tempfile::tempdir().unwrap();
    Lora::new(2, 4.0).save(&adapted, folder.path(), "base").unwrap();
    let config = json(&folder.path().join("adapter_config.json"));
    assert_eq!(config["exclude_modules"], ".*visual.*");
    let (_, again) = Lora::load(&model, folder.path()).unwrap();
    assert!(has_adapter(&again));
    assert_eq!(to_vec(again.logits(&batch)), to_vec(adapted.logits(&batch)));
    // The names that newer writers give.
    let path = folder.path().join("adapter_model.safetensors");
    rename(&path, &path, |name| name.replace(".model.layers.", ".model.language_model.layers."));
    assert_eq!(
        to_vec(Lora::load(&model, folder.path()).unwrap().1.logits(&batch)),
        to_vec(adapted.logits(&batch))
    );
}

/// Copies a safetensors file with other names.
fn rename(from: &Path, to: &Path, name: impl Fn(&str) -> String) {
    let bytes = std::fs::read(from).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensors: Vec<_> = file.tensors().into_iter().map(|(old, view)| (name(&old), view)).collect();
    safetensors::serialize_to_file(tensors, None, to).unwrap();
}

/// The keys of a flat configuration as newer writers nest them.
fn nested(flat: &Value) -> Value {
    let mut new = flat.clone();
    let map = new.as_object_mut().unwrap();
    let top = ["architectures", "model_type", "vision_config", "tie_word_embeddings"];
    let is_top = |key: &str| top.contains(&key) || (key.ends_with("_token_id") && key.contains(['g', 'v']));
    let keys: Vec<String> = map.keys().filter(|key| !is_top(key)).cloned().collect();
    let mut text = json!({"model_type": "qwen2_5_vl_text", "layer_types": ["full_attention"]});
    for key in keys {
        let value = map.shift_remove(&key).unwrap();
        match key.as_str() {
            "torch_dtype" => text["dtype"] = value,
            "rope_theta" => text["rope_parameters"]["rope_theta"] = value,
            "rope_scaling" => {
                text["rope_parameters"]["mrope_section"] = value["mrope_section"].clone();
                text["rope_parameters"]["rope_type"] = json!("default");
            }
            _ => text[key] = value,
        }
    }
    map.insert("text_config".into(), text);
    new
}

#[test]
fn folders_of_both_generations_and_back() {
    for case in cases() {
        let loaded = checkpoint::load(case.folder(), &cpu(), FloatDType::F32).unwrap();
        assert_eq!(loaded.config.model_type, Family::Qwen25Vl);
        let folder = tempfile::tempdir().unwrap();
        let options =
            SaveOptions { generation_config: loaded.generation_config.clone(), ..SaveOptions::default() };
        checkpoint::save(&loaded.model, folder.path(), &options).unwrap();
        case.processor().save(folder.path()).unwrap();
        let tensors = |folder: &Path| {
            let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
            let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let all = file.tensors().into_iter();
            all.map(|(name, view)| (name, (view.shape().to_vec(), view.data().to_vec())))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(tensors(folder.path()), tensors(&case.folder()), "{}", case.name);
        // What was written means the same as what was read, key for key.
        let (written, read) =
            (json(&folder.path().join("config.json")), json(&case.folder().join("config.json")));
        for (key, value) in read.as_object().unwrap() {
            if key == "vision_config" || value.is_null() {
                continue;
            }
            assert_eq!(&written[key], value, "{}: {key}", case.name);
        }
        for (key, value) in read["vision_config"].as_object().unwrap() {
            assert_eq!(&written["vision_config"][key], value, "{}: vision_config.{key}", case.name);
        }
        assert_eq!(ImageProcessor::load(folder.path()).unwrap(), case.processor());

        // The other generation of keys and names.
        std::fs::write(folder.path().join("config.json"), nested(&read).to_string()).unwrap();
        let weights = folder.path().join("model.safetensors");
        rename(&weights, &weights, |name| match name.strip_prefix("model.") {
            Some(rest) => format!("model.language_model.{rest}"),
            None if name.starts_with("visual.") => format!("model.{name}"),
            None => name.to_owned(),
        });
        let again = checkpoint::load(folder.path(), &cpu(), FloatDType::F32).unwrap();
        assert_eq!(again.config, loaded.config, "{}", case.name);
        let (_, row, pictures) = &case.rows()[0];
        let batch = one(row, pictures);
        assert_eq!(to_vec(again.model.logits(&batch)), to_vec(loaded.model.logits(&batch)));
    }
}

#[test]
fn mistakes_are_named() {
    let case = cases().remove(0);
    let flat = json(&case.folder().join("config.json"));
    let message = |edit: &dyn Fn(&mut Value)| {
        let mut config = flat.clone();
        edit(&mut config);
        ModelConfig::from_json(config).unwrap_err().to_string()
    };
    let hidden = &flat["hidden_size"];
    let wide = message(&|config| config["vision_config"]["out_hidden_size"] = json!(7));
    assert_eq!(
        wide,
        format!(
            "configuration key `vision_config.out_hidden_size` is 7, needed: the decoder's `hidden_size` ({hidden})"
        )
    );
    let act = message(&|config| config["vision_config"]["hidden_act"] = json!("quick_gelu"));
    assert!(act.contains("`vision_config.hidden_act` is \"quick_gelu\", which is not supported"), "{act}");
    let rope =
        message(&|config| config["rope_scaling"] = json!({"type": "mrope", "mrope_section": [1, 1, 1]}));
    assert!(rope.contains("`rope_scaling.mrope_section` is [1,1,1], needed: three numbers"), "{rope}");
    let none = message(&|config| config["rope_scaling"] = Value::Null);
    assert!(none.contains("`rope_scaling.mrope_section` is missing"), "{none}");
    let yarn = message(&|config| config["rope_scaling"]["type"] = json!("yarn"));
    assert!(yarn.contains("not supported"), "{yarn}");
    let depth = message(&|config| config["vision_config"]["depth"] = json!("x"));
    assert_eq!(depth, "configuration key `vision_config.depth` is \"x\", needed: a positive whole number");
    let token = message(&|config| config["image_token_id"] = json!(1_000_000));
    assert!(token.contains("`image_token_id` is 1000000, needed: below `vocab_size`"), "{token}");

    let picture = case.picture("a");
    let (needed, image) = (picture.tokens(), case.image_token());
    let short = [vec![1], vec![image; needed - 1], vec![2]].concat();
    let error = |row: &[u32], pictures: &[Arc<Picture>]| {
        place_pictures(row, pictures, image).unwrap_err().to_string()
    };
    assert_eq!(
        error(&short, &[Arc::clone(&picture)]),
        format!("picture 0 finds {} place holders from token 1 on, needed: {needed}", needed - 1)
    );
    assert!(error(&[1, image], &[]).starts_with("the row has 1 image place holders for 0 pictures"));
    assert!(
        error(&[1], &[Arc::clone(&picture)]).starts_with("the row has 0 image place holders for 1 pictures")
    );
    let expanded = expand_place_holders(&[1, image, image], &[Arc::clone(&picture)], image).unwrap_err();
    assert!(expanded.to_string().starts_with("the row has 2 image place holders for 1 pictures"));

    let model = case.load();
    let placed = [PlacedPicture { start: 1, picture: Arc::clone(&picture) }];
    let row = ScoreRow { prompt: &[1], response: &[2, 3], pictures: &placed };
    let outside = score(&model, &[row], 1.0, false).unwrap_err();
    assert!(
        matches!(outside, ScoreError::Picture { row: 0, .. })
            && outside.to_string().contains("takes tokens 1..")
    );
    let text = CausalLm::init(&ModelConfig::new(Family::Qwen2, 512, 16, 16, 1, (2, 1, 8)), 0, &cpu());
    let long = vec![5; needed + 2];
    let row = ScoreRow { prompt: &long, response: &[2], pictures: &placed };
    let blind = score(&text, &[row], 1.0, false).unwrap_err().to_string();
    assert_eq!(
        blind,
        "the row has pictures, but the model (`qwen2`) has no vision tower; needed: qwen2_5_vl"
    );
    let other = ImageProcessor { patch_size: 7, ..case.processor() };
    let other = Arc::new(other.prepare(&RgbImage::new(56, 56, vec![0; 56 * 56 * 3]).unwrap()).unwrap());
    let long = vec![5; other.tokens() + 2];
    let placed = [PlacedPicture { start: 1, picture: other }];
    let row = ScoreRow { prompt: &long, response: &[2], pictures: &placed };
    let form = score(&model, &[row], 1.0, false).unwrap_err().to_string();
    assert!(form.contains("= (7, 2, 2), the model needs (14, 2, 2)"), "{form}");
}

/// A small model of another shape than the reference: blocks of three patches, other windows, one head.
fn odd_model() -> (CausalLm, ImageProcessor) {
    let mut vision = VisionConfig::new(3, 24, 2, 24, 8, 30);
    (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size, vision.window_size) =
        (4, 3, 1, 30);
    let config = ModelConfig::new(Family::Qwen2, 40, 24, 48, 2, (3, 1, 8)).with_vision(vision);
    let config = ModelConfig { initializer_range: 0.3, ..config };
    config.check().unwrap();
    let processor = ImageProcessor {
        patch_size: 4,
        temporal_patch_size: 1,
        merge_size: 3,
        min_pixels: 1,
        ..ImageProcessor::default()
    };
    (CausalLm::init(&config, 5, &cpu()), processor)
}

fn noise(processor: &ImageProcessor, width: usize, height: usize, seed: u64) -> Arc<Picture> {
    let pixels =
        crate::ops::numbers(width * height * 3, seed).iter().map(|x| ((x + 1.0) * 127.0) as u8).collect();
    Arc::new(processor.prepare(&RgbImage::new(width, height, pixels).unwrap()).unwrap())
}

#[test]
fn a_cache_in_pieces_gives_the_bits_of_the_whole() {
    let (model, processor) = odd_model();
    let (a, b) = (noise(&processor, 60, 36, 1), noise(&processor, 24, 72, 2));
    assert_eq!(a.merged(), Grid { height: 3, width: 5 });
    let text = [1, 2, 33, 7, 33, 4, 5];
    let (ids, placed) = expand_place_holders(&text, &[Arc::clone(&a), Arc::clone(&b)], 33).unwrap();
    let whole = to_vec(model.hidden(&one(&ids, &placed)));
    let mut decoder = Decoder::new(&model, CacheLayout::Paged { max_tokens: None });
    let slot = decoder.open();
    // Cut between the pictures; the second half in one piece, the last tokens one by one.
    let cut = placed[0].tokens().end + 1;
    let second = PlacedPicture { start: placed[1].start - cut, picture: Arc::clone(&b) };
    let mut cache = seed_model::KvCache::new(&model, CacheLayout::Paged { max_tokens: None });
    let (x, other) = (cache.add(), cache.add());
    let mut found = to_vec(
        model
            .extend_prompts(&mut cache, &[(x, Prompt { ids: &ids[..cut], pictures: &placed[..1] })])
            .unwrap(),
    );
    let end = placed[1].tokens().end;
    let middle = Prompt { ids: &ids[cut..end], pictures: std::slice::from_ref(&second) };
    let both =
        to_vec(model.extend_prompts(&mut cache, &[(x, middle), (other, Prompt::text(&[3, 33, 9]))]).unwrap());
    found.extend(&both[..(end - cut) * 24]);
    let fork = cache.fork(x);
    for at in end..ids.len() {
        found.extend(to_vec(model.extend(&mut cache, &[(x, &ids[at..=at])]).unwrap()));
    }
    assert_eq!(found, whole);
    // A fork goes its own way; cut back before the second picture, it sees another one there.
    let tail = [6, 8];
    let forked = to_vec(model.extend(&mut cache, &[(fork, &tail)]).unwrap());
    let own = [&ids[..end], &tail].concat();
    assert_eq!(forked, to_vec(model.hidden(&one(&own, &placed)))[end * 24..]);
    cache.truncate(fork, cut);
    let again = PlacedPicture { start: 1, picture: Arc::clone(&a) };
    let row = [vec![9], vec![33; a.tokens()], vec![2]].concat();
    let prompt = Prompt { ids: &row, pictures: std::slice::from_ref(&again) };
    let after = to_vec(model.extend_prompts(&mut cache, &[(fork, prompt)]).unwrap());
    let own = [&ids[..cut], row.as_slice()].concat();
    let places = [placed[0].clone(), PlacedPicture { start: cut + 1, picture: Arc::clone(&a) }];
    assert_eq!(after, to_vec(model.hidden(&one(&own, &places)))[cut * 24..]);
    // A picture that fits neither its row nor the model leaves the cache as it was.
    let bad = [PlacedPicture { start: 5, picture: a }];
    assert!(decoder.extend_prompts(&[(slot, Prompt { ids: &ids[..6], pictures: &bad })]).is_err());
    assert_eq!(decoder.cache().len(slot), 0);
}

#[test]
fn pictures_matter_and_company_does_not() {
    let (model, processor) = odd_model();
    let pictures: Vec<Arc<Picture>> = (0..3).map(|i| noise(&processor, 48, 36, i)).collect();
    // An equal picture that is not the same one.
    let twin = noise(&processor, 48, 36, 0);
    assert!(twin == pictures[0] && !Arc::ptr_eq(&twin, &pictures[0]));
    let rows: Vec<(Vec<u32>, Vec<PlacedPicture>)> =
        [&pictures[0], &pictures[1], &pictures[0], &pictures[2], &twin]
            .into_iter()
            .map(|picture| expand_place_holders(&[1, 33, 2, 3], &[Arc::clone(picture)], 33).unwrap())
            .collect();
    let response = [4, 33, 5];
    let score_rows: Vec<ScoreRow> = rows
        .iter()
        .map(|(ids, placed)| ScoreRow { prompt: ids, response: &response, pictures: placed })
        .collect();
    let together = to_vec(score(&model, &score_rows, 1.0, false).unwrap().logp);
    for (i, row) in score_rows.iter().enumerate() {
        let alone = to_vec(score(&model, &[*row], 1.0, false).unwrap().logp);
        assert_eq!(alone, together[i * 3..(i + 1) * 3], "row {i}");
    }
    assert_eq!(together[..3], together[6..9]);
    assert_eq!(together[..3], together[12..]);
    assert_ne!(together[..3], together[3..6]);
    // Equal tokens with other pictures are other prompts.
    let options = GenerateOptions { decoding: Decoding::Greedy, max_tokens: 6, ..Default::default() };
    let prompts: Vec<Prompt> = rows.iter().map(|(ids, pictures)| Prompt { ids, pictures }).collect();
    let all = generate_from(&model, &prompts, &options).unwrap();
    assert_eq!(all[0], all[2]);
    assert_eq!(all[0], all[4]);
    assert_ne!(all[0].logp, all[1].logp);
    for (i, prompt) in prompts.iter().enumerate() {
        assert_eq!(generate_from(&model, &[*prompt], &options).unwrap()[0], all[i]);
    }
    assert!(all.iter().all(|generation| generation.ids.iter().all(|id| ![33, 34].contains(id))));
}

#[test]
fn conversations_with_pictures() {
    let case = cases().remove(0);
    let (tokenizer, template) =
        (Tokenizer::load(case.folder()).unwrap(), ChatTemplate::load(case.folder()).unwrap());
    let image = case.image_token();
    let message = |text: &str| Message::with_parts("user", vec![Part::Image, Part::text(text)]);
    let options = RenderOptions::prompt();
    // The text of the reference, its place holders not yet expanded.
    let text = case.expected["cases"][0]["text"].as_str().unwrap();
    let collapsed = text.replace(&"<|image_pad|>".repeat(case.picture("a").tokens()), "<|image_pad|>");
    let said = collapsed.split("<|vision_end|>").nth(1).unwrap().split("<|im_end|>").next().unwrap();
    let rendered = template.render(&[message(said)], &options).unwrap();
    assert_eq!(rendered, collapsed);
    let ids_found = tokenizer.encode(&rendered).unwrap();
    let (expanded, placed) = expand_place_holders(&ids_found, &[case.picture("a")], image).unwrap();
    assert_eq!(expanded, ids(&case.expected["cases"][0]["input_ids"]));
    assert_eq!(placed, place_pictures(&expanded, &[case.picture("a")], image).unwrap());

    // A template that reads lists of parts gives the same; what an answer says is never a picture.
    let lists = "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}{%- if m.content is string %}{{- m.content }}\
        {%- else %}{%- for part in m.content %}{%- if part.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}\
        {%- else %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}\
        {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";
    let lists = ChatTemplate::compile(lists, &Value::Null).unwrap();
    let talk =
        [message(said), Message::assistant("I saw <|image_pad|> there"), message("<|vision_start|>and now?")];
    let (a, b) = (template.render(&talk, &options).unwrap(), lists.render(&talk, &options).unwrap());
    assert_eq!(a, b);
    assert_eq!(a.matches("<|image_pad|>").count(), 2);
    assert_eq!(tokenizer.encode(&a).unwrap().iter().filter(|id| **id == image).count(), 2);
}
